"""`tikhonet data`: which data sets there are, where they lie, and whether they are what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tikhonet.cli.inputs import DataHome, Json, load_set
from tikhonet.cli.mistakes import check_name
from tikhonet.cli.outputs import facts, show, table
from tikhonet.data import COLLECTIONS, NAMES, Dataset, find_home
from tikhonet.data.dataset import SPLITS
from tikhonet.data.obtain import places

EXAMPLE = "tikhonet data digits"


def data(
    name: Annotated[
        str | None, typer.Argument(help="The data set to fetch and verify; all are listed without one.")
    ] = None,
    data_home: DataHome = None,
    as_json: Json = False,
) -> None:
    """List the data sets, or fetch and verify one of them."""
    if name is None:
        list_all(data_home, as_json)
        return
    name = name.lower().replace("_", "-")
    check_name(name, NAMES, "NAME")
    describe(name, data_home, as_json)


def list_all(data_home: Path | None, as_json: bool) -> None:
    home = find_home(data_home)
    rows = []
    for name in NAMES:
        if name not in COLLECTIONS:
            rows.append({"name": name, "files": 0, "present": 0, "folder": None, "state": "built in"})
            continue
        found = locations(name, home)
        state = "here" if len(found) == len(COLLECTIONS[name].sha256) else "partly here" if found else "not here"
        folder = next(iter(found.values())).parent if found else home / COLLECTIONS[name].folders[0]
        count = len(COLLECTIONS[name].sha256)
        rows.append({"name": name, "files": count, "present": len(found), "folder": folder, "state": state})
    lines: list[tuple[object, ...]] = [
        (row["name"], row["state"], f"{row['present']} of {row['files']}" if row["files"] else "", row["folder"])
        for row in rows
    ]
    hint = "tikhonet data NAME fetches one and checks its digests."
    human = (table(("data set", "state", "files", "folder"), lines), f"data home: {home}\n{hint}")
    show({"data_home": home, "data_sets": rows}, as_json, *human)


def describe(name: str, data_home: Path | None, as_json: bool) -> None:
    """Loading checks every digest, and fetches what is missing or damaged."""
    parts = {split: shape_of(load_set(name, split, data_home)) for split in SPLITS}
    files = locations(name, find_home(data_home)) if name in COLLECTIONS else {}
    digests = [{"file": path, "sha256": COLLECTIONS[name].sha256[file], "state": "ok"} for file, path in files.items()]
    lines = {
        split: f"{part['rows']:,} rows of {' x '.join(map(str, part['shape']))}, {part['classes']} classes"
        for split, part in parts.items()
    }
    digest_lines: list[tuple[object, ...]] = [(digest["file"], "as published") for digest in digests]
    human = [facts(data_set=name, **lines)]
    listed = [table(("file", "SHA-256"), digest_lines)] if digests else ["no files: it is built in"]
    show({"name": name, "splits": parts, "files": digests}, as_json, *human, *listed)


def shape_of(part: Dataset) -> dict[str, Any]:
    return {"rows": len(part), "shape": list(part.shape), "classes": len(part.classes)}


def locations(name: str, home: Path) -> dict[str, Path]:
    """The files of a data set that are on this machine."""
    collection = COLLECTIONS[name]
    found = {file: next(places(collection, file, home), None) for file in collection.sha256}
    return {file: path for file, path in found.items() if path}
