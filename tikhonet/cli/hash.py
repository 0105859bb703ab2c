"""`tikhonet hash`: the binary codes that a saved hasher gives to rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tikhonet.cli.inputs import Model, Source, open_model
from tikhonet.cli.mistakes import Failure, OptionError
from tikhonet.cli.outputs import Answer, check_ending, facts, output_option, save_arrays
from tikhonet.cli.progress import by_chunks
from tikhonet.hashing import code_report, pack

EXAMPLE = "tikhonet hash my.hasher --data digits --output codes.npy"


def hash(
    model: Model,
    source: Source,
    output: Annotated[
        Path | None, output_option(".npy or .npz of packed codes (.npz: and images' names); else hex is printed.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Write the scores too (.npz), which `search --candidates` sorts by.")
    ] = False,
) -> Answer:
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
        raise OptionError(
            "--output",
            f"must end in .npz for codes of {n_bits} bits, got {output}; a .npy is read as codes of whole bytes",
        )
    if scores and (output is None or output.suffix.lower() != ".npz"):
        raise OptionError("--scores", f"needs --output with a .npz, got {output or 'none'}")
    table = saved.rows(source, "test")
    numbers = by_chunks(saved.estimator.decision_function, table.X, "hashing")
    codes = pack(numbers)
    found, title = code_report(codes, n_bits), source.title("test")
    document = {"model": model, "data": title, "rows": len(codes), "output": output, "report": found.to_dict()}
    if output is None:
        words = [bytes(row).hex() for row in codes]
        document |= {"codes": words, "names": table.row_names}
        lines = map(" ".join, zip(words, table.row_names, strict=True)) if table.row_names else words
        return Answer(document, "\n".join(lines))
    names = {"names": np.array(table.row_names)} if table.row_names else {}
    more = {"scores": numbers.astype(np.float32)} if scores else {}
    save_arrays(output, {"codes": codes, "n_bits": np.array(n_bits), **names, **more})
    human = facts(
        data=f"{title}: {len(codes):,} rows",
        codes=f"{n_bits} bits, {found.ties}",
        balance=f"{found.balance:.3f} (worst bit {found.least_balance:.3f}, {found.constant_bits} constant)",
        output=output,
    )
    return Answer(document, human)
