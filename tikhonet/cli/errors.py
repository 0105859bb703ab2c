"""A mistake becomes one line that names what to change. Exit codes: 2 for usage, 1 for failures, 130 for Ctrl-C."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer

from tikhonet.data import DataError
from tikhonet.model.storage import ModelFormatError
from tikhonet.paper.records import RecordError

DEBUG = "TIKHONET_DEBUG"
OPTIONS = {
    "hidden_layer_sizes": "--hidden",
    "n_bits": "--bits",
    "random_state": "--seed",
    "n_jobs": "--threads",
    "n_iter_no_change": "--patience",
    "y": "the labels",
}
"""Parameters of the estimators whose option has another name, and what is no option."""


class Failure(typer.TyperException):
    """What was asked for cannot be done; the message is one line with the remedy."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def explain(error: Exception, options: Collection[str] = ()) -> typer.TyperException:
    """The same as a message for the user; parameters become the `options` of the command where it has them."""
    match error:
        case typer.TyperException():
            return error
        case DataError() | ModelFormatError() | RecordError():
            return Failure(str(error))
        case MemoryError():
            return Failure("the memory of this machine is used up; use fewer rows or smaller --hidden layers")
        case OSError():
            cause = error.strerror or str(error)
            remedy = "" if ";" in cause else "; correct that, and run it again"
            return Failure(f"{error.filename or 'a file'}: {cause}{remedy}")
        case ValueError() if named := as_option(str(error), options):
            return Failure(named, exit_code=2)
        case ValueError() if re.search(r"\b(must|needs)\b", str(error)):
            return Failure(str(error))  # in the words of this library, whose messages say what to do
    first = next(iter(str(error).splitlines()), "")
    return Failure(f"unexpected {type(error).__name__}: {first}; set {DEBUG}=1 to see where, and please report it")


def as_option(message: str, options: Collection[str]) -> str:
    """The message with the option in place of its parameter; nothing where it begins with none of these options."""
    found = re.match(r"(?:The ')?(\w+)(?:' parameter of \w+)? must ", message)
    if not found:
        return ""
    option = OPTIONS.get(found[1], f"--{found[1].replace('_', '-')}")
    return f"{option} must {message[found.end() :]}" if option in (*options, OPTIONS["y"]) else ""


def tell(error: typer.TyperException, file: TextIO | None = None) -> None:
    context: Any = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context else ""
    print(f"tikhonet: {one_line(error.format_message())}{hint}", file=file or sys.stderr)


def one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"tikhonet: warning: {one_line(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def print_traceback(error: Exception) -> None:
    traceback.print_exception(error, file=sys.stderr)
