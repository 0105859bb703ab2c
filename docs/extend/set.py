import torch

from tikhonet import BlockDescent, ConvexSet, Network, Problem, certify


class Halfspace(ConvexSet):
    """Rows whose entries do not add up to more than 1."""

    name = "halfspace"

    def project(self, M):
        excess = (M.sum(1, keepdim=True) - 1).relu() / M.shape[1]
        inside = M - excess * (1 + 1e-6)
        return torch.where(excess > 0, inside, M)

    def violation(self, M):
        return float(M.sum(1).max()) - 1


X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
problem = Problem(Network.chain([3, 4]), W_set=Halfspace(), ridge_V=0.1)
assert certify(BlockDescent(max_iter=5).run(problem, X, X[:, :2].abs()))["feasible"].holds
