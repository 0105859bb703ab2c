"""States as plain data: nested dicts and lists of tensors, numbers and strings, and back.

A dataclass that is `saved` becomes a dict of its fields and of its own name. Such data need no code to be read:
`torch.load(file, weights_only=True)` is enough.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
Value = TypeVar("Value")
KNOWN: dict[str, Any] = {}
"""The classes that plain data may name."""


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
    return KNOWN[data["class"]](**parts)
