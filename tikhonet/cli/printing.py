"""What a command says: for people as text and tables, for machines as one JSON document, both on stdout."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table

WIDTH = 160
"""Columns where there is no terminal to fit into."""


def show(document: Mapping[str, Any], as_json: bool, *human: RenderableType) -> None:
    if as_json:
        print(json.dumps(plain(document), allow_nan=False))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH, emoji=False)
    for part in human:
        if isinstance(part, str):  # as it is, whatever names of files it holds
            print(part)
        else:
            console.print(part, markup=False, highlight=False)


def facts(**values: Any) -> str:
    """Lines of a name and a value; a name's underscores are spaces."""
    width = max(map(len, values))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {value}" for name, value in values.items())


def table(columns: tuple[str, ...], rows: list[tuple[object, ...]], title: str | None = None) -> Table:
    """Columns whose cells are all numbers stand to the right."""
    made = Table(title=title, title_justify="left")
    for place, heading in enumerate(columns):
        numeric = all(str(row[place]).replace(".", "").isdigit() or row[place] == "." for row in rows)
        made.add_column(heading, justify="right" if numeric else "left")
    for row in rows:
        made.add_row(*("" if cell is None else str(cell) for cell in row))
    return made


def plain(value: Any) -> Any:
    """As JSON knows it; what is not finite is null."""
    match value:
        case Mapping():
            return {str(key): plain(part) for key, part in value.items()}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case list() | tuple():
            return [plain(part) for part in value]
        case float():
            return value if math.isfinite(value) else None
        case bool() | int() | str() | None:
            return value
    return str(value)
