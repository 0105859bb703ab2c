"""What the library is compared with: six SGD solvers by back-propagation (Sec. 3.3.1), pruning, ADMM, hashes/."""

from tikhonet.paper.baselines.admm import ADMM
from tikhonet.paper.baselines.backprop import SOLVERS, Backprop
from tikhonet.paper.baselines.pruning import Pruning

__all__ = ["ADMM", "SOLVERS", "Backprop", "Pruning"]
