"""Names out of a known list; for an unknown one the nearest is suggested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

import typer


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the known name that was probably meant, if there is one."""
    found = get_close_matches(name.lower(), list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def check_name(name: str, known: Iterable[str], option: str | None = None) -> None:
    known = list(known)
    if name not in known:
        raise typer.BadParameter(
            f"must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}", param_hint=option
        )


def one_of(*known: str) -> Callable[[str | None], str | None]:
    """The check of an option with these values."""

    def check(value: str | None) -> str | None:
        if value is not None:
            check_name(value, known)
        return value

    return check
