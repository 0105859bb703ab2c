"""The losses: derivatives, curvature, convexity, weights, and the encoding of targets."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import ALL_LOSSES, CLASSES, LOSSES, finite_difference, normal, seeds
from tikhonet import Huber, Poisson, Quantile, Softmax, Squared, SquaredHinge

LOSS = st.sampled_from(ALL_LOSSES)
every_loss = pytest.mark.parametrize("loss", ALL_LOSSES, ids=str)


def draw(loss, seed, rows=4, scale=2.0):
    """Targets that fit the loss (soft ones for the softmax, real ones for regression) and scores."""
    noise = normal(rows, CLASSES, seed=seed)
    if isinstance(loss, Softmax):
        T = torch.softmax(noise, 1)
    elif isinstance(loss, SquaredHinge):
        T = torch.where(noise > 0, 1.0, -1.0).double()
    else:
        T = noise
    return T, scale * normal(rows, CLASSES, seed=seed + 1)


# Values


def test_values_by_hand():
    T, S = torch.tensor([[1.0, -1.0]]).double(), torch.tensor([[0.5, 2.0]]).double()
    assert float(Squared().rows(T, S)) == pytest.approx(0.5 * (0.5**2 + 3**2))
    assert float(Huber(0.7).rows(T, S)) == pytest.approx(0.5 * 0.5**2 + 0.7 * (3 - 0.35))
    assert float(SquaredHinge().rows(T, S)) == pytest.approx(0.5**2 + 3**2)
    pinball = 0.7 * (0.5 - 0.7 * 0.1 / 2) + 0.3 * (3 - 0.3 * 0.1 / 2)
    assert float(Quantile(0.7, 0.1).rows(T, S)) == pytest.approx(pinball)
    assert float(Poisson(9.0).rows(T, S)) == pytest.approx(float(S.exp().sum()) - 0.5 + 2)
    distribution = torch.tensor([[0.25, 0.75]]).double()
    p = torch.tensor([0.5, 2.0]).double().exp()
    expected = -(0.25 * (p[0] / p.sum()).log() + 0.75 * (p[1] / p.sum()).log())
    assert float(Softmax().rows(distribution, S)) == pytest.approx(float(expected))


@given(LOSS, seeds)
def test_gradient_agrees_with_finite_differences(loss, seed):
    T, S = draw(loss, seed)
    weight = normal(4, seed=seed + 2).abs()
    expected = finite_difference(lambda point: loss.value(T, point, weight).sum(), S)
    torch.testing.assert_close(loss.gradient(T, S, weight), expected, rtol=1e-5, atol=1e-5)


@given(LOSS, seeds, st.sampled_from([0.1, 1.0, 5.0]))
def test_curvature_bounds_the_second_derivative_and_is_it_for_quadratic_losses(loss, seed, scale):
    T, S = draw(loss, seed, rows=1, scale=scale)
    hessian = torch.cat([finite_difference(lambda s, k=k: loss.slope(T, s)[0, k], S) for k in range(CLASSES)])
    eigenvalues = torch.linalg.eigvalsh((hessian + hessian.T) / 2)
    assert float(eigenvalues.max()) <= loss.curvature + 1e-6
    assert float(eigenvalues.min()) >= -1e-6
    if loss.quadratic:
        torch.testing.assert_close(hessian, loss.curvature * torch.eye(CLASSES).double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "target", "direction"),
    [
        (Squared(), [0.0, 0.0], [1.0, 0.0]),
        (Huber(0.7), [0.0, 0.0], [1.0, 0.0]),
        (SquaredHinge(), [1.0, -1.0], [1.0, 0.0]),
        (Quantile(0.7, 0.5), [0.0, 0.0], [1.0, 0.0]),
        (Poisson(0.5), [0.0, 0.0], [1.0, 1.0]),
        (Softmax(), [1.0, 0.0], [1.0, -1.0]),
    ],
    ids=str,
)
def test_curvature_is_reached(loss, target, direction):
    T, D = torch.tensor([target]).double(), torch.tensor([direction]).double()
    step = 1e-4 * D / D.norm()
    second = (loss.slope(T, step) - loss.slope(T, -step)).norm() / (2 * step.norm())
    assert float(second) == pytest.approx(loss.curvature, rel=1e-6)


def test_only_the_squared_loss_is_called_quadratic():
    assert [loss for loss in LOSSES if loss.quadratic] == [Squared()]


@given(LOSS, seeds, st.floats(0, 1))
def test_losses_are_convex_in_the_scores(loss, seed, share):
    T, S = draw(loss, seed)
    S_end = draw(loss, seed + 7)[1]
    middle = loss.rows(T, share * S + (1 - share) * S_end)
    assert bool((middle <= share * loss.rows(T, S) + (1 - share) * loss.rows(T, S_end) + 1e-12).all())


@given(LOSS, seeds)
def test_integer_weights_are_repetitions(loss, seed):
    T, S = draw(loss, seed)
    times = torch.tensor([0, 1, 2, 3])
    T_many, S_many = T.repeat_interleave(times, 0), S.repeat_interleave(times, 0)
    weight = times.double()
    torch.testing.assert_close(loss.value(T, S, weight).sum(), loss.value(T_many, S_many).sum(), rtol=1e-12, atol=0)
    torch.testing.assert_close(
        loss.gradient(T, S, weight).sum(0), loss.gradient(T_many, S_many).sum(0), rtol=1e-12, atol=1e-12
    )


@given(LOSS, seeds)
def test_losses_leave_targets_and_scores_as_they_were(loss, seed):
    T, S = draw(loss, seed)
    T_before, S_before = T.clone(), S.clone()
    loss.value(T, S)
    loss.gradient(T, S)
    assert torch.equal(T, T_before)
    assert torch.equal(S, S_before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_softmax_is_stable_for_scores_of_10000(dtype):
    S = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], dtype=dtype)
    right, wrong = torch.eye(3, dtype=dtype)[[0, 0]], torch.eye(3, dtype=dtype)[[1, 1]]
    log3 = torch.tensor(3.0, dtype=dtype).log()
    # A score of 1e4 is itself only known to its rounding.
    rounding = {"rtol": 0, "atol": 1e4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(Softmax().rows(right, S), torch.stack([0 * log3, log3]), **rounding)
    torch.testing.assert_close(Softmax().rows(wrong, S), torch.stack([0 * log3 + 2e4, log3]), **rounding)
    expected = torch.tensor([[1.0, -1.0, 0.0], [1 / 3, -2 / 3, 1 / 3]], dtype=dtype)
    torch.testing.assert_close(Softmax().slope(wrong, S), expected)


@pytest.mark.parametrize("delta", [0.0, -1.0, float("inf"), float("nan")])
def test_huber_delta_must_be_positive_and_finite(delta):
    with pytest.raises(ValueError, match=f"delta must be positive and finite, got {delta}"):
        Huber(delta)


# Targets


@every_loss
def test_labels_become_rows_with_one_mark_a_class(loss):
    T = loss.encode(torch.tensor([2, 0, 1]))
    low = -1.0 if isinstance(loss, SquaredHinge) else 0.0
    assert torch.equal(T, torch.where(torch.eye(3)[[2, 0, 1]] == 1, 1.0, low))
    loss.check(T)


@every_loss
def test_labels_may_be_a_numpy_array(loss):
    assert torch.equal(loss.encode(np.array([2, 0, 1])), loss.encode(torch.tensor([2, 0, 1])))


@every_loss
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32])
def test_labels_may_be_of_any_integer_type(loss, dtype):
    labels = np.array([1, 0, 1], dtype=dtype)
    assert torch.equal(loss.encode(labels), loss.encode(torch.tensor([1, 0, 1])))
    if dtype is not bool:
        with pytest.raises(ValueError, match=r"labels must lie in 0..1, got values from 0 to 2"):
            loss.encode(2 * labels, 2)


@every_loss
def test_classes_may_be_more_than_the_labels_show(loss):
    assert loss.encode(torch.tensor([1, 0]), 4).shape == (2, 4)


@pytest.mark.parametrize("loss", [Squared(), Huber()], ids=str)
def test_real_targets_are_taken_as_they_are(loss):
    vector, matrix = normal(4), normal(4, 2)
    assert torch.equal(loss.encode(vector), vector[:, None])
    assert torch.equal(loss.encode(matrix), matrix)
    loss.check(matrix)


@pytest.mark.parametrize("loss", [Softmax(), SquaredHinge()], ids=str)
def test_encoded_targets_are_taken_as_they_are(loss):
    T = draw(loss, 0)[0]
    assert torch.equal(loss.encode(T), T)
    loss.check(T)


@every_loss
@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        ([-1, 0, 2], None, "labels must lie in 0..2, got values from -1 to 2"),
        ([0, 3], 3, "labels must lie in 0..2, got values from 0 to 3"),
        ([[0, 1]], None, r"labels must be a vector of integers, got shape \(1, 2\)"),
    ],
)
def test_labels_that_are_no_classes_are_an_error(loss, labels, classes, words):
    with pytest.raises(ValueError, match=words):
        loss.encode(torch.tensor(labels), classes)


@every_loss
def test_no_labels_are_an_error(loss):
    with pytest.raises(ValueError, match="labels must not be empty"):
        loss.encode(torch.tensor([], dtype=torch.int64))


@pytest.mark.parametrize("loss", [Softmax(), SquaredHinge()], ids=str)
def test_float_labels_are_an_error_for_losses_of_classes(loss):
    with pytest.raises(ValueError, match=r"labels must be a vector of integers, got shape \(2,\) of torch.float32"):
        loss.encode(torch.tensor([0.0, 1.0]))


@every_loss
@pytest.mark.parametrize("shape", [(4,), (4, 0), (4, 2, 1)])
def test_targets_of_the_wrong_shape_are_an_error(loss, shape):
    with pytest.raises(ValueError, match=r"targets must have shape \(samples, outputs\), got \(4,"):
        loss.check(torch.ones(shape))


@pytest.mark.parametrize("row", [[1.0], [0.5, 0.6], [1.5, -0.5], [0.0, 0.0]])
def test_targets_that_are_no_distribution_are_an_error_for_softmax(row):
    with pytest.raises(ValueError, match="targets of the softmax loss must be rows of at least two"):
        Softmax().check(torch.tensor([[0.5] * len(row), row]))


@pytest.mark.parametrize("row", [[0.5, 1.0], [0.0, 1.0], [2.0, -1.0]])
def test_targets_other_than_plus_or_minus_one_are_an_error_for_the_squared_hinge(row):
    with pytest.raises(ValueError, match=r"targets of the squared hinge must be \+1 or -1"):
        SquaredHinge().check(torch.tensor([[1.0, -1.0], row]))


@given(LOSS, st.floats(0.0, 30.0), seeds)
def test_the_local_curvature_is_at_most_the_bound(loss, size, seed):
    T = loss.encode(torch.arange(6) % 3).double()
    found = loss.local_curvature(T, size * normal(6, 3, seed=seed))
    assert found.shape == (6,)
    assert bool(((found >= 0) & (found <= loss.curvature)).all())
