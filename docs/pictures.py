"""The pictures of the site, drawn from the records in results/ while it is built.

A page shows `pictures/FOLDER-FIGURE.png`: the figure of that name on the page of the run in results/FOLDER; or
`pictures/NAME.png`, where NAME is one of `DRAWN`. `python docs/pictures.py` draws that of README, which is committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from blocks import ROOT, run_of
from image_tables import draw_race
from tabular_tables import draw_ranks, draw_trade

from tikhonet.paper.records import write_whole

DRAWN: dict[str, Callable[[], bytes]] = {
    "tabular_ranks": draw_ranks,
    "rank_and_time": draw_trade,
    "image_race_cifar10": draw_race,
}
SHOWN = re.compile(r"pictures/([\w-]+)\.png")
README = ROOT / "docs" / "pictures" / "rank_and_time.png"


def named(folder: Path) -> set[str]:
    """The pictures that the pages of a folder show."""
    return {name for page in folder.rglob("*.md") for name in SHOWN.findall(page.read_text(encoding="utf-8"))}


def draw(name: str) -> bytes:
    """A picture as PNG."""
    if name in DRAWN:
        return DRAWN[name]()
    runs = [path.parent.name for path in (ROOT / "results").glob("*/records.jsonl")]
    run = max((run for run in runs if name.startswith(f"{run}-")), key=len, default=None)
    if run is None:
        raise ValueError(f"a picture must be one of {', '.join(DRAWN)} or begin with a run in results/, got {name!r}")
    experiment, results = run_of(run)
    figures = {figure.name: figure for figure in experiment.figures(results)}
    if (wanted := name.removeprefix(f"{run}-")) not in figures:
        raise ValueError(f"the run {run} must have the figure, one of {', '.join(figures)}, got {wanted!r}")
    return figures[wanted].save("png")


def make(folder: Path) -> None:
    """Draw all that the pages of a folder show into its `pictures`."""
    for name in sorted(named(folder)):
        write(folder / "pictures" / f"{name}.png")


def write(path: Path) -> None:
    """Draw the picture of a file; the file stays as it is where nothing has changed."""
    path.parent.mkdir(exist_ok=True)
    content = draw(path.stem)
    if not path.exists() or path.read_bytes() != content:
        write_whole(path, content)


if __name__ == "__main__":
    write(README)
