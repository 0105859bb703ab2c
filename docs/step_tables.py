"""The step rule beside steps set by hand, from the records of `benchmarks/step_rule.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from blocks import Record, basis, by, markdown, records, table

from tikhonet.paper.comparison import standard_error

NEAR = 2.0
"""Percent of the error by which the rule may be above the best of the hand-set steps."""
FOLDER = "step_rule"
Errors = dict[int, float]
"""Errors in percent by seed."""


@dataclass(frozen=True)
class Gap:
    """How far the rule is above another choice, in percent of the other's mean error, over the seeds of both."""

    mean: float
    error: float | None
    """The standard error of the mean; None of one seed."""

    @classmethod
    def between(cls, mine: Errors, other: Errors) -> Gap:
        seeds = sorted(set(mine) & set(other))
        scale = fmean(other[seed] for seed in seeds) / 100
        gaps = [(mine[seed] - other[seed]) / scale for seed in seeds]
        return cls(fmean(gaps), standard_error(gaps) if len(gaps) > 1 else None)

    @property
    def words(self) -> str:
        return f"{self.mean:+.1f}" + (f" ± {self.error:.1f}%" if self.error is not None else "%")

    @property
    def beyond(self) -> bool:
        """Whether the rule is further off than it may be, by more than two standard errors."""
        return self.error is not None and self.mean - 2 * self.error > NEAR


@dataclass(frozen=True)
class Cell:
    """A task and a number of epochs: errors of the rule, and of each first step by hand."""

    rule: Errors
    hand: dict[str, Errors]

    @classmethod
    def of(cls, found: Iterable[Record]) -> Cell:
        errors: dict[str, Errors] = defaultdict(dict)
        for record in found:
            for choice, run in record["runs"].items():
                errors[choice][record["seed"]] = 100 * run["error"]
        return cls(errors.pop("rule"), errors)

    def best(self, seeds: Iterable[int]) -> str:
        """The step with the least mean error on these seeds."""
        known = list(seeds)
        return min(self.hand, key=lambda step: fmean(self.hand[step][seed] for seed in known))

    @property
    def over_best(self) -> Gap:
        return Gap.between(self.rule, self.hand[self.best(self.rule)])

    @property
    def over_others(self) -> Gap | None:
        """The gap to the first step that was best on the other seeds; None of one seed."""
        seeds = set(self.rule)
        if len(seeds) == 1:
            return None
        return Gap.between(self.rule, {seed: self.hand[self.best(seeds - {seed})][seed] for seed in seeds})


def cells() -> dict[tuple[str, int], Cell]:
    """The cells by task and epochs, in the order of the records."""
    groups: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records(FOLDER):
        groups[record["task"], record["epochs"]].append(record)
    tasks = list(dict.fromkeys(task for task, _ in groups))
    return {key: Cell.of(groups[key]) for key in sorted(groups, key=lambda key: (tasks.index(key[0]), key[1]))}


@table
def step_rule() -> str:
    """Errors by the rule and by the best of seven first steps.

    The best of seven on some seeds owes something to chance on the same seeds, so beside it stands the rule over the
    first step that was best on the other seeds.
    """
    rows = []
    for (task, epochs), cell in cells().items():
        best, others = cell.best(cell.rule), cell.over_others
        shown = f"{fmean(cell.hand[best].values()):.2f} ({best})"
        figures = [f"{fmean(cell.rule.values()):.2f}", shown, cell.over_best.words, others.words if others else ""]
        rows.append([task, f"{epochs}", f"{len(cell.rule)}", *figures])
    head = ["task", "epochs", "seeds", "rule", "best by hand (its step)", "over best", "over best of other seeds"]
    return markdown(head, rows) + basis(FOLDER, by(records(FOLDER), "task", "epochs"))


@table
def step_rule_cells() -> str:
    """In how many cells the rule is near the best of seven, and near the step that was best on the other seeds."""
    found = cells().values()
    several = [gap for cell in found if (gap := cell.over_others)]
    rows = [
        counted("the best of seven", [cell.over_best for cell in found]),
        counted("the step that was best on the other seeds", several),
    ]
    head = ["the rule against", "cells", f"within {NEAR:g}%", "surely further off", "mean over cells"]
    return markdown(head, rows) + "\n\n(Surely: by more than two standard errors, of cells with several seeds.)"


def counted(words: str, gaps: list[Gap]) -> list[str]:
    means = [gap.mean for gap in gaps]
    within, beyond = sum(mean <= NEAR for mean in means), sum(gap.beyond for gap in gaps)
    return [words, f"{len(gaps)}", f"{within}", f"{beyond}", Gap(fmean(means), standard_error(means)).words]
