import torch

from tikhonet import Dense, Edge, Network


class Reversal(Edge):
    """The source's units in reverse order."""

    name, learned, penalised, shape = "reversal", False, False, (0, 0)

    def apply(self, U, W, out=None):
        return U.flip(1) if out is None else out.add_(U.flip(1))

    def adjoint(self, R, W, out=None, alpha=1.0):
        return alpha * R.flip(1) if out is None else out.add_(R.flip(1), alpha=alpha)

    def feeds(self, W):
        return torch.tensor(True)

    def onward(self, W):
        return torch.tensor(1.0)

    def select(self, W, rows, columns):
        return Dense().join(len(columns), len(rows)), self.export(W).matrix[rows][:, columns]

    def term(self, n, m):
        return f"reversed u{m}"


assert "reversed u0" in repr(Network([3, 3], {(1, 0): "reversal"}, bias=True))
