"""Feed-forward networks trained in blocks.

The default trainer takes preconditioned steps along back-propagated residuals and solves for the last layer; beside it
stand the block coordinate descent of Zhang and Brand (NIPS 2017) and descent on the network's own loss.

Every public name is imported when it is first asked for; `import tikhonet` alone loads nothing else.
"""

# ruff: noqa: I001  (the names of a module stand in one line)
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tikhonet.descent.certificates import (
        Certificate as Certificate,
        certify as certify,
        certify_network as certify_network,
    )
    from tikhonet.descent.full import BlockDescent as BlockDescent
    from tikhonet.descent.lift_gap import LiftGap as LiftGap, lift_gap as lift_gap
    from tikhonet.descent.network_descent import NetworkDescent as NetworkDescent
    from tikhonet.descent.result import History as History, Result as Result, Status as Status
    from tikhonet.descent.schedules import (
        Constant as Constant,
        Custom as Custom,
        Power as Power,
        Proximal as Proximal,
        Schedule as Schedule,
    )
    from tikhonet.descent.start import initial_blocks as initial_blocks
    from tikhonet.descent.stationarity import (
        Stationarity as Stationarity,
        measure_stationarity as measure_stationarity,
    )
    from tikhonet.estimators.checkpoints import Checkpoint as Checkpoint
    from tikhonet.estimators.classifier import BCDClassifier as BCDClassifier
    from tikhonet.estimators.features import BCDFeatures as BCDFeatures
    from tikhonet.estimators.regressor import BCDRegressor as BCDRegressor
    from tikhonet.hashing.hasher import BCDHasher as BCDHasher
    from tikhonet.hashing.index import HammingIndex as HammingIndex
    from tikhonet.model.torch_reading import TorchBlocks as TorchBlocks, from_torch as from_torch
    from tikhonet.network.activation import Activation as Activation, ClippedReLU as ClippedReLU, ReLU as ReLU
    from tikhonet.network.bias import Bias as Bias
    from tikhonet.network.convolution import Conv2d as Conv2d
    from tikhonet.network.edges import Dense as Dense, Edge as Edge, Identity as Identity
    from tikhonet.network.graph import BIAS as BIAS, Network as Network
    from tikhonet.network.image_edges import AvgPool2d as AvgPool2d, GlobalAverage as GlobalAverage
    from tikhonet.problem.lifts import Fenchel as Fenchel, Lift as Lift, Tikhonov as Tikhonov
    from tikhonet.problem.losses import (
        Huber as Huber,
        Logistic as Logistic,
        Loss as Loss,
        Poisson as Poisson,
        Quantile as Quantile,
        Softmax as Softmax,
        Squared as Squared,
        SquaredHinge as SquaredHinge,
    )
    from tikhonet.problem.objective import Blocks as Blocks, Problem as Problem, Terms as Terms
    from tikhonet.problem.ranks import Ranks as Ranks
    from tikhonet.problem.samples import Samples as Samples
    from tikhonet.problem.sets import (
        Box as Box,
        ConvexSet as ConvexSet,
        Everything as Everything,
        FrobeniusBall as FrobeniusBall,
        NonNegative as NonNegative,
        RowL1Ball as RowL1Ball,
        RowL2Ball as RowL2Ball,
    )
    from tikhonet.trainer.logical_ranks import SameBits as SameBits
    from tikhonet.trainer.run import Stochastic as Stochastic
    from tikhonet.trainer.sparsity.budget import Budget as Budget
    from tikhonet.trainer.sparsity.zeros import Sparsity as Sparsity, compact as compact
    from tikhonet.trainer.training import Training as Training

__version__ = "0.3.0.dev0"

_NAMES = {
    "descent.certificates": "Certificate certify certify_network",
    "descent.full": "BlockDescent",
    "descent.lift_gap": "LiftGap lift_gap",
    "descent.network_descent": "NetworkDescent",
    "descent.result": "History Result Status",
    "descent.schedules": "Constant Custom Power Proximal Schedule",
    "descent.start": "initial_blocks",
    "descent.stationarity": "Stationarity measure_stationarity",
    "estimators.checkpoints": "Checkpoint",
    "estimators.classifier": "BCDClassifier",
    "estimators.features": "BCDFeatures",
    "estimators.regressor": "BCDRegressor",
    "hashing.hasher": "BCDHasher",
    "hashing.index": "HammingIndex",
    "model.torch_reading": "TorchBlocks from_torch",
    "network.activation": "Activation ClippedReLU ReLU",
    "network.bias": "Bias",
    "network.convolution": "Conv2d",
    "network.edges": "Dense Edge Identity",
    "network.graph": "BIAS Network",
    "network.image_edges": "AvgPool2d GlobalAverage",
    "problem.lifts": "Fenchel Lift Tikhonov",
    "problem.losses": "Huber Logistic Loss Poisson Quantile Softmax Squared SquaredHinge",
    "problem.objective": "Blocks Problem Terms",
    "problem.ranks": "Ranks",
    "problem.samples": "Samples",
    "problem.sets": "Box ConvexSet Everything FrobeniusBall NonNegative RowL1Ball RowL2Ball",
    "trainer.logical_ranks": "SameBits",
    "trainer.run": "Stochastic",
    "trainer.sparsity.budget": "Budget",
    "trainer.sparsity.zeros": "Sparsity compact",
    "trainer.training": "Training",
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [*sorted(_MODULE_OF), "load"]


def load(path: "str | PathLike[str]") -> Any:
    """The estimator in a model file, of whichever kind the file says it is, or the module that was read.

    Parameters
    ----------
    path : str or path
        A file that `save` of an estimator, or of `TorchBlocks`, wrote.

    Returns
    -------
    estimator
        A `BCDClassifier`, `BCDRegressor`, `BCDFeatures` or `BCDHasher`; or the `TorchBlocks` of `from_torch`.

    Raises
    ------
    ModelFormatError
        Where the file is damaged, or holds something else.

    Examples
    --------
    >>> import numpy as np, tikhonet
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> tikhonet.BCDClassifier((8,)).fit(X, X[:, 0] > 0).save("my.tikhonet")
    >>> tikhonet.load("my.tikhonet").predict(X).shape
    (50,)
    """
    from tikhonet.estimators.files import NAMES
    from tikhonet.model.storage import ModelFormatError
    from tikhonet.model.storage import load as load_file

    kind = str(load_file(path)[0].get("estimator"))
    if kind not in (*NAMES, "TorchBlocks"):
        raise ModelFormatError(f"{path} must hold one of {', '.join(NAMES)}, got {kind[:80]!r}; use its own load")
    return __getattr__(kind).load(path)


def __getattr__(name: str) -> Any:
    if name == "optim":  # a package of its own, as torch.optim is
        return import_module(f"{__name__}.optim")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
