"""`tikhonet evaluate`: how good a saved model is on labelled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, f1_score, log_loss, roc_auc_score

from tikhonet.cli.inputs import Model, Source, open_model
from tikhonet.cli.mistakes import Failure
from tikhonet.cli.outputs import Answer, errors, facts, headline, table
from tikhonet.cli.progress import by_chunks

EXAMPLE = "tikhonet evaluate my.model --data digits"

SHOWN = 20
"""Classes up to which the confusion matrix is printed."""


def evaluate(model: Model, source: Source) -> Answer:
    """Compare predictions with labels.

    The rows are those of a file, the images of a folder by class, or the test part of a data set.
    """
    saved = open_model(model)
    task = saved.need_task("be evaluated")
    rows, title = saved.rows(source, "test"), source.title("test")
    y = saved.labels(rows, source)
    predicted = by_chunks(saved.estimator.predict, rows.X, "predicting")
    measures = errors(task, y, predicted)
    document = {"model": model, "data": title, "task": task, **measures}
    if task == "regression":
        return Answer(document, facts(data=title, result=headline(measures)))
    classes = saved.estimator.classes_
    known = np.isin(y, classes)
    if not known.any():
        raise Failure(
            f"{source.data}: none of its labels (such as {y[0]!s}) is a class of the model (such as {classes[0]!s}); "
            "name another --label"
        )
    judged = probability_measures(saved.estimator, rows.X[known], y[known])
    matrix, unknown = confusion_matrix(y[known], predicted[known], labels=classes), int(np.sum(~known))
    document |= judged | {"unknown_labels": unknown, "classes": classes, "confusion": matrix}
    notes = {"unknown_labels": f"{unknown} rows, counted as wrong"} if unknown else {}
    names = [str(label) for label in classes]
    counts = [(name, *(count or "." for count in row)) for name, row in zip(names, matrix.tolist(), strict=True)]
    drawn = [table(("label", *names), counts, title="confusion (columns: predictions)")][: len(classes) <= SHOWN]
    shown = {name: f"{value:.4f}" for name, value in judged.items()}
    return Answer(document, facts(data=title, result=headline(measures), **shown, **notes), *drawn)


def probability_measures(estimator: Any, X: Any, y: NDArray[Any]) -> dict[str, float]:
    """Log loss, area under the ROC curve (the mean over classes against the others), F1 (mean) and calibration error.

    The calibration error is the mean distance, over ten bins of the largest probability, between it and the share of
    rows that are right.
    """
    classes = list(estimator.classes_)
    probabilities = by_chunks(estimator.predict_proba, X, "computing probabilities")
    places = np.array([classes.index(label) for label in y])
    sizes, best = probabilities.max(1), probabilities.argmax(1)
    bins = np.minimum((10 * sizes).astype(int), 9)
    gaps = [abs((best == places)[bins == k].mean() - sizes[bins == k].mean()) * (bins == k).mean() for k in set(bins)]
    found = {
        "log_loss": float(log_loss(places, probabilities, labels=np.arange(len(classes)))),
        "f1": float(f1_score(places, best, average="macro")),
        "calibration_error": float(sum(gaps)),
    }
    areas = [roc_auc_score(places == k, probabilities[:, k]) for k in set(places) if len(set(places)) > 1]
    return found | ({"auc": float(np.mean(areas))} if areas else {})
