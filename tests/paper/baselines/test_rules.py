"""Every rule against its formula written slowly, or against torch's own."""

import math

import pytest
import torch

from tests.strategies import normal
from tikhonet import Fenchel, Network, Problem, Softmax, Squared
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.rules import Product, Rule, orthogonalised

RATES = {
    "SGD": 0.03,
    "Nesterov": 0.03,
    "AdaGrad": 0.02,
    "AdaDelta": 1.0,
    "RMSProp": 1e-3,
    "Adam": 3e-3,
    "AdamW": 3e-3,
    "ScheduleFree": 1e-2,
    "Muon": 1e-2,
    "SOAP": 1e-2,
    "InputKFAC": 0.05,
    "LocoProp": 1e-3,
}
TORCH = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW, "AdaGrad": torch.optim.Adagrad}
STEPS = 24


def start(rows=5, columns=7):
    """V and two matrices in float64, one of them a column as a bias is."""
    V, *W = (normal(*shape, seed=k) for k, shape in enumerate([(3, rows), (rows, columns), (rows, 1)]))
    return V, W


def moved(rule, gradients, rate):
    """The parameters after steps along given gradients."""
    for own in gradients:
        for parameter, g in zip(rule.parameters, own, strict=True):
            parameter.grad = g.clone()
        rule.step(rate, ())
    return rule.parameters


def random_gradients(parameters, steps=STEPS):
    return [[normal(*p.shape, seed=100 * t + k) for k, p in enumerate(parameters)] for t in range(steps)]


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("loss", [Squared(), Softmax()], ids=lambda loss: loss.name)
def test_every_rule_learns_the_digits_with_both_losses(name, loss, digits):
    X, y = digits
    problem = Problem(Network.chain([64, 40, 40], bias=True), lift=Fenchel(), loss=loss)
    solver = Backprop(name, RATES[name], epochs=5, batch_size=64, decay=1e-4)
    training = solver.run(problem, X[:1300], loss.encode(y[:1300], 10))
    scores = problem.network.features(X[1300:], training.blocks.W) @ training.blocks.V.T
    assert training.epochs[-1].loss < 0.7 * training.epochs[0].loss
    assert float((scores.argmax(1) != y[1300:]).float().mean()) < 0.35


def test_all_rules_are_tested():
    assert set(RATES) == set(Rule.kinds)


@pytest.mark.parametrize("name", TORCH)
def test_torchs_rules_are_torchs(name):
    V, W = start()
    copies = [parameter.clone() for parameter in (V, *W)]
    rule = Rule.kinds[name](V, W, STEPS, 0.1)
    gradients = random_gradients(rule.parameters)
    optimizer = TORCH[name](copies, lr=0.03, weight_decay=0.1)
    for own in gradients:
        for parameter, g in zip(copies, own, strict=True):
            parameter.grad = g.clone()
        optimizer.step()
    for found, expected in zip(moved(rule, gradients, 0.03), copies, strict=True):
        torch.testing.assert_close(found, expected)


def test_schedule_free_follows_the_published_sequences_and_answers_with_their_average():
    V, W = start()
    rule = Rule.kinds["ScheduleFree"](V, W, STEPS, 0.1)
    gradients = random_gradients(rule.parameters)
    y = W[0].clone()
    x, z, s, squares = y.clone(), y.clone(), torch.zeros_like(y), 0.0
    for t, own in enumerate(gradients, 1):
        g, rate = own[1], 0.03 * min(1.0, t / (0.05 * STEPS))
        s = 0.999 * s + 0.001 * g * g
        z = z - rate * (g / ((s / (1 - 0.999**t)).sqrt() + 1e-8) + 0.1 * y)
        squares += rate**2
        x = (1 - rate**2 / squares) * x + rate**2 / squares * z
        y = 0.1 * z + 0.9 * x
    moved(rule, gradients, 0.03)
    torch.testing.assert_close(W[0], y)
    with rule.at_answer():
        torch.testing.assert_close(W[0], x)
    torch.testing.assert_close(W[0], y)


@pytest.mark.parametrize("shape", [(9, 9), (6, 11), (11, 6)])
def test_newton_schulz_brings_all_singular_values_near_one_and_keeps_the_bases(shape):
    G = normal(*shape).float()
    left, _, right = torch.linalg.svd(G, full_matrices=False)
    core = left.T @ orthogonalised(G) @ right.T
    off = core - torch.diag(core.diagonal())
    assert float(off.abs().max()) < 1e-4
    assert 0.6 < float(core.diagonal().min()) <= float(core.diagonal().max()) < 1.3


def test_muon_steps_as_torchs_does_but_for_its_bfloat16():
    V, W = (part if isinstance(part, torch.Tensor) else [M.float() for M in part] for part in start(20, 20))
    rule = Rule.kinds["Muon"](V.float(), W, 5, 0.1)
    copy = W[0].clone()
    gradients = [[g.float() for g in own] for own in random_gradients(rule.parameters, 5)]
    optimizer = torch.optim.Muon([copy], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for own in gradients:
        copy.grad = own[1].clone()
        optimizer.step()
    moved(rule, gradients, 0.01)
    # torch's M forgets by 0.05 instead of adding up, which the direction of the step does not see.
    torch.testing.assert_close(W[0], copy, atol=0.01, rtol=0.05)


def test_soap_is_adam_in_the_eigenbasis_of_both_factors():
    V, W = start()
    rule = Rule.kinds["SOAP"](V, W, STEPS, 0.1)
    gradients = random_gradients(rule.parameters)
    w, b = W[0].clone(), 0.95
    first = gradients[0][1]
    L, R = (1 - b) * first @ first.T, (1 - b) * first.T @ first
    QL, QR = (torch.linalg.eigh(M)[1].flip(1) for M in (first @ first.T, first.T @ first))
    M, s = torch.zeros_like(w), torch.zeros_like(w)  # M in the matrix's own coordinates
    for t, own in enumerate(gradients[1:], 1):
        g = own[1]
        M = b * M + (1 - b) * g
        s = b * s + (1 - b) * (QL.T @ g @ QR) ** 2
        step = (QL.T @ M @ QR / (1 - b**t)) / ((s / (1 - b**t)).sqrt() + 1e-8)
        w = (1 - 0.03 * 0.1) * w - 0.03 * QL @ step @ QR.T
        L, R = b * L + (1 - b) * g @ g.T, b * R + (1 - b) * g.T @ g
        if (t + 1) % 10 == 0:
            orders = [torch.diag(Q.T @ F @ Q).argsort(descending=True) for Q, F in ((QL, L), (QR, R))]
            QL, QR = (torch.linalg.qr(F @ Q[:, o])[0] for Q, F, o in ((QL, L, orders[0]), (QR, R, orders[1])))
            s = s[orders[0]][:, orders[1]]
    moved(rule, gradients, 0.03)
    torch.testing.assert_close(W[0], w)


def linear_regression():
    """A network without hidden weights: V is the solution of least squares."""
    X, T = normal(40, 6), normal(40, 3, seed=1)
    V = normal(3, 6, seed=2).requires_grad_()
    return X, T, V


def test_one_sided_kfac_without_damping_solves_least_squares_in_one_step():
    X, T, V = linear_regression()
    rule = Rule.kinds["InputKFAC"](V, [], 1, damping=1e-9)
    scores = X @ V.T
    scores.retain_grad()
    (0.5 * (scores - T).square().sum(1).mean()).backward()
    rule.step(1.0, [Product(V, X, scores, lambda S: S)])
    torch.testing.assert_close(V.detach(), torch.linalg.lstsq(X, T).solution.T, rtol=1e-5, atol=1e-6)


def test_the_first_local_step_of_locoprop_is_back_propagation_and_more_come_nearer_to_the_targets():
    def after(local, rate=0.01):
        X, T, V = linear_regression()
        rule = Rule.kinds["LocoProp"](V, [], 1, pull=0.5, local=local)
        scores = X @ V.T
        scores.retain_grad()
        (0.5 * (scores - T).square().sum(1).mean()).backward()
        before, slope = V.detach().clone(), V.grad.clone()
        rule.step(rate, [Product(V, X, scores, lambda S: S + 0.0)])
        targets = X @ before.T - 0.5 * (X @ before.T - T)
        return V.detach() - before, slope, float((X @ V.detach().T - targets).square().sum())

    change, slope, once = after(1)
    g = 0.5 * slope
    torch.testing.assert_close(change, -0.01 * g / ((0.1 * g * g).sqrt() + 1e-6))
    assert after(8)[2] < once


def test_a_layered_rule_cannot_be_pruned():
    from tikhonet.paper.baselines.pruning import Pruning

    with pytest.raises(ValueError, match="pruning must be None for InputKFAC"):
        Backprop("InputKFAC", pruning=Pruning(0.1))


def test_the_rate_may_fall_linearly():
    assert Backprop(schedule="linear").annealed(0.25) == 0.75
    assert math.isclose(Backprop().annealed(0.5), 0.5)
