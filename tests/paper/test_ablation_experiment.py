"""The ablation: exchanged ingredients are what they say, differences are paired, verdicts follow, the page is made."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.paper.tiny import few_digits
from tikhonet import Fenchel, Network, Problem
from tikhonet.data import load
from tikhonet.paper.ablated_steps import AdamClassifier, Cosines, NetworkModule, back_propagate
from tikhonet.paper.ablation_experiment import AblationSize
from tikhonet.paper.ablation_findings import ablation_claims, all_worse, as_good, near_gradient, none_better
from tikhonet.paper.experiment import find_experiment
from tikhonet.paper.page import write_report
from tikhonet.paper.runner import run
from tikhonet.problem.losses import Squared
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.statistics import RunningClassifier
from tikhonet.trainer.sweep import forward, targets_sweep

ABLATION = find_experiment("ablation")
TINY = AblationSize("tiny", epochs=2, batch_size=50, adam=(1e-3, 32), threads=1)
CHOSEN = (
    "default",
    "backprop",
    "metric-none",
    "adam-V-0.003",
    "targets-0.3",
    "head-svm",
    "head-logistic",
    "optim",
    "adam-W",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablation")
    run(ABLATION, few_digits(), TINY, folder, solvers=CHOSEN, trials=(0, 1))
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return ABLATION.compare(run(ABLATION, few_digits(), TINY, folder, solvers=CHOSEN, trials=(0, 1)))


def pass_of(seed=0):
    """A batch on the paper's network with a dropout mask, in float64."""
    generator = torch.Generator().manual_seed(seed)
    problem = Problem(Network.paper(6), lift=Fenchel())
    W = {pair: M.double() for pair, M in problem.network.random_weights(seed).items()}
    X, T, V = (torch.randn(shape, generator=generator).double() for shape in ((20, 6), (20, 3), (3, 6)))
    mask = (torch.rand(20, 6, generator=generator) > 0.3).double()
    return problem, V, W, forward(problem, X, W, {3: mask}), T


def test_back_propagation_is_the_gradient_of_autograd():
    problem, V, W, here, T = pass_of()
    leaves = {pair: M.clone().requires_grad_() for pair, M in W.items()}
    u0 = here.A[0]
    u1 = (u0 @ leaves[1, 0].T).relu()
    u2 = (u1 @ leaves[2, 1].T + u0).relu()
    u3 = (u2 @ leaves[3, 2].T + u1 + u0).relu() * here.masks[3]
    problem.loss.rows(T, u3 @ V.T).sum().backward()
    slope = problem.loss.slope(T, here.A[3] @ V.T)
    found = back_propagate(problem, V, W, here, slope)
    for n in (1, 2, 3):
        torch.testing.assert_close(found[n].T @ here.A[n - 1], leaves[n, n - 1].grad)


def test_the_sweep_with_near_targets_is_back_propagation_to_first_order():
    problem, V, W, here, T = pass_of()
    slope, cosines = problem.loss.slope(T, here.A[3] @ V.T), Cosines()
    exact = back_propagate(problem, V, W, here, slope)
    for step, damping in enumerate((1e6, 0.01)):
        cosines.hear(step, targets_sweep(problem, V, W, here, slope, damping), exact)
    assert all(near > 0.9999 > 0.99 > far for near, far in cosines.layers.values())


def test_v_by_adam_is_torchs_adam():
    generator = torch.Generator().manual_seed(0)
    A, T, V = (torch.randn(shape, generator=generator) for shape in ((30, 4), (30, 2), (2, 4)))
    sums, leaf = RunningClassifier.start(V), V.clone().requires_grad_()
    classifier, adam = AdamClassifier(sums.S, sums.T, V, rate=0.01), torch.optim.Adam([leaf], 0.01)
    for _ in range(4):
        classifier = classifier.update(Batch(A, T), 30.0, Squared(), beta=0.9, ridge=0.1)
        adam.zero_grad()
        Squared().rows(T, A @ leaf.T).mean().backward()
        adam.step()
    torch.testing.assert_close(classifier.V, leaf.detach())


def test_the_references_train_the_network_itself():
    network = Network.paper(6)
    W = network.random_weights(0)
    module = NetworkModule(network, W, 3, 0.1, 0.2).eval()
    X, blocks = torch.randn(5, 6), module.blocks
    torch.testing.assert_close(module(X).detach(), network.features(X, W) @ blocks.V.T)
    assert all(torch.equal(blocks.W[pair], W[pair]) for pair in W)


@pytest.mark.parametrize("size", ABLATION.sizes, ids=lambda size: size.name)
def test_every_ingredient_is_exchanged_and_none_for_itself(size):
    methods = ABLATION.methods(size, few_digits())
    ingredients = {"sweep", "lift", "V-step", "targets", "metric", "step", "momentum", "averaging", "dropout", "start"}
    assert {method.ingredient for method in methods} == ingredients | {"", "head", "reference"}
    settings = [str(sorted(method.settings().items())) for method in methods]
    assert len(set(settings)) == len(methods)
    assert "scale-0.5" not in {method.name for method in methods}


def test_a_part_of_a_data_set_is_its_first_images():
    def thousands(name, split):
        digits = load("digits", split)
        return replace(
            digits, values=np.tile(digits.values, (9, *[1] * (digits.values.ndim - 1))), y=np.tile(digits.y, 9)
        )

    whole, part = (ABLATION.read(name, thousands) for name in ("mnist", "mnist-10000"))
    assert len(whole.X_train) > len(part.X_train) == 10_000
    assert len(whole.X_test) == len(part.X_test)


def test_cosines_are_of_the_trainer_and_not_of_references(results):
    assert set(results.rows["default"].layers) == {"W1", "W2", "W3"}
    assert results.rows["targets-0.3"].cosine < results.rows["default"].cosine
    assert not results.rows["adam-W"].layers + results.rows["backprop"].layers


def with_errors(results, **errors):
    """The same rows with these errors by seed."""
    names = {name.replace("_", "-"): values for name, values in errors.items()}
    return ABLATION.compare(
        [
            replace(record, error=names[row.name][record.trial]) if row.name in names else record
            for row in results.rows.values()
            for record in row.records
        ]
    )


def test_differences_are_paired_by_seed(results):
    found = with_errors(results, default=(3.0, 5.0), backprop=(3.1, 5.3))
    difference = found.difference(found.rows["backprop"])
    assert difference == pytest.approx((0.2, 0.1, 0.295), abs=1e-3)
    assert math.isnan(found.difference(found.rows["default"]).mean)


@pytest.mark.parametrize(
    ("higher", "verdict"),
    [((4.0, 6.01), True), ((3.9, 6.1), None), ((3.0, 5.1), None), ((2.0, 4.01), False), ((None, None), True)],
)
def test_an_ingredient_helps_where_the_error_without_it_is_higher_beyond_chance(results, higher, verdict):
    found = with_errors(results, default=(3.0, 5.0), metric_none=higher)
    assert all_worse(found, "metric-none").holds is verdict


@pytest.mark.parametrize(("errors", "verdict"), [((2.0, 4.1), False), ((2.9, 5.2), True)])
def test_a_variant_beats_the_trainer_only_where_it_does_so_surely(results, errors, verdict):
    found = with_errors(results, default=(3.0, 5.0), **{"targets_0.3": errors})
    assert none_better(found, "targets").holds is verdict


def test_verdicts_need_two_seeds(results):
    one = ABLATION.compare([record for record in results.records if record.trial == 0])
    verdicts = (as_good(one, "sweep"), all_worse(one, "metric-none"), none_better(one, "targets"))
    assert {finding.holds for finding in verdicts} == {None}
    assert near_gradient(one).holds is not None


def test_the_page_shows_claims_figures_and_differences(folder, results):
    report = write_report(folder)
    html = report.page.read_text()
    assert re.findall(r'<section id="(\w+)"', html) == ["claims", "figures", "results", "redo"]
    assert {path.stem for path in report.figures} == {
        "figure_errors",
        "figure_cosines_layers",
        "figure_cosines_targets",
    }
    assert "against the trainer" in html
    assert len(ablation_claims(results)) == html.count('class="said"')
