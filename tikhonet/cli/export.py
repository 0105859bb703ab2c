"""`tikhonet export`: a saved model for devices and other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tikhonet.cli.inputs import Json, Model, open_model
from tikhonet.cli.mistakes import Failure, one_of
from tikhonet.cli.outputs import check_output, facts, show
from tikhonet.model.storage import write_atomically

EXAMPLE = "tikhonet export my.model --format c --int8 --output digits.c"

ENDINGS = {"c": ".c", "onnx": ".onnx", "torch": ".pt2", "csr": ".npz"}


def export(
    model: Model,
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="What to write: c, onnx, torch or csr.", callback=one_of(*ENDINGS), metavar="FORMAT"
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file: .c (a .h goes with it), .onnx, .pt2 or .npz.", metavar="FILE"),
    ],
    int8: Annotated[bool, typer.Option("--int8", help="Weights of 8 bits, for --format c.")] = False,
    as_json: Json = False,
) -> None:
    """Write a model for devices and other runtimes.

    C99 without dependency or heap, ONNX, a program that torch runs alone, or SciPy's sparse rows. The scaling of the
    inputs, the network and the head are all in it.
    """
    check(format_, output, int8)
    estimator = open_model(model).estimator
    forward = estimator.to_forward()
    if format_ == "c":
        write_c(estimator, model, output, int8, as_json)
        return
    write_atomically(output, (content(format_, forward),))
    size = output.stat().st_size
    document = {"model": model, "format": format_, "output": output, "bytes": size}
    show(document, as_json, facts(format=format_, output=f"{output} ({size:,} bytes)"))


def check(format_: str, output: Path, int8: bool) -> None:
    """Raise before any work is done."""
    if int8 and format_ != "c":
        raise typer.BadParameter(f"is for --format c, got {format_}", param_hint="--int8")
    if output.suffix != ENDINGS[format_]:
        raise typer.BadParameter(
            f"must end in {ENDINGS[format_]} for --format {format_}, got {output}", param_hint="--output"
        )
    if format_ == "c":
        from tikhonet.model.export.c99.names import check_name

        try:
            check_name(output.stem)
        except ValueError as error:
            raise typer.BadParameter(f"begins the names in C; {error}", param_hint="--output") from None
        check_output(output.with_suffix(".h"))
    check_output(output)


def content(format_: str, forward: Any) -> bytes:
    from tikhonet.model.export import to_csr, to_onnx, torch_program

    if format_ == "csr":
        return to_csr(forward).to_bytes()
    if format_ == "torch":
        return torch_program(forward)
    try:
        return bytes(to_onnx(forward).SerializeToString())
    except ImportError as error:
        raise Failure(str(error)) from None


def write_c(estimator: Any, model: Path, output: Path, int8: bool, as_json: bool) -> None:
    made = estimator.to_c(output.stem, int8=int8)
    header, source = made.save(output.parent)
    document = {
        "model": model,
        "format": "c",
        "weights": "int8" if int8 else "float32",
        "output": source,
        "header": header,
        "flash": made.flash,
        "ram": made.ram,
    }
    human = facts(
        format=f"C99, {document['weights']} weights",
        output=f"{source}, {header}",
        flash=f"{made.flash:,} bytes of constant arrays",
        RAM=f"{made.ram:,} bytes",
        function=f"{made.name}_predict(x, scores)",
    )
    show(document, as_json, human)
