import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from tikhonet.model.svm import choose_svm, fit_linear_svm, jittered_factor


def test_the_svm_is_the_one_that_linear_svc_finds():
    X, y = load_digits(return_X_y=True)
    X = torch.tensor(X)
    norm = float(X.square().sum(1).mean().sqrt())
    svm = fit_linear_svm(X, torch.tensor(y), C=0.5, tol=1e-9)
    # A large intercept_scaling takes LinearSVC's penalty off the intercept.
    reference = LinearSVC(C=0.5, dual=False, tol=1e-10, max_iter=10000, intercept_scaling=100.0).fit(X / norm, y)
    torch.testing.assert_close(svm.V, torch.tensor(reference.coef_), rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(svm.intercept, torch.tensor(reference.intercept_), rtol=1e-3, atol=2e-3)


def test_the_units_of_the_features_do_not_matter():
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X[:300], dtype=torch.float32), torch.tensor(y[:300])
    # The squares of the last ones are beyond float32.
    one, *others = (fit_linear_svm(scale * X, y).scores(scale * X) for scale in (1.0, 1e3, 1e25))
    for other in others:
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_separable_classes_are_separated():
    X = torch.tensor([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.0]])
    y = torch.tensor([0, 0, 1, 1])
    assert fit_linear_svm(X, y, C=100.0).error(X, y) == 0


def test_a_weight_of_two_is_the_row_twice_and_of_zero_none():
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X[:200]), torch.tensor(y[:200])
    times = torch.arange(200) % 3
    weighted = fit_linear_svm(X, y, weight=times, tol=1e-9)
    repeated = fit_linear_svm(X.repeat_interleave(times, 0), y.repeat_interleave(times), tol=1e-9)
    torch.testing.assert_close(weighted.scores(X), repeated.scores(X), rtol=1e-6, atol=1e-6)


def test_a_start_from_a_part_of_the_rows_leads_to_the_same_svm():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(400, 5, generator=generator, dtype=torch.float64)
    y = (
        X @ torch.randn(5, 3, generator=generator, dtype=torch.float64) + torch.rand(400, 3, generator=generator)
    ).argmax(1)
    svm = fit_linear_svm(X, y, C=2.0, tol=1e-10)
    A = torch.cat([X / svm.norm, torch.ones(400, 1)], 1).requires_grad_(False)
    M = torch.cat([svm.V, svm.intercept[:, None]], 1).requires_grad_()
    T = 2 * torch.nn.functional.one_hot(y, 3) - 1
    objective = 0.5 * M[:, :-1].square().sum() + 2 * (1 - T * (A @ M.T)).relu().square().sum()
    (gradient,) = torch.autograd.grad(objective, M)
    assert float(gradient.abs().max()) < 1e-6


def test_c_is_chosen_where_the_held_out_rows_are_classified_best():
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(120, 60, generator=generator, dtype=torch.float64)
    y = (X[:, 0] + torch.randn(120, generator=generator) > 0).long()
    grid = (1e-3, 1.0, 1e4)
    chosen = choose_svm(X, y, grid=grid, held_out=0.3, tol=1e-8)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    held, rest = order[:36], order[36:]
    errors = {C: fit_linear_svm(X[rest], y[rest], C, tol=1e-8).error(X[held], y[held]) for C in grid}
    assert errors[chosen.C] == min(errors.values()) < max(errors.values())


@pytest.mark.parametrize("C", [0.0, -1.0, float("inf")])
def test_a_bad_c_is_refused(C):
    with pytest.raises(ValueError, match="C must be positive"):
        fit_linear_svm(torch.rand(3, 2), torch.tensor([0, 1, 1]), C)


def dependent_features(rows=3000, width=60, rank=5):
    """Non-negative features of a low rank, and two classes of which a fifth of the labels are wrong."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, rank, generator=generator).relu() @ torch.rand(rank, width, generator=generator)
    y = (X[:, 0] > X[:, 0].mean()) ^ (torch.rand(rows, generator=generator) < 0.2)
    return X, y.long()


def objective(svm, X, y):
    T = 2.0 * torch.nn.functional.one_hot(y) - 1
    loss = (1 - T * (X.double() / svm.norm @ svm.V.double().T + svm.intercept)).relu().square().sum()
    return float(0.5 * svm.V.double().square().sum() + svm.C * loss)


@pytest.mark.parametrize("rows", [500, 3000])
@pytest.mark.parametrize("C", [1e4, 1e6])
def test_features_that_depend_on_each_other_have_their_svm_in_float32(rows, C):
    X, y = dependent_features(rows)
    exact = fit_linear_svm(X.double(), y, C, tol=1e-8)
    svm = fit_linear_svm(X, y, C)
    assert objective(svm, X, y) == pytest.approx(objective(exact, X, y), rel=1e-4)
    assert svm.error(X, y) == pytest.approx(exact.error(X.double(), y), abs=0.005)


def test_features_that_depend_on_each_other_have_their_svm_beyond_the_rounding_of_float64():
    X, y = dependent_features()
    svm = fit_linear_svm(X.double(), y, C=1e16)
    assert svm.error(X.double(), y) < 0.25


def test_as_little_as_it_takes_is_added_to_a_matrix_that_rounding_made_indefinite():
    v = torch.arange(1.0, 5.0, dtype=torch.float64)
    H = torch.outer(v, v)
    L = jittered_factor(H - 1e-11 * torch.eye(4))
    torch.testing.assert_close(L @ L.T, H, rtol=0, atol=16 * 1e-10)
    whole = H + torch.eye(4)
    assert torch.equal(jittered_factor(whole), torch.linalg.cholesky(whole))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["features", "weight"])
def test_numbers_that_are_not_finite_are_refused(name, value):
    arguments = {"features": torch.rand(50, 3), "weight": torch.ones(50)}
    arguments[name][7] = value
    y = torch.arange(50) % 3
    with pytest.raises(ValueError, match=f"{name} must be finite, got NaN or infinity first in row 7"):
        fit_linear_svm(labels=y, **arguments)
    start = fit_linear_svm(torch.rand(50, 3), y)
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        fit_linear_svm(labels=y, start=start, **arguments)


@pytest.mark.parametrize("C", [1e38, 1e300])
def test_a_c_beyond_the_type_of_the_features_is_refused(C):
    X, y = dependent_features(100)
    with pytest.raises(ValueError, match=r"C times the weights must be small enough .* torch.float32, got 1e\+3"):
        fit_linear_svm(X, y, C)
