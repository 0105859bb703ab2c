"""`tikhonet search`: the nearest codes of a database to those of queries, by Hamming distance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli.codes import CodeFile, Names, open_database, read_codes
from tikhonet.cli.errors import Failure
from tikhonet.cli.names import one_of
from tikhonet.cli.options import Json
from tikhonet.cli.predictions import Arrays, check_kind, csv_text, save
from tikhonet.cli.printing import facts, show
from tikhonet.cli.progress import bar
from tikhonet.hashing import HammingIndex
from tikhonet.hashing.codes import check_codes, n_bytes
from tikhonet.hashing.index import KINDS
from tikhonet.model.storage import ModelFormatError

EXAMPLE = "tikhonet search codes.npy codes.npy --k 5 --output neighbours.csv"
NEAREST = 10
CODES = "uint8 is packed codes; else positive is 1"


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
        str | None,
        typer.Option(
            help="flat and numpy are exact, hash and ivf need not be.",
            callback=one_of(*KINDS),
            metavar="|".join(KINDS),
            show_default="flat, or the saved one's",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=".csv, .npz or .parquet; else CSV is printed.", metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the nearest codes by Hamming distance.

    A line of the result is a query (its row), the id of a neighbour (its row in the database, or its own id) and their
    distance; nearer ones come first, then smaller ids. Where codes have names, as those of images have, these follow.
    """
    if k is not None and radius is not None:
        raise typer.BadParameter("is for the nearest ones, --radius for all near ones; give one", param_hint="--k")
    if output is not None:
        check_kind(output, arrays=2)
    with bar(f"reading {database.name}"):
        held, names = open_index(database, index or "")
        asked = read_codes(queries)
    check_lengths(database, held, asked)
    with bar("searching"):
        arrays = (
            within(held, asked, radius) if radius is not None else nearest(held, asked, k or min(NEAREST, len(held)))
        )
    arrays |= texts(arrays["ids"], names, asked)
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
        show(document | as_lists(arrays), as_json, csv_text(table, []).rstrip("\n"))
        return
    save(output, arrays if output.suffix.lower() == ".npz" else table, [])
    human = facts(
        database=f"{database}: {len(held):,} codes of {held.n_bits} bits",
        queries=f"{queries}: {len(asked.codes):,}",
        found=f"{len(table['id']):,} neighbours",
        neighbours=output,
    )
    show(document, as_json, human)


def open_index(database: Path, kind: str) -> tuple[HammingIndex, Names]:
    try:
        return open_database(database, kind)
    except ImportError as error:
        raise Failure(str(error)) from None
    except ModelFormatError:
        raise
    except ValueError as error:
        raise Failure(f"{database}: {error}") from None


def check_lengths(database: Path, held: HammingIndex, asked: CodeFile) -> None:
    if asked.codes.shape[1] != n_bytes(held.n_bits):
        raise Failure(
            f"{asked.path} holds codes of {asked.n_bits} bits, and {database} of {held.n_bits}; "
            "make both with the same hash"
        )
    check_codes(asked.codes, held.n_bits, str(asked.path))


def nearest(held: HammingIndex, asked: CodeFile, k: int) -> Arrays:
    distances, ids = held.search(asked.codes, k)
    return {"ids": ids, "distances": distances}


def within(held: HammingIndex, asked: CodeFile, radius: int) -> Arrays:
    limits, distances, ids = held.within(asked.codes, radius)
    return {"limits": limits, "ids": ids, "distances": distances}


def texts(ids: NDArray[Any], names: Names, asked: CodeFile) -> Arrays:
    """`names` of the neighbours and `queries` of the queries, where they have some."""
    found: Arrays = {}
    if names:
        found["names"] = np.array([names.get(number, "") for number in ids.ravel().tolist()], np.str_).reshape(
            ids.shape
        )
    if asked.names is not None:
        found["queries"] = asked.names
    return found


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


def as_lists(arrays: Arrays) -> dict[str, list[NDArray[Any]]]:
    """`ids`, `distances` and `names` with one list a query."""
    known = [name for name in ("ids", "distances", "names") if name in arrays]
    if "limits" in arrays:
        return {name: np.split(arrays[name], arrays["limits"][1:-1]) for name in known}
    there = arrays["ids"] >= 0
    return {name: [row[kept] for row, kept in zip(arrays[name], there, strict=True)] for name in known}
