"""The page of the hashing experiment: claims, curves, every method at every length, and what was retrieved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tikhonet.paper.experiments.records import HashingRecord, load_pictures, load_records, write_whole
from tikhonet.paper.report import pictures
from tikhonet.paper.report.hashing import Claim, Coding, Hashing, findings, result_rows
from tikhonet.paper.report.hashing_drawing import (
    Curves,
    draw_curves,
    precision_by_length,
    precision_recall,
    save_curves,
    training_seconds,
    upper_part,
)
from tikhonet.paper.report.plots import save_figure
from tikhonet.paper.report.rendering import Report, inline, render
from tikhonet.paper.report.svg import draw
from tikhonet.paper.report.tables import Table, save_tables

SHOWN = ("bcd", "admm", "adam", "classifier", "words")
"""Whose neighbours are shown: the first two of these that were run."""


@dataclass(frozen=True)
class Neighbour:
    picture: pictures.Picture
    right: bool


@dataclass(frozen=True)
class Query:
    picture: pictures.Picture
    found: list[Neighbour]


def write_hashing(folder: Path, command: str | None) -> Report:
    """`report.html`, `figures/` and `tables/` in the folder, from its records."""
    hashing = Hashing.of(load_records(folder / "records", HashingRecord))
    judged, seconds = findings(hashing), training_seconds(hashing)
    curves = drawings(hashing) if hashing.shown else []
    written = [path for curve in curves for path in save_curves(curve, folder / "figures")]
    written += save_figure(seconds, folder / "figures")
    saved = save_tables(tables(hashing, judged), folder / "tables")
    html = render(
        "hashing.html.j2",
        hashing,
        command,
        [path.relative_to(folder).as_posix() for path in (*written, *saved)],
        findings=judged,
        figures=[
            *((figure, inline(draw_curves(figure))) for figure in curves),
            (seconds, inline(draw(seconds))),
        ],
        results=result_rows(hashing),
        shown=hashing.shown,
        retrieved=retrieved(folder, hashing),
    )
    write_whole(folder / "report.html", html)
    return Report(folder / "report.html", written, saved)


def drawings(hashing: Hashing) -> list[Curves]:
    whole = precision_by_length(hashing)
    best = upper_part(whole)
    return [whole, *([best] if best else []), precision_recall(hashing)]


def retrieved(folder: Path, hashing: Hashing) -> list[tuple[Coding, list[Query]]]:
    """Queries of the first trial at the shown length, with their nearest images."""
    ways = [way for name in SHOWN if (way := hashing.rows.get(name)) and hashing.shown in way.lengths]
    found = []
    for way in ways[:2]:
        record = next(record for record in way.records if record.bits == hashing.shown)
        found.append((way, queries(folder, record)))
    return found


def queries(folder: Path, record: HashingRecord) -> list[Query]:
    drawn, labels = load_pictures(folder / "records", record), record.data["labels"]
    found = []
    for k, label in enumerate(drawn["query_labels"]):
        near = []
        parts = zip(drawn["found"][k], drawn["found_labels"][k], drawn["found_distances"][k], strict=True)
        for image, other, distance in parts:
            right = bool(other == label)
            bits = f"{distance} bit{'s' if distance != 1 else ''}"
            near.append(Neighbour(pictures.photograph(image, f"{labels[other]}, {bits}"), right))
        found.append(Query(pictures.photograph(drawn["queries"][k], labels[label]), near))
    return found


def tables(hashing: Hashing, judged: list[Claim]) -> dict[str, Table]:
    """By file name."""
    return {
        "claims": [
            ["where", "claim", "measured", "verdict"],
            *([where, words, f.text, f.verdict] for where, words, f in judged),
        ],
        "summary": summary_table(hashing),
        "trials": trial_table(hashing),
        "curves": curve_table(hashing),
        "settings": [
            ["method", "setting", "value"],
            *([way.title, *item] for way in hashing.rows.values() for item in way.records[0].settings.items()),
        ],
    }


def summary_table(hashing: Hashing) -> Table:
    names = ["precision_within", "recall_within", "empty_balls", "seconds", "distinct", "balance", "correlation"]
    rows = []
    for row in result_rows(hashing):
        tied = row.get("mAP")
        bounds = [tied.expected, tied.lower, tied.upper] if tied else [None] * 3
        rows.append([row["way"].title, row["bits"], row["trials"], *bounds, *(row.get(name) for name in names)])
    return [["method", "bits", "trials", "mAP", "lowest by ties", "highest by ties", *names], *rows]


def trial_table(hashing: Hashing) -> Table:
    head = ["method", "bits", "trial", "mAP", "lowest by ties", "highest by ties", "precision_within", "recall_within"]
    head += ["empty_balls", "seconds", "passes", "images", "status"]
    rows = []
    for way in hashing.rows.values():
        for r in way.records:
            tied = r.retrieval.get("mean_average_precision", {})
            measures = [tied.get(name) for name in ("expected", "lower", "upper")]
            measures += [r.retrieval.get(name) for name in head[6:9]]
            rows.append([r.title, r.bits, r.trial, *measures, r.seconds, r.passes, r.samples, r.status])
    return [head, *rows]


def curve_table(hashing: Hashing) -> Table:
    """Precision and recall of every ball, of each trial: as means over queries, and of all pairs together."""
    names = ["precision", "recall", "pooled_precision", "pooled_recall"]
    rows = [
        [r.title, r.bits, r.trial, radius, *(r.retrieval["curve"][name][radius] for name in names)]
        for way in hashing.rows.values()
        for r in way.records
        if r.retrieval
        for radius in range(r.bits + 1)
    ]
    return [["method", "bits", "trial", "radius", *names], *rows]
