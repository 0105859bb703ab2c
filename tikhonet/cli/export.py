"""`tikhonet export`: a saved model for devices and other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tikhonet.cli.inputs import Model, open_model
from tikhonet.cli.mistakes import OptionError, one_of
from tikhonet.cli.outputs import Answer, check_output, facts, output_option
from tikhonet.model.export.format import Format, formats

EXAMPLE = "tikhonet export my.model --format c --int8 --output digits.c"
NAMES = "|".join(formats())


def endings() -> str:
    """The ending of each format, and of the files that go with it."""
    return ", ".join(" and ".join([format_.ending, *format_.beside.values()]) for format_ in formats().values())


def export(
    model: Model,
    format_: Annotated[
        str, typer.Option("--format", help="What to write.", callback=one_of(Format.kinds), metavar=NAMES)
    ],
    output: Annotated[Path, output_option(f"The file: {endings()}.")],
    int8: Annotated[bool, typer.Option("--int8", help="Weights of 8 bits, for --format c.")] = False,
) -> Answer:
    """Write a model for devices and other runtimes.

    C99 without dependency or heap, ONNX, a program that torch runs alone, or SciPy's sparse rows. The scaling of the
    inputs, the network and the head are all in it.
    """
    chosen, weights = formats()[format_], "int8" if int8 else "float32"
    check(chosen, output, weights)
    made = chosen.write(open_model(model).estimator.exported_model(), output, weights)
    beside, size = chosen.paths(output), output.stat().st_size
    document = {"model": model, "format": format_, "weights": weights, "output": output, "bytes": size}
    document |= {**beside, "flash": made.flash, "ram": made.ram, **made.notes}
    more = "" if made.complete else " and the runtime's own"
    human = facts(
        format=f"{format_}, {weights} weights",
        output=", ".join([f"{output} ({size:,} bytes)", *map(str, beside.values())]),
        flash=f"{made.flash:,} bytes",
        RAM=f"{made.ram:,} bytes{more}",
        **made.notes,
    )
    return Answer(document, human)


def check(format_: Format, output: Path, weights: str) -> None:
    """Raise before any work is done."""
    if weights not in format_.weights:
        able = ", ".join(name for name, other in formats().items() if weights in other.weights)
        raise OptionError(f"--{weights}", f"is for --format {able}, got {format_.name}")
    try:
        format_.check_path(output)
    except ValueError as error:
        raise OptionError("--output", str(error)) from None
    for path in format_.paths(output).values():
        check_output(path)
