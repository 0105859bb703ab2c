"""The site: `make docs` builds it. Tables and pictures are made from the records in results/ while it is built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import pictures  # noqa: E402
import tables  # noqa: E402, F401  (whose tables become known by it)
from blocks import fill  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

from tikhonet import __version__  # noqa: E402

project, author, copyright = "tikhonet", "The tikhonet developers", "The tikhonet developers"
version = release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "formulas",
]
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "gallery/*.json", "extend/*.py", "api/generated/README*"]
templates_path, html_static_path = ["_templates"], ["_static"]
html_css_files = ["site.css"]
default_role = "literal"
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
html_theme = "pydata_sphinx_theme"
html_title = "tikhonet"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "tikhonet"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__|ray_train",
    "matplotlib_animations": (True, "jshtml"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1,
    "within_subsection_order": "ExampleTitleSortKey",
}


def fill_tables(app: Sphinx, name: str, content: list[str]) -> None:
    """Make the tables of a page anew, whatever the file says."""
    content[0] = fill(content[0])


def make_pictures(app: Sphinx) -> None:
    """Draw what pages show of the records."""
    pictures.make(HERE)


def setup(app: Sphinx) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    app.connect("builder-inited", make_pictures)
    app.connect("source-read", fill_tables)
