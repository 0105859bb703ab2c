import torch

from tikhonet import BCDRegressor, Loss


class LogCosh(Loss):
    """sum_j log cosh(s_j - t_j): squares of small differences, sizes of large ones."""

    name = "log_cosh"
    curvature = 1.0

    def rows(self, T, S):
        size = (S - T).abs()
        return (size + torch.nn.functional.softplus(-2 * size) - torch.log(torch.tensor(2.0))).sum(1)

    def slope(self, T, S):
        return torch.tanh(S - T)


X, y = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).numpy(), range(60)
assert BCDRegressor(loss="log_cosh").fit(X, y).predict(X).shape == (60,)
