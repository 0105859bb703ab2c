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
from tikhonet.descent.stationarity import measure_stationarity
from tikhonet.estimators.parameters import build_problem
from tikhonet.model.storage import ModelFormatError
from tikhonet.problem.objective import Blocks, Problem
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
    on these rows (of a data set the training part): of the lifted objective, with the forward pass's features as U,
    and of the network's own loss. What such a model does not promise is listed too.
    """
    if stationary is not None and source is None:
        raise OptionError("--stationary", "needs rows to be measured on; add --data")
    not_claimed: dict[str, str] = {}
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
            checks += check_stationary(saved, source, stationary)
        not_claimed = saved.estimator._method().not_claimed
    passed = all(check.holds is not False for check in checks)
    rows = [(check.claim, WORDS[check.holds], check.figure) for check in checks]
    missing = [(key.replace("_", " "), reason) for key, reason in not_claimed.items()]
    checked = [asdict(check) for check in checks]
    return Answer(
        {"model": model, "passed": passed, "checks": checked, "not_claimed": not_claimed},
        table(("claim", "result", "figure"), rows),
        *([table(("not claimed", "because"), missing)] if missing else []),
        exit_code=0 if passed else 1,
    )


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


def check_stationary(saved: SavedModel, source: Source, tolerance: float | None) -> list[Check]:
    """How far the saved network is from a stationary point of f, U being its own features, and of its own loss."""
    lost = [name for name in ("loss", "lift", "gamma", "constraint") if name not in saved.header["parameters"]]
    signs = getattr(saved.estimator, "monotonic_cst", None) is not None
    if saved.task in (None, "hash") or lost or signs:
        reason = "it has no targets" if saved.task is None else "a model file does not keep the codes of its rows"
        reason = f"its {lost[0]} was an object, which a model file does not keep" if lost else reason
        reason = "its weights have signs, by monotonic_cst, which it does not know" if signs else reason
        holds = False if tolerance is not None else None
        return [Check("stationary", "the point is stationary", holds, f"cannot be measured: {reason}")]
    rows = saved.rows(source, "train")
    problem, blocks, samples = point_on(saved.estimator, rows.X, saved.labels(rows, source))
    with Bar("measuring stationarity"):
        lifted = certificates.check_stationary(measure_stationarity(problem, blocks, samples), tolerance)
        # Sweeps over U would cost minutes on large data; the bound on the gap is proven without them.
        proper = certificates.certify_network(problem, blocks.V, blocks.W, samples, sweeps=0)
    return [lifted, replace(proper["stationary"], key="network"), *proper.checks[2:]]


def point_on(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> tuple[Problem, Blocks, Samples]:
    """The problem of a saved network on these rows, and its point with the features of its own forward pass as U."""
    model = estimator.model_
    problem = build_problem(estimator, model.network, estimator._loss(), float(len(X)))
    scaled = torch.from_numpy(model.scaled(estimator.numbers(X), estimator.dtype))
    try:
        targets = estimator.encode(y).to(scaled)
    except ValueError as error:
        raise Failure(f"the labels do not fit the model: {error}; name another --label or --data") from None
    W = {edge: matrix.to(scaled) for edge, matrix in model.W.items()}
    return problem, Blocks(model.network.forward(scaled, W), model.V.to(scaled), W), Samples(scaled, targets)
