"""Records of version 0.1, a file a trial (`records/<method>-<trial>.json`, `.npz`), become one `records.jsonl`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tikhonet.model.reading import Arrays, complaint
from tikhonet.paper.experiment import find_experiment, parse
from tikhonet.paper.records import FILE, Record, RecordError, pack_pictures, write_whole

KEYS = {
    "every block is feasible": "feasible",
    "the weights are feasible": "feasible",
    "f falls at every block step": "descent",
    "f falls at every step": "descent",
    "the training loss falls at every epoch": "descent",
    "each falls by its promised decrease": "promise",
    "the point is stationary": "stationary",
    "the schedule can still move the blocks": "schedule",
    "an R-linear rate (Thm. 1) is seen": "rate",
    "the budget of nonzeros is met exactly": "budget",
    "the refit solves its least squares on the support": "refit",
    "f falls at every step of the codes": "codes",
    "f with the codes falls from round to round": "codes",
}
"""The keys of version 0.1's checks, which had sentences only."""
RENAMED = {"brief": "fewer"}
"""Ways of making codes that had another name."""


def convert_folder(folder: Path) -> bool:
    """Write `records.jsonl` of a folder of version 0.1, and leave its files; False where there is nothing to convert.

    Pictures are kept of the trials that the page shows.
    """
    paths = sorted(folder.glob("records/*.json"))
    if not paths or (folder / FILE).exists():
        return False
    records = [read_old(path) for path in paths]
    write_whole(folder / FILE, "".join(record.to_json() for record in only_shown(records)).encode())
    return True


def read_old(path: Path) -> Record:
    try:
        content = json.loads(path.read_text())
        with path.with_suffix(".npz").open("rb") as file:
            pictures = dict(Arrays(file))
    except Exception as error:  # archives, their compression, NumPy and JSON have some ten errors for damage
        raise RecordError(
            f"{path} and its .npz must be a record of version 0.1, and cannot be read ({complaint(error)})"
        ) from None
    if not isinstance(content, dict) or content.pop("version", None) != 1:
        raise RecordError(f"{path} must be a record of version 0.1, and is not; delete it, or choose another folder")
    content["checks"] = [{"key": KEYS.get(check["claim"], "")} | check for check in content["checks"]]
    for old, new in RENAMED.items():
        if content.get("way") == old:
            content |= {"way": new, "method": content["method"].replace(old, new)}
    return parse(content | {"pictures": pack_pictures(pictures)}, str(path))


class Noted(dict[str, str]):
    """Pictures that note which of them are looked at."""

    def __init__(self, pictures: dict[str, str]) -> None:
        super().__init__(pictures)
        self.seen: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        self.seen[name] = super().__getitem__(name)
        return self.seen[name]


def only_shown(records: list[Record]) -> list[Record]:
    """The records without the pictures that no page shows."""
    noted: list[Any] = [replace(record, pictures=Noted(record.pictures)) for record in records]
    experiment = find_experiment(records[0].experiment)
    experiment.parts(experiment.compare(noted))
    return [replace(record, pictures=record.pictures.seen) for record in noted]
