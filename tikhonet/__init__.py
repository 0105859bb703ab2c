"""Training Tikhonov regularised deep ReLU networks by convergent block coordinate descent.

Every public name is imported when it is first asked for; `import tikhonet` alone loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tikhonet.descent.certificates import Certificate as Certificate
    from tikhonet.descent.certificates import certify as certify
    from tikhonet.descent.full import BlockDescent as BlockDescent
    from tikhonet.descent.result import History as History
    from tikhonet.descent.result import Result as Result
    from tikhonet.descent.result import Status as Status
    from tikhonet.descent.result import Training as Training
    from tikhonet.descent.schedules import Constant as Constant
    from tikhonet.descent.schedules import Custom as Custom
    from tikhonet.descent.schedules import Power as Power
    from tikhonet.descent.schedules import Proximal as Proximal
    from tikhonet.descent.schedules import Schedule as Schedule
    from tikhonet.descent.start import initial_blocks as initial_blocks
    from tikhonet.estimators.classifier import BCDClassifier as BCDClassifier
    from tikhonet.estimators.features import BCDFeatures as BCDFeatures
    from tikhonet.estimators.regressor import BCDRegressor as BCDRegressor
    from tikhonet.hashing.hasher import BCDHasher as BCDHasher
    from tikhonet.hashing.index import HammingIndex as HammingIndex
    from tikhonet.network.graph import BIAS as BIAS
    from tikhonet.network.graph import Network as Network
    from tikhonet.problem.lifts import Fenchel as Fenchel
    from tikhonet.problem.lifts import Lift as Lift
    from tikhonet.problem.lifts import Tikhonov as Tikhonov
    from tikhonet.problem.losses import Huber as Huber
    from tikhonet.problem.losses import Loss as Loss
    from tikhonet.problem.losses import Softmax as Softmax
    from tikhonet.problem.losses import Squared as Squared
    from tikhonet.problem.losses import SquaredHinge as SquaredHinge
    from tikhonet.problem.objective import Blocks as Blocks
    from tikhonet.problem.objective import Problem as Problem
    from tikhonet.problem.objective import Stationarity as Stationarity
    from tikhonet.problem.objective import Terms as Terms
    from tikhonet.problem.samples import Samples as Samples
    from tikhonet.problem.sets import Box as Box
    from tikhonet.problem.sets import ConvexSet as ConvexSet
    from tikhonet.problem.sets import Everything as Everything
    from tikhonet.problem.sets import FrobeniusBall as FrobeniusBall
    from tikhonet.problem.sets import NonNegative as NonNegative
    from tikhonet.problem.sets import RowL1Ball as RowL1Ball
    from tikhonet.problem.sets import RowL2Ball as RowL2Ball
    from tikhonet.trainer.run import Stochastic as Stochastic
    from tikhonet.trainer.sparsity.budget import Budget as Budget
    from tikhonet.trainer.sparsity.compact import compact as compact
    from tikhonet.trainer.sparsity.measure import Sparsity as Sparsity

__version__ = "0.1.0"

_NAMES = {
    "descent.certificates": "Certificate certify",
    "descent.full": "BlockDescent",
    "descent.result": "History Result Status Training",
    "descent.schedules": "Constant Custom Power Proximal Schedule",
    "descent.start": "initial_blocks",
    "estimators.classifier": "BCDClassifier",
    "estimators.features": "BCDFeatures",
    "estimators.regressor": "BCDRegressor",
    "hashing.hasher": "BCDHasher",
    "hashing.index": "HammingIndex",
    "network.graph": "BIAS Network",
    "problem.lifts": "Fenchel Lift Tikhonov",
    "problem.losses": "Huber Loss Softmax Squared SquaredHinge",
    "problem.objective": "Blocks Problem Stationarity Terms",
    "problem.samples": "Samples",
    "problem.sets": "Box ConvexSet Everything FrobeniusBall NonNegative RowL1Ball RowL2Ball",
    "trainer.run": "Stochastic",
    "trainer.sparsity.budget": "Budget",
    "trainer.sparsity.compact": "compact",
    "trainer.sparsity.measure": "Sparsity",
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
