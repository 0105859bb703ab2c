"""The optimiser for a PyTorch module of one's own: its step, what it gathers, its guard, its state."""

import copy
import gc
import io

import pytest
import torch
from torch import nn

import tikhonet
from tikhonet.optim import GramDescent, LastLayer

X = torch.randn(60, 5, generator=torch.Generator().manual_seed(1))
y = (X[:, 0] * X[:, 1] > 0).long()


def module(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2)
    )


def steps(model, optimizer, count=1):
    for _ in range(count):
        optimizer.zero_grad()
        loss = optimizer.loss(model(X), y) if optimizer.last else nn.functional.cross_entropy(model(X), y)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("metric", ["leading", "full"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_step_is_the_damped_least_squares_step_of_the_wanted_relative_change(metric, bias):
    torch.manual_seed(0)
    layer = nn.Linear(5, 3, bias=bias).double()
    A, target = X.double(), torch.randn(60, 3).double()
    optimizer = GramDescent(layer, 10, metric=metric, momentum=0.0, damping=2.0, lr=0.1)
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    Z = layer(A).detach()
    nn.functional.mse_loss(layer(A), target).backward()
    optimizer.step()
    A = torch.cat([A, torch.ones(60, 1)], 1) if bias else A
    R = torch.cat([p.grad.reshape(3, -1) for p in layer.parameters()], 1)
    G = A.T @ A / 60
    wanted = R @ torch.linalg.inv(G + 2.0 * G.diagonal().mean() * torch.eye(len(G)))
    moved = torch.cat(
        [(old - new.detach()).reshape(3, -1) for old, new in zip(before, layer.parameters(), strict=True)], 1
    )
    torch.testing.assert_close(moved / moved.norm(), wanted / wanted.norm())
    change = (A @ moved.T).square().mean().sqrt() / Z.square().mean().sqrt()
    assert float(change) == pytest.approx(0.1 * 0.06**0.5)  # batches of 60 rows have steps of sqrt(60 / 1000)


@pytest.mark.parametrize("loss", [None, "squared", "softmax"])
def test_a_module_with_other_parameters_and_dropout_learns(loss):
    model = module(dropout=0.1)
    steps(model, GramDescent(model, 150, loss=loss, lr=2.0), 150)
    model.eval()
    assert float((model(X).argmax(1) == y).double().mean()) > 0.9


@pytest.mark.parametrize("loss", [None, "squared", "softmax"])
def test_a_saved_run_goes_on_bit_for_bit(loss):
    whole = module(dropout=0.2)
    steps(whole, one := GramDescent(whole, 20, loss=loss), 4)
    torch.manual_seed(5)
    steps(whole, one, 4)
    broken = module(dropout=0.2)
    steps(broken, two := GramDescent(broken, 20, loss=loss), 4)
    file = io.BytesIO()
    torch.save({"model": broken.state_dict(), "optimizer": two.state_dict()}, file)
    file.seek(0)
    saved, resumed = torch.load(file, weights_only=True), module(seed=3, dropout=0.2)
    resumed.load_state_dict(saved["model"])
    three = GramDescent(resumed, 20, loss=loss)
    three.load_state_dict(saved["optimizer"])
    torch.manual_seed(5)
    steps(resumed, three, 4)
    assert torch.equal(weights(resumed), weights(whole))


def test_gradients_of_two_halves_make_the_step_of_the_whole():
    whole, halves = module(), module()
    one, two = (GramDescent(model, 20, loss="squared") for model in (whole, halves))
    for _ in range(3):
        steps(whole, one)
        two.zero_grad()
        for half in (slice(0, 30), slice(30, 60)):
            (two.loss(halves(X[half]), y[half]) / 2).backward()
        two.step()
    torch.testing.assert_close(weights(halves), weights(whole))


def test_ranks_that_add_up_make_the_step_of_all_rows():
    """Two ranks with the same rows: sums are twice as large, and the gradient is averaged already."""
    alone, doubled = module(), module()
    one, two = GramDescent(alone, 20, reduce=lambda total: 2 * total), GramDescent(doubled, 20)
    half = X[:30], y[:30]
    for _ in range(3):
        for model, optimizer, copies in ((alone, one, 1), (doubled, two, 2)):
            rows, labels = (torch.cat([part] * copies) for part in half)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()
    torch.testing.assert_close(weights(alone), weights(doubled))


def test_sequences_and_layers_that_are_applied_twice_are_rows_of_one_metric():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside, self.end = nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, X):
            return self.end(self.inside(self.inside(X).relu()).relu())

    model = Recurrent()
    optimizer = GramDescent(model, 10, loss="softmax")
    optimizer.loss(model(X.view(12, 5, 5)), y.view(12, 5)).backward()
    (gathered,) = optimizer.inputs
    assert (gathered.rows.shape, gathered.samples) == ((120, 6), 24)
    optimizer.step()
    assert optimizer.last.sums.weight == 60


def test_only_passes_that_are_differentiated_leave_rows():
    model = module()
    optimizer = GramDescent(model, 10)
    model(X)  # never differentiated
    with torch.no_grad():
        model(X)
    model.eval()
    model(X).sum().backward()
    model.train()
    other = copy.deepcopy(model)
    other(X).sum().backward()
    assert not any(inputs.parts for inputs in optimizer.inputs)
    model(X).sum().backward()
    assert all(len(inputs.rows) == 60 for inputs in optimizer.inputs)


def test_hooks_leave_with_the_optimiser():
    model = module()
    optimizer = GramDescent(model, 10, loss="squared")
    steps(model, optimizer)
    assert model[0]._forward_hooks
    del optimizer
    gc.collect()
    assert not any(layer._forward_hooks for layer in model)


def closure_of(model, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X), y)
        loss.backward()
        return loss

    return closure


def test_a_step_that_raises_the_loss_of_its_batch_is_undone():
    model = module(dropout=0.2)
    optimizer = GramDescent(model, 10, lr=1e4)
    before = weights(model)
    optimizer.step(closure_of(model, optimizer))
    assert torch.equal(weights(model), before)
    assert optimizer.param_groups[0]["trust"] == pytest.approx(0.7)


def test_a_step_that_is_tried_sees_the_same_masks_and_leaves_the_random_numbers_as_one_pass_does():
    tried, plain = module(dropout=0.5), module(dropout=0.5)
    one, two = GramDescent(tried, 10), GramDescent(plain, 10)
    torch.manual_seed(7)
    loss = one.step(closure_of(tried, one))
    after = torch.get_rng_state()
    torch.manual_seed(7)
    closure_of(plain, two)()
    two.step()
    assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(weights(tried), weights(plain))
    assert torch.isfinite(loss)


def test_schedulers_of_torch_change_the_relative_change():
    model = module()
    optimizer = GramDescent(model, 10)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    steps(model, optimizer)
    before = optimizer.pace.rate(1, 1.0)
    scheduler.step()
    assert optimizer.pace.rate(1, 1.0) == pytest.approx(before / 2)


def test_frozen_layers_stay():
    model = module()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    steps(model, GramDescent(model, 10), 3)
    assert torch.equal(model[0].weight, before)


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, X):
        return nn.functional.linear(X, self.layer.weight)


def tied():
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    model[2].weight = model[0].weight
    return model


def without_targets():
    model = module()
    optimizer = GramDescent(model, 10, loss="squared")
    nn.functional.cross_entropy(model(X), y).backward()
    optimizer.step()


def of_other_scores():
    model = module()
    GramDescent(model, 10, loss="squared").loss(model(X).softmax(1), y)


def functional():
    model = Functional()
    optimizer = GramDescent(model, 10)
    model(X).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GramDescent(tied(), 10), "must not share .* got 0 and 2"),
        (lambda: GramDescent(nn.Conv1d(2, 2, 1), 10), "must have nn.Linear layers"),
        (lambda: GramDescent(module(), 0), "total_steps must be at least 1, got 0"),
        (lambda: GramDescent(module(), 10, lr=-1), "lr must be positive"),
        (lambda: GramDescent(module(), 10, metric="diagonal"), "metric must be one of 'leading', 'full'"),
        (lambda: GramDescent(module(), 10, loss="hinge"), "loss must be one of"),
        (lambda: GramDescent(module(), 10).loss(X, y), "loss must be given to the optimiser"),
        (without_targets, r"optimizer\.loss\(model\(X\), y\)"),
        (of_other_scores, "scores must be what the last linear layer .* leave softmax"),
        (functional, "must call its linear layers as modules"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_last_layer_is_the_ridge_regression_on_its_features():
    model = module()
    optimizer = GramDescent(model, 10, loss="squared", ridge=0.3)
    A = torch.cat([model[:-1](X).detach(), torch.ones(60, 1)], 1)
    steps(model, optimizer)
    S, T = A.T @ A, A.T @ nn.functional.one_hot(y).float()
    wanted = torch.linalg.solve(S + 0.3 * S.diagonal().mean() * torch.eye(7), T).T
    torch.testing.assert_close(torch.cat([model[-1].weight, model[-1].bias[:, None]], 1).detach(), wanted)


@pytest.mark.parametrize("loss", ["squared", "softmax", "squared_hinge", "huber"])
def test_a_refit_lowers_the_loss_of_all_rows(loss):
    model = module(dropout=0.3)
    optimizer = GramDescent(model, 20, loss=loss)
    steps(model, optimizer, 20)
    model.eval()
    before = float(optimizer.loss(model(X), y).detach())
    optimizer.refit(model, [(X[:40], y[:40]), (X[40:], y[40:])])
    assert float(optimizer.loss(model(X), y).detach()) < before
    assert not model.training


def test_the_exact_last_layer_goes_with_any_optimiser():
    model = module()
    last, adam = LastLayer(model[-1], "squared"), torch.optim.Adam(model[:-1].parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        adam.zero_grad()
        loss = last.loss(model(X), y)
        loss.backward()
        adam.step()
        last.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_numbers_are_targets_too():
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = GramDescent(model, 100, loss="squared")
    target = X[:, 0].abs()
    for _ in range(100):
        optimizer.zero_grad()
        loss = optimizer.loss(model(X), target)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.1 * float(target.var())


def test_the_package_loads_when_it_is_asked_for():
    assert tikhonet.optim.GramDescent is GramDescent
