"""`tikhonet evaluate`: how good a saved model is on labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tikhonet.cli.code_evaluation import evaluate_codes
from tikhonet.cli.evaluation_page import Classes, Numbers, write_page
from tikhonet.cli.inputs import Model, Source, open_model
from tikhonet.cli.mistakes import Failure, OptionError
from tikhonet.cli.outputs import Answer, check_ending, errors, facts, headline, output_option, table
from tikhonet.cli.progress import by_chunks
from tikhonet.network.extras import require

EXAMPLE = "tikhonet evaluate my.model --data digits --page digits.html"

SHOWN = 20
"""Classes up to which the confusion matrix is printed."""


def evaluate(
    model: Model,
    source: Source,
    page: Annotated[
        Path | None,
        output_option("A page to write (.html): mistakes, calibration, columns; what codes find.", "--page"),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(help="For a hasher: the rows to search.", metavar="NAME|FILE", show_default="see above"),
    ] = None,
) -> Answer:
    """Compare predictions with labels, or search with the codes of a hasher.

    The rows are those of a file, the images of a folder by class, or the test part of a data set. For a hasher they are
    queries: those of a data set are searched for in its training part, a tenth of a file's rows in the others.
    """
    if page is not None:
        check_ending(page, (".html",), "--page")
        for package in ("jinja2", "matplotlib"):
            require(package)
    saved = open_model(model)
    if saved.task == "hash":
        return evaluate_codes(saved, source, database, page)
    if database is not None:
        raise OptionError("--database", f"is for hashers, and {model} holds a {saved.kind}; leave it out")
    task = saved.need_task("be evaluated")
    rows, title = saved.rows(source, "test"), source.title("test")
    y, X = saved.labels(rows, source), rows.X
    predicted = by_chunks(saved.estimator.predict, X, "predicting")
    measures = errors(task, y, predicted)
    document = {"model": model, "data": title, "task": task, **measures}
    shown: dict[str, Any] = {}
    drawn: list[Any] = []
    judged: Classes | Numbers = Numbers(y, predicted)
    if task == "classification":
        classes = saved.estimator.classes_
        known = np.isin(y, classes)
        if not known.any():
            raise Failure(
                f"{source.data}: none of its labels (such as {y[0]!s}) is a class of the model (such as "
                f"{classes[0]!s}); name another --label"
            )
        X, unknown = X[known], int(np.sum(~known))
        probabilities = by_chunks(saved.estimator.predict_proba, X, "computing probabilities")
        judged = Classes(y[known], predicted[known], classes, probabilities)
        measures |= judged.measures()
        document |= measures | {"unknown_labels": unknown, "classes": classes, "confusion": judged.confusion}
        shown = {name: f"{value:.4f}" for name, value in judged.measures().items()}
        shown |= {"unknown_labels": f"{unknown} rows, counted as wrong"} if unknown else {}
        pairs = zip(judged.names, judged.confusion.tolist(), strict=True)
        counts = [(name, *(count or "." for count in row)) for name, row in pairs]
        if len(classes) <= SHOWN:
            drawn = [table(("label", *judged.names), counts, title="confusion (columns: predictions)")]
    if page is not None:
        document |= {"page": page, "importances": write_page(page, saved, source, X, judged, measures)}
        shown |= {"page": page.resolve()}
    return Answer(document, facts(data=title, result=headline(measures), **shown), *drawn)
