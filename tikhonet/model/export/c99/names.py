"""Names and texts that are safe in C."""

from __future__ import annotations

import re

LONGEST = 40


def check_name(name: str) -> None:
    """Raise unless the name can begin those of C functions and macros."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and len(name) <= LONGEST:
        return
    raise ValueError(
        f"name must be a letter and up to {LONGEST - 1} letters, digits and _, as it begins names in C, got {name!r}; "
        f"{c_name(name)!r} would do"
    )


def c_name(text: str) -> str:
    """The nearest allowed name."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:LONGEST]
    if not name or not name[0].isalpha():
        name = f"model_{name}".rstrip("_")[:LONGEST]
    return name


def c_string(text: str) -> str:
    """A string literal: bytes of UTF-8 beyond plain ASCII, and what C reads in its own way, as octal escapes."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'
