"""The batched non-negative QP with one Hessian against SciPy's nnls and OSQP, all to a KKT residual of 1e-8.

minimise 1/2 u'Hu - b'u over u >= 0, d = 784, 200 right-hand sides, float64. The three are timed in turn,
batch by batch, in one process, by CPU time. Usage: python benchmarks/nonnegative_qp.py [--samples 200]
"""

from __future__ import annotations

import time
from argparse import Namespace

import numpy as np
import osqp
import scipy.sparse
import torch
from machine import arguments, describe, record
from scipy.optimize import nnls

from tikhonet import NonNegative
from tikhonet.descent.convex import minimise_quadratic

WIDTH, ROUNDS, KKT = 784, 4, 1e-8


def make(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A Hessian like the u-step's (Q + V'V + rho I) with condition number near 11, and right-hand sides."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    H = (basis * np.geomspace(1, 11, WIDTH)) @ basis.T
    return (H + H.T) / 2, rng.standard_normal((samples, WIDTH))


def kkt(H: np.ndarray, b: np.ndarray, u: np.ndarray) -> float:
    """The largest relative projected-gradient residual over the samples."""
    residual = u - np.maximum(0, u - (u @ H - b))
    return float((np.linalg.norm(residual, axis=1) / np.linalg.norm(b, axis=1)).max())


def ours(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    start = torch.zeros(b.shape, dtype=torch.float64)
    return minimise_quadratic(torch.tensor(H), torch.tensor(b), NonNegative(), start, tol=KKT / 2).point.numpy()


def by_nnls(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    """nnls wants least squares: |L'u - L^-1 b| with H = L L'."""
    L = np.linalg.cholesky(H)
    right = np.linalg.solve(L, b.T)
    return np.stack([nnls(L.T, column)[0] for column in right.T])


def by_osqp(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One factorisation, then updates of the linear term: the same advantage that we take."""
    solver = osqp.OSQP()
    solver.setup(
        scipy.sparse.csc_matrix(np.triu(H)),
        -b[0],
        scipy.sparse.identity(WIDTH, format="csc"),
        np.zeros(WIDTH),
        np.full(WIDTH, np.inf),
        eps_abs=KKT,
        eps_rel=KKT,
        max_iter=20000,
        polishing=False,
        verbose=False,
    )
    points = []
    for row in b:
        solver.update(q=-row)
        points.append(np.maximum(solver.solve().x, 0))
    return np.stack(points)


def main(options: Namespace) -> None:
    samples = options.samples
    H, b = make(samples)
    print(f"{describe()}; condition {np.linalg.cond(H):.1f}, {samples} samples, d = {WIDTH}")
    solvers = {"tikhonet": ours, "OSQP": by_osqp, "SciPy nnls": by_nnls}
    ours(H, b[:1]), by_osqp(H, b[:1])  # warm up
    seconds, worst = dict.fromkeys(solvers, 0.0), dict.fromkeys(solvers, 0.0)
    for batch in np.array_split(b, ROUNDS):
        for name, solve in solvers.items():
            start = time.process_time()
            u = solve(H, batch)
            seconds[name] += time.process_time() - start
            worst[name] = max(worst[name], kkt(H, batch, u))
    for name in solvers:
        print(f"{name:12} {1e3 * seconds[name] / samples:8.2f} CPU ms a sample, KKT residual {worst[name]:.1e}")
    record(options, {name: {"ms": 1e3 * seconds[name] / samples, "kkt": worst[name]} for name in solvers})
    rival = min(seconds[name] for name in solvers if name != "tikhonet")
    print(f"as fast as the faster of the others, times: {rival / seconds['tikhonet']:.1f}")


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--samples", type=int, default=200)
    main(parser.parse_args())
