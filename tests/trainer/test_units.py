"""Certificates hold whatever units and places the inputs have."""

import torch

from tikhonet import BlockDescent, Network, Problem, Proximal, Squared, Status, certify


def test_inputs_in_large_units_do_not_excuse_the_other_blocks():
    generator = torch.Generator().manual_seed(0)
    X = 255 * torch.rand(400, 20, generator=generator, dtype=torch.float64)
    targets = torch.randn(400, 2, generator=generator, dtype=torch.float64)
    problem = Problem(Network.chain([20, 15], bias=True), gamma=1.0)
    result = BlockDescent(max_iter=12).run(problem, X, targets)
    start, end = (result.history.stationarity[t].residual for t in (0, 12))
    assert start["W"] > 1e4 * start["U"]
    assert end["U"] > 1e-3 * start["U"]
    assert result.status is Status.MAX_ITER
    assert not certify(result).stationary


def test_float32_steps_keep_their_promises_on_inputs_far_from_zero():
    generator = torch.Generator().manual_seed(0)
    X = 10 + torch.rand(300, 5, generator=generator)
    targets = Squared().encode(torch.randint(0, 3, (300,), generator=generator))
    problem = Problem(Network.chain([5, 8], bias=True), gamma=1.0)
    certificate = certify(BlockDescent(Proximal(1e-3), max_iter=100, tol=1e-9).run(problem, X, targets))
    assert certificate["promise"].holds, certificate
