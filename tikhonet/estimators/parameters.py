"""The parameters of the estimators, and what is allowed.

A dataclass, so that the constructor of each estimator only stores, and none repeats another's list.
"""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, get_args

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)

from tikhonet.estimators.checkpoints import Checkpoint
from tikhonet.estimators.checks import ParameterError, check_callbacks, check_dropout, check_widths
from tikhonet.estimators.constraints import COUNT, POSITIVE, SHARE, NameIn, auto_or
from tikhonet.estimators.networks import PRESETS, check_input_shape, network_for
from tikhonet.estimators.solvers import METHODS, FullBatch, MiniBatch
from tikhonet.network.activation import Activation
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.network.initial import Initial
from tikhonet.problem.lifts import Lift
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import ConvexSet, Everything
from tikhonet.trainer.sparsity.budget import Budget
from tikhonet.trainer.sparsity.scopes import Scope

MOST_CUT = 100
"""Columns up to which their numbers are cut into pieces by themselves: more would make inputs by the thousand."""
FULLY_CUT = 25
"""Columns up to which they are cut into all pieces: half of them are as good, and as quick, where there are more."""


@dataclass(eq=False, repr=False)
class Parameters(BaseEstimator):
    """The parameters that all estimators share.

    Parameters
    ----------
    hidden_layer_sizes : "auto" or tuple of int, default="auto"
        The widths of the hidden layers; each has a bias. The last one gives the features. "auto" is (200, 200), for
        the regressor (200,); where both cut numbers into pieces by themselves (`n_bins`), it goes by the different
        rows: for the classifier (100,) below 1,000 and (200,) below 10,000, for the regressor (100,) from 1,000 on,
        (200,) from 10,000 on and (200, 200) from 50,000 on. For the hasher it is (256, 256).
    network : {"small-conv", "lenet"} or Network, default=None
        A network of your own, or one of convolutions by name, in place of `hidden_layer_sizes` and `skip`. Where its
        first layer is of images, the pixels of a channel are scaled by one number, and else each column by its own.
    input_shape : (channels, height, width), default=None
        The shape of the images in X, where X may be an array of images or of rows; None is that of `network`, and for
        a network by name that of the array of images, or for rows that of squares, grey or in three colours.
    skip : bool, default=False
        Add an identity edge between any two layers of equal width that are not neighbours, the input among them: with
        three hidden layers as wide as the input this is the paper's network, and its biases.
    activation : {"relu", "clipped_relu"} or Activation, default="relu"
        The activation of the hidden layers; that of `network` where one is given.
    initial : {"auto", "gaussian", "looks-linear"}, default="auto"
        Where the stochastic solver's weights begin; "auto" is "looks-linear" for more than three hidden layers
        without `skip`, which otherwise would not train.
    loss : name or Loss, default="squared"
        The loss that trains the network: "squared", "huber", "quantile", "poisson", "softmax", "logistic" or
        "squared_hinge"; the last three are for classes only, the two before for numbers.
    lift : {"auto", "fenchel", "tikhonov"} or Lift, default="auto"
        How ReLU is lifted: "auto" is Tikhonov for the paper's `solver="alg1"`, Fenchel for the others.
    solver : {"stochastic", "proximal", "alg1", "certified"}, default="stochastic"
        Mini-batches, or all rows at once: by proximal block descent, by the paper's Alg. 1 as printed, or by descent on
        the network's own loss with a certificate of where it ends (`NetworkDescent`).
    gamma : "auto", float or sequence of float, default="auto"
        The weight of the lift, one for all hidden layers or one each; "auto" is 0.1 for "alg1", else 1.
    constraint : {"l1", "l2", "frobenius", "nonnegative"} or ConvexSet, default=None
        The set of each weight matrix: its rows in the l1 or l2 ball, the matrix in the Frobenius ball, or >= 0.
    radius : float, default=1.0
        That of the ball.
    sparsity : float, default=None
        The share of weights that may be nonzero, rounded down; 0.02 keeps 2%. Biases and the head are not counted. For
        `solver="stochastic"` only. The l1 ball alone gives as many zeros as it happens to give.
    sparsity_over : {"row", "layer", "network", "units"}, default="layer"
        Whether every row, every layer or the whole network keeps that share, or every layer that share of its units.
    max_iter : "auto" or int, default="auto"
        Epochs of the stochastic solver, iterations of the others; "auto" gives small data more epochs.
    tol : float, default=1e-6
        The full-batch solvers stop where exact block steps would lower the objective by at most this share of it.
    batch_size : "auto" or int, default="auto"
        Rows in a mini-batch.
    dropout : "auto", float or pair of float, default="auto"
        The share of inputs and of last features that are dropped in training; "auto" is (0.1, 0.2), for the regressor
        (0, 0.4), and (0, 0.1) from 50,000 rows of a table on; for a classifier with `sparsity` (0.05, 0).
    decay : "auto" or float, default="auto"
        How much the weights shrink in a step of the stochastic solver, over the relative change that it makes in their
        layer. "auto" is 0.05 for classifiers in memory where X has more than 100 columns and 3,000 different rows,
        for at most three hidden layers without `network`, `skip`, `constraint` and `sparsity`, and 0 otherwise.
    categorical_features : "from_dtype", array-like of names, places or bool, or None, default="from_dtype"
        The columns of X whose values are categories beside those that hold text or have such a type. A number that is
        missing counts as the median and has an indicator; of a category the 64 most frequent ones have an input each,
        and all others share 64 by a hash of their names. A category that was not in training is none of them.
    n_bins : "auto" or int, default="auto"
        Pieces that a number with more than 10 different values is cut into, at its quantiles, beside the number itself:
        each rises from 0 to 1 between two quantiles. "auto" is 8, above 25 columns 4, for the regressor and
        for a network of the classifier (`n_networks`), where X has at most 100 columns and neither `network`, `skip`
        nor `sparsity` is given, and 0 otherwise. `partial_fit` makes none.
    early_stopping : "auto" or bool, default="auto"
        Hold rows out, to keep the epoch with the least loss on them and to choose the head's strength, which is then
        fitted on all rows; "auto" does so from 100 rows on.
    validation_fraction : float, default=0.15
        The share of rows held out for it; not used where `fit` is given validation data.
    n_iter_no_change : int, default=20
        Epochs without a better held-out loss after which training goes back to the best one, anneals, and stops.
    warm_start : bool, default=False
        Start `fit` from the weights of the last one.
    random_state : int, RandomState or None, default=None
        Fix it for the same result every time.
    device : str, default="cpu"
        Where torch computes.
    dtype : {"float32", "float64"}, default="float32"
        The type in which the network is trained; predictions are computed in float64.
    products : {"float32", "bfloat16"}, default="float32"
        What is multiplied in the products of the stochastic solver: "bfloat16" rounds weights, layers and residuals to
        8 bits, and sums stay in `dtype`. It is for devices that are faster so.
    n_jobs : int, default=None
        Threads of torch during `fit`, at most one for each core; -1 is as many as torch has, None too where the work of
        a batch is worth it, else one.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : callable or list of callables, default=None
        Called after every epoch (iteration) with the solver's record of it; returning True ends training.
    checkpoint : str, path or Checkpoint, default=None
        A folder in which `fit` keeps its state, so that one that was killed goes on where it was when it is called
        again, to the same bits. By default that takes 2% of the time at most.
    memory_budget : str or float, default=None
        Memory that `fit` may use, such as "500MB", beside what the process has. X may then be larger: an array on disk
        (`np.load(path, mmap_mode="r")`), a Parquet file or data set of Arrow, whose column of labels y may name, or an
        iterable of pieces (X, y). For the classifier and the regressor, and all solvers but "certified".
    """

    hidden_layer_sizes: Any = "auto"
    _: KW_ONLY
    network: Any = None
    input_shape: Any = None
    skip: bool = False
    activation: Any = "relu"
    initial: Any = "auto"
    loss: Any = "squared"
    lift: Any = "auto"
    solver: str = "stochastic"
    gamma: Any = "auto"
    constraint: Any = None
    radius: float = 1.0
    sparsity: float | None = None
    sparsity_over: str = "layer"
    max_iter: Any = "auto"
    tol: float = 1e-6
    batch_size: Any = "auto"
    dropout: Any = "auto"
    decay: Any = "auto"
    categorical_features: Any = "from_dtype"
    n_bins: Any = "auto"
    early_stopping: Any = "auto"
    validation_fraction: float = 0.15
    n_iter_no_change: int = 20
    warm_start: bool = False
    random_state: Any = None
    device: str = "cpu"
    dtype: str = "float32"
    products: str = "float32"
    n_jobs: int | None = None
    verbose: bool = False
    callbacks: Any = None
    checkpoint: Any = None
    memory_budget: Any = None

    _default_sizes: ClassVar[tuple[int, ...]] = (200, 200)
    _default_dropout: ClassVar[tuple[float, float]] = (0.1, 0.2)
    _default_bins: ClassVar[int] = 0
    _sparse_dropout: ClassVar[tuple[float | None, float | None]] = (None, None)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden_layer_sizes": auto_or("array-like", COUNT),
        "network": [NameIn(lambda: PRESETS), Network, None],
        "input_shape": [COUNT, "array-like", None],
        "skip": ["boolean"],
        "initial": [StrOptions(set(get_args(Initial)))],
        "activation": [NameIn(lambda: Activation.kinds), Activation],
        "loss": [NameIn(lambda: (name for name, loss in Loss.kinds.items() if loss.for_numbers)), Loss],
        "lift": auto_or(NameIn(lambda: Lift.kinds), Lift),
        "solver": [StrOptions(set(METHODS))],
        "gamma": auto_or(POSITIVE, "array-like"),
        "constraint": [NameIn(lambda: ConvexSet.kinds), ConvexSet, None],
        "radius": [POSITIVE],
        "sparsity": [Interval(Real, 0, 1, closed="right"), None],
        "sparsity_over": [NameIn(lambda: Scope.kinds)],
        "max_iter": auto_or(COUNT),
        "tol": [SHARE],
        "batch_size": auto_or(COUNT),
        "dropout": auto_or(Interval(Real, 0, 1, closed="left"), "array-like"),
        "decay": auto_or(Interval(Real, 0, 1, closed="left")),
        "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
        "n_bins": auto_or(Interval(Integral, 0, 1000, closed="both")),
        "early_stopping": auto_or("boolean"),
        "validation_fraction": [SHARE],
        "n_iter_no_change": [COUNT],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "device": [str],
        "dtype": [StrOptions({"float32", "float64"})],
        "products": [StrOptions({"float32", "bfloat16"})],
        "n_jobs": [COUNT, Interval(Integral, None, -1, closed="right"), None],
        "verbose": ["verbose"],
        "callbacks": [callable, list, tuple, None],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
        "memory_budget": [str, Real, None],
    }

    def _validate_params(self) -> None:
        for name, value in self.get_params(deep=False).items():
            try:
                validate_parameter_constraints(self._parameter_constraints, {name: value}, type(self).__name__)
            except InvalidParameterError as error:
                raise ParameterError(name, str(error)) from None
        if self.network is None and not isinstance(self.hidden_layer_sizes, str):
            check_widths(self.hidden_layer_sizes)
        check_input_shape(self.input_shape)
        check_dropout(self.dropout)
        check_callbacks(self.callbacks)

    def _loss(self) -> Loss:
        if not isinstance(self.loss, str):
            return self.loss  # type: ignore[no-any-return]
        kind = Loss.kinds[self.loss]
        return kind(**{name: getattr(self, name) for name in signature(kind).parameters if hasattr(self, name)})

    def _method(self) -> FullBatch | MiniBatch:
        return METHODS[self.solver]

    def _lift(self) -> Lift:
        if self.lift == "auto":
            return self._method().lift()
        return Lift.kinds[self.lift]() if isinstance(self.lift, str) else self.lift

    def _gamma(self) -> float | tuple[float, ...]:
        if isinstance(self.gamma, str):
            return self._method().gamma
        return float(self.gamma) if isinstance(self.gamma, Real) else tuple(self.gamma)

    def _constraint(self) -> ConvexSet | None:
        if not isinstance(self.constraint, str):
            return self.constraint  # type: ignore[no-any-return]
        kind = ConvexSet.kinds[self.constraint]
        return kind(**{"radius": self.radius} if "radius" in signature(kind).parameters else {})

    def _budget(self) -> Budget | None:
        if self.sparsity is None:
            return None
        if not self._method().goes_on:
            raise ArgumentError(
                "sparsity",
                f'sparsity needs solver="stochastic", got {self.solver!r}; '
                'with other solvers use constraint="l1" for zeros',
            )
        return Budget(float(self.sparsity), self.sparsity_over)

    def _dropout(self) -> tuple[float | None, float | None]:
        """The shares of inputs and last features to drop; None is what suits the network and the run."""
        if isinstance(self.dropout, str):
            return self._default_dropout if self.sparsity is None else self._sparse_dropout
        if isinstance(self.dropout, Real):
            return float(self.dropout), float(self.dropout)
        inputs, features = (float(share) for share in self.dropout)
        return inputs, features

    def _bins(self, columns: int) -> int:
        """The pieces that a number of a table with so many columns is cut into."""
        if not isinstance(self.n_bins, str):
            return int(self.n_bins)
        if self.network is not None or self.skip or self.sparsity is not None or not self._method().goes_on:
            return 0
        return self._default_bins // (1 if columns <= FULLY_CUT else 2) if columns <= MOST_CUT else 0

    def _network(self, inputs: int) -> Network:
        """The network for so many inputs."""
        return network_for(self, inputs)


def build_problem(parameters: Parameters, network: Network, loss: Loss, rows: float) -> Problem:
    """The problem that the parameters state, for rows of this total weight."""
    constraint = parameters._constraint()
    return Problem(
        network,
        loss=loss,
        lift=parameters._lift(),
        gamma=parameters._gamma(),
        W_set=Everything() if constraint is None else constraint,
        ridge_V=parameters._method().ridge * rows,
        ridge_W=parameters._method().ridge_W * rows,
    )
