"""A mistake becomes one line that names what to change. Exit codes: 2 for usage, 1 for failures, 130 for Ctrl-C."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import typer

from tikhonet.network.errors import ArgumentError

DEBUG = "TIKHONET_DEBUG"
LABELS = {"y": "the labels"}
"""The argument of `fit` that is no option, and its name on the command line."""


class Failure(typer.TyperException):
    """A task that cannot be done; the message is one line with the remedy."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class OptionError(typer.BadParameter):
    """An option that may not have its value; without its name it is the option that is being checked."""

    def __init__(self, option: str | None, message: str) -> None:
        super().__init__(message, param_hint=option)


def explain(error: Exception, options: Mapping[str, str] = MappingProxyType({})) -> typer.TyperException:
    """Any error as a message for the user; `options` are those of the command by the names of their parameters."""
    match error:
        case typer.TyperException():
            return error
        case ArgumentError() if shown := {**options, **LABELS}.get(error.argument):
            name = rf"\b{re.escape(error.argument)}\b"
            return Failure(re.sub(name, shown, str(error), count=1), exit_code=1 if error.argument in LABELS else 2)
        case MemoryError():
            return Failure("the memory of this machine is used up; use fewer rows or smaller --hidden layers")
        case OSError():
            cause = error.strerror or str(error)
            remedy = "" if ";" in cause else "; correct that, and run it again"
            return Failure(f"{error.filename or 'a file'}: {cause}{remedy}")
    if is_ours(error):
        return Failure(str(error))
    first = next(iter(str(error).splitlines()), "")
    return Failure(f"unexpected {type(error).__name__}: {first}; set {DEBUG}=1 to see where, and please report it")


def is_ours(error: Exception) -> bool:
    """Whether the message is in the words of this library, which say what to do: by the class, or who raised it."""
    raised_by = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        raised_by = frame.f_globals.get("__name__", "")
    return type(error).__module__.startswith("tikhonet.") or (
        isinstance(error, ValueError) and raised_by.startswith("tikhonet.")
    )


def tell(error: typer.TyperException) -> None:
    context: Any = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context else ""
    print(f"tikhonet: {one_line(error.format_message())}{hint}", file=sys.stderr)


def one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """The text with its control characters written out, which a terminal would obey: labels may hold any."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"tikhonet: warning: {one_line(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the known name that was probably meant, if there is one."""
    found = get_close_matches(name.lower(), list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def check_name(name: str, known: Iterable[str], option: str | None = None) -> None:
    known = list(known)
    if name not in known:
        raise OptionError(option, f"must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}")


def one_of(known: Iterable[str]) -> Callable[[str | None], str | None]:
    """The check of an option with these values."""

    def check(value: str | None) -> str | None:
        if value is not None:
            check_name(value, known)
        return value

    return check
