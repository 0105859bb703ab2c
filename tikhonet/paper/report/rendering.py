"""What every page shares: its assets, drawings inside it, and the names of the files written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tikhonet.paper.experiments.records import Trial
from tikhonet.paper.report.scales import short
from tikhonet.paper.report.svg import Drawing


@dataclass(frozen=True)
class Report:
    """What was written."""

    page: Path
    figures: list[Path]
    tables: list[Path]


class Shown(Protocol):
    """The records of a run by method: all that every page knows of it."""

    @property
    def first(self) -> Trial: ...
    @property
    def rows(self) -> Mapping[str, Shelf]: ...


class Shelf(Protocol):
    @property
    def records(self) -> Sequence[Trial]: ...


def asset(name: str) -> str:
    return (files("tikhonet.paper.report") / "assets" / name).read_text(encoding="utf-8")


def render(template: str, summary: Shown, command: str | None, files: list[str], **values: Any) -> bytes:
    """A page from its template, with what all of them show."""
    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["short"] = short
    html = environment.get_template(template).render(
        css=Markup(asset("page.css")),
        js=Markup(asset("page.js")),
        first=summary.first,
        summary=summary,
        rows=list(summary.rows.values()),
        command=command or f"tikhonet reproduce {summary.first.experiment} --{summary.first.size}",
        minutes=sum(record.wall for row in summary.rows.values() for record in row.records) / 60,
        files=files,
        **values,
    )
    return html.encode()


def inline(drawing: Drawing) -> Markup:
    """The SVG with its marks beside it, as data that no script executes."""
    marks = json.dumps(drawing.marks, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(f'{drawing.svg}<script type="application/json">{marks}</script>')
