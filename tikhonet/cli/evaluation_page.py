"""The page of `tikhonet evaluate`: measures, mistakes, calibration, and what each column is worth to the model."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, f1_score, log_loss, precision_recall_fscore_support, roc_auc_score

from tikhonet import __version__
from tikhonet.cli.inputs import SavedModel, Source, sha256
from tikhonet.cli.outputs import Measures
from tikhonet.data.bar import Bar
from tikhonet.data.tables import Frame, default_names
from tikhonet.paper.figures import Axis, Dots, Line, Lines, Point, Values
from tikhonet.paper.page import fill
from tikhonet.paper.prediction_figures import Cloud, Confusion
from tikhonet.paper.records import write_whole
from tikhonet.paper.sheets import Figure, short

WORDS = {
    "error_percent": "of the rows get a wrong class",
    "log_loss": "log loss",
    "auc": "area under the ROC curve",
    "f1": "F1, mean over the classes",
    "calibration_error": "calibration error",
    "r2": "R2",
    "rmse": "root mean square error",
    "mae": "mean absolute error",
}
CLASSES = 30
"""Classes up to which there is a confusion matrix."""
COLUMNS, SHOWN, REPEATS = 200, 20, 5
"""Columns up to which importances are measured, those that the figure shows, and how often each is shuffled."""
ROWS = 2000
"""Rows that dots are drawn of and columns are shuffled in: more would not change the picture."""


@dataclass(frozen=True)
class Classes:
    """True and predicted classes of rows, and the probabilities of all classes."""

    truth: NDArray[Any]
    predicted: NDArray[Any]
    classes: NDArray[Any]
    probabilities: NDArray[Any]
    method = "predict_proba"
    added = "log loss added"
    table_title = "Class by class"

    def loss(self, truth: NDArray[Any], probabilities: NDArray[Any]) -> float:
        return float(log_loss(truth, probabilities, labels=self.classes))

    @property
    def names(self) -> list[str]:
        return [str(label) for label in self.classes]

    @property
    def confusion(self) -> NDArray[Any]:
        return np.asarray(confusion_matrix(self.truth, self.predicted, labels=self.classes))

    def measures(self) -> Measures:
        """Log loss, F1 (mean), calibration error, area under the ROC curve (the mean over classes against the others).

        The calibration error is the mean distance, over ten bins of the largest probability, between it and the share
        of rows that are right.
        """
        found = {
            "log_loss": self.loss(self.truth, self.probabilities),
            "f1": float(f1_score(self.truth, self.predicted, average="macro")),
            "calibration_error": sum(abs(p - share) * count for p, share, count in self.bins()) / len(self.truth),
        }
        present = [k for k, label in enumerate(self.classes) if 0 < np.sum(self.truth == label) < len(self.truth)]
        areas = [roc_auc_score(self.truth == self.classes[k], self.probabilities[:, k]) for k in present]
        return found | ({"auc": float(np.mean(areas))} if areas else {})

    def bins(self) -> list[tuple[float, float, int]]:
        """Mean of the largest probability, share of right rows and number of rows, in ten bins of the former."""
        sizes, right = self.probabilities.max(1), self.classes[self.probabilities.argmax(1)] == self.truth
        bins = np.minimum((10 * sizes).astype(int), 9)
        found = [(sizes[bins == k], right[bins == k]) for k in np.unique(bins)]
        return [(float(p.mean()), float(hits.mean()), len(p)) for p, hits in found]

    def figures(self) -> list[Figure]:
        drawn: list[Figure] = []
        if len(self.classes) <= CLASSES:
            caption = "A row for each true class, a column for each prediction. Mistakes are shaded by their number."
            drawn.append(
                Confusion(
                    name="confusion",
                    title="Mistakes",
                    caption=caption,
                    counts=self.confusion,
                    labels=self.names,
                    what="rows",
                )
            )
        return [*drawn, self.calibration()]

    def calibration(self) -> Figure:
        points = []
        for p, share, count in self.bins():
            error = (share * (1 - share) / count) ** 0.5
            words = f"probability {p:.3f}: {100 * share:.1f}% right of {count:,} rows"
            points.append(Point(p, share, max(0.0, share - error), min(1.0, share + error), words))
        even = [Point(at, at, at, at, "as probable as right") for at in (0.0, 1.0)]
        axes = [Axis(label, low=0.0, high=1.02) for label in ("largest probability of a row", "share that is right")]
        return Lines(
            name="calibration",
            title="Probabilities",
            caption="How often the most probable class is right, in ten bins of its probability; the band is one "
            "standard error. Below the dashed line the model is too sure of itself.",
            x=axes[0],
            y=axes[1],
            lines=[Line("this model", "stochastic", points), Line("calibrated", "reference", even, dashed=True)],
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Each class: rows, precision, recall, F1."""
        found = precision_recall_fscore_support(self.truth, self.predicted, labels=self.classes, zero_division=np.nan)
        rows = [
            [name, f"{count:,}", *map(short, parts)] for name, *parts, count in zip(self.names, *found, strict=True)
        ]
        return ["class", "rows", "precision", "recall", "F1"], rows


@dataclass(frozen=True)
class Numbers:
    """True numbers and predictions."""

    truth: NDArray[Any]
    predicted: NDArray[Any]
    method = "predict"
    added = "R2 lost"
    table_title = "How far off"

    def loss(self, truth: NDArray[Any], predicted: NDArray[Any]) -> float:
        """1 - R2."""
        spread = np.square(truth - truth.mean(axis=0)).mean()
        return float(np.square(truth - predicted).mean() / spread) if spread else 0.0

    def figures(self) -> list[Figure]:
        truth, predicted = np.ravel(self.truth).astype(float), np.ravel(self.predicted)
        rows = some(len(truth))
        truth, predicted = truth[rows], predicted[rows]
        missing, both = truth - predicted, np.r_[truth, predicted]
        low, high, least, most = (float(v) for v in (both.min(), both.max(), predicted.min(), predicted.max()))
        margin = 0.03 * (high - low)
        said = f" {len(rows):,} of {self.truth.size:,} rows are drawn." if len(rows) < self.truth.size else ""
        return [
            Cloud(
                name="predicted",
                title="Predicted and true",
                caption=f"A dot for each row; on the dashed line a prediction is exact.{said}",
                x=Axis("true", low=low - margin),
                y=Axis("predicted", low=low - margin),
                dots=list(zip(truth.tolist(), predicted.tolist(), strict=True)),
                line=[(low, low), (high, high)],
            ),
            Cloud(
                name="residuals",
                title="Residuals",
                caption="What is missing to the truth, by the prediction. A bend is something that the model does not "
                "know; a funnel says that large numbers are less certain.",
                x=Axis("predicted", low=least - margin),
                y=Axis("true - predicted", low=float(missing.min()) - margin),
                dots=list(zip(predicted.tolist(), missing.tolist(), strict=True)),
                line=[(least, 0.0), (most, 0.0)],
            ),
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Quantiles of the absolute errors."""
        wrong = np.abs(np.ravel(self.truth).astype(float) - np.ravel(self.predicted))
        shares = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
        rows = [[f"{100 * share:g}%", short(float(np.quantile(wrong, share)))] for share in shares]
        return ["share of the rows", "whose error is at most"], rows


def some(count: int) -> NDArray[np.intp]:
    """Places of at most `ROWS` rows, drawn with a fixed seed."""
    return np.sort(np.random.default_rng(0).permutation(count)[:ROWS])


def importances(
    predict: Callable[[Any], NDArray[Any]], X: Any, names: Sequence[str], judged: Classes | Numbers
) -> dict[str, list[float]]:
    """By how much the loss rises where one column is shuffled, for each of some shuffles; none of too many columns."""
    if len(names) > COLUMNS:
        return {}
    rows = some(len(X))
    X, truth, found = X[rows], judged.truth[rows], {}
    usual = judged.loss(truth, predict(X))
    with Bar("shuffling columns", len(names)) as shown:
        for place, name in enumerate(names):
            rng = np.random.default_rng(place)
            orders = [rng.permutation(len(rows)) for _ in range(REPEATS)]
            found[name] = [judged.loss(truth, predict(shuffled(X, place, order))) - usual for order in orders]
            shown.update(1)
    return found


def shuffled(X: Any, place: int, order: NDArray[np.intp]) -> Any:
    if isinstance(X, Frame):
        name = X.column_names[place]
        return Frame(X.arrays | {name: X[name][order]})
    X = X.copy()
    X[:, place] = X[order, place]
    return X


def importance_figures(found: dict[str, list[float]], added: str, shares: dict[str, list[float]]) -> list[Figure]:
    """What columns are worth by the labels, and how far they move what the model says, where each is known."""
    figures: list[Figure] = []
    if found:
        what = added.replace(" added", " that is added").replace(" lost", " that is lost")
        words = (
            f"The {what} where the column is shuffled among the rows: a dot for each of {REPEATS} shuffles, and their "
            "mean. Columns that tell the same can stand in for each other, and then each looks worth less than both."
        )
        figures.append(ranking("importances", "What each column is worth", words, found, added))
    if shares:
        words = (
            "The model's feature_importances_: how far its answers move where the column is taken from another row. No "
            "labels are used, so a column counts that the model uses in vain."
        )
        figures.append(ranking("shares", "What the model listens to", words, shares, "share"))
    return figures


def ranking(name: str, title: str, caption: str, found: dict[str, list[float]], axis: str) -> Figure:
    first = sorted(found, key=lambda name: -sum(found[name]))[:SHOWN]
    rows = [Values(name if len(name) <= 20 else f"{name[:19]}…", name, "stochastic", found[name]) for name in first]
    said = f" The {SHOWN} largest of {len(found)} are shown." if len(found) > SHOWN else ""
    return Dots(name=name, title=title, caption=caption + said, rows=rows, x=Axis(axis), digits=None)


def write_page(
    path: Path, saved: SavedModel, source: Source, X: Any, judged: Classes | Numbers, measures: Measures
) -> dict[str, float]:
    """Write the page; the mean importance of each column."""
    names, estimator = saved.names or default_names(X.shape[1]), saved.estimator
    found = importances(getattr(estimator, judged.method), X, names, judged)
    shares = getattr(estimator, "feature_importances_", ())  # files of many columns may be without
    kept = {name: [float(share)] for name, share in zip(names, shares, strict=False)}
    figures = [*judged.figures(), *importance_figures(found, judged.added, kept)]
    head, rows = judged.table()
    fill_page(
        path,
        saved,
        source,
        lead=f"{len(X):,} rows of {len(names)} columns. If it was trained on some of them, expect less of new ones."
        + f" What a column is worth is measured where there are at most {COLUMNS}." * (not found),
        headline=[
            (short(round(value, 2)), "%", WORDS[name]) if name == "error_percent" else (short(value), "", WORDS[name])
            for name in WORDS
            if (value := measures.get(name)) is not None
        ],
        figures=figures,
        table_title=judged.table_title,
        head=head,
        rows=rows,
    )
    return {name: sum(values) / len(values) for name, values in found.items()}


def fill_page(path: Path, saved: SavedModel, source: Source, database: str | None = None, **parts: Any) -> None:
    """Write a page of these parts, with what it takes to do it again."""
    given = {f"--{name.replace('_', '-')}": value for name, value in vars(source).items() if isinstance(value, str)}
    given |= {"--database": database} if database else {}
    words = [word for pair in given.items() for word in pair]
    content = fill(
        "evaluation.html.j2",
        model=saved.path.name,
        data=Path(source.title("test")).name,
        kind=saved.kind,
        command=shlex.join(["tikhonet", "evaluate", str(saved.path), *words, "--page", str(path)]),
        digest=sha256(saved.path),
        settings={name: value for name, value in saved.header.get("parameters", {}).items() if value is not None},
        version=__version__,
        **{"queries": ()} | parts,
    )
    write_whole(path, content.encode())
