"""`tikhonet certify`: what can be checked of a saved model, with exit code 1 if something that must hold does not."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import torch
import typer
from numpy.typing import NDArray

from tikhonet.cli.inputs import Model, SavedModel, Source, open_model, sha256
from tikhonet.cli.mistakes import Failure, OptionError
from tikhonet.cli.outputs import Answer, table
from tikhonet.data.bar import Bar
from tikhonet.descent import certificates
from tikhonet.descent.certificates import Check
from tikhonet.descent.stationarity import Stationarity, measure_stationarity
from tikhonet.estimators.parameters import build_problem
from tikhonet.model.storage import ModelFormatError
from tikhonet.problem.objective import Blocks
from tikhonet.problem.samples import Samples

EXAMPLE = "tikhonet certify my.model --data digits"

WORDS = {True: "pass", False: "FAIL", None: "-"}


def certify(
    model: Model,
    source: Source | None = None,
    stationary: Annotated[
        float | None,
        typer.Option(
            help="Fail if exact block steps would lower the objective by more than this share of it.",
            metavar="TOL",
            min=0.0,
        ),
    ] = None,
) -> Answer:
    """Check what must hold of a saved model.

    The file is intact, the weights are finite and in their set. With --data also how far it is from a stationary point
    of the lifted objective on these rows (of a data set the training part), with the forward pass's features as U.
    """
    if stationary is not None and source is None:
        raise OptionError("--stationary", "needs rows to be measured on; add --data")
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
        if source is not None:
            checks.append(check_stationary(saved, source, stationary))
    passed = all(check.holds is not False for check in checks)
    rows = [(check.claim, WORDS[check.holds], check.figure) for check in checks]
    document = {"model": model, "passed": passed, "checks": [asdict(check) for check in checks]}
    return Answer(document, table(("claim", "result", "figure"), rows), exit_code=0 if passed else 1)


def check_finite(saved: SavedModel) -> Check:
    matrices = {**saved.estimator.model_.W, "V": saved.estimator.model_.V}
    broken = [str(name) for name, matrix in matrices.items() if not bool(matrix.isfinite().all())]
    count = sum(matrix.numel() for matrix in matrices.values())
    figure = f"NaN or infinity in {', '.join(broken)}" if broken else f"{count:,} numbers"
    return Check("finite", "the weights are finite", not broken, figure)


def check_feasible(saved: SavedModel) -> Check:
    """Every learned matrix is in the constraint's set, as stored."""
    claim, estimator = "the weights are in their set", saved.estimator
    if "constraint" not in saved.header["parameters"]:
        return Check("feasible", claim, None, "the set was an object of its own, which a model file does not keep")
    problem = build_problem(estimator, estimator.model_.network, estimator._loss(), 1.0)
    found = certificates.check_feasible(problem, Blocks({}, estimator.model_.V, estimator.model_.W))
    return replace(found, claim=claim, figure=f"{problem.W_set}; {found.figure}")


def check_stationary(saved: SavedModel, source: Source, tolerance: float | None) -> Check:
    claim = "the point is stationary"
    lost = [name for name in ("loss", "lift", "gamma", "constraint") if name not in saved.header["parameters"]]
    if saved.task in (None, "hash") or lost:
        reason = "it has no targets" if saved.task is None else "a model file does not keep the codes of its rows"
        reason = f"its {lost[0]} was an object, which a model file does not keep" if lost else reason
        return Check("stationary", claim, False if tolerance is not None else None, f"cannot be measured: {reason}")
    rows = saved.rows(source, "train")
    stationarity = stationarity_on(saved.estimator, rows.X, saved.labels(rows, source))
    return certificates.check_stationary(stationarity, tolerance)


def stationarity_on(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> Stationarity:
    """How far the saved network is from stationary, U being the features of its own forward pass."""
    model = estimator.model_
    problem = build_problem(estimator, model.network, estimator._loss(), float(len(X)))
    scaled = torch.from_numpy(model.scaled(estimator.numbers(X), estimator.dtype))
    try:
        targets = estimator.encode(y).to(scaled)
    except ValueError as error:
        raise Failure(f"the labels do not fit the model: {error}; name another --label or --data") from None
    with Bar("measuring stationarity"):
        samples = Samples(scaled, targets)
        W = {edge: matrix.to(scaled) for edge, matrix in model.W.items()}
        return measure_stationarity(problem, Blocks(model.network.forward(scaled, W), model.V.to(scaled), W), samples)
