import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from tikhonet.heads import fit_linear_svm


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
    one, other = (fit_linear_svm(scale * X, y).scores(scale * X) for scale in (1.0, 1e3))
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_separable_classes_are_separated():
    X = torch.tensor([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.0]])
    y = torch.tensor([0, 0, 1, 1])
    assert fit_linear_svm(X, y, C=100.0).error(X, y) == 0


@pytest.mark.parametrize("C", [0.0, -1.0, float("inf")])
def test_a_bad_c_is_refused(C):
    with pytest.raises(ValueError, match="C must be positive"):
        fit_linear_svm(torch.rand(3, 2), torch.tensor([0, 1, 1]), C)
