"""An experiment is one class: its methods, a trial, its record, findings and figures. Defining it makes it known.

`EXPERIMENTS` holds one object of every class that has a name. Those of this library stand in files called
`<name>_experiment.py`, which are imported when their experiment is asked for.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from tikhonet.data.dataset import Dataset
from tikhonet.paper import experiment_files
from tikhonet.paper.comparison import ORDER, Claim, Comparison, Row
from tikhonet.paper.labelled_images import SETS, read_images
from tikhonet.paper.old_records import convert_folder
from tikhonet.paper.records import FILE, Record, RecordError, Scored, read_lines
from tikhonet.paper.sheets import Figure, short

Watch = Callable[[int], None]
"""Hears of every step that a trial has done."""
Table = list[list[Any]]
"""The first row holds the names of the columns."""
DIVERGED = "diverged"
EXPERIMENTS: dict[str, Experiment] = {}


class Data(Protocol):
    @property
    def trials(self) -> Sequence[int]:
        """The seeds that are run where none are asked for."""

    def describe(self) -> dict[str, Any]:
        """Everything that identifies the data in a record."""


@dataclass(frozen=True)
class Size:
    """How much is done. `threads` of torch: None leaves their number, one is faster where the matrices are small."""

    name: str
    threads: int | None = None


@dataclass(frozen=True)
class Method:
    """One side of the comparison; `family` gives it its colour and its place on the page."""

    name: str
    title: str
    family: str = "reference"

    @property
    def group(self) -> str:
        """The row of the page that its trials belong to."""
        return self.name

    @property
    def steps(self) -> int:
        """How many steps `watch` hears of."""
        return 1

    def settings(self) -> dict[str, Any]:
        """Every setting by name: a trial with other ones is another trial."""
        return {}

    def kept_in(self, place: Path) -> Self:
        """The method with a folder where a long trial may keep its state; it is gone once the record is there."""
        return self


@dataclass(frozen=True)
class Score:
    """How `record.score` is called in JSON and in tables, and its digits."""

    key: str = "score"
    heading: str = "score"
    digits: int = 4

    def form(self, value: float | None) -> str:
        return DIVERGED if value is None else f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class Column:
    """A column of the table of results: a value of every row, how it is written, and small words under it."""

    heading: str
    value: Callable[[Any], Any]
    form: Callable[[Any], str] = short
    wide: bool = False
    """Whether it is left out on narrow screens."""
    under: str = ""
    small: Callable[[Any], str] = lambda row: ""
    unknown: str = ""
    """Stands for None and NaN."""
    text: bool = False
    hidden: bool = False
    """Whether it stands in the CSV file only."""

    @property
    def css(self) -> str:
        return " ".join(["n"] * (not self.text) + ["wide"] * self.wide)


class Experiment(ABC):
    """The base of every experiment; a subclass with a `name` is registered by its definition."""

    name: ClassVar[str]
    title: ClassVar[str] = ""
    """The headline of the page."""
    lead: ClassVar[str] = ""
    """The sentences under the headline."""
    data_sets: ClassVar[Sequence[str]] = SETS
    sizes: ClassVar[Sequence[Any]] = (Size("quick"), Size("full"))
    """The quick one, and that of the paper."""
    record: ClassVar[type[Record]] = Scored
    score: ClassVar[Score] = Score()
    sides: ClassVar[Sequence[str]] = ("Measured",)
    """The headings of the findings of a claim."""
    template: ClassVar[str] = "page.html.j2"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            EXPERIMENTS[cls.name] = cls()

    @abstractmethod
    def methods(self, size: Any, data: Any, epochs: int | None = None) -> Iterable[Method]:
        """The methods to compare; `epochs` sets the passes of every one of them."""

    def stages(
        self, size: Any, data: Any, epochs: int | None, trials: Sequence[int], records: Callable[[], list[Any]]
    ) -> Iterable[tuple[Iterable[Method], Sequence[int]]]:
        """The methods and trials of one stage after the other; `records`, read anew, may decide those of the next."""
        yield self.methods(size, data, epochs), trials

    @abstractmethod
    def trial(self, method: Any, data: Any, seed: int, watch: Watch) -> dict[str, Any]:
        """Do one trial: `seconds` and the other fields of the record that the runner cannot know."""

    def read(self, name: str, load: Callable[[str, str], Dataset]) -> Any:
        """The data of that name; `load(data set, split)` reads."""
        return read_images(name, load)

    def findings(self, results: Any) -> list[Claim]:
        return []

    def figures(self, results: Any) -> list[Figure]:
        return []

    def order(self, row: Any) -> Any:
        """Rows of the page are sorted by this."""
        return ORDER.index(row.family), row.sparse

    def compare(self, records: Sequence[Record]) -> Any:
        return Comparison.of(records, Row, self.order)

    def columns(self, results: Any) -> list[Column]:
        """The table of results, after the column with the method."""
        return [
            Column(self.score.heading, lambda row: row.score, self.score.form, unknown=DIVERGED),
            Column("seconds", lambda row: row.seconds),
        ]

    def result_rows(self, results: Any) -> Sequence[Any]:
        """The rows of the table of results; each has a title and a family."""
        return list(results.rows.values())

    def tables(self, results: Any) -> dict[str, Table]:
        """Tables of its own, by file name."""
        return {}

    def parts(self, results: Any) -> dict[str, Any]:
        """Everything that its own template shows beyond claims, figures and results."""
        return {}

    def choose(self, methods: Iterable[Method], names: Sequence[str] | None) -> list[Any]:
        """Methods by their names or by the rows of the page, which stand for all of theirs; all of them if None."""
        known = list(methods)
        if names is None:
            return known
        groups = list(dict.fromkeys(method.group for method in known))
        if unknown := [name for name in names if name not in groups and name not in {m.name for m in known}]:
            single = "" if known[0].name in groups else f", or single ones of their methods such as {known[0].name}"
            raise ValueError(f"solvers must be among {', '.join(groups)}{single}, got {', '.join(unknown)}")
        return [method for method in known if method.name in names or method.group in names]


def experiment_names() -> list[str]:
    """All that are known: defined so far, or in a file of this library."""
    return list(dict.fromkeys([*experiment_files(), *EXPERIMENTS]))


def find_experiment(name: str) -> Experiment:
    if name not in experiment_names():
        raise ValueError(f"the experiment must be one of {', '.join(experiment_names())}, got {name!r}")
    if name not in EXPERIMENTS:
        import_module(f"tikhonet.paper.{name}_experiment")
    return EXPERIMENTS[name]


def load_records(folder: str | os.PathLike[str]) -> list[Any]:
    """All records of a run, by method and trial, each of the kind of its experiment."""
    found = [record for _, record in read_records(Path(folder))]
    if not found:
        raise RecordError(f"{Path(folder, FILE)} must hold records, and there are none; run the experiment first")
    return sorted(found, key=lambda record: (record.method, record.trial))


def read_records(folder: Path) -> list[tuple[str, Any]]:
    """Every record of a folder, with words for where it stands; a folder of version 0.1 is converted first."""
    if (folder / "records").is_dir() and not (folder / FILE).exists():
        convert_folder(folder)
    return [(where, parse(content, where)) for where, content in read_lines(folder)]


def parse(content: Mapping[str, Any], where: str) -> Record:
    try:
        kind = find_experiment(str(content.get("experiment"))).record
    except ValueError as error:
        raise RecordError(f"{where} must be of a known experiment: {error}") from None
    return kind.parse(content, where)
