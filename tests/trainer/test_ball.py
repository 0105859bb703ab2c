"""BCD-S as printed: rows of W in the l1 ball of any radius, in every solver, exactly as stored in float32."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from tikhonet import BlockDescent, Fenchel, Network, Power, Problem, Proximal, RowL1Ball, Stochastic
from tikhonet.model.model_file import weight_tensors
from tikhonet.model.storage import load, save

SOLVERS = {
    "alg1": (BlockDescent(Power(2), max_iter=6), {"gamma": 0.1}),
    "proximal": (BlockDescent(Proximal(0.1), max_iter=4), {"gamma": 0.1}),
    "stochastic": (Stochastic(epochs=4, batch_size=50), {"lift": Fenchel()}),
}


@pytest.mark.parametrize("radius", [0.1, 1.0, 3.7])
@pytest.mark.parametrize("name", SOLVERS)
def test_rows_are_in_the_ball_as_stored_with_exact_zeros(name, radius, tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X[:200] / 16, dtype=torch.float32), torch.tensor(y[:200])
    solver, settings = SOLVERS[name]
    problem = Problem(Network.chain([64, 20, 12]), W_set=RowL1Ball(radius), **settings)
    W = solver.run(problem, X, problem.loss.encode(y), seed=0).blocks.W
    save(tmp_path / "model", {}, weight_tensors(W))
    for stored in (*W.values(), *load(tmp_path / "model")[1].values()):
        assert stored.dtype == torch.float32
        assert np.abs(stored.numpy().astype(np.float64)).sum(1).max() <= radius
        if radius < 1:
            assert int((stored == 0).sum()) > 0.2 * stored.numel()
