"""`tikhonet search`: the nearest codes of a database to those of queries, by Hamming distance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli.inputs import choice
from tikhonet.cli.mistakes import Failure, OptionError
from tikhonet.cli.outputs import MANY, Answer, Arrays, check_ending, csv_text, facts, output_option, save_arrays
from tikhonet.data.bar import Bar
from tikhonet.data.dataset import reason
from tikhonet.data.tables import MALFORMED
from tikhonet.hashing import HammingIndex, pack
from tikhonet.hashing.codes import Codes, check_codes
from tikhonet.hashing.index import KINDS
from tikhonet.model.reading import load_arrays
from tikhonet.model.storage import ModelFormatError

EXAMPLE = "tikhonet search codes.npy codes.npy --k 5 --output neighbours.csv"
NEAREST = 10
CODES = "uint8 is packed codes; else positive is 1"

Names = dict[int, str]
"""The names of codes by their ids; empty where they have none."""


def search(
    database: Annotated[
        Path,
        typer.Argument(help=f"Codes (.npy, .npz; {CODES}), or a saved index.", metavar="DATABASE", show_default=False),
    ],
    queries: Annotated[
        Path, typer.Argument(help="Codes of the same length (.npy, .npz).", metavar="QUERIES", show_default=False)
    ],
    k: Annotated[
        int | None,
        typer.Option("--k", help="So many nearest ones.", min=1, metavar="N", show_default=f"{NEAREST}, or the radius"),
    ] = None,
    radius: Annotated[
        int | None, typer.Option(help="All that differ in at most so many bits.", min=0, metavar="N")
    ] = None,
    index: Annotated[
        str | None, choice(KINDS, "flat and numpy are exact, hash and ivf need not be.", "flat, or the saved one's")
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(help="So many nearest are sorted by the queries' scores (hash --scores).", min=1, metavar="N"),
    ] = None,
    output: Annotated[Path | None, output_option(".csv, .npz or .parquet; else CSV is printed.")] = None,
) -> Answer:
    """Find the nearest codes by Hamming distance.

    A line of the result is a query (its row), the id of a neighbour (its row in the database, or its own id) and their
    distance; nearer ones come first, then smaller ids. Where codes have names, as those of images have, these follow.
    """
    if k is not None and radius is not None:
        raise OptionError("--k", "is for the nearest ones, --radius for all near ones; give one")
    if candidates is not None and radius is not None:
        raise OptionError("--candidates", "sorts the nearest ones (--k), not all within a --radius; give one")
    if output is not None:
        check_ending(output, MANY)
    with Bar(f"reading {database.name}"):
        held, names = open_index(database, index or "")
        asked = read_codes(queries)
    check_codes(asked.codes, held.n_bits, str(queries))
    if candidates is not None and asked.scores is None:
        raise OptionError(
            "--candidates", f"needs the scores of the queries, and {queries} has none; hash with --scores"
        )
    with Bar("searching"):
        arrays = find(held, asked, k, radius, candidates)
    if names:
        known = [names.get(number, "") for number in arrays["ids"].ravel().tolist()]
        arrays["names"] = np.array(known, np.str_).reshape(arrays["ids"].shape)
    if asked.names is not None:
        arrays["queries"] = asked.names
    table = as_table(arrays)
    document: dict[str, Any] = {
        "database": database,
        "codes": len(held),
        "n_bits": held.n_bits,
        "index": held.kind,
        "queries": queries,
        "rows": len(asked.codes),
        "found": len(table["id"]),
        "output": output,
    } | ({"query_names": asked.names} if asked.names is not None else {})
    if output is None:
        return Answer(document | as_lists(table, len(asked.codes)), csv_text(table).rstrip("\n"))
    save_arrays(output, arrays if output.suffix.lower() == ".npz" else table)
    human = facts(
        database=f"{database}: {len(held):,} codes of {held.n_bits} bits",
        queries=f"{queries}: {len(asked.codes):,}",
        found=f"{len(table['id']):,} neighbours",
        neighbours=output,
    )
    return Answer(document, human)


@dataclass(frozen=True)
class CodeFile:
    """The content of a file: packed codes, their length, and ids, names and scores where it has some."""

    codes: Codes
    n_bits: int
    ids: NDArray[Any] | None = None
    names: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None


def read_codes(path: Path) -> CodeFile:
    """Codes of a .npy (a matrix) or .npz (`codes`, perhaps `ids`, `names` and `n_bits`).

    A uint8 matrix holds packed codes. Any other holds one column a bit, which is 1 where the number is positive.
    """
    held = read_arrays(path)
    if "codes" not in held:
        raise Failure(f"{path} holds {', '.join(held) or 'nothing'}, but no array `codes`; name it so")
    matrix = held["codes"]
    try:
        if matrix.dtype == np.uint8:
            check_codes(matrix)
            codes, bits = matrix, held.get("n_bits", np.array(8 * matrix.shape[1])).item()
        else:
            codes, bits = pack(matrix), matrix.shape[1]
        check_codes(codes, bits)
    except (ValueError, TypeError) as error:
        raise Failure(f"{path} holds no codes: {error}") from None
    names = held.get("names")
    if names is not None and (names.dtype.kind != "U" or names.shape != (len(codes),)):
        raise Failure(
            f"{path}: names must be one text for each of the {len(codes)} codes, got {names.dtype} of shape "
            f"{names.shape}"
        )
    return CodeFile(codes, bits, held.get("ids"), names, held.get("scores"))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz, or the array of a .npy as `codes`; nothing in a file is ever executed."""
    if not path.is_file():
        raise Failure(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; name a .npy or .npz of codes")
    if path.suffix.lower() not in (".npy", ".npz"):
        raise Failure(f"{path} is of an unknown kind; codes are read from .npy and .npz")
    try:
        with path.open("rb") as file:
            loaded = load_arrays(file)
            return {"codes": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded}
    except MALFORMED as error:
        raise Failure(f"{path} cannot be read: {reason(error)}; use another copy") from None


def open_index(database: Path, kind: str) -> tuple[HammingIndex, Names]:
    """The index of a file of codes, or one that was saved; `kind` "" keeps a saved one's own, else it is "flat"."""
    try:
        if database.suffix.lower() in (".npy", ".npz") or not database.is_file():
            held = read_codes(database)
            index = HammingIndex(held.n_bits, kind or "flat").fit(held.codes).add(held.codes, held.ids)
            ids = range(len(held.codes)) if held.ids is None else held.ids.tolist()
            return index, {} if held.names is None else dict(zip(ids, held.names.tolist(), strict=True))
        return HammingIndex.load(database, kind or None), {}
    except ModelFormatError:
        raise
    except ValueError as error:
        raise Failure(f"{database}: {error}") from None


def find(
    held: HammingIndex, asked: CodeFile, k: int | None, radius: int | None, candidates: int | None = None
) -> Arrays:
    """`ids` and `distances`, queries x k; with a radius those of query q are at limits[q] : limits[q + 1]."""
    if radius is None:
        sorted_by: dict[str, Any] = {"scores": asked.scores, "candidates": candidates} if candidates else {}
        distances, ids = held.search(asked.codes, k or min(NEAREST, len(held)), **sorted_by)
        return {"ids": ids, "distances": distances}
    limits, distances, ids = held.within(asked.codes, radius)
    return {"limits": limits, "ids": ids, "distances": distances}


def as_table(arrays: Arrays) -> Arrays:
    """One line a neighbour; places of an approximate index that stayed empty (id -1) are left out."""
    ids = arrays["ids"]
    if "limits" in arrays:
        query = np.repeat(np.arange(len(arrays["limits"]) - 1), np.diff(arrays["limits"]))
    else:
        query = np.repeat(np.arange(len(ids)), ids.shape[1])
    there = ids.ravel() >= 0
    table = {"query": query[there], "id": ids.ravel()[there], "distance": arrays["distances"].ravel()[there]}
    if "queries" in arrays:
        table["query name"] = arrays["queries"][table["query"]]
    if "names" in arrays:
        table["name"] = arrays["names"].ravel()[there]
    return table


def as_lists(table: Arrays, queries: int) -> dict[str, list[NDArray[Any]]]:
    """`ids`, `distances` and `names` with one list a query."""
    ends = np.cumsum(np.bincount(table["query"], minlength=queries))[:-1]
    columns = {"id": "ids", "distance": "distances", "name": "names"}
    return {plural: np.split(table[name], ends) for name, plural in columns.items() if name in table}
