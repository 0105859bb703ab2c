"""Training Tikhonov regularised deep ReLU networks by convergent block coordinate descent."""

from tikhonet.certificates import Certificate, certify
from tikhonet.lifts import Fenchel, Lift, Tikhonov
from tikhonet.losses import Huber, Loss, Softmax, Squared, SquaredHinge
from tikhonet.network import BIAS, Network
from tikhonet.objective import Blocks, Problem, Stationarity, Terms
from tikhonet.samples import Samples
from tikhonet.schedules import Constant, Custom, Power, Proximal, Schedule
from tikhonet.sets import Box, ConvexSet, Everything, FrobeniusBall, NonNegative, RowL1Ball, RowL2Ball
from tikhonet.solvers import (
    BlockDescent,
    Budget,
    History,
    Result,
    Sparsity,
    Status,
    Stochastic,
    Training,
    compact,
    initial_blocks,
)

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
