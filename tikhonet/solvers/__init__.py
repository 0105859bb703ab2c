"""The solvers: Alg. 1 and its convergent variants."""

from tikhonet.solvers.full import BlockDescent
from tikhonet.solvers.result import BlockStep, Epoch, History, Result, Status, Training
from tikhonet.solvers.start import initial_blocks
from tikhonet.solvers.steps import TrainingState
from tikhonet.solvers.stochastic import Stochastic

__all__ = [
    "BlockDescent",
    "BlockStep",
    "Epoch",
    "History",
    "Result",
    "Status",
    "Stochastic",
    "Training",
    "TrainingState",
    "initial_blocks",
]
