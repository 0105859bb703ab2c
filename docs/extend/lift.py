import torch

from tikhonet import BlockDescent, Lift, Network, Problem, certify


class Blend(Lift):
    """Half the paper's penalty, half the tight one:  psi' = (z + sigma(z)) / 2."""

    name = "blend"
    quadratic = False

    def slope(self, Z, activation, out=None):
        return torch.lerp(Z, activation.value(Z), 0.5)

    def excess(self, Z, activation):  # psi(z) - (<p, z> - 1/2 |p|^2) with p = psi'(z)
        A, P = activation.value(Z), self.slope(Z, activation)
        return (0.25 * Z.square() + 0.5 * (A * Z - 0.5 * A.square()) - P * Z + 0.5 * P.square()).sum(1)


X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
problem = Problem(Network.chain([3, 4]), lift=Blend(), gamma=1.0, ridge_V=0.1)
assert certify(BlockDescent(max_iter=20).run(problem, X, X[:, :2].abs()))["promise"].holds
