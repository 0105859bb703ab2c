"""States as plain data: nested dicts and lists of tensors, numbers and strings, and back.

A dataclass that is `saved` becomes a dict of its fields and of its own name. Such data need no code to be read:
`torch.load(file, weights_only=True)` is enough. `to_parts` goes on to JSON and named tensors, which any file can hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

Class = TypeVar("Class", bound=type)
Value = TypeVar("Value")
KNOWN: dict[str, Any] = {}
"""The classes that plain data may name."""
LARGEST = 2**53
"""Whole numbers beyond it would not survive JSON, and no state counts so far."""


def saved(cls: Class) -> Class:
    """Make a dataclass known by its name; a decorator."""
    KNOWN[cls.__name__] = cls
    return cls


def changed(value: Value, **parts: Any) -> Value:
    """The dataclass with other values in these fields; `dataclasses.replace` costs what small steps can feel."""
    new = object.__new__(type(value))
    new.__dict__.update(value.__dict__, **parts)
    return new


def to_plain(value: Any) -> Any:
    """The value without classes; tensors are not copied."""
    if type(value) in KNOWN.values():
        parts = {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
        return {"class": type(value).__name__, **parts}
    if isinstance(value, dict):
        return {key: to_plain(part) for key, part in value.items()}
    return [to_plain(part) for part in value] if isinstance(value, list) else value


def from_plain(data: Any) -> Any:
    """The value that `to_plain` was given."""
    if isinstance(data, list):
        return [from_plain(part) for part in data]
    if not isinstance(data, dict):
        return data
    parts = {key: from_plain(part) for key, part in data.items() if key != "class"}
    if "class" not in data:
        return parts
    if data["class"] not in KNOWN:
        raise ValueError(f"a saved state must name one of {', '.join(KNOWN)}, got {data['class']!r}")
    cls = KNOWN[data["class"]]
    for name, part in parts.items():
        if name in hints(cls) and not fits(part, hints(cls)[name]):
            raise ValueError(f"{name} of a saved {data['class']} must be {hints(cls)[name]}, got {type(part).__name__}")
    return cls(**parts)


@cache
def hints(cls: type) -> dict[str, Any]:
    """The types of a class's fields."""
    return get_type_hints(cls)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field is annotated with."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or getattr(hint, "_is_protocol", False):  # what has a protocol's methods is known by its name
        return True
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is list:
        return isinstance(value, list) and all(fits(part, parts[0]) for part in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(fits(k, parts[0]) and fits(part, parts[1]) for k, part in value.items())
    if hint is int:
        return type(value) is int and abs(value) < LARGEST
    return type(value) in (int, float) if hint is float else isinstance(value, hint)


def alike(value: Any, begin: Any) -> bool:
    """Whether a state has the keys, and its tensors the shapes, types and devices, that it has at the begin."""
    if isinstance(begin, Tensor):
        kind = begin.shape, begin.dtype, begin.device
        return isinstance(value, Tensor) and (value.shape, value.dtype, value.device) == kind
    if is_dataclass(begin):
        same = type(value) is type(begin)
        return same and all(alike(getattr(value, one.name), getattr(begin, one.name)) for one in fields(begin))
    if isinstance(begin, dict) and begin:
        return isinstance(value, dict) and set(value) == set(begin) and all(alike(value[k], begin[k]) for k in begin)
    return True


def to_parts(value: Any) -> tuple[Any, dict[str, Tensor]]:
    """The value as JSON and the tensors that it names, each once. They are not copied."""
    names: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}

    def walk(data: Any) -> Any:
        match data:
            case Tensor():
                name = names.setdefault(id(data), f"t{len(names)}")
                # A factor that LAPACK left column by column stays so: products of it differ in their last bits.
                order = sorted(range(data.ndim), key=data.stride().__getitem__, reverse=True)
                tensors[name] = data.permute(order)
                if truth := data.dtype is torch.bool:
                    tensors[name] = tensors[name].to(torch.uint8)
                return {"tensor": name, "order": order, "device": str(data.device), "bool": truth}
            case {"class": name, **parts}:
                return {"class": name, "fields": {field: walk(part) for field, part in parts.items()}}
            case dict():
                return {"pairs": [[list(k) if isinstance(k, tuple) else k, walk(part)] for k, part in data.items()]}
            case list():
                return [walk(part) for part in data]
            case float() if not math.isfinite(data):
                return {"float": str(data)}
        return data

    return walk(to_plain(value)), tensors


def from_parts(text: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that `to_parts` was given."""
    made: dict[str, Tensor] = {}

    def tensor(name: str, order: list[int], device: str, truth: bool) -> Tensor:
        if name not in made:  # a copy of its own, where memory is aligned: products of others differ in their last bits
            stored = tensors[name].to(device, torch.bool if truth else None, copy=True)
            made[name] = stored.permute([order.index(axis) for axis in range(len(order))])
        return made[name]

    def walk(data: Any) -> Any:
        match data:
            case {"tensor": str(name), "order": list(order), "device": str(device), "bool": bool(truth)}:
                return tensor(name, order, device, truth)
            case {"class": name, "fields": dict(parts)}:
                return {**{field: walk(part) for field, part in parts.items()}, "class": name}
            case {"pairs": list(pairs)}:
                return {tuple(k) if isinstance(k, list) else k: walk(part) for k, part in pairs}
            case {"float": str(number)}:
                return float(number)
            case list():
                return [walk(part) for part in data]
            case dict():
                raise ValueError(f"a saved state must hold no {sorted(data)[:3]}")
        return data

    return from_plain(walk(text))
