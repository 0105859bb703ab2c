"""The solvers: Alg. 1 and its convergent variants."""

from tikhonet.solvers.full import BlockDescent
from tikhonet.solvers.result import BlockStep, History, Result, Status
from tikhonet.solvers.start import initial_blocks

__all__ = ["BlockDescent", "BlockStep", "History", "Result", "Status", "initial_blocks"]
