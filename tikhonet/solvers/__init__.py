"""The solvers: Alg. 1 and its convergent variants."""

from tikhonet.solvers.budget import Budget
from tikhonet.solvers.compact import compact
from tikhonet.solvers.full import BlockDescent
from tikhonet.solvers.result import BlockStep, Epoch, History, Result, Status, Training
from tikhonet.solvers.sparsity import Sparsity
from tikhonet.solvers.start import initial_blocks
from tikhonet.solvers.steps import TrainingState
from tikhonet.solvers.stochastic import Stochastic

__all__ = [
    "BlockDescent",
    "BlockStep",
    "Budget",
    "Epoch",
    "History",
    "Result",
    "Sparsity",
    "Status",
    "Stochastic",
    "Training",
    "TrainingState",
    "compact",
    "initial_blocks",
]
