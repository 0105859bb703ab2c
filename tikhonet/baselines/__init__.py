"""What the library is compared with: six SGD solvers by back-propagation (Sec. 3.3.1), pruning, ADMM, hashes/."""

from tikhonet.baselines.admm import ADMM
from tikhonet.baselines.backprop import SOLVERS, Backprop
from tikhonet.baselines.pruning import Pruning

__all__ = ["ADMM", "SOLVERS", "Backprop", "Pruning"]
