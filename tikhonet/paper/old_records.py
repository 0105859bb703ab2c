"""Records of version 0.1, a file a trial (`records/<method>-<trial>.json`, `.npz`), become one `records.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path

from tikhonet.model.reading import Arrays, complaint
from tikhonet.paper.records import FILE, VERSION, RecordError, pack_pictures, seal, write_whole

KEYS = {
    "every block is feasible": "feasible",
    "the weights are feasible": "feasible",
    "each falls by its promised decrease": "promise",
    "the point is stationary": "stationary",
    "the schedule can still move the blocks": "schedule",
    "an R-linear rate (Thm. 1) is seen": "rate",
    "the budget of nonzeros is met exactly": "budget",
    "the refit solves its least squares on the support": "refit",
    "f falls at every step of the codes": "codes",
    "f with the codes falls from round to round": "codes",
}
"""The keys of version 0.1's checks, which had sentences only; the others are "descent"."""


def convert_folder(folder: Path) -> None:
    """Write `records.jsonl` of a folder of version 0.1, with the pictures of one trial a method; its files stay."""
    lines, pictured = [], set()
    for path in sorted(folder.glob("records/*.json")):
        try:
            content = json.loads(path.read_text())
            with path.with_suffix(".npz").open("rb") as file:
                content["pictures"] = {} if content["method"] in pictured else pack_pictures(dict(Arrays(file)))
            content["checks"] = [{"key": KEYS.get(check["claim"], "descent")} | check for check in content["checks"]]
        except Exception as error:  # archives, their compression, NumPy and JSON have some ten errors for damage
            reason = complaint(error)
            raise RecordError(f"{path} and its .npz must be a record of version 0.1, and are not ({reason})") from None
        pictured.add(content["method"])
        if content.get("way") == "brief":
            content |= {"way": "fewer", "method": content["method"].replace("brief", "fewer")}
        lines.append(seal(content | {"version": VERSION}))
    write_whole(folder / FILE, "".join(lines).encode())
