import torch

from tikhonet import BlockDescent, Network, Problem, Schedule


class Harmonic(Schedule):
    """theta_t = 1 / t: the steps shrink, but their sum has no bound."""

    def theta(self, t):
        return 1 / t


X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
run = BlockDescent(Harmonic(), max_iter=5).run(Problem(Network.chain([3, 4]), ridge_V=0.1), X, X[:, :2].abs())
assert run.history.objective[-1] < run.history.objective[0]
