"""Third-party packages that only a part of the library needs, imported when that part is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRA_OF = {
    "typer": "cli",
    "rich": "cli",
    "matplotlib": "report",
    "jinja2": "report",
    "pooch": "data",
    "requests": "data",
    "PIL": "data",
    "pyarrow": "data",
    "onnx": "onnx",
    "faiss": "search",
}
"""The optional dependencies by the name that is imported, and the extra of `pyproject.toml` that installs each."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message is one line that names the extra."""


def require(module: str) -> Any:
    """Import a module of an optional dependency: `plt = require("matplotlib.pyplot")`.

    Where it is not installed, the error names the extra of this package that brings it.
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        extra = EXTRA_OF[package]
        raise MissingExtraError(f"{package} is not installed; pip install 'tikhonet[{extra}]'") from None
    return import_module(module)
