"""The record of a full-batch run: the blocks, how it ended, and every step on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar

from tikhonet.descent.room import Room
from tikhonet.descent.schedules import Schedule
from tikhonet.descent.stationarity import Stationarity, measure_stationarity
from tikhonet.problem.objective import Blocks, Problem, Terms
from tikhonet.problem.samples import Samples

NOT_CLAIMED = {
    "convergence": "it is proven of full proximal steps to exact minimisers, where ridges or sets hold every block",
    "minimum": "a stationary point can be a saddle point, or a local minimum far above the least value",
    "network": "f is the lifted objective: of the network's own loss, `certify_network` says more",
    "other_rows": "nothing is said of rows that were not trained on",
}
"""What no certificate of the lifted objective says, by a name that other code finds it by."""
NOT_CLAIMED_OF_NETWORKS = {
    "convergence": "no theorem says that every run ends at a stationary point, or that its iterates converge",
    "minimum": NOT_CLAIMED["minimum"],
    "kinks": "the gradient is that of the loss with the activation's kinks rounded; at a kink itself there is none",
    "other_rows": NOT_CLAIMED["other_rows"],
}
"""What no certificate of the network's own loss says."""
WORDS = ("exact block steps would take at most", "f")
NETWORK_WORDS = ("block steps in the metric of the Gram matrices would take", "L")
"""What is measured of a point, and of which objective: the lifted one, or the network's own loss."""


class Status(Enum):
    """How a run ended: a sentence, and the remedy where one is needed.

    Examples
    --------
    >>> from tikhonet import Status
    >>> print(Status.STATIONARY.value)
    Exact block steps would take no more than tol of the objective: a stationary point.
    """

    STATIONARY = "Exact block steps would take no more than tol of the objective: a stationary point."
    SCHEDULE_EXHAUSTED = (
        "The steps theta_t have run out before a stationary point was reached: the iterates stand still "
        "without being optimal. Use the Proximal schedule, or a theta_t that is not summable."
    )
    MAX_ITER = (
        "The iterations allowed were used up before a stationary point was reached. "
        "Raise max_iter, or continue with start=result.blocks."
    )
    STALLED = (
        "No step lowers the loss any more, though the point is not stationary to tol: the steps are lost in rounding. "
        "Use float64, larger ridges, or kinks that are rounded more widely."
    )
    NONFINITE = (
        "A block step gave NaN or infinity; the blocks before it are returned. "
        "Scale the data to unit size, raise the ridges or the proximal weight, or use float64."
    )
    FINISHED = "The epochs asked for are done. More may help: raise epochs."
    EARLY_STOPPED = "The validation loss stopped falling; the best epoch's network is returned."
    INTERRUPTED = (
        "The run was interrupted; what was finished is returned, with validation data the best epoch. "
        "Go on with start=result.blocks, or after epochs with resume=training.state."
    )


@dataclass(frozen=True)
class BlockStep:
    """One block step: the objective after it, how far it went, and what it was worth."""

    iteration: int
    block: str
    terms: Terms
    decrease: float
    promised: float = 0.0
    """The least decrease of f that the theory promises, `slack` less because the step is solved inexactly."""
    slack: float = 0.0
    distance: float = 0.0
    residual: float = 0.0
    """The sub-problem's float64 optimality residual, and the same relative to its gradient at zero."""
    relative: float = 0.0
    inner_steps: int = 0
    seconds: float = 0.0


@dataclass
class History:
    """The record of a full-batch run: its start, every block step, and the stationarity where it was measured.

    Parameters
    ----------
    start : Terms
        The objective where the run began.
    tolerance : float
        The share of f below which what exact block steps would still take makes a point stationary.
    steps : list of BlockStep, optional
        Every block step: the objective after it, how far it went, and what it was worth.
    stationarity : dict of int to Stationarity, optional
        By iteration, where it was measured.
    norms : dict of int to dict, optional
        The norms of V and of each W where stationarity was measured.

    Examples
    --------
    >>> from tikhonet import History, Terms
    >>> History(Terms(loss=1.5, lift={}), tolerance=1e-6).objective
    [1.5]
    """

    start: Terms
    tolerance: float
    steps: list[BlockStep] = field(default_factory=list)
    stationarity: dict[int, Stationarity] = field(default_factory=dict)
    norms: dict[int, dict[str, float]] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """The iterations that were done."""
        return self.steps[-1].iteration if self.steps else 0

    @property
    def seconds(self) -> float:
        """The seconds that all block steps took."""
        return sum(step.seconds for step in self.steps)

    def followed_by(self, other: History) -> History:
        """This run and one that went on where it ended, as one.

        Parameters
        ----------
        other : History
            The run that went on.

        Returns
        -------
        History
            That of both.
        """
        steps = [replace(step, iteration=self.iterations + step.iteration) for step in other.steps]
        count = self.iterations
        stationarity = {count + iteration: found for iteration, found in other.stationarity.items()}
        norms = {count + iteration: found for iteration, found in other.norms.items()}
        return History(
            self.start,
            other.tolerance,
            [*self.steps, *steps],
            self.stationarity | stationarity,
            self.norms | norms,
        )

    @property
    def objective(self) -> list[float]:
        """F at the start and after every iteration."""
        last = {step.iteration: step.terms.total for step in self.steps}
        return [self.start.total, *last.values()]


@dataclass(frozen=True)
class Result:
    """The blocks that a full-batch run reached, and how it got there.

    Parameters
    ----------
    problem : Problem
        What was minimised.
    samples : Samples
        The training samples.
    schedule : Schedule
        The sequence of steps.
    blocks : Blocks
        The point that was reached.
    status : Status
        How the run ended.
    history : History
        Every step on the way.
    detail : str, default=""
        Where a NONFINITE run broke: block, layer and iteration.
    room : Room, optional
        What a run with a budget of memory needed of it; U is in files then, which are gone with the result.

    Attributes
    ----------
    not_claimed : mapping of str to str
        What a certificate of such a run does not say.

    Examples
    --------
    >>> import torch
    >>> from tikhonet import BlockDescent, Network, Problem
    >>> X = torch.ones(5, 3)
    >>> result = BlockDescent(max_iter=2).run(Problem(Network.chain([3, 4]), ridge_V=0.1), X, X[:, :2])
    >>> result.status.name, result.history.iterations
    ('MAX_ITER', 2)
    """

    problem: Problem
    samples: Samples = field(repr=False)
    schedule: Schedule
    blocks: Blocks = field(repr=False)
    status: Status
    history: History = field(repr=False)
    detail: str = ""
    room: Room | None = field(default=None, kw_only=True)

    not_claimed: ClassVar[Mapping[str, str]] = NOT_CLAIMED
    words: ClassVar[tuple[str, str]] = WORDS

    def measure(self) -> Stationarity:
        """How far the point is from a stationary one.

        Returns
        -------
        Stationarity
            Measured anew from the samples.
        """
        return measure_stationarity(self.problem, self.blocks, self.samples)

    @property
    def message(self) -> str:
        """How the run ended, in a sentence."""
        return f"{self.status.value} ({self.detail})" if self.detail else self.status.value
