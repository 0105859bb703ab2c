"""Certificates of random runs against NumPy, which knows the network only by its edges' names."""

import numpy as np
import pytest

from tests.oracles import loss_rows, project
from tests.strategies import ACTIVATIONS, LIFTS, LOSSES, SETS, make_samples
from tikhonet import BIAS, BlockDescent, Fenchel, Network, Power, Problem, Proximal, certify


def random_problem(rng):
    width, depth = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    edges = {(n, n - 1): "dense" for n in range(1, depth + 1)}
    edges |= {(n, m): "identity" for n in range(2, depth + 1) for m in range(n - 1) if rng.random() < 0.5}
    network = Network([width] * (depth + 1), edges, bool(rng.random() < 0.5), ACTIVATIONS[rng.integers(2)])
    names = {"loss": LOSSES, "lift": LIFTS, "V_set": SETS, "W_set": SETS}
    chosen = {name: kinds[rng.integers(len(kinds))] for name, kinds in names.items()}
    return Problem(network, **chosen, gamma=float(rng.uniform(0.1, 2)), ridge_V=0.1, ridge_W=0.05)


def objective(problem, blocks, samples):
    """Eq. 4 in NumPy, matrix by matrix."""
    network, activation = problem.network, problem.network.activation
    U = {m: layer.numpy() for m, layer in blocks.U.items()}
    V = blocks.V.numpy()
    total = loss_rows(problem.loss, samples.targets.numpy(), U[network.depth] @ V.T).value.sum()
    total += problem.ridge_V / 2 * np.square(V).sum()
    for n in network.hidden:
        Z = 0.0
        for (k, m), edge in network.edges.items():
            if k == n:
                Z = Z + (U[m] if edge.name == "identity" else U[m] @ blocks.W[n, m].numpy().T)
        total += problem.gamma / 2 * np.square(U[n] - Z).sum()
        if problem.lift == Fenchel():
            total -= problem.gamma / 2 * np.square(Z - np.clip(Z, activation.lower, activation.upper)).sum()
    return total + sum(problem.ridge_W / 2 * np.square(M.numpy()).sum() for (_, m), M in blocks.W.items() if m != BIAS)


@pytest.mark.parametrize("seed", range(30))
def test_the_certificate_of_a_random_run_agrees_with_numpy(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    samples = make_samples(problem, seed, rows=12)
    schedule = Proximal(float(rng.uniform(0.1, 2))) if rng.random() < 0.7 else Power(2)
    result = BlockDescent(schedule, max_iter=6, inner_tol=1e-4).run(problem, samples.X, samples.targets, seed=seed)
    certificate, blocks = certify(result), result.blocks
    assert result.history.objective[-1] == pytest.approx(objective(problem, blocks, samples), rel=1e-9)
    assert certificate.stationarity.objective == pytest.approx(result.history.objective[-1], rel=1e-9)
    in_sets = [np.abs(project(problem.V_set, blocks.V.numpy()) - blocks.V.numpy()).max()]
    in_sets += [np.abs(project(problem.W_set, M.numpy()) - M.numpy()).max() for (_, m), M in blocks.W.items() if m >= 0]
    low, high = problem.network.activation.lower, problem.network.activation.upper
    in_sets += [np.abs(np.clip(U, low, high) - U).max() for n, U in blocks.U.items() if n > 0 for U in [U.numpy()]]
    assert certificate["feasible"].holds == (max(in_sets) < 1e-12)
    assert certificate["descent"].holds == bool((np.diff(result.history.objective) < 1e-9).all())
    t = result.history.iterations
    steps = [schedule.theta(k) for k in range(t + 1, 10 * t + 1)]
    assert certificate["schedule"].holds == (sum(steps) >= 0.01)
