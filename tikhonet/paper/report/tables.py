"""Every table of the page as rows of text and numbers, and as CSV."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from tikhonet.paper.experiments.records import Pictures, write_whole
from tikhonet.paper.report.claims import Claim
from tikhonet.paper.report.summary import Summary

Table = list[list[Any]]
"""The first row holds the names of the columns."""


def tables(summary: Summary, claims: list[Claim], shown: Pictures) -> dict[str, Table]:
    """By file name."""
    found = {
        "claims": claim_table(claims),
        "summary": summary_table(summary),
        "trials": trial_table(summary),
        "objective": objective_table(summary),
        "certificates": certificate_table(summary),
        "settings": setting_table(summary),
    }
    if "confusion" in shown:
        counts = shown["confusion"].tolist()
        found["confusion"] = [["true \\ predicted", *range(len(counts))], *([k, *row] for k, row in enumerate(counts))]
    return found


def save_tables(found: dict[str, Table], folder: Path) -> list[Path]:
    paths = []
    for name, table in found.items():
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([[cell(value) for value in row] for row in table])
        paths.append(folder / f"{name}.csv")
        write_whole(paths[-1], buffer.getvalue().encode())
    return paths


def cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else value


def claim_table(claims: list[Claim]) -> Table:
    head = ["where", "paper", "literal recipe", "verdict", "this library", "verdict"]
    return [
        head,
        *([c.where, c.paper, c.literal.text, c.literal.verdict, c.library.text, c.library.verdict] for c in claims),
    ]


def summary_table(summary: Summary) -> Table:
    head = ["method", "trials", "images", "passes", "test error %", "lowest", "highest", "seconds"]
    head += ["seconds a pass over 10,000 images", "objective per image", "projected gradient", "nonzero %", "ended as"]
    rows = []
    for row in summary.rows.values():
        ends = [min(row.errors, default=math.nan), max(row.errors, default=math.nan)]
        trained = bool(row.passes)
        costs = [row.seconds, row.pass_seconds, row.objective] if trained else [math.nan] * 3
        images = row.records[0].samples if trained else None
        ends_as = [row.residual, row.density, row.statuses]
        rows.append([row.title, len(row.records), images, row.passes, row.error, *ends, *costs, *ends_as])
    return [head, *rows]


def trial_table(summary: Summary) -> Table:
    head = ["method", "trial", "seed", "test error %", "error of V %", "C", "seconds", "images", "passes", "status"]
    layers = ["W1", "W2", "W3", "V"]
    rows = [
        [r.title, r.trial, r.seed, r.error, r.error_V, r.C, r.seconds, r.samples, r.passes, r.status]
        + [r.nonzero.get(layer) for layer in layers]
        for row in summary.rows.values()
        for r in row.records
    ]
    return [head + [f"nonzero {layer} %" for layer in layers], *rows]


def objective_table(summary: Summary) -> Table:
    rows = [
        [record.title, record.trial, number, value]
        for row in summary.rows.values()
        for record in row.records
        for number, value in enumerate(record.objective, record.first_pass)
    ]
    return [["method", "trial", "pass", "objective per image"], *rows]


def certificate_table(summary: Summary) -> Table:
    words = {True: "yes", False: "no", None: "cannot be told"}
    rows = [
        [record.title, record.trial, check["claim"], words[check["holds"]], check["figure"]]
        for row in summary.rows.values()
        for record in row.records
        for check in record.checks
    ]
    return [["method", "trial", "claim", "holds", "figure"], *rows]


def setting_table(summary: Summary) -> Table:
    rows = [
        [row.title, name, value]
        for row in summary.rows.values()
        for name, value in row.records[0].settings.items()
        if value is not None
    ]
    return [["method", "setting", "value"], *rows]
