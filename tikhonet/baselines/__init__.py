"""What the library is compared with: the six solvers of Sec. 3.3.1, by back-propagation, and pruning."""

from tikhonet.baselines.backprop import SOLVERS, Backprop
from tikhonet.baselines.pruning import Pruning

__all__ = ["SOLVERS", "Backprop", "Pruning"]
