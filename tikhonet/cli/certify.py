"""`tikhonet certify`: what can be checked of a saved model, with exit code 1 if something that must hold does not."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any

import torch
import typer
from numpy.typing import NDArray

from tikhonet.cli.inputs import (
    DataHome,
    Header,
    Json,
    Label,
    Model,
    OptionalData,
    SavedModel,
    Source,
    Split,
    open_model,
    sha256,
)
from tikhonet.cli.mistakes import Failure
from tikhonet.cli.outputs import show, table
from tikhonet.cli.progress import bar
from tikhonet.descent.certificates import Check, check_stationary
from tikhonet.descent.stationarity import Stationarity, measure_stationarity
from tikhonet.model.storage import ModelFormatError
from tikhonet.network.graph import BIAS
from tikhonet.problem.objective import Blocks
from tikhonet.problem.samples import Samples

EXAMPLE = "tikhonet certify my.model --data digits"

WORDS = {True: "pass", False: "FAIL", None: "-"}


def certify(
    model: Model,
    data: OptionalData = None,
    split: Split = None,
    label: Label = None,
    header: Header = None,
    data_home: DataHome = None,
    stationary: Annotated[
        float | None,
        typer.Option(
            help="Fail if exact block steps would lower the objective by more than this share of it.",
            metavar="TOL",
            min=0.0,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check what must hold of a saved model.

    The file is intact, the weights are finite and in their set. With --data also how far it is from a stationary point
    of the lifted objective on these rows (of a data set the training part), with the forward pass's features as U.
    """
    if stationary is not None and data is None:
        raise typer.BadParameter("needs rows to be measured on; add --data", param_hint="--stationary")
    try:
        saved = open_model(model)
    except ModelFormatError as error:
        checks = [Check("file", "the file is as it was saved", False, str(error))]
    else:
        digest = f"its seal holds; SHA-256 of the file {sha256(model)}"
        checks = [
            Check("file", "the file is as it was saved", True, digest),
            check_finite(saved),
            check_feasible(saved),
        ]
        if data is not None:
            source = Source(data, split, label, header, data_home)
            checks.append(check_rows(saved, source, stationary))
    passed = all(check.holds is not False for check in checks)
    rows: list[tuple[object, ...]] = [(check.claim, WORDS[check.holds], check.figure) for check in checks]
    document = {"model": model, "passed": passed, "checks": [asdict(check) for check in checks]}
    show(document, as_json, table(("claim", "result", "figure"), rows))
    if not passed:
        raise typer.Exit(1)


def check_finite(saved: SavedModel) -> Check:
    matrices = {**saved.estimator.model_.W, "V": saved.estimator.model_.V}
    broken = [str(name) for name, matrix in matrices.items() if not bool(matrix.isfinite().all())]
    count = sum(matrix.numel() for matrix in matrices.values())
    figure = f"NaN or infinity in {', '.join(broken)}" if broken else f"{count:,} numbers"
    return Check("finite", "the weights are finite", not broken, figure)


def check_feasible(saved: SavedModel) -> Check:
    """Every learned matrix is in the constraint's set, as stored."""
    claim = "the weights are in their set"
    if "constraint" not in saved.header["parameters"]:
        return Check("feasible", claim, None, "the set was an object of its own, which a model file does not keep")
    set_ = saved.estimator._constraint()
    if set_ is None:
        return Check("feasible", claim, True, "no constraint: every matrix is allowed")
    excess = {f"W[{n},{m}]": set_.violation(W) for (n, m), W in saved.estimator.model_.W.items() if m != BIAS}
    worst = max(excess, key=lambda name: math.inf if math.isnan(excess[name]) else excess[name])
    return Check(
        "feasible", claim, excess[worst] <= 0, f"{set_}; worst: {worst}, exceeds it by {max(excess[worst], 0.0):.3g}"
    )


def check_rows(saved: SavedModel, source: Source, tolerance: float | None) -> Check:
    """Whether the saved network is a stationary point of the objective on these rows."""
    lost = [name for name in ("loss", "lift", "gamma", "constraint") if name not in saved.header["parameters"]]
    if saved.task in (None, "hash") or lost:
        reason = "it has no targets" if saved.task is None else "a model file does not keep the codes of its rows"
        reason = f"its {lost[0]} was an object, which a model file does not keep" if lost else reason
        holds = False if tolerance is not None else None
        return Check("stationary", "the point is stationary", holds, f"cannot be measured: {reason}")
    rows = source.read("train", saved.task, saved.image_shape, saved.text_classes)
    y, X = saved.labels(rows, source), saved.columns(rows, source)
    return check_stationary(stationarity_on(saved.estimator, X, y), tolerance)


def stationarity_on(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> Stationarity:
    """How far the saved network is from stationary, U being the features of its own forward pass."""
    from tikhonet.estimators.parameters import build_problem

    model = estimator.model_
    problem = build_problem(estimator, model.network, estimator._loss(), float(len(X)))
    scaled = torch.from_numpy(model.scaling(X.astype(float), estimator.dtype))
    targets = encoded(estimator, y).to(scaled)
    with bar("measuring stationarity"):
        samples = Samples(scaled, targets)
        W = {edge: matrix.to(scaled) for edge, matrix in model.W.items()}
        return measure_stationarity(problem, Blocks(model.network.forward(scaled, W), model.V.to(scaled), W), samples)


def encoded(estimator: Any, y: NDArray[Any]) -> torch.Tensor:
    """The targets that the loss was trained on."""
    try:
        targets: torch.Tensor = estimator.encode(y)
    except ValueError as error:
        raise Failure(f"the labels do not fit the model: {error}; name another --label or --data") from None
    return targets
