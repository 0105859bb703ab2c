"""The trainer on networks of images."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.strategies import make_blocks, make_samples, normal, problems, seeds
from tikhonet import (
    AvgPool2d,
    BlockDescent,
    Budget,
    Conv2d,
    GlobalAverage,
    Network,
    NetworkDescent,
    Problem,
    SameBits,
    Status,
    Stochastic,
    compact,
    from_torch,
)
from tikhonet.network.errors import ArgumentError
from tikhonet.trainer.recipe import IMAGES, LASTING_IMAGES, LONG
from tikhonet.trainer.sparsity.zeros import check_sparsity
from tikhonet.trainer.sweep import forward, targets_sweep

NETWORK = Network.sequential((1, 6, 6), Conv2d(8, 3), AvgPool2d(2), Conv2d(8, 2, groups=2), GlobalAverage())


def stripes(rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Images with a bright line across or down, at any place, and which of them it is."""
    generator = torch.Generator().manual_seed(seed)
    X = 0.3 * torch.randn(rows, 6, 6, generator=generator)
    down, place = (torch.randint(0, k, (rows,), generator=generator) for k in (2, 6))
    for image, label, at in zip(X, down, place, strict=True):
        (image.T if label else image)[at] += 1.5
    return X.flatten(1), nn.functional.one_hot(down, 2).float()


def error(training, X, Y) -> float:
    scores = training.problem.network.features(X, training.blocks.W) @ training.blocks.V.T
    return float((scores.argmax(1) != Y.argmax(1)).double().mean())


def test_it_learns_what_does_not_depend_on_the_place():
    (X, Y), (X_test, Y_test) = stripes(600), stripes(300, seed=1)
    problem = Problem(NETWORK, lift="fenchel", gamma=1.0)
    training = Stochastic(epochs=20, batch_size=60).run(problem, X, Y)
    assert error(training, X_test, Y_test) < 0.1
    assert Stochastic().preset(NETWORK) == IMAGES
    weighted = Stochastic(epochs=1, batch_size=60).run(problem, X, Y, weight=torch.arange(600.0))
    assert weighted.epochs[0].loss > 0


def test_long_runs_forget_sooner_but_not_under_a_budget():
    assert Stochastic().preset(NETWORK, 2 * LONG) == LASTING_IMAGES
    assert Stochastic(memory=0.8).preset(NETWORK, 2 * LONG).memory == 0.8
    assert Stochastic(budget=Budget(0.5)).preset(NETWORK, 2 * LONG) == replace(IMAGES, turns=False)


@given(problems(images=True), seeds)
def test_layers_given_as_images_have_the_values_of_rows(problem, seed):
    network, samples = problem.network, make_samples(problem, seed)
    blocks = make_blocks(problem, samples, seed)
    passes = [forward(problem, X, blocks.W, {}) for X in (samples.X, network.seen(samples.X))]
    slope = normal(len(samples.X), len(blocks.V), seed=seed)
    residuals = [targets_sweep(problem, blocks.V, blocks.W, here, slope, 3.0) for here in passes]
    for n in network.hidden:
        assert passes[1].A[n].ndim == (4 if len(network.shapes[n]) > 1 else 2)
        pairs = [[here.A[n] for here in passes], [grad_Z[n] for grad_Z in residuals]]
        if network.learned_sources(n):
            designs = [network.design(n, here.A) for here in passes]
            pairs.append([design.product(grad_Z[n]) for design, grad_Z in zip(designs, residuals, strict=True)])
            pairs.append([design.gram() for design in designs])
        for rows, images in pairs:
            torch.testing.assert_close(images.reshape(rows.shape), rows)


def test_pixels_as_images_take_the_steps_of_dense_edges_bit_by_bit():
    conv = Network([(5, 1, 1), (7, 1, 1), (4, 1, 1)], {(1, 0): Conv2d(7, 1), (2, 1): Conv2d(4, 1)}, bias=True)
    X, Y = normal(90, 5).float(), normal(90, 3, seed=1).float()
    same = {"change": 0.3, "momentum": 0.95, "metric": "full", "damping_W": 1.0, "turns": False}
    same |= {"drop_inputs": 0.1, "drop_features": 0.2}
    solver = Stochastic(epochs=2, batch_size=30, **same)
    one, two = (
        solver.run(Problem(net, lift="fenchel", gamma=1.0), X, Y) for net in (conv, Network.chain([5, 7, 4], bias=True))
    )
    assert torch.equal(one.blocks.V, two.blocks.V)
    assert all(torch.equal(one.blocks.W[pair], matrix) for pair, matrix in two.blocks.W.items())


def test_the_direction_of_a_step_is_that_of_autograd_in_the_metric_of_patches(monkeypatch):
    """Without momentum, memory and dropout a first step is  -gradient (G + damping)^-1  up to its length."""
    monkeypatch.setattr("tikhonet.network.designs.LEAST", 50)  # all rows, which come in another order
    network = Network.sequential((1, 5, 5), Conv2d(3, 3), 4, bias=False)
    X, Y = normal(50, 25), normal(50, 2, seed=1)
    start = network.random_weights(0, dtype=torch.float64)
    plain = {"change": 0.3, "momentum": 0.0, "memory": 0.0, "averaging": 0.0, "drop_features": 0.0}
    plain |= {"damping_W": 1.0, "turns": False}
    solver = Stochastic(epochs=1, batch_size=50, damping_U=1e9, refit=False, **plain)
    run = solver.run(Problem(network, lift="fenchel", gamma=1.0), X, Y, start=start, dtype=torch.float64)
    step = run.blocks.W[1, 0] - start[1, 0]
    W = {pair: matrix.clone().requires_grad_() for pair, matrix in start.items()}
    unit = X.square().mean().sqrt()
    A = [X / unit]
    Z = network.pre_activation(1, {0: A[0]}, W)
    features = (Z.relu() @ W[2, 1].T).relu()
    S = features.detach().T @ features.detach()
    ridge = 0.1 * S.diagonal().mean()
    V = torch.linalg.solve(S + ridge * torch.eye(4).double(), features.detach().T @ Y).T
    (gradient,) = torch.autograd.grad(0.5 * (features @ V.T - Y).square().sum(), W[1, 0])
    gram = network.design(1, {0: A[0]}).gram()
    direction = -torch.linalg.solve(gram + gram.diagonal().mean() * torch.eye(9).double(), gradient.T).T
    cosine = (step * direction).sum() / (step.norm() * direction.norm())
    assert float(cosine) > 1 - 1e-6


def module_of_stripes():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    return torch.nn.Sequential(*layers, torch.nn.Linear(4, 2))


def test_a_module_is_read_fitted_and_written_back():
    (X, Y), module = stripes(400), module_of_stripes()
    images, y = X.view(-1, 1, 6, 6), Y.argmax(1)
    before = (module(images).argmax(1) != y).double().mean()
    read = from_torch(module, (1, 6, 6))
    fitted = read.fit(images, y, solver=Stochastic(epochs=5, batch_size=50))
    fitted.write(module)
    scores = module(images)
    assert (scores.argmax(1) != y).double().mean() < before
    torch.testing.assert_close(scores, read.network.features(X, fitted.W) @ fitted.V.T)
    exported = torch.from_numpy(fitted.to_model((0, 1)).scores(X.double().numpy()))
    torch.testing.assert_close(exported.float(), scores.detach())


def test_a_module_is_fitted_by_a_loader_of_labels_as_by_their_encoding():
    (X, Y), module = stripes(200), module_of_stripes()
    read, solver = from_torch(module, (1, 6, 6)), Stochastic(epochs=2)
    rows = TensorDataset(X.view(-1, 1, 6, 6), Y.argmax(1))
    fitted = read.fit(DataLoader(rows, batch_size=50), solver=solver)
    batches = list(zip(X.split(50), Y.split(50), strict=True))
    run = solver.run(Problem(read.network, lift="fenchel", gamma=1.0), batches, start=read.W)
    assert torch.equal(fitted.V, run.blocks.V)
    numbers = read.fit(X, Y, loss="huber", seed=1)  # rows of numbers, as they are
    assert numbers.V.shape == (2, 4)
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.1, got values from 0 to 2"):
        read.fit(X[:3], torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="must have a length"):
        read.fit(batch for batch in batches)


@pytest.mark.parametrize(
    ("X", "y", "argument", "words"),
    [
        (torch.ones(8, 1, 7, 7), torch.arange(8) % 2, "X", "images 1x6x6, or rows of 36 numbers"),
        (torch.ones(8, 1, 6, 6), torch.ones(8), "y", "integer of a class a row, or rows of 2 numbers.* y.long"),
        (torch.ones(8, 1, 6, 6), None, "y", "y must hold a label for each row of an array X, got None"),
        (DataLoader(torch.ones(8, 1, 6, 6)), None, "X", r"batches \(X, y\) or \(X, y, weight\), got Tensor"),
    ],
)
def test_what_a_module_cannot_be_fitted_to_is_refused_by_name(X, y, argument, words):
    read = from_torch(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)), (1, 6, 6))
    with pytest.raises(ArgumentError, match=words) as caught:
        read.fit(X, y)
    assert caught.value.argument == argument


def test_a_number_that_is_none_ends_the_fit_of_a_module_by_an_error():
    (X, Y), read = stripes(400), from_torch(module_of_stripes(), (1, 6, 6))
    images, y, solver = X.view(-1, 1, 6, 6), Y.argmax(1), Stochastic(epochs=2, batch_size=50)
    images[300, 0, 0, 0] = torch.nan
    for rows in ((images, y), (DataLoader(TensorDataset(images, y), batch_size=50),)):
        with pytest.raises(ArgumentError, match=r"after 0 epochs: batch \d of epoch 1 holds NaN .* in X; replace"):
            read.fit(*rows, solver=solver)
    fitted = read.fit(images[:200], y[:200], solver=solver)
    assert read.run is None
    assert [epoch.number for epoch in fitted.run.epochs] == [1, 2]
    assert fitted.run.status is Status.FINISHED


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_module_of_16_bits_is_trained_in_32(dtype):
    (X, Y), module = stripes(200), module_of_stripes().to(dtype)
    fitted = from_torch(module, (1, 6, 6)).fit(X, Y.argmax(1), solver=Stochastic(epochs=1, batch_size=50))
    assert fitted.V.dtype is torch.float32
    assert fitted.write(module)[0].weight.dtype is dtype
    torch.testing.assert_close(module[4].weight, fitted.V.to(dtype))


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


def test_a_data_set_is_fitted_as_its_loader():
    (X, Y), read = stripes(205), from_torch(module_of_stripes(), (1, 6, 6))
    rows, solver = TensorDataset(X.view(-1, 1, 6, 6), Y.argmax(1)), Stochastic(epochs=1, batch_size=50)
    by_hand = read.fit(DataLoader(rows, batch_size=52, shuffle=True), solver=solver)  # four batches, none of five rows
    assert torch.equal(read.fit(rows, solver=solver).V, by_hand.V)
    with pytest.raises(ArgumentError, match=r"got an Endless; use DataLoader\(X, batch_size=50\)"):
        read.fit(Endless(), solver=solver)


def test_a_module_is_fitted_to_nested_lists():
    (X, Y), read = stripes(60), from_torch(module_of_stripes(), (1, 6, 6))
    y, solver = Y.argmax(1), Stochastic(epochs=1, batch_size=30)
    assert torch.equal(read.fit(X.tolist(), y.tolist(), solver=solver).V, read.fit(X, y, solver=solver).V)


def test_logical_ranks_of_a_module_want_arrays():
    (X, Y), read = stripes(60), from_torch(module_of_stripes(), (1, 6, 6))
    rows, solver = TensorDataset(X, Y.argmax(1)), SameBits(Stochastic(epochs=1, batch_size=30), ranks=2)
    for given_ in (rows, DataLoader(rows, batch_size=30)):
        with pytest.raises(ArgumentError, match="X and y must be arrays for SameBits, got a DataLoader"):
            read.fit(given_, solver=solver)


@pytest.mark.parametrize("solver", [BlockDescent(), NetworkDescent(), Stochastic])
def test_other_solvers_of_a_module_are_refused_with_the_way_to_run_them(solver):
    (X, Y), read = stripes(20), from_torch(module_of_stripes(), (1, 6, 6))
    with pytest.raises(ArgumentError, match="solver must be of type Stochastic or SameBits or None, got") as caught:
        read.fit(X, Y, solver=solver)
    assert caught.value.argument == "solver"


def test_images_may_come_in_their_shape_to_every_solver():
    X, Y = stripes(60)
    images, problem = X.view(-1, 1, 6, 6), Problem(NETWORK, lift="fenchel", gamma=1.0, ridge_V=0.1)
    solver = Stochastic(epochs=1, batch_size=30)
    one = solver.run(problem, images, Y, validation=(images, Y)).blocks
    two = solver.run(problem, X.numpy(), Y.numpy(), validation=(X, Y)).blocks
    three = solver.run(problem, [(images[:30], Y[:30]), (images[30:], Y[30:])]).blocks
    assert torch.equal(one.V, two.V)
    assert three.V.shape == two.V.shape
    runs = [BlockDescent(max_iter=1).run(problem, rows, Y) for rows in (X, images)]
    assert torch.equal(runs[0].blocks.V, runs[1].blocks.V)
    with pytest.raises(ValueError, match="X must hold images 1x6x6, or rows of 36 numbers"):
        solver.run(problem, images[:, :, :5], Y)


SHAPES = [(1, 6, 6), (8, 6, 6), (8, 6, 6), (8, 3, 3), 8, 5]
BRANCHES = Network(
    SHAPES,
    {
        (1, 0): Conv2d(8, 3, padding=1),
        (2, 1): Conv2d(8, 3, padding=1, groups=8),
        (3, 2): AvgPool2d(2),
        (3, 1): Conv2d(8, 3, 2, 1, groups=2),
        (4, 3): GlobalAverage(),
        (4, 2): "dense",
        (5, 4): "dense",
    },
    bias=[2, 5],
)
RESIDUAL = Network(
    [(1, 6, 6), (6, 6, 6), (6, 6, 6), (6, 6, 6), 4],
    {(1, 0): Conv2d(6, 3, padding=1), (2, 1): Conv2d(6, 1), (3, 2): Conv2d(6, 1), (3, 1): "identity", (4, 3): "dense"},
    bias=True,
)


@pytest.mark.parametrize("network", [NETWORK, BRANCHES, RESIDUAL])
def test_channels_that_are_dead_are_left_out_and_nothing_changes(network):
    W, V, X = network.random_weights(0), normal(2, network.widths[-1]).float(), normal(9, 36).float()
    same, weights, _ = compact(network, W, V)
    assert same == network
    assert all(torch.equal(weights[pair], matrix) for pair, matrix in W.items())
    for n in network.hidden[:-1]:
        for m in network.learned_sources(n):
            W[n, m][1:4] = 0
    smaller, weights, V_small = compact(network, W, V)
    assert smaller.shapes[1] == (network.shapes[1][0] - 3, *network.shapes[1][1:])
    assert sum(map(torch.numel, weights.values())) < sum(map(torch.numel, W.values()))
    torch.testing.assert_close(smaller.features(X, weights) @ V_small.T, network.features(X, W) @ V.T)


@pytest.mark.parametrize("over", ["row", "layer", "network", "units"])
@pytest.mark.parametrize("network", [NETWORK, BRANCHES, RESIDUAL])
def test_a_budget_of_weights_or_channels_is_met_and_certified(network, over):
    X, Y = stripes(120)
    problem = Problem(network, lift="fenchel", gamma=1.0)
    training = Stochastic(epochs=3, batch_size=30, budget=Budget(0.5, over)).run(problem, X, Y)
    assert all(check.holds for check in check_sparsity(training.sparsity))
    smaller, W, V = compact(network, training.blocks.W, training.blocks.V)
    torch.testing.assert_close(
        smaller.features(X, W) @ V.T,
        network.features(X, training.blocks.W) @ training.blocks.V.T,
        atol=1e-5,
        rtol=1e-4,
    )
    if over == "units":
        assert smaller.shapes[1][0] == network.shapes[1][0] // 2


def test_few_filters_still_learn():
    (X, Y), (X_test, Y_test) = stripes(600), stripes(300, seed=1)
    problem = Problem(NETWORK, lift="fenchel", gamma=1.0)
    training = Stochastic(epochs=20, batch_size=60, budget=Budget(0.4)).run(problem, X, Y)
    assert error(training, X_test, Y_test) < 0.2
