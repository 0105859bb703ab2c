"""The V-step against the written objective, and what its Solution says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import LOSSES, SETS, make_blocks, make_samples, normal, problems, seeds
from tikhonet import Blocks, Everything, Network, NonNegative, Problem, Samples, Softmax, SquaredHinge
from tikhonet.descent.linear import update_classifier

FREE, BOX = SETS[0], SETS[-1]
rhos = st.sampled_from([0.0, 0.1, 1.0])


def on_features(problem: Problem, features: torch.Tensor, labels: torch.Tensor, V: torch.Tensor):
    """Samples and blocks with these features in the last layer, the only ones that the V-step looks at."""
    X = torch.ones(len(features), problem.network.widths[0], dtype=features.dtype)
    samples = Samples(X, problem.loss.encode(labels, len(V)).to(features), chunk_rows=5)
    W = problem.network.random_weights(0, dtype=features.dtype)
    return samples, Blocks({0: X, problem.network.depth: features}, V, W)


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@settings(max_examples=4)
@given(data=st.data(), seed=seeds, rho=st.sampled_from([0.1, 1.0]), weighted=st.booleans())
def test_the_classifier_minimises_the_written_objective(loss, set_, data, seed, rho, weighted):
    problem = data.draw(problems(losses=[loss], sets=[set_]))
    samples = make_samples(problem, seed, weighted=weighted)
    blocks = make_blocks(problem, samples, seed)
    found = update_classifier(problem, blocks, samples, rho, tol=1e-10, max_iter=5000)
    program = oracles.classifier(problem, blocks, samples, rho)
    expected, least = program.minimum()
    np.testing.assert_allclose(found.point, expected["V"], atol=1e-6)
    assert program.value({"V": found.point}) == pytest.approx(least, abs=1e-7)
    assert program.residual({"V": found.point}) <= 1e-8 * (1 + found.scale)
    assert set_.contains(found.point)


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@settings(max_examples=2)
@given(data=st.data(), seed=seeds)
def test_without_a_proximal_term_the_least_value_is_reached(loss, set_, data, seed):
    # Without a ridge the minimiser need not be unique, and on separable data the softmax has none; in an
    # unbounded set few samples may put it far away, where first-order steps take long to go.
    ridge = 0.1 if loss == Softmax() else 0.0
    problem = replace(data.draw(problems(losses=[loss], sets=[set_])), ridge_V=ridge)
    samples = make_samples(problem, seed, rows=30 if isinstance(set_, (Everything, NonNegative)) else 7)
    blocks = make_blocks(problem, samples, seed)
    found = update_classifier(problem, blocks, samples, 0.0, tol=1e-9, max_iter=5000)
    program = oracles.classifier(problem, blocks, samples, 0.0)
    assert program.value({"V": found.point}) == pytest.approx(program.minimum()[1], abs=1e-7)


@settings(max_examples=50)
@given(width=st.integers(2, 6), rows=st.integers(1, 8), seed=seeds)
def test_ridge_regression_on_singular_features_gives_the_classifier_nearest_to_the_old_one(width, rows, seed):
    # A dead unit and two equal ones, theta_1 = 1 and no ridge: line 3 of Alg. 1 has many minimisers.
    features = normal(rows, width, seed=seed).abs()
    features[:, 0], features[:, -1] = 0, features[:, width // 2]
    problem = Problem(Network.chain([1, width]))
    V = normal(3, width, seed=seed + 1)
    samples, blocks = on_features(problem, features, torch.arange(rows) % 3, V)
    found = update_classifier(problem, blocks, samples, 0.0).point
    change = torch.linalg.pinv(features, rtol=1e-10) @ (samples.targets - features @ V.T)
    torch.testing.assert_close(found, V + change.T, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@settings(max_examples=6)
@given(data=st.data(), seed=seeds, rho=rhos, weighted=st.booleans())
def test_the_solution_states_its_residual_gradient_and_scale_in_float64(loss, dtype, data, seed, rho, weighted):
    problem = data.draw(problems(losses=[loss]))
    exact = make_samples(problem, seed, rows=9, weighted=weighted)
    weight = exact.weight.to(dtype) if weighted else None
    samples = Samples(exact.X.to(dtype), exact.targets.to(dtype), weight, chunk_rows=4)
    blocks = make_blocks(problem, samples, seed)
    found = update_classifier(problem, blocks, samples, rho, tol=0.1, max_iter=3)
    program = oracles.classifier(problem, blocks, samples, rho)
    zero = {"V": torch.zeros_like(blocks.V)}
    scale = np.linalg.norm(program.gradient(zero)["V"])
    true, gradient = program.residual({"V": found.point}), program.gradient({"V": found.point})["V"]
    assert found.residual == pytest.approx(true, rel=1e-6, abs=1e-9 * scale)
    assert found.gradient == pytest.approx(np.linalg.norm(gradient), rel=1e-6, abs=1e-9 * scale)
    assert found.scale == pytest.approx(scale, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_ridge_is_the_number_that_was_given(loss):
    # 0.1 rounded to float32 would leave a gradient of 1e-9 behind.
    problem = Problem(Network.chain([3, 4]), loss, ridge_V=0.1)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    found = update_classifier(problem, blocks, samples, 0.0, tol=1e-13, max_iter=5000)
    gradient = oracles.classifier(problem, blocks, samples, 0.0).gradient({"V": found.point})["V"]
    assert np.linalg.norm(gradient) <= 1e-12 * found.scale


@pytest.mark.parametrize("tol", [1e-2, 1e-3])
@pytest.mark.parametrize("seed", [25, 46, 47, 50])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_an_early_end_means_that_the_residual_is_below_the_tolerance(loss, seed, tol):
    # Features with a large common part: far from the minimiser a model step may be short and its residual large.
    problem = Problem(Network.chain([1, 6]), loss)
    features = normal(60, 6, seed=seed).abs() + 100
    labels = torch.randint(0, 3, (60,), generator=torch.Generator().manual_seed(seed))
    samples, blocks = on_features(problem, features, labels, 0.3 * normal(3, 6, seed=seed + 2))
    found = update_classifier(problem, blocks, samples, 0.1, tol=tol, max_iter=300)
    assert found.steps == 300 or found.relative <= tol


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_max_iter_bounds_the_steps(loss):
    problem = Problem(Network.chain([3, 4]), loss, V_set=BOX)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    found = update_classifier(problem, blocks, samples, 0.1, tol=1e-12, max_iter=2)
    assert found.steps <= 2


@settings(max_examples=12)
@given(problem=problems(), seed=seeds, rho=rhos, max_iter=st.integers(1, 10))
def test_the_objective_is_never_above_that_of_the_start(problem, seed, rho, max_iter):
    samples = make_samples(problem, seed, weighted=True)
    blocks = make_blocks(problem, samples, seed)
    found = update_classifier(problem, blocks, samples, rho, max_iter=max_iter)
    before = problem.objective(blocks, samples).total
    after = problem.objective(replace(blocks, V=found.point), samples).total
    assert after + rho / 2 * float((found.point - blocks.V).square().sum()) <= before + 1e-12 * (1 + before)


@settings(max_examples=12)
@given(problem=problems(), seed=seeds, rho=st.sampled_from([0.1, 1.0]))
def test_integer_weights_are_repetitions(problem, seed, rho):
    once = make_samples(problem, seed, rows=4)
    blocks = make_blocks(problem, once, seed)
    times = torch.tensor([1, 3, 0, 2])
    weighted = replace(once, weight=times.double())
    repeated = replace(once, X=once.X.repeat_interleave(times, 0), targets=once.targets.repeat_interleave(times, 0))
    copies = replace(blocks, U={m: layer.repeat_interleave(times, 0) for m, layer in blocks.U.items()})
    one = update_classifier(problem, blocks, weighted, rho, tol=1e-12, max_iter=5000)
    two = update_classifier(problem, copies, repeated, rho, tol=1e-12, max_iter=5000)
    torch.testing.assert_close(one.point, two.point, atol=1e-9, rtol=0)
    assert one.scale == pytest.approx(two.scale)


@settings(max_examples=12)
@given(problem=problems(), seed=seeds, rho=st.sampled_from([0.1, 1.0]), chunk_rows=st.integers(1, 6))
def test_chunked_equals_whole(problem, seed, rho, chunk_rows):
    whole = make_samples(problem, seed, weighted=True, chunk_rows=100)
    blocks = make_blocks(problem, whole, seed)
    chunked = replace(whole, chunk_rows=chunk_rows)
    one, two = (update_classifier(problem, blocks, s, rho, tol=1e-13, max_iter=5000) for s in (whole, chunked))
    torch.testing.assert_close(one.point, two.point, atol=1e-10, rtol=0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("set_", [FREE, BOX], ids=str)
@pytest.mark.parametrize("where", ["U", "V"])
def test_what_is_not_finite_shows_in_the_residual(loss, set_, where):
    problem = Problem(Network.chain([3, 4]), loss, V_set=set_)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    {"U": blocks.U[1], "V": blocks.V}[where][0, 0] = torch.nan
    assert np.isnan(update_classifier(problem, blocks, samples, 1.0).residual)


def test_a_perfect_classifier_of_the_squared_hinge_stays_where_it_is():
    problem = Problem(Network.chain([1, 3]), SquaredHinge())
    samples, blocks = on_features(
        problem, torch.eye(3, dtype=torch.float64), torch.arange(3), 4 * torch.eye(3, dtype=torch.float64) - 2
    )
    found = update_classifier(problem, blocks, samples, 0.0)
    assert torch.equal(found.point, blocks.V)
    assert found.residual == 0
