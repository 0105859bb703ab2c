"""The W-step against the written objective, and what its Solution says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.strategies import LIFTS, SETS, make_blocks, make_samples, normal, problems, seeds
from tikhonet import BIAS, Blocks, Box, Fenchel, Network, NonNegative, Problem, RowL1Ball, Samples, Tikhonov
from tikhonet.descent.linear import WeightSums, update_weights

FREE, BOX = SETS[0], SETS[-1]
rhos = st.sampled_from([0.0, 0.1, 1.0])
LEARNED = dict.fromkeys([(1, 0), (2, 1), (3, 0), (3, 2)], "learned")
MIXED = Network([3, 2, 3, 2], LEARNED | {(2, 0): "identity", (3, 1): "identity"}, bias=[2, 3])
"""Several learned sources beside identities and a bias."""


def norm(point: dict) -> float:
    return float(np.sqrt(sum(np.square(np.asarray(part)).sum() for part in point.values())))


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("lift", LIFTS, ids=str)
@settings(max_examples=4)
@given(data=st.data(), seed=seeds, rho=st.sampled_from([0.1, 1.0]), weighted=st.booleans())
def test_the_weights_minimise_the_written_objective(lift, set_, data, seed, rho, weighted):
    problem = data.draw(problems(lifts=[lift], sets=[set_]))
    check_against_oracle(problem, seed, rho, weighted)


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_several_learned_sources_biases_and_identities_are_fitted_together(lift, set_):
    check_against_oracle(Problem(MIXED, lift=lift, gamma=(0.5, 1.0, 2.0), W_set=set_, ridge_W=0.1), 0, 0.1, True)


def check_against_oracle(problem: Problem, seed: int, rho: float, weighted: bool) -> None:
    samples = make_samples(problem, seed, weighted=weighted)
    blocks = make_blocks(problem, samples, seed)
    found = update_weights(problem, blocks, samples, rho, tol=1e-10, max_iter=5000)
    program = oracles.weights(problem, blocks, samples, rho)
    expected, least = program.minimum()
    assert found.point.keys() == set(problem.network.learned)
    for edge, matrix in found.point.items():
        np.testing.assert_allclose(matrix, expected[edge], atol=1e-6)
        assert problem.edge_set(edge).contains(matrix)
    assert program.value(found.point) == pytest.approx(least, abs=1e-7)
    assert program.residual(found.point) <= 1e-8 * (1 + found.scale)


@pytest.mark.parametrize("set_", SETS, ids=str)
@pytest.mark.parametrize("lift", LIFTS, ids=str)
@settings(max_examples=2)
@given(data=st.data(), seed=seeds)
def test_without_a_proximal_term_the_least_value_is_reached(lift, set_, data, seed):
    # In an unbounded set few samples may put the minimiser far away, where first-order steps take long to go.
    problem = replace(data.draw(problems(lifts=[lift], sets=[set_])), ridge_W=0.0)
    samples = make_samples(problem, seed, rows=30 if isinstance(set_, NonNegative) else 4)
    blocks = make_blocks(problem, samples, seed)
    found = update_weights(problem, blocks, samples, 0.0, tol=1e-9, max_iter=5000)
    program = oracles.weights(problem, blocks, samples, 0.0)
    assert program.value(found.point) == pytest.approx(program.minimum()[1], abs=1e-7)


@settings(max_examples=50)
@given(rows=st.integers(1, 8), seed=seeds)
def test_least_squares_on_singular_inputs_gives_the_weights_nearest_to_the_old_ones(rows, seed):
    # A dead unit, and an identity edge beside learned ones from two layers with a column in common.
    edges = dict.fromkeys([(1, 0), (2, 1), (3, 1), (3, 2)], "learned") | {(3, 0): "identity"}
    problem = Problem(Network([3, 3, 2, 3], edges, bias=[3]), gamma=0.5)
    samples = make_samples(problem, seed, rows=rows)
    blocks = make_blocks(problem, samples, seed)
    blocks.U[1][:, 0], blocks.U[2][:, 1] = 0, blocks.U[1][:, 2]
    found = update_weights(problem, blocks, samples, 0.0).point
    sources = (BIAS, 1, 2)
    A = torch.cat([blocks.U[m] for m in sources], dim=1)
    old = torch.cat([blocks.W[3, m] for m in sources], dim=1)
    change = torch.linalg.pinv(A, rtol=1e-10) @ (blocks.U[3] - blocks.U[0] - A @ old.T)
    nearest = (old + change.T).split([1, 3, 2], dim=1)
    for m, matrix in zip(sources, nearest, strict=True):
        torch.testing.assert_close(found[3, m], matrix, atol=1e-6, rtol=0)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
@settings(max_examples=15)
@given(data=st.data(), seed=seeds, rho=rhos, weighted=st.booleans())
def test_the_solution_states_its_residual_gradient_and_scale(lift, data, seed, rho, weighted):
    problem = data.draw(problems(lifts=[lift]))
    samples = make_samples(problem, seed, weighted=weighted)
    blocks = make_blocks(problem, samples, seed)
    found = update_weights(problem, blocks, samples, rho, tol=0.1, max_iter=2)
    program = oracles.weights(problem, blocks, samples, rho)
    scale = norm(program.gradient({edge: torch.zeros_like(matrix) for edge, matrix in blocks.W.items()}))
    assert found.residual == pytest.approx(program.residual(found.point), rel=1e-6, abs=1e-8 * scale)
    assert found.gradient == pytest.approx(norm(program.gradient(found.point)), rel=1e-6, abs=1e-8 * scale)
    assert found.scale == pytest.approx(scale)


def test_the_residual_under_the_fenchel_lift_is_computed_in_float64_from_float32_blocks():
    problem = Problem(MIXED, lift=Fenchel(), gamma=1.0)
    exact = make_samples(problem, 0, rows=20)
    samples = Samples(exact.X.float(), exact.targets.float())
    blocks = make_blocks(problem, samples, 0)
    found = update_weights(problem, blocks, samples, 0.1, tol=1e-6)
    assert found.point[3, 2].dtype == torch.float32
    program = oracles.weights(problem, blocks, samples, 0.1)
    assert found.residual == pytest.approx(program.residual(found.point), rel=1e-6)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_the_ridge_is_the_number_that_was_given_and_spares_the_biases(lift):
    # 0.1 rounded to float32 would leave a gradient of 1e-9 behind.
    problem = Problem(MIXED, lift=lift, gamma=1.0, ridge_W=0.1)
    samples = make_samples(problem, 0, rows=30)
    blocks = make_blocks(problem, samples, 0)
    found = update_weights(problem, blocks, samples, 0.0, tol=1e-13, max_iter=5000)
    assert norm(oracles.weights(problem, blocks, samples, 0.0).gradient(found.point)) <= 1e-12 * found.scale


def test_one_set_an_edge_is_respected():
    problem = Problem(MIXED, gamma=1.0, W_set={(3, 0): RowL1Ball(0.2), (3, 2): NonNegative(), (2, BIAS): Box(0.5, 1.0)})
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    W = update_weights(problem, blocks, samples, 0.1, tol=1e-10).point
    assert W[3, 0].abs().sum(1).max() <= 0.2
    assert W[3, 2].min() >= 0
    assert 0.5 <= W[2, BIAS].min() <= W[2, BIAS].max() <= 1.0
    assert W[2, 1].abs().sum(1).max() > 0.2
    assert W[2, 1].min() < 0


@settings(max_examples=12)
@given(problem=problems(), seed=seeds, rho=rhos, max_iter=st.integers(1, 10))
def test_the_objective_is_never_above_that_of_the_start(problem, seed, rho, max_iter):
    samples = make_samples(problem, seed, weighted=True)
    blocks = make_blocks(problem, samples, seed)
    found = update_weights(problem, blocks, samples, rho, max_iter=max_iter)
    before = problem.objective(blocks, samples).total
    after = problem.objective(replace(blocks, W=found.point), samples).total
    step = sum(float((found.point[edge] - blocks.W[edge]).square().sum()) for edge in blocks.W)
    assert after + rho / 2 * step <= before + 1e-12 * (1 + before)


@given(problem=problems(), seed=seeds, tol=st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_an_early_end_means_that_the_residual_is_below_the_tolerance(problem, seed, tol):
    samples = make_samples(problem, seed)
    found = update_weights(problem, make_blocks(problem, samples, seed), samples, 0.1, tol=tol, max_iter=5000)
    assert found.steps < 5000
    assert found.relative <= tol


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_max_iter_bounds_the_steps(lift):
    problem = Problem(MIXED, lift=lift, W_set=RowL1Ball(0.3))
    samples = make_samples(problem, 0)
    found = update_weights(problem, make_blocks(problem, samples, 0), samples, 0.1, tol=1e-12, max_iter=2)
    assert found.steps <= 2


@settings(max_examples=12)
@given(problem=problems(), seed=seeds, rho=st.sampled_from([0.1, 1.0]))
def test_integer_weights_are_repetitions(problem, seed, rho):
    once = make_samples(problem, seed, rows=4)
    blocks = make_blocks(problem, once, seed)
    times = torch.tensor([1, 3, 0, 2])
    weighted = replace(once, weight=times.double())
    repeated = replace(once, X=once.X.repeat_interleave(times, 0), targets=once.targets.repeat_interleave(times, 0))
    copies = replace(blocks, U={m: layer.repeat_interleave(times, 0) for m, layer in blocks.U.items()})
    one = update_weights(problem, blocks, weighted, rho, tol=1e-12, max_iter=5000)
    two = update_weights(problem, copies, repeated, rho, tol=1e-12, max_iter=5000)
    for edge in problem.network.learned:
        torch.testing.assert_close(one.point[edge], two.point[edge], atol=1e-9, rtol=0)
    assert one.scale == pytest.approx(two.scale)


@settings(max_examples=12)
@given(problem=problems(), seed=seeds, rho=st.sampled_from([0.1, 1.0]), chunk_rows=st.integers(1, 6))
def test_chunked_equals_whole(problem, seed, rho, chunk_rows):
    whole = make_samples(problem, seed, weighted=True, chunk_rows=100)
    blocks = make_blocks(problem, whole, seed)
    chunked = replace(whole, chunk_rows=chunk_rows)
    one, two = (update_weights(problem, blocks, s, rho, tol=1e-13, max_iter=5000).point for s in (whole, chunked))
    for edge in problem.network.learned:
        torch.testing.assert_close(one[edge], two[edge], atol=1e-10, rtol=0)


@pytest.mark.parametrize("lift", LIFTS, ids=str)
def test_the_gram_matrix_of_given_layers_is_summed_once_and_that_of_features_every_time(lift):
    problem = Problem(Network.chain([2, 5, 3], bias=[1]), lift=lift)
    shapes = []

    def reduce(total: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(total.shape))
        return total

    samples = replace(make_samples(problem, 0), reduce=reduce)
    blocks = make_blocks(problem, samples, 0)
    first = update_weights(problem, blocks, samples, 0.1).point
    moved = Blocks({m: layer if m <= 0 else layer + 1 for m, layer in blocks.U.items()}, blocks.V, blocks.W)
    second = update_weights(problem, moved, samples, 0.1).point
    assert shapes.count((3 * 3,)) == 1  # the inputs and their constant
    values = 2 * lift.quadratic  # at W = 0
    assert shapes.count((5 * 3 + 3 * 5 + 5 * 5 + values,)) == 2  # both pulls and the features of layer 1, in one go
    fresh = update_weights(problem, moved, make_samples(problem, 0), 0.1).point
    for edge in problem.network.learned:
        assert torch.equal(second[edge], fresh[edge])
        assert not torch.equal(second[edge], first[edge])


@pytest.mark.parametrize("set_", [FREE, BOX], ids=str)
@pytest.mark.parametrize("lift", LIFTS, ids=str)
@pytest.mark.parametrize("where", ["U", "W"])
def test_what_is_not_finite_shows_in_the_residual(lift, set_, where):
    problem = Problem(Network.chain([3, 4, 3]), lift=lift, W_set=set_)
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    {"U": blocks.U[1], "W": blocks.W[2, 1]}[where][0, 0] = torch.nan
    assert np.isnan(update_weights(problem, blocks, samples, 1.0).residual)


def test_a_network_that_already_fits_keeps_its_weights():
    network = Network.paper(3)
    W = {edge: matrix.abs() for edge, matrix in network.random_weights(0, dtype=torch.float64).items()}
    X = normal(5, 3).abs()
    for lift in (Tikhonov(), Fenchel()):  # all pre-activations are positive, so both lifts vanish
        blocks = Blocks(network.forward(X, W), torch.ones(1, 3, dtype=torch.float64), W)
        found = update_weights(Problem(network, lift=lift), blocks, Samples(X, X[:, :1]), 0.0).point
        for edge in network.learned:
            torch.testing.assert_close(found[edge], W[edge], atol=1e-9, rtol=0)


@given(problem=problems(), seed=seeds, rho=st.sampled_from([0.1, 1.0]))
def test_any_guess_leads_to_the_same_weights(problem, seed, rho):
    samples = make_samples(problem, seed)
    blocks, guess = (make_blocks(problem, samples, at) for at in (seed, seed + 1))
    settings = {"tol": 1e-11, "max_iter": 20000}
    plain = update_weights(problem, blocks, samples, rho, **settings)
    guessed = update_weights(problem, blocks, samples, rho, start=guess.W, **settings)
    for edge in problem.network.learned:
        torch.testing.assert_close(guessed.point[edge], plain.point[edge], atol=1e-7, rtol=0)
    assert guessed.scale == plain.scale


@settings(max_examples=30)
@given(problem=problems(lifts=[Tikhonov()]), seed=seeds, weighted=st.booleans())
def test_the_sums_of_a_w_step_give_the_lift_at_any_weights_as_the_samples_do(problem, seed, weighted):
    exact = make_samples(problem, seed, rows=40, weighted=weighted)
    blocks = make_blocks(problem, exact, seed)
    found = WeightSums(problem, blocks, exact)
    moved = {edge: 2 * M + 1 for edge, M in blocks.W.items()}
    expected = problem.objective(replace(blocks, W=moved), exact).lift
    single = found.lifts({edge: M.float() for edge, M in moved.items()})  # as a run in float32 asks for it
    for n, value in single.items():
        assert problem.gamma_of(n) * value == pytest.approx(expected[n], rel=1e-5)


def test_a_lift_that_cancels_in_the_sums_is_not_taken_from_them():
    problem = Problem(Network.chain([3, 4]), gamma=0.5)
    samples = make_samples(problem, 0, rows=40)
    blocks = make_blocks(problem, samples, 0)
    blocks.U[1] = samples.X @ blocks.W[1, 0].T  # all of the lift is gone
    sums = WeightSums(problem, blocks, samples)
    assert sums.lifts({edge: M.float() for edge, M in blocks.W.items()}) == {}
    assert sums.lifts({edge: 2 * M.float() for edge, M in blocks.W.items()}).keys() == {1}
    assert sums.lifts({edge: 2 * M for edge, M in blocks.W.items()}) == {}  # float64 can tell more


def test_the_sums_of_a_lift_that_is_not_quadratic_say_nothing_of_it():
    problem = Problem(Network.chain([3, 4]), lift=Fenchel())
    samples = make_samples(problem, 0, rows=40)
    blocks = make_blocks(problem, samples, 0)
    assert WeightSums(problem, blocks, samples).lifts({edge: M.float() for edge, M in blocks.W.items()}) == {}


def test_of_few_samples_the_sums_are_not_asked_since_a_gram_matrix_is_larger():
    problem = Problem(Network.chain([3, 4]))
    samples = make_samples(problem, 0, rows=11)
    blocks = make_blocks(problem, samples, 0)
    assert WeightSums(problem, blocks, samples).lifts({edge: 2 * M.float() for edge, M in blocks.W.items()}) == {}
