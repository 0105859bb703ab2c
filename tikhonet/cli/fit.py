"""`tikhonet fit`: train a network on a data set or a file, and save it."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tikhonet.cli import fit_options as options
from tikhonet.cli.errors import Failure
from tikhonet.cli.fit_options import numbers
from tikhonet.cli.inputs import Source, as_numbers, is_number, labels
from tikhonet.cli.interruption import stoppable
from tikhonet.cli.measures import headline, measure
from tikhonet.cli.names import check_name
from tikhonet.cli.options import Data, DataHome, Header, Json, Label, Seed, Split, Threads
from tikhonet.cli.outputs import check_output, save_or_rescue
from tikhonet.cli.printing import facts, show
from tikhonet.cli.training_bar import training_bar
from tikhonet.descent.result import Status

EXAMPLE = "tikhonet fit --data digits --solver proximal --max-iter 5 --output my.model"

REMEDIES = {
    Status.SCHEDULE_EXHAUSTED: "use --solver proximal or stochastic",
    Status.MAX_ITER: "raise --max-iter",
    Status.NONFINITE: "use --dtype float64, or look for extreme values in the data",
    Status.INTERRUPTED: "run it again to train to the end",
}
EXIT_CODES = {Status.INTERRUPTED: 130, Status.NONFINITE: 1}
"""Of runs that did not come to their end; what they reached is saved all the same."""


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.", metavar="FILE")],
    split: Split = None,
    label: Label = None,
    header: Header = None,
    data_home: DataHome = None,
    image_size: options.ImageSize = None,
    task: options.Task = None,
    hidden: options.Hidden = None,
    skip: options.Skip = False,
    constraint: options.Constraint = None,
    radius: options.Radius = 1.0,
    sparsity: options.Sparsity = None,
    sparsity_over: options.SparsityOver = "layer",
    head: options.Head = None,
    solver: options.Solver = "stochastic",
    loss: options.Loss = "squared",
    lift: options.Lift = "auto",
    gamma: options.Gamma = "auto",
    max_iter: options.MaxIter = None,
    tol: options.Tol = 1e-4,
    batch_size: options.BatchSize = None,
    dropout: options.Dropout = "auto",
    early_stopping: options.EarlyStopping = None,
    validation_fraction: options.ValidationFraction = 0.15,
    patience: options.Patience = 20,
    class_weight: options.ClassWeight = None,
    bits: options.Bits = None,
    codes: options.Codes = None,
    seed: Seed = 0,
    threads: Threads = None,
    device: options.Device = "cpu",
    dtype: options.Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Train a network and save it.

    The rows are those of a file of your own, the images of a folder whose subfolders are the classes, or the training
    part of a data set. Ctrl-C ends training after the epoch that is running, and saves what was learned.
    """
    check_output(output)
    parameters: dict[str, Any] = {
        **({} if hidden is None else {"hidden_layer_sizes": options.widths(hidden)}),
        "skip": skip,
        "constraint": constraint,
        "radius": radius,
        "sparsity": sparsity,
        "sparsity_over": sparsity_over,
        "solver": solver,
        "loss": loss,
        "lift": lift,
        "gamma": one_or_all("--gamma", gamma),
        "max_iter": max_iter or "auto",
        "tol": tol,
        "batch_size": batch_size or "auto",
        "dropout": one_or_all("--dropout", dropout),
        "early_stopping": "auto" if early_stopping is None else early_stopping,
        "validation_fraction": validation_fraction,
        "n_iter_no_change": patience,
        "random_state": seed,
        "n_jobs": threads,
        "device": device,
        "dtype": dtype,
    }
    source = Source(data, split, label, header, data_home, image_size)
    rows = source.read("train", task)
    y = labels(rows, source, 1 if task == "classification" else None)
    task = task or infer_task(y, source)
    if task == "regression":
        y = as_numbers(y, source)
    estimator = build(task, parameters, {"head": head, "class_weight": class_weight, "n_bits": bits, "codes": codes})
    seconds, advice = train(estimator, rows.X, y)
    measures = estimator.report_.to_dict() if task == "hash" else measure(estimator, rows.X, y)
    if rows.named:
        estimator.feature_names_in_ = np.array(rows.feature_names, dtype=object)
    save_or_rescue(estimator.save, output)
    status: Status = estimator.status_
    sentence = status.value.partition(". ")[0].rstrip(".") + "."
    remedy = f" To do: {advice}." if advice else ""
    title = source.title("train")
    document = {
        "model": output,
        "task": task,
        "data": title,
        "rows": len(rows.X),
        "features": rows.X.shape[1],
        "status": status.name,
        "message": sentence + remedy,
        "iterations": estimator.n_iter_,
        "seconds": seconds,
        "training": measures,
        "sparsity": estimator.sparsity_["zeros"],
        "sparsity_kind": estimator.sparsity_["kind"],
        "bytes": output.stat().st_size,
    }
    human = facts(
        data=f"{title}: {len(rows.X):,} rows of {rows.X.shape[1]} numbers, {task}",
        status=f"{sentence}{remedy}",
        iterations=estimator.n_iter_,
        training=headline(measures),
        seconds=f"{seconds:.1f}",
        model=output,
    )
    show(document, as_json, human)
    if status in EXIT_CODES:
        raise typer.Exit(EXIT_CODES[status])


def one_or_all(option: str, text: str) -> Any:
    """`auto`, a number, or a list of numbers."""
    if text == "auto":
        return text
    values = numbers(option, text, float)
    return values[0] if len(values) == 1 else values


def infer_task(y: NDArray[Any], source: Source) -> str:
    """Text and whole numbers are classes, real numbers are targets; many different whole numbers may be either."""
    if y.dtype.kind == "f":
        return "regression"
    if y.ndim > 1:
        raise typer.BadParameter(
            f"must be given: {source.data} has {y.shape[1]} labels a row; use --task hash or --task regression",
            param_hint="--task",
        )
    kinds = len(np.unique(y))
    others = [row for row, text in enumerate(y) if not is_number(text)] if y.dtype.kind == "U" else []
    if 0 < len(others) < len(y) / 2:
        raise typer.BadParameter(
            f"must be given: the labels of {source.data} are numbers but for {len(others)} of {len(y)} rows, such as "
            f"{str(y[others[0]])!r} in row {others[0] + 1}; correct these, or use --task classification",
            param_hint="--task",
        )
    if y.dtype.kind in "iu" and kinds > max(20, len(y) // 10):
        raise typer.BadParameter(
            f"must be given: the labels of {source.data} are {kinds} different whole numbers in {len(y)} rows; "
            "use --task regression or --task classification",
            param_hint="--task",
        )
    return "classification"


OWN = {
    "classification": ("head", "class_weight"),
    "regression": ("head",),
    "hash": ("n_bits", "codes"),
}
"""Parameters that not all estimators have."""


def build(task: str, parameters: dict[str, Any], own: dict[str, Any]) -> Any:
    """The estimator of a task; `own` are parameters of some estimators only, None where not given."""
    from tikhonet.estimators import BCDClassifier, BCDRegressor
    from tikhonet.hashing.hasher import BCDHasher

    given = {name: value for name, value in own.items() if value is not None}
    for name in given:
        if name not in OWN[task]:
            tasks = " and ".join(known for known, names in OWN.items() if name in names)
            option = "--bits" if name == "n_bits" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"is for {tasks}, not for {task}", param_hint=option)
    match task:
        case "classification":
            return BCDClassifier(**parameters, **{"head": "logistic"} | given)
        case "hash":
            check_name(parameters["loss"], ("squared",), "--loss")
            return BCDHasher(**parameters, **given)
    check_name(parameters["loss"], options.REGRESSOR_LOSSES, "--loss")
    check_name(given.get("head", "ridge"), options.REGRESSOR_HEADS, "--head")
    return BCDRegressor(**parameters, **{"head": "ridge"} | given)


def train(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> tuple[float, str]:
    """The seconds that it took, and what to do where it stopped short; a run in which no epoch ended is an error."""
    from sklearn.exceptions import ConvergenceWarning

    clock = time.perf_counter()
    with training_bar(estimator, len(X)) as shown, stoppable() as stop, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.set_params(callbacks=[shown, stop]).fit(X, y)
    estimator.set_params(callbacks=None)
    if estimator.status_ is Status.INTERRUPTED and shown.done == 0:
        raise Failure("interrupted before the first epoch was done; no output was written", exit_code=130)
    if estimator.status_ is Status.NONFINITE and shown.done <= 1:
        raise Failure(f"training gave numbers that are not finite; {REMEDIES[Status.NONFINITE]}")
    seconds = time.perf_counter() - clock
    short = [str(warning.message) for warning in caught if warning.category is ConvergenceWarning]
    for other in caught:
        if other.category is not ConvergenceWarning:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return seconds, REMEDIES.get(estimator.status_) or in_options(short)


def in_options(warned: list[str]) -> str:
    """The remedy of an estimator's warning, if there is one, with its parameter as an option."""
    return warned[0].partition("): ")[2].replace("max_iter", "--max-iter") if warned else ""
