"""The certificates of all runs as one table: a row a method, a column a claim, its trials counted in each cell."""

from __future__ import annotations

from dataclasses import dataclass

from tikhonet.paper.report.summary import Row, Summary

COLUMNS = {
    "feasible": "feasible",
    "falls at every": "f falls",
    "promised": "as promised",
    "stationary": "stationary",
    "schedule": "can move on",
    "rate": "linear rate",
}
"""A word of each claim, and the heading of its column."""


@dataclass(frozen=True)
class Cell:
    """How many of the trials meet the claim, and each one's figure."""

    text: str
    kind: str
    tip: str


def certificate_rows(summary: Summary) -> list[tuple[Row, list[Cell]]]:
    rows = [row for row in summary.rows.values() if any(record.checks for record in row.records)]
    return [(row, [cell(row, word) for word in COLUMNS]) for row in rows]


def cell(row: Row, word: str) -> Cell:
    found = [(record.trial, check) for record in row.records for check in record.checks if word in check["claim"]]
    if not found:
        return Cell("", "none", "")
    held = [check["holds"] for _, check in found]
    yes, known = held.count(True), len(held) - held.count(None)
    tip = "\n".join([f"{row.title}: {found[0][1]['claim']}", *(f"trial {t}: {c['figure']}" for t, c in found)])
    if not known:
        return Cell("?", "unknown", tip)
    if yes in (0, len(held)):
        return Cell("✓" if yes else "✗", "yes" if yes else "no", tip)
    return Cell(f"{yes}/{len(held)}", "some", tip)
