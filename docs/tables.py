"""The tables of README and docs, made of the records in results/: `python docs/tables.py` writes them anew.

A document marks a place by `<!-- table: NAME -->` and `<!-- end -->`. A table is a function in a file beside this one:
`@table` gives it its own name, and an entry of `TABLES` names one that serves several runs.
"""

from __future__ import annotations

import benchmark_tables  # noqa: F401
import experiment_tables  # noqa: F401
import hashing_tables  # noqa: F401
import image_tables  # noqa: F401
import rival_tables  # noqa: F401
import step_tables  # noqa: F401
import tabular_tables  # noqa: F401
from blocks import ROOT, documents, fill


def main() -> None:
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (new := fill(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} is new")


if __name__ == "__main__":
    main()
