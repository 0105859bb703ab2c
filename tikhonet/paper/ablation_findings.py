"""What the ablation says: differences to the trainer, paired by seed, and cosines of residuals with the gradient."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

from tikhonet.paper.comparison import CHANCE, Claim, Comparison, Finding, Row, by_chance, standard_error
from tikhonet.paper.figures import Axis, Dots, Line, Lines, Point
from tikhonet.paper.sheets import Figure

DEFAULT = "default"
NEAR = 0.99
"""A cosine from which on two directions are one, to first order."""
LINES = ("stochastic", "proximal", "printed", "sgd", "reference")


class Difference(NamedTuple):
    """A mean over seeds, its standard error and the p of a paired t test; NaN where there are too few of them."""

    mean: float
    error: float
    p: float

    @property
    def words(self) -> str:
        known = "" if math.isnan(self.error) else f" ± {self.error:.2f}"
        return f"{self.mean:+.2f}{known} points" + ("" if math.isnan(self.p) else f" (p = {self.p:.2g})")

    @property
    def beyond_chance(self) -> bool:
        return self.p < CHANCE


class AblationRow(Row):
    """A variant over its trials."""

    @property
    def label(self) -> str:
        return self.name

    @property
    def ingredient(self) -> str:
        return str(self.records[0].ingredient)

    @property
    def place(self) -> int:
        return int(self.records[0].place)

    @property
    def layers(self) -> list[str]:
        return [name for name in self.records[0].cosines if name != "steps"]

    def cosines(self, layer: str) -> list[list[float]]:
        """By step, those of all trials."""
        return [list(point) for point in zip(*(record.cosines[layer] for record in self.records), strict=False)]

    @property
    def cosine(self) -> float:
        """The mean cosine over steps and trials, of the layer with the lowest; NaN where none was measured."""
        return min((fmean(map(fmean, self.cosines(layer))) for layer in self.layers), default=math.nan)


class Ablation(Comparison[AblationRow]):
    """All variants of a run; errors are in percent."""

    whole = 100.0

    def difference(self, row: AblationRow, other: str = DEFAULT) -> Difference:
        """The row's error less the trainer's, over the seeds that both have."""
        gaps = row.less(self.rows[other]) if other in self.rows and row.name != other else []
        return Difference(fmean(gaps) if gaps else math.nan, standard_error(gaps), by_chance(gaps))

    def variants(self, *ingredients: str) -> list[AblationRow]:
        """The rows in which one of these was exchanged, unless they diverged."""
        return [row for row in self.rows.values() if row.ingredient in ingredients and not math.isnan(row.score)]


def ablation_claims(results: Ablation) -> list[Claim]:
    """What each ingredient brings, judged."""
    found = [
        ("The target sweep learns as exact back-propagation does.", as_good(results, "sweep")),
        ("The residuals are the back-propagated gradients, to first order.", near_gradient(results)),
        ("The metric of the W-step lowers the error.", all_worse(results, "metric-none")),
        ("The exact V-step lowers the error.", all_worse(results, "adam-V-")),
        ("The tight lift is needed.", all_worse(results, "tikhonov")),
        ("Targets further from the forward pass do not help.", none_better(results, "targets")),
        ("No fixed step length beats the rule.", none_better(results, "step")),
        (
            "No other metric, momentum, averaging, dropout or start beats the trainer's.",
            none_better(results, "metric", "momentum", "averaging", "dropout", "start"),
        ),
    ]
    return [Claim(words, (finding,)) for words, finding in found]


def compared(results: Ablation, rows: list[AblationRow]) -> str:
    """The differences of these rows to the trainer, in words."""
    base = results.rows.get(DEFAULT)
    start = f"{base.score:.2f}% with it; " if base else ""
    return start + "; ".join(f"{row.title}: {results.difference(row).words}" for row in rows) + "."


def as_good(results: Ablation, ingredient: str) -> Finding:
    rows = results.variants(ingredient)
    if not rows:
        return Finding("It was not run.", None)
    differences = [results.difference(row) for row in rows]
    known = not any(math.isnan(difference.error) for difference in differences)
    differs = any(difference.beyond_chance for difference in differences)
    return Finding(compared(results, rows), not differs if known else None)


def all_worse(results: Ablation, name: str) -> Finding:
    """Whether the best row of this name, or whose name begins with it, has a higher error; diverged ones have."""
    rows = [row for row in results.rows.values() if row.name == name or (name[-1] == "-" and row.name.startswith(name))]
    if not rows:
        return Finding("It was not run.", None)
    ended = [row for row in rows if not math.isnan(row.score)]
    if not ended:
        return Finding(compared(results, rows), True)
    best = results.difference(min(ended, key=lambda row: row.score))
    return Finding(compared(results, rows), best.mean > 0 if best.beyond_chance else None)


def none_better(results: Ablation, *ingredients: str) -> Finding:
    rows = results.variants(*ingredients)
    if not rows:
        return Finding("They were not run.", None)
    lower = {row.name: (d := results.difference(row)).mean < 0 and d.beyond_chance for row in rows}
    unknown = any(math.isnan(results.difference(row).error) for row in rows)
    better = [row for row in rows if lower[row.name]]
    shown = better or [min(rows, key=lambda row: row.score)]
    words = "Lower: " if better else "The lowest of them: "
    return Finding(words + compared(results, shown), None if unknown else not better)


def near_gradient(results: Ablation) -> Finding:
    row = results.rows.get(DEFAULT)
    if not row or not row.layers:
        return Finding("It was not measured.", None)
    means = {layer: fmean(map(fmean, row.cosines(layer))) for layer in row.layers}
    lowest = min(min(map(min, row.cosines(layer))) for layer in row.layers)
    words = ", ".join(f"{mean:.4f} ({layer})" for layer, mean in means.items())
    return Finding(f"Mean cosines over a run: {words}; the lowest of all is {lowest:.4f}.", min(means.values()) >= NEAR)


def ablation_figures(results: Ablation) -> list[Figure]:
    base = results.rows.get(DEFAULT)
    rows = [row for row in results.rows.values() if row.scores]
    found: list[Figure] = [
        Dots(
            name="errors",
            title="Test error with one ingredient exchanged",
            caption=f"A dot a seed, and their mean; {results.first.data['test']:,} test images.",
            x=Axis("test error, %"),
            rows=[row.values(row.scores) for row in rows],
            unit="%",
            references=[("the trainer", base.score)] if base else [],
        )
    ]
    if base and base.layers:
        lines = [line(base, layer, layer, colour) for layer, colour in zip(base.layers, LINES, strict=False)]
        lowest = min(point.low for one in lines for point in one.points)
        found.append(cosine_figure("layers", "The trainer's residuals and the gradient, by layer", lines, lowest))
    others = [row for row in results.variants("", "targets", "lift") if row.layers]
    if len(others) > 1:
        lines = [
            line(row, row.layers[0], row.name, colour, dashed=place >= len(LINES))
            for place, (row, colour) in enumerate(zip(others, LINES * 2, strict=False))
        ]
        found.append(cosine_figure("targets", "The first layer's residual, with other targets", lines, 0.0))
    return found


def cosine_figure(name: str, title: str, lines: list[Line], lowest: float) -> Lines:
    return Lines(
        name=f"cosines_{name}",
        title=title,
        caption="Cosine of the residual that the u-step gives a layer with the back-propagated gradient there, on the "
        "same batch at the same weights; mean of the seeds with their range.",
        x=Axis("step", whole=True),
        y=Axis("cosine", low=min(0.99, math.floor(100 * lowest) / 100), high=1.0),
        lines=lines,
    )


def line(row: AblationRow, layer: str, label: str, colour: str, dashed: bool = False) -> Line:
    points = [
        Point(step, fmean(values), min(values), max(values), f"{row.title}, {layer}\nstep {step}: {fmean(values):.4f}")
        for step, values in zip(row.records[0].cosines["steps"], row.cosines(layer), strict=False)
    ]
    return Line(label, colour, points, dashed)
