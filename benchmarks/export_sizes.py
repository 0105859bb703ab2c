"""Flash and RAM of every export format, by the commands of docs/guide/export.md.

Digits, 64 + 64 units, rows in the l1 ball.

Usage: python benchmarks/export_sizes.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from machine import arguments, record

FIT = "fit --data digits --hidden 64,64 --constraint l1 --output digits.tikhonet"
SIZE = "size digits.tikhonet"


def answer(command: str, folder: str) -> dict[str, Any]:
    """What a command of `tikhonet` answers."""
    words = [sys.executable, "-m", "tikhonet", *command.split(), "--json"]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    options = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answer(FIT, folder)
        sizes = answer(SIZE, folder)
    for size in sizes["formats"]:
        more = "" if size["complete"] else " and the runtime's own"
        print(f"{size['format']:12} flash {size['flash']:7,}  RAM {size['ram']:7,}{more}")
    record(options, {"nonzero": sizes["nonzero"], "formats": sizes["formats"]})


if __name__ == "__main__":
    main()
