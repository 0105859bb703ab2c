"""Blocks of documents that are made of records: how they are found and filled, and what a table is written with.

Under every table stands what it rests on: records, trials, threads, versions. A mean is only taken of trials that share
threads and versions, but where the line says that it is across them; where rows of a table differ in them, it says so
too. "±" is the standard error of a mean over trials.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import ttest_rel

from tikhonet.paper.comparison import standard_error
from tikhonet.paper.experiment import Experiment, find_experiment, load_records
from tikhonet.paper.records import read_lines

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES: dict[str, Callable[[], str]] = {}
Record = dict[str, Any]
Rows = dict[str, list[Record]]


def table(make: Callable[[], str]) -> Callable[[], str]:
    """Make a function the table of its name."""
    TABLES[make.__name__.replace("_", "-")] = make
    return make


def fill(text: str) -> str:
    """A document with all of its blocks made anew."""
    return BLOCK.sub(lambda found: found[1] + TABLES[found[2]]() + "\n" + found[3], text)


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def records(folder: str) -> list[Record]:
    """The lines of an experiment's or a benchmark's `records.jsonl`; damaged ones are refused."""
    return [content for _, content in read_lines(ROOT / "results" / folder)]


def lines_of(folder: str, name: str) -> list[Record]:
    """The lines of a benchmark that keeps a file for each of its data sets."""
    return [json.loads(line) for line in (ROOT / "results" / folder / f"{name}.jsonl").read_text().splitlines()]


def run_of(folder: str) -> tuple[Experiment, Any]:
    """The experiment of a run in results/, and what its page compares."""
    found = load_records(ROOT / "results" / folder)
    experiment = find_experiment(found[0].experiment)
    return experiment, experiment.compare(found)


def by(found: Iterable[Record], *keys: str) -> Rows:
    """Records by the text of some of their fields."""
    rows: Rows = {}
    for record in found:
        rows.setdefault(" ".join(str(record[key]) for key in keys), []).append(record)
    return rows


def conditions(found: Sequence[Record]) -> str:
    """Threads and versions of records of one mean, which must share them."""
    words = {
        f"{record['hardware']['threads']} thread{'s' * (record['hardware']['threads'] != 1)}, "
        f"tikhonet {record['versions']['tikhonet']}, torch {record['versions']['torch'].partition('+')[0]}"
        for record in found
    }
    if len(words) != 1:
        raise ValueError(f"records of one mean must share threads and versions, got {' and '.join(sorted(words))}")
    return words.pop()


def basis(folder: str, rows: Mapping[str, Sequence[Record]], note: str = "", trials: str = "") -> str:
    """The line under a table: its records, how many trials, and on what.

    `trials` says it where rows of one trial each stand beside their means.
    """
    words: dict[str, list[str]] = {}
    for name, found in rows.items():
        if found:
            words.setdefault(conditions(found), []).append(name)
    common = max(words, key=lambda text: len(words[text]))
    others = "".join(f"; {', '.join(names)}: {text}" for text, names in words.items() if text != common)
    counts = sorted({len(found) for found in rows.values() if found})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    trials = trials or f"{count} trial{'s' if counts != [1] else ''} each"
    return f"\n\n({trials}, {common}{others}; records: `results/{folder}`.{' ' * bool(note)}{note})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" if line[0] != "---" else "|" + "---|" * len(line) for line in lines)


def mean(values: Sequence[float], digits: int = 2) -> str:
    """A mean with its standard error, where there is more than one value."""
    text = f"{fmean(values):.{digits}f}" if values else ""
    return f"{text} ± {standard_error(values):.{digits}f}" if len(values) > 1 else text


def signed(values: Sequence[float]) -> str:
    """A mean difference with its standard error and sign; nothing where there are no values."""
    rounded = [round(value, 6) + 0.0 for value in values]
    return f"{'+' * (fmean(rounded) >= 0)}{mean(rounded)}" if values else ""


def number(value: float, digits: int = 3) -> str:
    """A number with so many digits, without a power of ten where it is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.{digits}g}"


def span(values: Sequence[float]) -> str:
    """The least and the largest."""
    return " to ".join(dict.fromkeys(number(round(value, 1), 2) for value in (min(values), max(values))))


def field(found: Sequence[Record], name: str) -> list[float]:
    return [record[name] for record in found if record[name] is not None]


def paired(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """The difference of errors of trials with the same seed."""
    other = {record["seed"]: record["error"] for record in theirs}
    pairs = [(record["error"], other[record["seed"]]) for record in ours if record["seed"] in other]
    differences = [a - b for a, b in pairs]
    p = ttest_rel(*zip(*pairs, strict=True)).pvalue
    return f"{mean(differences)} points over {len(pairs)} seeds, paired t-test p = {p:.2f}"


def measured(name: str) -> Record:
    """The last run of a benchmark that was recorded."""
    return records(f"benchmarks/{name}")[-1]


def basis_of(record: Record, note: str = "") -> str:
    """The line under a benchmark's table."""
    machine = record["hardware"]
    load = "" if machine["load"] is None else f", load {machine['load']:.1f} on {machine['cores']} cores"
    where = f"{machine['processor']}, {conditions([record])}{load}"
    folder = f"results/benchmarks/{record['benchmark']}"
    return f"\n\n(`{record['command']}`, one run; {where}; record: `{folder}`.{' ' * bool(note)}{note})"
