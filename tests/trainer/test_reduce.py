"""Every sum over rows goes through `reduce`: two ranks with half of each batch go where one with all rows goes."""

import math

import pytest
import torch

from tests.threads import Ranks
from tests.trainer.runs import same
from tikhonet import BlockDescent, Budget, Fenchel, Network, Problem, Softmax, Squared, Status, Stochastic
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.step import Stepper
from tikhonet.trainer.sweep import forward

ROWS = 30
"""A batch: so few that probes and checks see all of its rows, on one rank and on two."""
MIXED = Network([8, 12, 8, 6], {(1, 0): "dense", (2, 1): "dense", (2, 0): "identity", (3, 2): "dense"}, bias=[1, 3])
CASES = {
    "squared": (Squared(), {}),
    "softmax": (Softmax(), {}),
    "full metric": (Squared(), {"metric": "full", "damping_W": 0.1}),
    "layers": (Squared(), {"budget": Budget(0.2)}),
    "few weights": (Squared(), {"budget": Budget(0.05, "network")}),
    "stopped before its budget is met": (Squared(), {"budget": Budget(0.2, "row", frozen=0.9)}),
}


def data(loss, batches=9, weighted=True):
    generator = torch.Generator().manual_seed(0)
    X = 3 + torch.randn(batches * ROWS, 8, generator=generator, dtype=torch.float64)
    targets = loss.encode((X[:, :3] * X[:, 3:6]).argmax(1), 3).double()
    weight = torch.rand(len(X), generator=generator, dtype=torch.float64) if weighted else None
    if weighted:
        weight[2 * ROWS : 2 * ROWS + 20] = 0.0  # all rows of one rank in the third batch
    parts = (X, targets) if weight is None else (X, targets, weight)
    return list(zip(*(part.split(ROWS) for part in parts), strict=True))


def cut(batch, rank):
    rows = slice(0, 20) if rank == 0 else slice(20, None)
    return tuple(part[rows] for part in batch)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_two_ranks_with_half_of_each_batch_equal_one_with_all(name, weighted):
    loss, settings = CASES[name]
    problem = Problem(MIXED, loss, Fenchel())
    solver = Stochastic(epochs=6, drop_inputs=0.0, drop_features=0.0, **settings)
    *batches, held_out = data(loss, weighted=weighted)
    stop = (lambda epoch: epoch.number == 3) if "stopped" in name else None
    options = {"dtype": torch.float64, "seed": 4, "watch": stop}
    one = solver.run(problem, batches, validation=held_out, **options)

    def job(rank, reduce):
        mine = [cut(batch, rank) for batch in batches]
        return solver.run(problem, mine, validation=cut(held_out, rank), reduce=reduce, **options)

    ranks = Ranks()
    first, second = ranks.run(job)
    assert same(first, second)
    assert ranks.calls > 100
    torch.testing.assert_close(first.blocks.V, one.blocks.V, rtol=1e-7, atol=1e-9)
    for edge, matrix in one.blocks.W.items():
        torch.testing.assert_close(first.blocks.W[edge], matrix, rtol=1e-7, atol=1e-9)
    for there, here in zip(first.epochs, one.epochs, strict=True):
        found = (there.loss, there.validation_loss, there.validation_error, there.trust, there.rejected, there.density)
        wanted = (here.loss, here.validation_loss, here.validation_error, here.trust, here.rejected, here.density)
        assert found == pytest.approx(wanted, rel=1e-9)
    if solver.budget:
        there, here = first.sparsity.refit, one.sparsity.refit
        assert (there.before, there.after) == pytest.approx((here.before, here.after), rel=1e-7)


def test_the_polish_and_the_refit_of_two_ranks_equal_those_of_one():
    problem = Problem(Network.chain([8, 6]), gamma=1.0, ridge_V=0.5, ridge_W=0.5)
    X, targets = data(Squared(), 1, weighted=False)[0]
    settings = {"drop_inputs": 0.0, "drop_features": 0.0, "initial_scale": 0.4}
    solver = Stochastic(epochs=2, polish=BlockDescent(max_iter=3, inner_tol=1e-9, tol=1e-9), **settings)
    one = solver.run(problem, X, targets, dtype=torch.float64)

    def job(rank, reduce):
        return solver.run(problem, *cut((X, targets), rank), dtype=torch.float64, reduce=reduce)

    first, second = Ranks().run(job)
    assert same(first, second)
    torch.testing.assert_close(first.blocks.V, one.blocks.V, rtol=1e-5, atol=1e-7)
    features = torch.rand(ROWS, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = features, targets
    alone = solver.refit_V(problem, one.blocks.V, [Batch(*rows)])

    def refit(rank, reduce):
        return solver.refit_V(problem, one.blocks.V, [Batch(*cut(rows, rank))], reduce=reduce)

    for found in Ranks().run(refit):
        torch.testing.assert_close(found, alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("before", "falls"), [((0.0, 9.0), True), ((0.0, 0.1), False)])
def test_ranks_agree_whether_a_loss_falls(before, falls):
    """It rises on the first rank, and falls on the second by more or by less."""
    problem = Problem(MIXED, lift=Fenchel())

    def job(rank, reduce):
        batch = Batch(*cut(data(Squared(), 1, weighted=False)[0], rank))
        generator = torch.Generator().manual_seed(0)
        step = Stepper.of(problem, Stochastic(), batch, 10, generator, reduce)
        state = step.begin(batch, None, 1.0, 0, generator)
        here = forward(problem, batch.X, state.W, {})
        return step.falls(batch, state.W, state.classifier.V, here, batch.targets + before[rank])

    assert Ranks().run(job) == [falls, falls]


def test_a_bad_batch_on_one_rank_ends_the_run_on_both():
    problem = Problem(MIXED, lift=Fenchel())

    def job(rank, reduce):
        batches = [cut(batch, rank) for batch in data(Squared())]
        if rank:
            batches[3][0][1, 1] = math.nan
        return Stochastic(epochs=2).run(problem, batches, dtype=torch.float64, reduce=reduce)

    for training in Ranks().run(job):
        assert training.status is Status.NONFINITE
        assert "batch 3 of epoch 1 holds NaN or infinity in X" in training.message
