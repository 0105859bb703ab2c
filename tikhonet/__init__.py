"""Training Tikhonov regularised deep ReLU networks by convergent block coordinate descent."""

from tikhonet.descent.certificates import Certificate, certify
from tikhonet.descent.full import BlockDescent
from tikhonet.descent.result import History, Result, Status
from tikhonet.descent.schedules import Constant, Custom, Power, Proximal, Schedule
from tikhonet.descent.start import initial_blocks
from tikhonet.network.graph import BIAS, Network
from tikhonet.problem.lifts import Fenchel, Lift, Tikhonov
from tikhonet.problem.losses import Huber, Loss, Softmax, Squared, SquaredHinge
from tikhonet.problem.objective import Blocks, Problem, Stationarity, Terms
from tikhonet.problem.samples import Samples
from tikhonet.problem.sets import Box, ConvexSet, Everything, FrobeniusBall, NonNegative, RowL1Ball, RowL2Ball
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.sparsity.budget import Budget
from tikhonet.trainer.sparsity.zeros import Sparsity, compact
from tikhonet.trainer.training import Training

__version__ = "0.1.0"

__all__ = [
    "BIAS",
    "BlockDescent",
    "Blocks",
    "Box",
    "Budget",
    "Certificate",
    "Constant",
    "ConvexSet",
    "Custom",
    "Everything",
    "Fenchel",
    "FrobeniusBall",
    "History",
    "Huber",
    "Lift",
    "Loss",
    "Network",
    "NonNegative",
    "Power",
    "Problem",
    "Proximal",
    "Result",
    "RowL1Ball",
    "RowL2Ball",
    "Samples",
    "Schedule",
    "Softmax",
    "Sparsity",
    "Squared",
    "SquaredHinge",
    "Stationarity",
    "Status",
    "Stochastic",
    "Terms",
    "Tikhonov",
    "Training",
    "certify",
    "compact",
    "initial_blocks",
]
