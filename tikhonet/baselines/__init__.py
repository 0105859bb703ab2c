"""What the library is compared with: the six solvers of Sec. 3.3.1, by back-propagation, and ADMM."""

from tikhonet.baselines.admm import ADMM
from tikhonet.baselines.backprop import SOLVERS, Backprop

__all__ = ["ADMM", "SOLVERS", "Backprop"]
