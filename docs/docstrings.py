"""Docstrings on the site: what is no markup in them is shown as it is, and what other libraries add is left out."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from sphinx.application import Sphinx

FOREIGN = re.compile(r"set_\w+_request$")
"""Methods that scikit-learn adds to every estimator."""
ENTRY = re.compile(r"\S+(, \S+)* {2,}\S")
"""A line of a list in columns: a name, space, what it is."""
MARKUP = re.compile(r"(``.*?``|:\w+:`.*?`|`.*?`)")
PLAIN = re.compile(r"(?<!\\)\||(?<=\w)(?<!\\)_(?!\w)")
"""Bars of norms, and underscores at the end of a name."""


def skip(app: Sphinx, what: str, name: str, member: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what an object has from other libraries, whose own pages document it."""
    module = getattr(member, "__module__", None) or "tikhonet"
    return True if FOREIGN.match(name) or not str(module).startswith("tikhonet") else None


def keep_columns(app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """A list in columns keeps its columns."""
    kept, inside = [], False
    for before, line in pairwise(["", *lines]):
        if ENTRY.match(line) and not before.strip():
            kept += ["::", ""]
            inside = True
        inside = inside and bool(line.strip())
        kept.append(f"    {line}" if inside else line)
    lines[:] = kept


def escape(app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Escape what only looks like markup; examples and literal blocks stay as they are."""
    literal = None
    for k, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        if literal is None and not line.lstrip().startswith((">>>", "...", "..")):
            parts = MARKUP.split(line)
            parts[::2] = [PLAIN.sub(r"\\\g<0>", part) for part in parts[::2]]
            lines[k] = "".join(parts)
        if literal is None and line.rstrip().endswith(("::", ".. math::")):
            literal = indent


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", keep_columns, priority=100)
    app.connect("autodoc-process-docstring", escape, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
