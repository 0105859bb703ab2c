"""The command line. A file with a function of its own name is a command: `fit.py` holds `fit`, which is `tikhonet fit`.

The other files are what commands share: inputs, outputs, mistakes, progress. Nothing here is imported before it is
needed, so that `tikhonet --help` takes no longer than it must.
"""

from __future__ import annotations

import sys

from tikhonet.network.extras import MissingExtraError, require


def main() -> None:
    """Run the command `tikhonet`; without the packages that it needs, one line says how to get them."""
    try:
        require("typer")
    except MissingExtraError as error:
        sys.exit(f"tikhonet: {error}")
    from tikhonet.cli.app import app

    app(prog_name="tikhonet")
