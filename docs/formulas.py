"""Formulas of the site as MathML, which browsers draw by themselves: no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
TAG = re.compile(r"\\tag\{(.*?)\}")


def mathml(node: nodes.Element, text: str, display: str = "inline") -> str:
    """A formula as MathML; a command that the converter does not know is a warning, which ends the build."""
    made = convert(text, display=display)
    if unknown := re.search(r"\\[a-zA-Z]+", made):
        LOGGER.warning("formula with an unknown command %s: %s", unknown[0], text, location=node)
    return made


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{mathml(node, node.astext())}</span>')
    raise nodes.SkipNode


def display(translator: Any, node: nodes.math_block) -> None:
    r"""A formula on lines of its own, with its \tag at the side."""
    text = node.astext()
    number = "".join(f'<span class="eqno">({found})</span>' for found in TAG.findall(text))
    translator.body.append(f'<div class="math">{number}{mathml(node, TAG.sub("", text), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
