"""`tikhonet hash`: the binary codes that a saved hasher gives to rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tikhonet.cli.inputs import Data, DataHome, Header, Json, Label, Model, Source, Split, open_model
from tikhonet.cli.mistakes import Failure
from tikhonet.cli.outputs import check_ending, facts, save_arrays, show
from tikhonet.cli.progress import by_chunks
from tikhonet.hashing import code_report
from tikhonet.hashing.codes import Codes, check_codes

EXAMPLE = "tikhonet hash my.hasher --data digits --output codes.npy"


def hash(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=".npy or .npz of packed codes (.npz: and images' names); else hex is printed.",
            metavar="FILE",
        ),
    ] = None,
    split: Split = None,
    label: Label = None,
    header: Header = None,
    data_home: DataHome = None,
    as_json: Json = False,
) -> None:
    """Give rows the binary codes of a hasher.

    `tikhonet fit --task hash --bits 48 --data digits --output my.hasher` trains one, and `tikhonet search` finds near
    codes. The rows are those of a file, where a column named by --label is left out, the images of a folder, or the
    test part of a data set.
    """
    if output is not None:
        check_ending(output, (".npy", ".npz"))
    saved = open_model(model)
    if saved.task != "hash":
        raise Failure(f"{model} holds a {saved.kind}, which makes no codes; train with tikhonet fit --task hash")
    n_bits = int(saved.estimator.n_bits)
    if output is not None and output.suffix.lower() == ".npy" and n_bits % 8:
        raise typer.BadParameter(
            f"must end in .npz for codes of {n_bits} bits, got {output}; a .npy is read as codes of whole bytes",
            param_hint="--output",
        )
    source = Source(data, split, label, header, data_home)
    table = source.read("test", shape=saved.image_shape)
    X = saved.columns(table, source)
    codes = by_chunks(saved.estimator.transform, X, "hashing")
    found, title = code_report(codes, n_bits), source.title("test")
    document = {"model": model, "data": title, "rows": len(X), "output": output, "report": found.to_dict()}
    if output is None:
        words = [bytes(row).hex() for row in codes]
        document |= {"codes": words, "names": table.row_names}
        lines = map(" ".join, zip(words, table.row_names, strict=True)) if table.row_names else words
        show(document, as_json, "\n".join(lines))
        return
    save_codes(output, codes, n_bits, table.row_names)
    human = facts(
        data=f"{title}: {len(X):,} rows",
        codes=f"{n_bits} bits, {found.distinct:,} distinct",
        balance=f"{found.balance:.3f} (worst bit {found.least_balance:.3f}, {found.constant_bits} constant)",
        output=output,
    )
    show(document, as_json, human)


def save_codes(path: Path, codes: Codes, n_bits: int, names: Sequence[str] = ()) -> None:
    """A .npy of the packed codes, or a .npz that also holds `n_bits` and any `names`; whole or not at all."""
    check_codes(codes, n_bits)
    others = {"n_bits": np.array(n_bits), **({"names": np.array(names)} if names else {})}
    save_arrays(path, {"codes": codes, **others})
