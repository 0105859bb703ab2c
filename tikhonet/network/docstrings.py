"""Docstrings of classes whose parameters come from their bases: each is described once, where it is defined."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TypeVar

Class = TypeVar("Class", bound=type)
HEADER = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
GATHERED = ("Parameters", "Attributes")


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring in numpydoc's form by their headers; what comes before them has none."""
    first, *others = HEADER.split(cleandoc(text))
    return {"": first.strip()} | {name: body.strip("\n") for name, body in zip(others[::2], others[1::2], strict=True)}


def with_inherited(cls: Class) -> Class:
    """Put parameters and attributes that the bases describe before those that the class itself describes."""
    known = [sections(doc) for base in reversed(cls.__mro__) if (doc := vars(base).get("__doc__"))]
    own = known[-1]
    gathered = {name: "\n".join(part[name] for part in known if name in part) for name in GATHERED}
    others = {name: body for name, body in own.items() if name and name not in GATHERED}
    parts = (f"{name}\n{'-' * len(name)}\n{body}\n" for name, body in (gathered | others).items() if body)
    cls.__doc__ = "\n".join([own[""], "", *parts])
    return cls
