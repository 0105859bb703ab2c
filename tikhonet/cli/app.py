"""The command `tikhonet`: it finds its subcommands in this package, and ends every mistake in one line."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tikhonet import __version__
from tikhonet.cli.mistakes import DEBUG, Failure, explain, one_line_warnings, tell

PACKAGE = __name__.rpartition(".")[0]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def find_commands() -> dict[str, str]:
    """The name and the first line of help of every command, read from the source: nothing is imported for it."""
    found = {}
    for file in iter_modules(sys.modules[PACKAGE].__path__):
        spec = find_spec(f"{PACKAGE}.{file.name}")
        source: str = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == file.name:
                found[file.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return found


def load_command(name: str) -> Any:
    """The command of a file, whose EXAMPLE ends its help."""
    module = import_module(f"{PACKAGE}.{name}")
    single = typer.Typer(rich_markup_mode=None, add_completion=False)
    single.command(name, epilog=f"Example:\n\n{module.EXAMPLE}")(adapted(getattr(module, name)))
    return typer.main.get_command(single)


def adapted(command: Callable[..., Any]) -> Callable[..., int]:
    """The command with the fields of `Source` as options in place of an argument `source`, and with --json.

    Where `source` may be None, --data may be left out.
    """
    from tikhonet.cli.inputs import Source

    signature = inspect.signature(command, eval_str=True)
    fields = inspect.signature(Source, eval_str=True).parameters
    options: list[inspect.Parameter] = []
    for one in signature.parameters.values():
        optional = one.name == "source" and one.default is None
        expanded = fields.values() if one.name == "source" else [one]
        options += [part.replace(default=None) if optional else part for part in expanded]
    options.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JSON))

    @wraps(command)
    def run(as_json: bool, **given: Any) -> int:
        if "source" in signature.parameters:
            source = Source(**{name: given.pop(name) for name in fields})
            given["source"] = None if source.data is None else source
        answer = command(**given)
        answer.show(as_json)
        return int(answer.exit_code)

    keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in options]
    run.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
    return run


class Commands(TyperGroup):
    """The commands of this package, each imported when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.summaries = find_commands()
        self.commands = dict.fromkeys(self.summaries)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = load_command(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Failure("interrupted; no output was written", exit_code=130) from None
        except ValueError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            parameters = command.params if command else []
            raise explain(error, {parameter.name: parameter.opts[0] for parameter in parameters}) from error

    def main(self, *args: Any, **options: Any) -> NoReturn:
        try:
            with one_line_warnings():
                code = super().main(*args, **options | {"standalone_mode": False})
        except Exception as error:
            if os.environ.get(DEBUG):
                traceback.print_exception(error)
            failure = explain(error)
            tell(failure)
            code = failure.exit_code
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,  # plain help: in 80 columns rich cuts the names of options and breaks the examples
    help="Train ReLU networks in blocks, and say what was reached.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: tikhonet fit --data digits --output my.model",
)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"tikhonet {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before a subcommand."""
