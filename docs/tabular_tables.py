"""Tables and pictures of the benchmark of tables."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from blocks import TABLES, Record, conditions, markdown, records, table
from scipy.stats import friedmanchisquare, rankdata, studentized_range

FOLDER = "benchmarks/tabular"
OURS, TIMED = "BCD", "LightGBM"
ORDER = (OURS, TIMED, "XGBoost", "HistGradientBoosting", "CatBoost", "RealMLP_TD_S", "MLP", "linear")
MEASURES = {"accuracy": ("classes", 1), "log_loss": ("classes", -1), "r2": ("numbers", 1)}
"""The task of each measure by which models are ranked, and whether more is better."""
TIES = 4
"""Decimals up to which two means are the same."""


@dataclass(frozen=True)
class Grid:
    """Means over the splits of one measure: a row for each table, a column for each model."""

    measure: str
    tables: list[str]
    models: list[str]
    values: np.ndarray

    @property
    def ranks(self) -> np.ndarray:
        """The mean rank of each model; 1 is best."""
        sign = MEASURES[self.measure][1]
        return np.mean([rankdata(-sign * row.round(TIES)) for row in self.values], axis=0)

    @property
    def distance(self) -> float:
        """The critical difference of Nemenyi's test at 5%: mean ranks that are nearer cannot be told apart."""
        count = len(self.models)
        quantile = studentized_range.ppf(0.95, count, np.inf) / np.sqrt(2)
        return float(quantile * np.sqrt(count * (count + 1) / (6 * len(self.tables))))

    @property
    def p(self) -> float:
        """Friedman's test of whether all models are alike."""
        return float(friedmanchisquare(*self.values.round(TIES).T).pvalue)

    def against(self, model: str) -> dict[str, float]:
        """By how much ours is better than the model, table by table; differences that are ties are 0."""
        ours, theirs = (self.values[:, self.models.index(name)].round(TIES) for name in (OURS, model))
        return dict(zip(self.tables, MEASURES[self.measure][1] * (ours - theirs), strict=True))

    def record(self, model: str) -> str:
        """Wins, ties and losses of ours."""
        if model == OURS:
            return ""
        gaps = np.sign(np.round(list(self.against(model).values()), TIES))
        return ", ".join(str(int(np.sum(gaps == sign))) for sign in (1, 0, -1))


def found(task: str) -> list[Record]:
    return [record for record in records(FOLDER) if record["task"] == task]


def of(fits: Iterable[Record], measure: str, **wanted: Any) -> list[float]:
    return [fit[measure] for fit in fits if all(fit[key] == value for key, value in wanted.items())]


def grid(fits: list[Record], measure: str) -> Grid:
    tables = list(dict.fromkeys(fit["table"] for fit in fits))
    models = [model for model in ORDER if any(fit["model"] == model for fit in fits)]
    values = [[fmean(of(fits, measure, table=name, model=model)) for model in models] for name in tables]
    return Grid(measure, tables, models, np.array(values))


def foot(fits: list[Record]) -> str:
    splits, tables = len({fit["split"] for fit in fits}), len({fit["table"] for fit in fits})
    processor = " or ".join(sorted({fit["hardware"]["processor"] for fit in fits}))
    packages = {"lightgbm", "xgboost-cpu", "catboost", "pytabkit", "scikit-learn"}
    used = {f"{name} {number}" for fit in fits for name, number in fit["versions"].items() if name in packages}
    where = f"{processor}, {conditions(fits)}, {', '.join(sorted(used))}"
    return f"\n\n({tables} tables, {splits} splits each; {where}; records: `results/{FOLDER}`.)"


def summary(task: str) -> str:
    fits = found(task)
    by_model = {model: [fit for fit in fits if fit["model"] == model] for model in ORDER}
    grids = [grid(fits, measure) for measure, (of_task, _) in MEASURES.items() if of_task == task]
    seconds = {model: sum(of(own, "cpu_seconds")) for model, own in by_model.items()}
    head, rows = ["", *(f"mean rank, {words(g.measure)}" for g in grids)], []
    head += [words(name) for name in SHOWN[task]]
    head += [f"BCD wins, ties, losses: {words(g.measure)}" for g in grids]
    head += ["fit, CPU s", f"times {TIMED}'s"]
    for place, model in enumerate(grids[0].models):
        means = [f"{fmean(of(by_model[model], name)):.3f}" for name in SHOWN[task]]
        ranks = [f"{g.ranks[place]:.2f}" for g in grids]
        timing = [f"{seconds[model]:.0f}", f"{seconds[model] / seconds[TIMED]:.1f}"]
        rows.append([model, *ranks, *means, *(g.record(model) for g in grids), *timing])
    tests = "; ".join(f"{words(g.measure)}: critical difference {g.distance:.2f}, p {g.p:.0e}" for g in grids)
    return f"{markdown(head, rows)}{foot(fits)}\n\n(Mean ranks, Friedman's and Nemenyi's tests at 5%: {tests}.)"


@table
def tabular_short() -> str:
    """Mean ranks and fit times of all models, for the front page."""
    grids = [grid(found(task), measure) for measure, (task, _) in MEASURES.items()]
    fits = {task: found(task) for task in ("classes", "numbers")}
    timed = [{model: sum(of(own, "cpu_seconds", model=model)) for model in ORDER} for own in fits.values()]
    rows = []
    for place, model in enumerate(grids[0].models):
        ranks = [f"{g.ranks[place]:.2f}" for g in grids]
        rows.append([model, *ranks, *(f"{seconds[model] / seconds[TIMED]:.1f}" for seconds in timed)])
    rows.sort(key=lambda row: sum(map(float, row[1:4])))
    times = [f"fit time, {task}" for task in fits]
    distances = " / ".join(f"{g.distance:.1f}" for g in grids)
    head = ["", *(f"rank, {words(g.measure)}" for g in grids), *times]
    counts = " and ".join(f"{len(g.tables)} tables with {MEASURES[g.measure][0]}" for g in grids[1:])
    where = conditions([fit for own in fits.values() for fit in own])
    return markdown(head, rows) + (
        f"\n\n({counts}, three splits, {where}; ranks nearer than {distances} cannot be told apart; times are in "
        f"units of {TIMED}'s; records: `results/{FOLDER}`.)"
    )


SHOWN = {"classes": ("accuracy", "log_loss", "auc", "ece"), "numbers": ("r2",)}


def words(measure: str) -> str:
    return {"log_loss": "log loss", "auc": "AUC", "ece": "calibration error", "r2": "R2"}.get(measure, measure)


def every_table(measure: str) -> str:
    fits = found(MEASURES[measure][0])
    shown = grid(fits, measure)
    factor, digits = (1, 3) if measure == "log_loss" else (100, 1)
    rows = []
    for name, values in zip(shown.tables, shown.values, strict=True):
        some = next(fit for fit in fits if fit["table"] == name)
        best = (MEASURES[measure][1] * values).round(TIES).max()
        cells = [f"{factor * v:.{digits}f}" for v in values]
        bold = [
            f"**{cell}**" if round(MEASURES[measure][1] * v, TIES) == best else cell
            for cell, v in zip(cells, values, strict=True)
        ]
        rows.append([name, f"{some['rows']:,} x {some['columns']}", *bold])
    return markdown(["table", "trained on", *shown.models], rows)


@table
def tabular_losses() -> str:
    """Every table on which a rival is better, with the difference."""
    lines = []
    for measure, (task, _) in MEASURES.items():
        shown = grid(found(task), measure)
        factor, digits, unit = (1, 3, "") if measure == "log_loss" else (100, 1, ", in points")
        lines.append(f"- **{words(measure)}**{unit}")
        for model in shown.models[1:]:
            lost = {name: -gap for name, gap in shown.against(model).items() if gap < 0}
            order = sorted(lost, key=lambda name: -lost[name])
            listed = ", ".join(f"{name} {factor * lost[name]:.{digits}f}" for name in order)
            lines.append(f"  - to {model} ({len(lost)} of {len(shown.tables)}): {listed or 'none'}")
    return "\n".join(lines)


@table
def tabular_timings() -> str:
    fits = records("benchmarks/tabular_timings")
    rows = []
    for size in dict.fromkeys(fit["table"] for fit in fits):
        for task in ("classes", "numbers"):
            spent = [of(fits, "cpu_seconds", table=size, task=task, model=model) for model in (OURS, TIMED)]
            rows.append([size, task, *(f"{max(values):.2f}" for values in spent)])
    return markdown(["rows", "task", *(f"{model}, CPU s" for model in (OURS, TIMED))], rows) + (
        f"\n\n(The slowest of three fits of 150 rows, one of the others; {conditions(fits)}; "
        "records: `results/benchmarks/tabular_timings`.)"
    )


for task in SHOWN:
    TABLES[f"tabular-{task}"] = partial(summary, task)
for measure in MEASURES:
    TABLES[f"tabular-{measure.replace('_', '-')}"] = partial(every_table, measure)


def draw(axes: Any, shown: Grid, title: str) -> None:
    """Models at their mean ranks; bars join those that cannot be told apart."""
    count, order = len(shown.models), np.argsort(shown.ranks)
    half = (count + 1) // 2
    axes.set(xlim=(count + 0.3, 0.7), ylim=(-0.75 - 0.34 * half, 0.75))
    axes.axis("off")
    axes.plot([1, count], [0, 0], color="black", lw=1)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, 0.07], color="black", lw=1)
        axes.text(rank, 0.12, str(rank), ha="center", fontsize=8)
    axes.text(count + 0.3, 0.52, title, fontsize=9, weight="bold")
    axes.plot([1, 1 + shown.distance], [0.42] * 2, color="black", lw=1.5)
    axes.text(1 + shown.distance / 2, 0.5, f"critical difference {shown.distance:.2f}", ha="center", fontsize=7.5)
    for place, model in enumerate(order):
        left = place >= half
        level = -0.75 - 0.3 * (count - 1 - place if left else place)
        end, side = (count + 0.15, "right") if left else (0.85, "left")
        name, rank = shown.models[model], shown.ranks[model]
        colour = "#00805c" if name == OURS else "black"
        axes.plot([rank, rank, end], [0, level, level], color=colour, lw=0.9)
        axes.text(end, level, f" {name} {rank:.2f} ", ha=side, va="center", fontsize=8.5, color=colour)
    level, reached = -0.14, -1
    for first in range(count):
        last = max(k for k in range(count) if shown.ranks[order[k]] - shown.ranks[order[first]] <= shown.distance)
        if last > first and last > reached:
            ends = shown.ranks[order[first]] - 0.03, shown.ranks[order[last]] + 0.03
            axes.plot(ends, [level] * 2, color="#5b626c", lw=3, solid_capstyle="butt")
            level, reached = level - 0.11, last


def draw_ranks() -> bytes:
    """Mean ranks by each measure, one below the other."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(7.2, 7.4), layout="constrained")
    for axes, (measure, (task, _)) in zip(sheet.subplots(3, 1), MEASURES.items(), strict=True):
        shown = grid(found(task), measure)
        draw(axes, shown, f"{words(measure)}, {len(shown.tables)} tables with {task}")
    return png(sheet)


def draw_trade() -> bytes:
    """Mean rank against fit time, for classes and for numbers."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(7.6, 3.4), layout="constrained")
    for axes, measure in zip(sheet.subplots(1, 2), ("log_loss", "r2"), strict=True):
        task = MEASURES[measure][0]
        fits = found(task)
        shown = grid(fits, measure)
        spent = {model: sum(of(fits, "cpu_seconds", model=model)) for model in shown.models}
        for model, rank in zip(shown.models, shown.ranks, strict=True):
            times, ours = spent[model] / spent[TIMED], model == OURS
            axes.plot(times, rank, "o", color="#00805c" if ours else "#7a7f87", ms=9 if ours else 6)
            style = {"weight": "bold", "color": "#00805c"} if ours else {"color": "#1d2126"}
            slow = times > 20  # such names stand above their points, where nothing else is
            place = {"ha": "right", "xytext": (6, 9)} if slow else {"ha": "left", "xytext": (8, 0)}
            axes.annotate(model, (times, rank), textcoords="offset points", va="center", fontsize=8, **place, **style)
        axes.set(xscale="log", ylim=(len(shown.models), 1), xlabel=f"fit time, times {TIMED}'s")
        axes.set_ylabel(f"mean rank by {words(measure)}, 1 is best")
        axes.set_title(f"{len(shown.tables)} tables with {task}", fontsize=10, loc="left")
        axes.set_xlim(min(spent.values()) / spent[TIMED] / 2, max(spent.values()) / spent[TIMED] * 2)
        axes.grid(color="#e4e1da", lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
    return png(sheet)


def png(sheet: Any) -> bytes:
    with io.BytesIO() as file:
        sheet.savefig(file, format="png", dpi=120, metadata={"Software": None})
        return file.getvalue()
