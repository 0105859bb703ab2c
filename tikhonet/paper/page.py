"""Pages: one HTML file that needs nothing but a browser, and the page of a run with figures and tables beside it.

`write_report` reads no experiment's name: whatever a page shows comes from the methods of `Experiment`.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from tikhonet.network.extras import require
from tikhonet.paper.comparison import Comparison, count_verdicts
from tikhonet.paper.experiment import Experiment, Table, find_experiment, load_records
from tikhonet.paper.records import Record, write_whole
from tikhonet.paper.sheets import Figure, short

COMMON = ("experiment", "size", "method", "seed", "message")
"""Texts of a record that its table of trials leaves out."""
SHARED = ("data", "settings", "versions", "hardware", "pictures")
"""Fields of a record that are no measurements."""
CONTENTS = "<!-- contents -->"
SECTION = re.compile(r'<section id="(\w+)">\s*<h2>(.*?)</h2>')
ANSWERS = {True: "yes", False: "no", None: "cannot be told"}


@dataclass(frozen=True)
class Report:
    """The files that were written."""

    page: Path
    figures: list[Path]
    tables: list[Path]


def write_report(output: str | os.PathLike[str], *, command: str | None = None) -> Report:
    """From `output/records.jsonl`: `report.html`, `figures/*.png` and `*.pdf`, `tables/*.csv`, all in `output`.

    `command` is what the page says redoes it.
    """
    folder = Path(output)
    records = load_records(folder)
    experiment = find_experiment(records[0].experiment)
    results = experiment.compare(records)
    figures = experiment.figures(results)
    drawn = [save_figure(figure, form, folder / "figures") for figure in figures for form in ("png", "pdf")]
    saved = [
        save_table(table, folder / "tables" / f"{name}.csv") for name, table in tables(experiment, results).items()
    ]
    written = [path.relative_to(folder).as_posix() for path in (*drawn, *saved)]
    write_whole(folder / "report.html", render(experiment, results, figures, written, command).encode())
    return Report(folder / "report.html", drawn, saved)


def render(
    experiment: Experiment, results: Comparison[Any], figures: list[Figure], written: list[str], command: str | None
) -> str:
    columns = [column for column in experiment.columns(results) if not column.hidden]
    claims = experiment.findings(results)
    counts = list(zip(experiment.sides, count_verdicts(claims), strict=False))
    return fill(
        experiment.template,
        experiment=experiment,
        first=results.first,
        rows=list(results.rows.values()),
        claims=claims,
        figures=figures,
        columns=columns,
        results=[(row, cells(columns, row)) for row in experiment.result_rows(results)],
        command=command or f"tikhonet reproduce {experiment.name} --{results.first.size}",
        minutes=sum(record.wall for record in results.records) / 60,
        files=written,
        **{"counts": counts} | experiment.parts(results),
    )


def fill(template: str, **values: Any) -> str:
    """The page that a template of `assets` makes of values; style and script are in it."""
    jinja2 = require("jinja2")
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = short
    environment.filters["inline"] = inline
    parts = {"css": Markup(asset("page.css")), "js": Markup(asset("page.js"))}
    page: str = environment.get_template(template).render(**parts, **values)
    return page.replace(CONTENTS, contents(page))


def contents(page: str) -> str:
    """Links to the sections of a page, by their headings."""
    links = (f'<a href="#{place}">{heading}</a>' for place, heading in SECTION.findall(page))
    return "\n".join(links)


def inline(figure: Figure) -> Any:
    """The figure as a part of the page."""
    from markupsafe import Markup

    return Markup(figure.svg())


def asset(name: str) -> str:
    return (files("tikhonet.paper") / "assets" / name).read_text(encoding="utf-8")


def cells(columns: list[Any], row: Any) -> Iterator[tuple[Any, str, str]]:
    """The column, the text and the small text of every cell of a row; `column.unknown` stands for None and NaN."""
    for column in columns:
        value = column.value(row)
        unknown = value is None or value != value
        yield column, column.unknown if unknown else column.form(value), column.small(row)


def tables(experiment: Experiment, results: Comparison[Any]) -> dict[str, Table]:
    """Everything on the page and all figures of the records, by file name."""
    columns, records = experiment.columns(results), results.records
    labelled = [(record.label, record.trial, record) for record in records]
    found: dict[str, Table] = {
        "summary": [
            ["method", *(column.heading for column in columns)],
            *([row.title, *(column.value(row) for column in columns)] for row in experiment.result_rows(results)),
        ],
        "trials": trial_table(records),
        "curves": [
            ["method", "trial", "curve", "step", "value"],
            *([*who, *point] for *who, record in labelled for point in curve_points(vars(record))),
        ],
        "certificates": [
            ["method", "trial", "claim", "holds", "figure"],
            *([*who, c["claim"], ANSWERS[c["holds"]], c["figure"]] for *who, r in labelled for c in r.checks),
        ],
        "settings": [
            ["method", "setting", "value"],
            *([row.title, *item] for row in results.rows.values() for item in row.records[0].settings.items()),
        ],
    }
    if claims := experiment.findings(results):
        head = [part for side in experiment.sides for part in (side, f"{side}: verdict")]
        found["claims"] = [
            ["where", "claim", *head],
            *([c.where, c.words, *(part for f in c.findings for part in (f.text, f.verdict))] for c in claims),
        ]
    return {name: table for name, table in (found | experiment.tables(results)).items() if len(table) > 1}


def trial_table(records: list[Record]) -> Table:
    """Every single figure of every trial, under its name in the record."""
    rows = [{"method": record.label} | dict(flat(vars(record))) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [names, *([row.get(name) for name in names] for row in rows)]


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts of nested dictionaries, as `nonzero.W1`; lists are left out."""
    for name, value in values.items():
        if isinstance(value, dict) and name not in SHARED:
            yield from flat(value, f"{prefix}{name}.")
        elif not isinstance(value, dict | list) and name not in COMMON:
            yield f"{prefix}{name}", value


def curve_points(values: dict[str, Any]) -> Iterator[tuple[str, int, float | None]]:
    """Every list of numbers in nested dictionaries, point by point."""
    for name, value in values.items():
        if isinstance(value, dict) and name not in SHARED:
            yield from curve_points(value)
        elif isinstance(value, list) and name != "checks":
            yield from ((name, step, number) for step, number in enumerate(value))


def save_figure(figure: Figure, form: str, folder: Path) -> Path:
    path = folder / f"figure_{figure.name}.{form}"
    write_whole(path, figure.save(form))
    return path


def save_table(table: Table, path: Path) -> Path:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([[cell(value) for value in row] for row in table])
    write_whole(path, buffer.getvalue().encode())
    return path


def cell(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, str) and value.startswith("="):
        return f"'{value}"  # text, which no spreadsheet computes
    return "" if value is None else value
