"""The command `tikhonet`: its subcommands, and the one place where errors become lines and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import tikhonet
from tikhonet.cli import bench, certify, data, evaluate, export, fit, hash_rows, info, predict, reproduce, search, size
from tikhonet.cli.errors import DEBUG, Failure, explain, one_line_warnings, print_traceback, tell


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Failure("interrupted; no output was written", exit_code=130) from None
        except ValueError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            options = [name for parameter in command.params for name in parameter.opts] if command else []
            raise explain(error, options) from error

    def main(self, *args: Any, **options: Any) -> NoReturn:
        try:
            with one_line_warnings():
                code = super().main(*args, **options | {"standalone_mode": False})
        except Exception as error:
            if os.environ.get(DEBUG):
                print_traceback(error)
            failure = explain(error)
            tell(failure)
            code = failure.exit_code
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,  # plain help: in 80 columns rich cuts the names of options and breaks the examples
    help="Train deep ReLU networks by block coordinate descent, and say what was reached.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: tikhonet fit --data digits --output my.model",
)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"tikhonet {tikhonet.__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before a subcommand."""


def register(command: Callable[..., None], example: str, name: str | None = None) -> None:
    app.command(name, epilog=f"Example:\n\n{example}")(command)


register(data.data, data.EXAMPLE)
register(fit.fit, fit.EXAMPLE)
register(predict.predict, predict.EXAMPLE)
register(evaluate.evaluate, evaluate.EXAMPLE)
register(certify.certify, certify.EXAMPLE)
register(export.export, export.EXAMPLE)
register(size.size, size.EXAMPLE)
register(hash_rows.hash_rows, hash_rows.EXAMPLE, "hash")
register(search.search, search.EXAMPLE)
register(reproduce.reproduce, reproduce.EXAMPLE)
register(bench.bench, bench.EXAMPLE)
register(info.info, info.EXAMPLE)


def main() -> None:
    app(prog_name="tikhonet")
