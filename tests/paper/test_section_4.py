"""Sec. 4 of the paper: definitions, lemmas, the theorem and its corollary, one test per statement.

Where a statement is not right as printed, the comment says what the paper has and what holds here.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SCHEDULES, SETS, make_blocks, make_samples, normal, problems, seeds
from tikhonet import (
    BlockDescent,
    Blocks,
    Constant,
    Huber,
    Network,
    Power,
    Problem,
    Proximal,
    Samples,
    Schedule,
    Status,
    measure_stationarity,
)
from tikhonet.descent.convex import minimise_quadratic
from tikhonet.descent.full import block_steps
from tikhonet.descent.linear import update_classifier

thetas = st.floats(0.05, 0.95)
sets = st.sampled_from(SETS)


def quadratic(width: int, seed: int):
    """A convex function of matrices with this many columns, as (H, linear, value)."""
    A, linear = normal(width, width, seed=seed), normal(2, width, seed=seed + 1)
    H = A.T @ A
    return H, linear, lambda M: float(0.5 * ((M @ H) * M).sum() - (linear * M).sum())


def proximal_point(H, linear, set_, centre, weight):
    """The minimiser over the set of  phi + weight/2 |. - centre|^2."""
    H, linear = H + weight * torch.eye(len(H), dtype=torch.float64), linear + weight * centre
    return minimise_quadratic(H, linear, set_, centre, tol=1e-13, max_iter=50000).point


def square(M: torch.Tensor) -> float:
    return float(M.square().sum())


def one_sample(loss, target: float, v: float = 0.0) -> tuple[Problem, Samples, Blocks]:
    """The smallest problem: one sample, one feature u = 1, one number v to learn from it."""
    one = torch.ones(1, 1, dtype=torch.float64)
    problem = Problem(Network.chain([1, 1]), loss)
    return problem, Samples(one, target * one), Blocks({0: one, 1: one}, v * one, {(1, 0): one})


def test_definition_2_lipschitz_continuity_holds_for_hubers_loss_in_v():
    problem = Problem(Network.chain([3, 4]), Huber(0.7))
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    # Each output's slope is at most delta, so a sample's is at most delta sqrt(outputs) |u|.
    L = 0.7 * samples.targets.shape[1] ** 0.5 * float(blocks.U[1].norm(dim=1).sum())
    for scale in (1e-3, 1.0, 1e3):
        a, b = (scale * normal(3, 4, seed=s) for s in (1, 2))
        values = [problem.objective(Blocks(blocks.U, V, blocks.W), samples).total for V in (a, b)]
        assert abs(values[0] - values[1]) <= L * float((a - b).norm())


def test_definition_3_from_every_start_a_point_with_the_necessary_condition_is_reached():
    # Paper: of Alg. 1. Here: of proximal block coordinate descent, because Alg. 1 stops short (Thm. 1 below).
    problem = Problem(Network.chain([2, 2]), gamma=1.0, ridge_V=0.5, ridge_W=0.5)
    samples = make_samples(problem, 0)
    for seed in range(3):
        result = BlockDescent(Proximal(0.1), max_iter=400, tol=1e-6).run(problem, samples.X, samples.targets, seed=seed)
        assert result.status is Status.STATIONARY
        assert measure_stationarity(problem, result.blocks, samples).within(result.history.tolerance)


@given(problem=problems(), seed=seeds)
def test_definition_5_the_objective_is_bounded_from_below_by_zero(problem, seed):
    samples = make_samples(problem, seed)
    terms = problem.objective(make_blocks(problem, samples, seed), samples)
    assert min(terms.loss, *terms.lift.values(), terms.ridge_V, terms.ridge_W) >= 0


def test_definition_5_the_objective_is_not_lipschitz_on_an_unbounded_set():
    # Paper: f_1, f_2, f_3 are assumed Lipschitz. Here: not assumed, because their squares are not, unless the
    # sets are bounded: along a ray the slope of f_2 grows without end.
    problem = Problem(Network.chain([3, 4]))
    samples = make_samples(problem, 0)
    blocks = make_blocks(problem, samples, 0)
    values = [
        problem.objective(Blocks(blocks.U, scale * blocks.V, blocks.W), samples).total for scale in (1e3, 2e3, 1e6, 2e6)
    ]
    assert values[3] - values[2] > 1e5 * (values[1] - values[0])


@given(set_=sets, width=st.integers(1, 5), seed=seeds)
def test_lemma_1_three_point_property(set_, width, seed):
    # Over a convex set too: its indicator is part of the convex phi.
    H, linear, phi = quadratic(width, seed)
    centre = set_.project(normal(2, width, seed=seed + 2))
    best = proximal_point(H, linear, set_, centre, 1.0)
    for i in range(5):
        w = set_.project(normal(2, width, seed=seed + 3 + i))
        left = phi(best) + square(best - centre) / 2
        assert left <= phi(w) + square(w - centre) / 2 - square(w - best) / 2 + 1e-9


@given(theta=st.floats(0, 1), width=st.integers(1, 5), seed=seeds)
def test_proposition_3_what_is_left_after_the_convex_combination(theta, width, seed):
    x, best = normal(1, width, seed=seed), normal(1, width, seed=seed + 1)
    y = (1 - theta) * x + theta * best
    assert square(best - y) / 2 == pytest.approx((1 - theta) ** 2 * square(best - x) / 2)


@given(set_=sets, theta=thetas, width=st.integers(1, 5), seed=seeds)
def test_lemma_2_as_stated_is_about_the_proximal_weight_1_minus_theta(set_, theta, width, seed):
    # Paper: x^ minimises phi + 1/2 |z - y|^2 around the y = (1 - theta) x + theta x^ that it defines itself, and
    # Alg. 1 is to be that by Prop. 3, with the weight (1 - theta)^2 around x.
    # Here: that x^ is the proximal point around x with the weight 1 - theta, because the gradient of
    # 1/2 |z - y|^2 at x^ is x^ - y = (1 - theta)(x^ - x); Prop. 3 is about values at x^, not about minimisers.
    H, linear, phi = quadratic(width, seed)
    x = set_.project(normal(2, width, seed=seed + 2))
    best = proximal_point(H, linear, set_, x, 1 - theta)
    y = torch.lerp(x, best, theta)
    torch.testing.assert_close(proximal_point(H, linear, set_, y, 1.0), best, atol=1e-6, rtol=0)
    assert phi(x) - phi(y) >= (1 - theta) / theta * square(y - x) - 1e-9


@given(set_=sets, theta=thetas, width=st.integers(1, 5), seed=seeds)
def test_lemma_2_for_the_weight_of_alg_1_holds_with_rho_over_theta(set_, theta, width, seed):
    # Paper: (1 - theta)/theta. Here: rho/theta with rho = (1 - theta)^2, by Lemma 1 around x itself.
    H, linear, phi = quadratic(width, seed)
    x = set_.project(normal(2, width, seed=seed + 2))
    rho = (1 - theta) ** 2
    y = torch.lerp(x, proximal_point(H, linear, set_, x, rho), theta)
    assert phi(x) - phi(y) >= rho / theta * square(y - x) - 1e-9


@given(problem=problems(), schedule=st.sampled_from(SCHEDULES), t=st.sampled_from([1, 2, 5]), seed=seeds)
def test_lemma_2_every_block_step_lowers_the_objective_by_what_the_schedule_promises(problem, schedule, t, seed):
    samples = make_samples(problem, seed)
    before = make_blocks(problem, samples, seed)
    for move in block_steps(problem, before, samples, schedule.theta(t), schedule.rho(t), 1e-11, {}):
        after = move.blocks
        moved = sum(square(after.U[n] - before.U[n]) for n in problem.network.hidden)
        moved += square(after.V - before.V) + sum(square(after.W[edge] - before.W[edge]) for edge in after.W)
        decrease = problem.objective(before, samples).total - problem.objective(after, samples).total
        assert decrease >= schedule.promised_decrease(t, moved**0.5) - 1e-8 * (1 + moved)
        before = after


def test_lemma_2_with_the_papers_constant_fails_for_a_step_of_alg_1():
    # Far from its target Huber's loss is linear in v with slope -1: the step is as long as the weight lets it.
    problem, samples, blocks = one_sample(Huber(1.0), target=100.0)
    theta, L = 0.5, 1.0
    rho = Constant(theta).rho(1)
    star = update_classifier(problem, blocks, samples, rho, tol=1e-12).point
    V = torch.lerp(blocks.V, star, theta)
    after = Blocks(blocks.U, V, blocks.W)
    decrease = problem.objective(blocks, samples).total - problem.objective(after, samples).total
    step = float((V - blocks.V).norm())
    assert step == pytest.approx(2)
    assert decrease == pytest.approx(2)
    # Paper: at least (1 - theta)/theta |y - x|^2 = 4, and |y - x| <= L theta / (1 - theta) = 1.
    assert (1 - theta) / theta * step**2 == pytest.approx(4)
    assert step > L * theta / (1 - theta)
    # Here: rho/theta |y - x|^2 = 2 and L theta / rho = 2, because rho = (1 - theta)^2; both are attained.
    assert Constant(theta).promised_decrease(1, step) == pytest.approx(decrease)
    assert step == pytest.approx(L * theta / rho)


COUPLED = np.eye(3) + 3 * np.ones((3, 3))
"""The Hessian of a strictly convex quadratic in three blocks of one number each."""


def alg_1_on_the_quadratic(schedule: Schedule, iterations: int) -> np.ndarray:
    """All iterates of Alg. 1 on  1/2 x' COUPLED x,  whose only stationary point is zero."""
    x, path = np.array([3.0, -1.0, 2.0]), []
    for t in range(1, iterations + 1):
        theta, rho = schedule.theta(t), schedule.rho(t)
        for i in range(3):
            star = x[i] - COUPLED[i] @ x / (COUPLED[i, i] + rho)
            x[i] += theta * (star - x[i])
        path.append(x.copy())
    return np.array(path)


def test_theorem_1_a_summable_theta_stops_where_it_happens_to_be():
    # Paper: the limit is a stationary point. Here: it is not, because the condition on theta makes all steps
    # together finite; with a constant theta, which the condition excludes, the same steps do get there.
    frozen = alg_1_on_the_quadratic(Power(2), 10000)
    gradients = np.linalg.norm(frozen @ COUPLED, axis=1)
    assert gradients[-1] > 1.6
    assert np.linalg.norm(frozen[-1] - frozen[4999]) < 1e-3  # it stands still
    constant = alg_1_on_the_quadratic(Constant(0.5), 500)
    assert np.linalg.norm(constant[-1] @ COUPLED) < 1e-12


def test_theorem_1_on_equation_4_small_steps_are_not_stationarity():
    problem = Problem(Network.chain([2, 2]), gamma=1.0, ridge_V=0.5, ridge_W=0.5)
    samples = make_samples(problem, 0)
    results = {
        schedule: BlockDescent(schedule, max_iter=400, tol=1e-6).run(problem, samples.X, samples.targets)
        for schedule in (Power(2), Constant(0.5))
    }
    literal = results[Power(2)]
    assert literal.status is Status.SCHEDULE_EXHAUSTED
    last = [step for step in literal.history.steps if step.iteration == literal.history.iterations]
    assert max(step.distance for step in last) < 1e-2
    assert measure_stationarity(problem, literal.blocks, samples).total > 0.1
    assert results[Constant(0.5)].status is Status.STATIONARY


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("t", [2, 3, 10, 100])
def test_equation_6_bounds_the_sum_from_the_next_term_on(p, t):
    # Paper: sum over k >= t of 1/(k^p - 1) <= (t^p - 1)^(1/p - 1) / (p - 1).
    # Here: only for the sum over k >= t + 1, because a sum of falling terms is at least its integral from the
    # same point on; from t itself the sum exceeds the bound.
    bound = (t**p - 1) ** (1 / p - 1) / (p - 1)
    assert Power(p).tail(t + 1) <= bound < Power(p).tail(t)


def test_definition_4_and_the_corollary_the_bound_is_sublinear():
    # Paper: "R-linear convergence rate of order one". Here: no linear rate follows, because the bound of Eq. 6
    # falls like 1/t for p = 2: its ratios tend to 1, and no geometric sequence stays above it.
    bound = np.array([Power(2).tail(t) for t in range(2, 2000)])
    ratios = bound[1:] / bound[:-1]
    assert np.all(np.diff(ratios) > 0)
    assert ratios[-1] > 0.999
    assert bound[-1] * 1999 == pytest.approx(1, rel=1e-2)
    for rate in (0.5, 0.9, 0.99):
        assert bound[-1] > rate ** len(bound)


def test_the_corollary_the_steps_of_alg_1_themselves_are_sublinear():
    # The distance to where it stops halves when t doubles; with a constant theta it falls geometrically.
    path = alg_1_on_the_quadratic(Power(2), 100000)
    distance = np.linalg.norm(path - path[-1], axis=1)
    for t in (100, 200, 400):
        assert distance[2 * t] / distance[t] == pytest.approx(0.5, rel=0.05)
    path = alg_1_on_the_quadratic(Constant(0.5), 400)
    ratios = np.linalg.norm(path[101:300], axis=1) / np.linalg.norm(path[100:299], axis=1)
    assert ratios.max() < 0.9
