"""`tikhonet evaluate`: how good a saved model is on labelled rows."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import confusion_matrix

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
    matrix, unknown = confusion_matrix(y[known], predicted[known], labels=classes), int(np.sum(~known))
    document |= {"unknown_labels": unknown, "classes": classes, "confusion": matrix}
    notes = {"unknown_labels": f"{unknown} rows, counted as wrong"} if unknown else {}
    names = [str(label) for label in classes]
    counts = [(name, *(count or "." for count in row)) for name, row in zip(names, matrix.tolist(), strict=True)]
    drawn = [table(("label", *names), counts, title="confusion (columns: predictions)")][: len(classes) <= SHOWN]
    return Answer(document, facts(data=title, result=headline(measures), **notes), *drawn)
