"""Sec. 4 as checks: what can be verified of the point that a run reached, and of the way there.

Each check states its own number. A point is called stationary for what exact steps from it would bring,
never because the steps have become small, and the rate is what was measured, not what was proved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from tikhonet.descent.lift_gap import lift_gap
from tikhonet.descent.network_loss import NetworkLoss, measure_network
from tikhonet.descent.result import NETWORK_WORDS, NOT_CLAIMED, NOT_CLAIMED_OF_NETWORKS, WORDS, History, Result
from tikhonet.descent.schedules import Schedule
from tikhonet.descent.stationarity import Stationarity
from tikhonet.network.arguments import check_type
from tikhonet.network.graph import Weights
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.problem.samples import Samples

ANSWERS = {True: "yes", False: "NO", None: "cannot be told"}
"""The words for whether a claim holds."""


@dataclass(frozen=True)
class Check:
    """One claim, whether it holds (None where it cannot be told), and the figure behind it."""

    key: str
    """A name that other code finds it by."""
    claim: str
    holds: bool | None
    figure: str


@dataclass(frozen=True)
class Rate:
    """The decay of the stationarity residual over the last half of a run, with its 95% interval.

    `kind` "linear": residual ~ value^t; "sublinear": residual ~ t^value; whichever fits better.
    """

    kind: str
    value: float
    low: float
    high: float
    fit: float
    """The share of the variance that the fit explains."""

    @property
    def is_linear(self) -> bool:
        """Whether the residual falls, and by a factor each time that is surely below 1."""
        return self.kind == "linear" and self.high < 1

    def __str__(self) -> str:
        form = "{}^t" if self.kind == "linear" else "t^{}"
        return (
            f"residual ~ {form.format(f'{self.value:.4g}')} (95%: {self.low:.4g} to {self.high:.4g}, R2 {self.fit:.3f})"
        )


@dataclass(frozen=True)
class Certificate:
    """The checks of a run, the residual of its last point, and the rate of its decay where one was seen.

    `str(certificate)` is a table; `certificate["stationary"]` is one check, which has `claim`, `holds` and `figure`.

    Parameters
    ----------
    checks : tuple of Check
        Each with its claim, whether that holds (None where it cannot be told), and the figure behind it.
    stationarity : Stationarity
        That of the last point.
    rate : Rate or None
        The decay of the residual over the last half of the run.
    not_claimed : mapping of str to str, optional
        What a reader might expect of such a run and what is not said of it, by name.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import BlockDescent, Network, Problem, certify
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([3, 4]), ridge_V=0.1, ridge_W=0.1)
    >>> certificate = certify(BlockDescent(max_iter=5).run(problem, X, X[:, :2].abs()))
    >>> [check.key for check in certificate.checks]
    ['feasible', 'descent', 'promise', 'stationary', 'bounded', 'schedule', 'rate']
    """

    checks: tuple[Check, ...]
    stationarity: Stationarity
    rate: Rate | None
    not_claimed: Mapping[str, str] = field(default_factory=lambda: NOT_CLAIMED)

    @property
    def stationary(self) -> bool:
        """Whether the point is stationary to the tolerance of its run."""
        return self["stationary"].holds is True

    def __getitem__(self, key: str) -> Check:
        """The check of this key."""
        return next(check for check in self.checks if check.key == key)

    def __str__(self) -> str:
        widest = max(len(check.claim) for check in self.checks)
        lines = [f"{check.claim:<{widest}}  {ANSWERS[check.holds]:<14}  {check.figure}" for check in self.checks]
        missing = [f"- {name.replace('_', ' ')}: {reason}" for name, reason in self.not_claimed.items()]
        return "\n".join(["Certificate", *lines, "Not claimed", *missing])


def certify(result: Result) -> Certificate:
    """Check the point that a run reached, in float64, and every step that led to it.

    Parameters
    ----------
    result : Result
        What `BlockDescent.run` or `NetworkDescent.run` returned.

    Returns
    -------
    Certificate
        The checks.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import BlockDescent, Network, Problem, certify
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([3, 4]), ridge_V=0.1, ridge_W=0.1)
    >>> certify(BlockDescent(max_iter=5).run(problem, X, X[:, :2].abs()))["descent"].holds
    True
    """
    check_type("result", result, Result, remedy="what BlockDescent.run returns")
    stationarity = result.measure()
    rate = fit_rate(result.history)
    checks = (
        check_feasible(result.problem, result.blocks, result.samples),
        *check_descent(result.history, result.blocks.V.dtype),
        check_stationary(stationarity, result.history.tolerance, result.words),
        check_bounded(result.problem, result.history),
        check_schedule(result.schedule, max(1, result.history.iterations)),
        Check(
            "rate", "an R-linear rate (Thm. 1) is seen", rate.is_linear if rate else None, str(rate or "too few points")
        ),
    )
    return Certificate(checks, stationarity, rate, result.not_claimed)


@torch.no_grad()
def certify_network(
    problem: Problem,
    V: Tensor,
    W: Weights,
    samples: Samples,
    *,
    tol: float | None = None,
    rounding: float | Mapping[int, float] = 0.05,
    sweeps: int = 10,
) -> Certificate:
    """Check the network proper: its regularised loss, the gradient of that, and the gap of the lift.

    Parameters
    ----------
    problem : Problem
        Its loss and ridges are those of the network.
    V : Tensor
        The classifier.
    W : dict of (n, m) to Tensor
        The matrices.
    samples : Samples
        The rows on which it is checked.
    tol : float, optional
        The share of the loss that steps may still take at a stationary point; without it, that is measured and not
        judged.
    rounding : float or mapping of int to float, default=0.05
        Kinks are rounded over this share of each layer's pre-activations, or over a width for each layer.
    sweeps : int, default=10
        Sweeps of u-steps that look for the minimum over U.

    Returns
    -------
    Certificate
        The checks.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import Network, Problem, Samples, certify_network, initial_blocks
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> problem = Problem(Network.chain([3, 4]), lift="fenchel", ridge_V=0.1, ridge_W=0.1)
    >>> samples = Samples(X, X[:, :2].abs())
    >>> start = initial_blocks(problem, samples)
    >>> certify_network(problem, start.V, start.W, samples, tol=1e-6).stationary
    False
    """
    width = rounding if isinstance(rounding, Mapping) else NetworkLoss.widths(problem, samples, W, rounding)
    loss = NetworkLoss(problem, samples, width)
    blocks = loss.forward(V, W)
    stationarity = measure_network(loss, blocks)
    found = check_stationary(stationarity, tol, NETWORK_WORDS)
    checks = [
        check_feasible(problem, blocks, samples),
        replace(found, claim="the network's loss L is stationary"),
    ]
    if problem.lift.tight:
        gap = lift_gap(problem, V, W, samples, sweeps=sweeps)
        shares = f"{gap.at_least / gap.loss:.3g} to {gap.at_most / gap.loss:.3g}" if gap.loss else "0"
        figure = f"L = {gap.loss:.5g}, of which {shares} lies above the least f over U"
        checks.append(Check("gap", "the least f over U lies below L", gap.at_least >= -1e-9 * gap.loss, figure))
    return Certificate(tuple(checks), stationarity, None, NOT_CLAIMED_OF_NETWORKS)


def check_feasible(problem: Problem, blocks: Blocks, samples: Samples | None = None) -> Check:
    """Check that U is in the activation's interval, where there is a U, and V and W are in their sets, as stored."""
    hidden, violation = [n for n in problem.network.hidden if n in blocks.U], problem.network.activation.violation
    violations = {
        f"U[{n}]": samples.most(violation, blocks.U[n]) if samples else violation(blocks.U[n]) for n in hidden
    }
    violations["V"] = problem.V_set.violation(blocks.V)
    violations |= {f"W[{n},{m}]": problem.edge_set((n, m)).violation(M) for (n, m), M in blocks.W.items()}
    worst = max(violations, key=lambda name: math.inf if math.isnan(violations[name]) else violations[name])
    excess = violations[worst]
    figure = f"worst: {worst}, exceeds its set by {max(excess, 0.0):.3g}"
    return Check("feasible", "every block is feasible", excess <= 0, figure)


def check_descent(history: History, dtype: torch.dtype) -> tuple[Check, Check]:
    """F never rises, and every block step lowers it by what its proximal term promises.

    An inexactly solved sub-problem may miss its promise by its slack, and a computed f is known to
    rounding only; both are allowed for, nothing else is.
    """
    rounding = 8 * torch.finfo(dtype).eps
    rises, misses = [], []
    for step in history.steps:
        allowed = rounding * (abs(step.terms.total) + abs(step.decrease))
        rises.append(-step.decrease - allowed)
        misses.append(step.promised - step.decrease - step.slack - allowed)
    promised = sum(step.promised for step in history.steps)
    decrease = sum(step.decrease for step in history.steps)
    rise, miss = max(rises, default=0.0), max(misses, default=0.0)
    risen = f"{len(rises)} steps, largest rise {max(rise, 0.0):.3g}"
    return (
        Check("descent", "f falls at every block step", rise <= 0, risen),
        Check(
            "promise",
            "each falls by its promised decrease",
            miss <= 0,
            f"promised {promised:.4g} in all, got {decrease:.4g}, largest miss {max(miss, 0.0):.3g}",
        ),
    )


def check_stationary(stationarity: Stationarity, tolerance: float | None, words: tuple[str, str] = WORDS) -> Check:
    """Whether block steps would take no more than this share of f; not judged without a tolerance."""
    steps, slopes = (
        ", ".join(f"{block} {value:.3g}" for block, value in values.items())
        for values in (stationarity.decrease, stationarity.residual)
    )
    asked, holds = "", None
    if tolerance is not None:
        asked, holds = f", {tolerance:g} allowed", stationarity.within(tolerance)
    figure = (
        f"{words[0]} {stationarity.share:.3g} of {words[1]} = {stationarity.objective:.4g}{asked} "
        f"({steps}); projected gradient {stationarity.total:.3g} ({slopes})"
    )
    return Check("stationary", "the point is stationary", holds, figure)


def check_bounded(problem: Problem, history: History) -> Check:
    """Whether ridges and sets keep every block from growing without end, which the proof of convergence asks for."""
    points, free = list(history.norms.values()), problem.unbounded()
    grown = max(points[-1], key=lambda name: points[-1][name] / max(points[0][name], 1e-300))
    figure = f"over the run |{grown}| went from {points[0][grown]:.3g} to {points[-1][grown]:.3g}"
    if free:
        figure = f"not proven: neither a ridge nor a bounded set holds {', '.join(free)}; {figure}"
    return Check("bounded", "the blocks are bounded", None if free else True, figure)


def check_schedule(schedule: Schedule, t: int) -> Check:
    """Whether ten times the iterations would still move the blocks."""
    claim = "the schedule can still move the blocks"
    return Check("schedule", claim, not schedule.exhausted(t), schedule.outlook(t))


def fit_rate(history: History) -> Rate | None:
    """Least squares of log residual on t and on log t, over the last half of the run."""
    points = [(t, value.total) for t, value in history.stationarity.items() if t > 0 and value.total > 0]
    points = points[len(points) // 2 :]
    if len(points) < 8:
        return None
    t, residual = np.array(points, dtype=float).T
    fits = {"linear": stats.linregress(t, np.log(residual)), "sublinear": stats.linregress(np.log(t), np.log(residual))}
    kind = max(fits, key=lambda name: fits[name].rvalue ** 2)
    line = fits[kind]
    margin = stats.t.ppf(0.975, len(t) - 2) * line.stderr
    values = [line.slope, line.slope - margin, line.slope + margin]
    value, low, high = map(math.exp, values) if kind == "linear" else values
    return Rate(kind, value, low, high, line.rvalue**2)
