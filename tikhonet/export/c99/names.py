"""Names and texts that are safe in C."""

from __future__ import annotations

import re

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    class namespace template this new delete public private protected operator bool true false and or not xor""".split()
)
LONGEST = 40


def check_name(name: str) -> None:
    """Raise unless the name can begin those of C functions and macros."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name not in KEYWORDS and len(name) <= LONGEST:
        return
    raise ValueError(
        f"name must be a C identifier of up to {LONGEST} letters, digits and _, beginning with a letter and no keyword, "
        f"got {name!r}; {c_name(name)!r} would do"
    )


def c_name(text: str) -> str:
    """The nearest allowed name."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:LONGEST]
    if not name or not name[0].isalpha() or name in KEYWORDS:
        name = f"model_{name}".rstrip("_")[:LONGEST]
    return name


def c_string(text: str) -> str:
    """A string literal: bytes of UTF-8 beyond plain ASCII, and what C reads in its own way, as octal escapes."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'
