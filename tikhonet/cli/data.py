"""`tikhonet data`: which data sets there are, where they lie, and whether they are what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tikhonet.cli.inputs import DataHome, load_set
from tikhonet.cli.mistakes import check_name
from tikhonet.cli.outputs import Answer, table
from tikhonet.data import COLLECTIONS, NAMES, find_home
from tikhonet.data.dataset import SPLITS

EXAMPLE = "tikhonet data digits"


def data(
    name: Annotated[
        str | None, typer.Argument(help="The data set to fetch and verify; all are listed without one.")
    ] = None,
    data_home: DataHome = None,
) -> Answer:
    """List the data sets, or fetch and verify one of them."""
    if name is None:
        return list_all(data_home)
    name = name.lower().replace("_", "-")
    check_name(name, NAMES, "NAME")
    return describe(name, data_home)


def list_all(data_home: Path | None) -> Answer:
    home = find_home(data_home)
    rows = []
    for name in NAMES:
        files = COLLECTIONS.get(name)
        found = files.present(home) if files else {}
        count = len(files.sha256) if files else 0
        state = "here" if len(found) == count else "partly here" if found else "not here"
        folder = None if not files else next(iter(found.values())).parent if found else home / files.folders[0]
        row = {"name": name, "files": count, "present": len(found), "folder": folder}
        rows.append(row | {"state": state if files else "built in"})
    lines = [
        (row["name"], row["state"], f"{row['present']} of {row['files']}" if row["files"] else "", row["folder"])
        for row in rows
    ]
    hint = "tikhonet data NAME fetches one and checks its digests."
    listed = table(("data set", "state", "files", "folder"), lines)
    return Answer({"data_home": home, "data_sets": rows}, listed, f"data home: {home}\n{hint}")


def describe(name: str, data_home: Path | None) -> Answer:
    """Loading checks every digest, and fetches what is missing or damaged."""
    sets = {split: load_set(name, split, data_home) for split in SPLITS}
    parts = {
        split: {"rows": len(part), "shape": list(part.shape), "classes": len(part.classes)}
        for split, part in sets.items()
    }
    files = COLLECTIONS.get(name)
    found = files.present(find_home(data_home)) if files else {}
    digests = [{"file": path, "sha256": files.sha256[file], "state": "ok"} for file, path in found.items() if files]
    listed: Any = "no files: it is built in"
    if digests:
        listed = table(("file", "SHA-256"), [(digest["file"], "as published") for digest in digests])
    return Answer({"name": name, "splits": parts, "files": digests}, "\n".join(map(repr, sets.values())), listed)
