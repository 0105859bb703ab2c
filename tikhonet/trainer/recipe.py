"""The constants of the stochastic trainer's steps, and which of them suit a network and a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Any

from torch import Tensor

from tikhonet.network.arguments import COUNT, POSITIVE, SHARE_OR_NONE, check_choice, check_numbers, check_type
from tikhonet.network.graph import Network
from tikhonet.network.initial import Initial, check_initial, deep_and_plain
from tikhonet.problem.sets import ConvexSet
from tikhonet.trainer.sparsity.budget import Budget
from tikhonet.trainer.statistics import Gram

LONG = 180.0
"""Steps of 1000 rows from which on a run counts as long."""
WHOLE = 100.0
"""Steps of 1000 rows from which on dropout is whole: shorter runs fit their rows too little to need all of it."""


@dataclass(frozen=True)
class Preset:
    """The constants that depend on how deep the network is, how long the run and how many weights it may keep."""

    first: float
    """The relative changes of the first step, added up over the layers."""
    momentum: float
    metric: str
    damping_W: float
    ridge_V: float
    drop_inputs: float
    drop_features: float
    depth_power: float
    """A first step that is given is (3 / N)^depth_power as long in networks of N > 3 layers."""
    horizon: float = 50.0
    """Steps of 1000 rows after which a step is half as long; those of fewer rows, which are noisier, earlier."""
    horizon_power: float = 0.5
    """The power of the rows of a batch, in thousands, that the horizon grows by."""
    change: float | None = None
    """A first step in place of the rule's, after which steps fall linearly."""
    decay: float = 0.0
    """How much weights shrink in a step, over the relative change that it makes in a layer."""
    turns: bool = False
    """Whether steps keep the norm of a layer's weights and the mean of every unit (`turning.py`)."""
    memory: float = 0.94
    """The memory of the running sums, by 1000 rows of the batches that renew them."""
    widest: int | None = None
    """The columns of a layer's weights from which on its metric and damping are those of `USUAL`; None is never."""

    def metric_of(self, columns: int) -> tuple[str, float]:
        """The metric and the damping of a layer whose weights have so many columns."""
        known = self if self.widest is None or columns <= self.widest else USUAL
        return known.metric, known.damping_W

    def after(self, length: float) -> Preset:
        """The constants with the dropout that a run of so many steps of 1000 rows needs: in proportion, up to `WHOLE`.

        drop(length) = min(1, length / WHOLE) drop
        """
        part = min(1.0, length / WHOLE)
        return replace(self, drop_inputs=part * self.drop_inputs, drop_features=part * self.drop_features)


USUAL = Preset(
    first=2.5,
    momentum=0.7,
    metric="leading",
    damping_W=10.0,
    ridge_V=0.1,
    drop_inputs=0.1,
    drop_features=0.2,
    depth_power=0.5,
)
LASTING = replace(USUAL, drop_inputs=0.2)
"""For long runs, which would fit the training rows too well otherwise."""
CONFINED: dict[str, Any] = {"horizon": math.inf, "momentum": 0.9}
"""The steps of weights in a set: they fall linearly alone, since what is cut off leaves something to mend to the end,
and remember their direction for longer, since the noise of single batches keeps entries from zero."""
SPARSE = replace(
    USUAL, momentum=0.9, horizon=300.0, horizon_power=1.0, ridge_V=0.01, drop_inputs=0.05, drop_features=0.0
)
"""With a budget: few weights are a regulariser themselves, and want less of the others. What is cut off leaves
something to mend to the end, so steps stay long for longer; those of small batches do not, since pruning goes by their
noise too (docs/log/sparse.md)."""
IMAGES = replace(USUAL, metric="full", damping_W=3.0, drop_inputs=0.0, widest=512, horizon=200.0, turns=True)
"""For networks of images: a patch has few entries, so the whole inverse is cheap; that of a dense layer on an image is
not. Filters that all positions share want long steps for longer, and batches of 125 to 250 (docs/log/images.md)."""
LASTING_IMAGES = replace(IMAGES, memory=0.25)
"""For long runs on images: small batches renew sums rarely, so that the memory of others is over hundreds of steps, in
which the features become others; runs that are not long gain nothing by less."""
IMAGES_BATCH = 250
"""Rows of a batch of images, at most: fewer steps of more rows end worse."""
DEEP = Preset(
    first=0.4,
    momentum=0.7,
    metric="full",
    damping_W=0.1,
    ridge_V=0.1,
    drop_inputs=0.0,
    drop_features=0.0,
    depth_power=1.0,
)
"""For deep plain networks.

They start as isometries, where the changes of all layers add up in one direction, the noise of dropout passes through
to the end, and the directions in which inputs vary little count as much as the others.
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The constants of a step of the stochastic trainer; None is what suits network and run.

    They hold for batches of 1000 rows and are converted for others, so that a setting means the same per sample.

    Parameters
    ----------
    change : float, optional
        A first step of one's own in place of the trainer's rule (`pace.py`), after which steps fall linearly: the
        relative change of a layer's pre-activations in a run that is not long.
    momentum : float, optional
        The memory of the direction of the W-steps, in [0, 1), by step; beside `change`, by 1000 rows.
    damping_U : float, default=30.0
        The damping of the u-step, relative to the mean eigenvalue of its matrix.
    damping_W : float, optional
        The damping of the W-step, relative to the mean eigenvalue of the inputs' Gram matrix.
    ridge_V : float, optional
        The ridge of the V-step, relative to the mean eigenvalue of the features' Gram matrix.
    memory : float, optional
        The memory of the running sums, in [0, 1), by 1000 rows of the batches that renew them.
    averaging : float, default=0.98
        The memory of the average of V and W over the steps, in [0, 1); it falls to none at the end of a run.
    rank : int, default=64
        Eigenpairs of the metric "leading".
    budget : Budget, optional
        How many weights may be nonzero; all, where it is None.
    initial : {"auto", "gaussian", "looks-linear"}, default="auto"
        Where random weights come from (`network/initial.py`).
    initial_scale : float, default=0.5
        The rms of the pre-activations that random weights begin with.
    metric : {"leading", "full"}, optional
        The metric of the W-step: by the leading eigenpairs of the inputs' Gram matrix, or by the full matrix.
    drop_inputs : float, optional
        The share of the inputs that are set to zero at random in training, as a regulariser. What suits a run grows
        with its length.
    drop_features : float, optional
        The share of the last hidden layer that is set to zero at random in training. It grows with the length too.
    decay : float, optional
        How much the weights shrink in a step, over the relative change that it makes in their layer; biases do not.
    turns : bool, optional
        Whether steps keep the norm of a layer's weights and the mean of each of its units; they do in networks of
        images.
    products : {"float32", "bfloat16"}, default="float32"
        The precision of what is multiplied in the products of a step over rows: "bfloat16" rounds weights, layers and
        residuals to its 8 bits; sums, the V-step, metric and weights keep their type. A device multiplies such numbers
        faster once ``torch.set_float32_matmul_precision("medium")`` allows it.
    """

    change: float | None = None
    momentum: float | None = None
    damping_U: float = 30.0
    damping_W: float | None = None
    ridge_V: float | None = None
    memory: float | None = None
    averaging: float = 0.98
    rank: int = 64
    budget: Budget | None = None
    initial: Initial = "auto"
    initial_scale: float = 0.5
    metric: str | None = None
    drop_inputs: float | None = None
    drop_features: float | None = None
    decay: float | None = None
    turns: bool | None = None
    products: str = "float32"

    def __post_init__(self) -> None:
        check_choice("products", self.products, "float32", "bfloat16")
        check_initial(self.initial)
        check_numbers(self, COUNT, ["rank"])
        check_type("budget", self.budget, Budget, NoneType)
        check_type("turns", self.turns, bool, NoneType)
        if self.metric is not None and self.metric not in Gram.kinds:
            raise ValueError(f"metric must be {', '.join(map(repr, Gram.kinds))} or None, got {self.metric!r}")
        check_numbers(self, SHARE_OR_NONE, ["averaging"])
        check_numbers(
            self, SHARE_OR_NONE, ["momentum", "memory", "drop_inputs", "drop_features", "decay"], optional=True
        )
        check_numbers(self, POSITIVE, ["damping_U", "initial_scale"])
        check_numbers(self, POSITIVE, ["change", "damping_W", "ridge_V"], optional=True)

    def operand(self, M: Tensor) -> Tensor:
        """A matrix as products over rows take it.

        Parameters
        ----------
        M : Tensor
            Weights, a layer or residuals.

        Returns
        -------
        Tensor
            Rounded, in the type that it had.
        """
        return M.bfloat16().to(M.dtype) if self.products == "bfloat16" else M

    def preset(self, network: Network, length: float = LONG, confined: bool = False) -> Preset:
        """The constants that are given here, and for the rest those that suit the network and the run's length.

        Parameters
        ----------
        network : Network
            The network to train.
        length : float, default=180.0
            Steps of 1000 rows that the run has.
        confined : bool, default=False
            Whether weights must stay in a set.

        Returns
        -------
        Preset
            All constants of a step.
        """
        names = [part.name for part in fields(Preset) if hasattr(self, part.name)]
        given: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.metric is not None:
            given["widest"] = None
        long = length > LONG
        usual = replace((LASTING if long else USUAL).after(length), **CONFINED if confined else {})
        shallow = SPARSE if self.budget else usual
        if network.has_images:
            # What is pruned must grow again elsewhere, so a budget leaves norms and means free.
            usual = LASTING_IMAGES if long else IMAGES
            shallow = replace(IMAGES, turns=False) if self.budget else usual
        return replace(DEEP if deep_and_plain(network) else shallow, **given)

    def place(self, set_: ConvexSet, M: Tensor) -> Tensor:
        """The nearest point of a set; under a budget, one near M that has M's zeros and, in a ball, no others.

        Parameters
        ----------
        set_ : ConvexSet
            The set.
        M : Tensor
            A matrix.

        Returns
        -------
        Tensor
            A matrix of the set.
        """
        return set_.shrink(M) if self.budget else set_.project(M)
