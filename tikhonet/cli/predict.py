"""`tikhonet predict`: what a saved model says of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tikhonet.cli.inputs import Model, Source, open_model
from tikhonet.cli.mistakes import OptionError
from tikhonet.cli.outputs import MANY, Answer, Arrays, check_ending, csv_text, facts, output_option, save_arrays
from tikhonet.cli.progress import by_chunks

EXAMPLE = "tikhonet predict my.model --data digits --output predictions.csv"


def predict(
    model: Model,
    source: Source,
    output: Annotated[Path | None, output_option(".csv, .npy, .npz or .parquet; else CSV is printed.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    features: Annotated[bool, typer.Option("--features", help="The learned features instead.")] = False,
) -> Answer:
    """Predict the labels of rows.

    The rows are those of a file, where a column named by --label is left out, the images of a folder, or the test part
    of a data set. In CSV a label that a spreadsheet would run as a formula begins with an apostrophe.
    """
    if output is not None:
        check_ending(output, MANY if proba else (*MANY, ".npy"))
    saved = open_model(model)
    if proba and (features or saved.task != "classification"):
        raise OptionError("--proba", "is for predictions of a classifier")
    if not features:
        saved.need_task("predict")
    table = saved.rows(source, "test", labelled=False)
    X = table.X
    arrays: Arrays = {}
    if features:
        arrays["feature"] = by_chunks(saved.estimator.transform, X, "computing features")
    else:
        arrays["prediction"] = by_chunks(saved.estimator.predict, X, "predicting")
    if proba:
        arrays["probability"] = by_chunks(saved.estimator.predict_proba, X, "computing probabilities")
    if table.row_names and (output is None or output.suffix.lower() != ".npy"):
        arrays["image"] = np.array(table.row_names)
    classes = list(map(str, saved.estimator.classes_)) if proba else []
    document = {"model": model, "data": source.title("test"), "rows": len(X), "output": output}
    if output is None:
        return Answer(document | {"classes": classes} | arrays, csv_text(arrays, classes).rstrip("\n"))
    save_arrays(output, arrays, classes)
    human = facts(data=f"{document['data']}: {len(X):,} rows", **summary(arrays), predictions=output)
    return Answer(document, human)


def summary(arrays: Arrays) -> dict[str, str]:
    values = arrays.get("prediction")
    if values is None or values.dtype.kind == "f":
        return {}
    found = zip(*np.unique(values, return_counts=True), strict=True)
    return {"labels": ", ".join(f"{label}: {count}" for label, count in list(found)[:20])}
