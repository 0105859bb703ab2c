"""Rows on two machines: scaling, heads and choices of strengths are those of one machine with all rows."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.svm import LinearSVC

from tests.estimators.samples import QUICK, blobs, line
from tests.threads import Ranks
from tikhonet import Squared
from tikhonet.estimators import BCDClassifier, BCDRegressor
from tikhonet.estimators.fitting import fit
from tikhonet.estimators.number_targets import Numbers
from tikhonet.estimators.rows import canonical
from tikhonet.estimators.targets import Classes
from tikhonet.model.head_data import HeadData, cross_entropy, sharpness
from tikhonet.model.heads import SVM, Head, Logistic, Ridge
from tikhonet.model.scaling import Scaling, Standard
from tikhonet.model.svm import choose_svm, fit_linear_svm
from tikhonet.problem.samples import keep


def on_two_ranks(work, *arrays):
    """work(arrays of a rank, reduce) on two threads, each with every second row; the results of both."""
    return Ranks().run(lambda rank, reduce: work([array[rank::2] for array in arrays], reduce))


def weights(rows, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 2.0, rows)


def wild(rows=200, seed=0):
    """Columns with a large mean, rare nonzeros, none, one value, and sizes that differ by 300 powers of ten."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    X[:, 0] += 1e6
    X[:, 1] *= rng.random(rows) < 0.1
    X[:, 2], X[:, 3] = 0, 7.3
    X[:, 4] *= 10.0 ** rng.integers(-150, 150, rows)
    return X


@pytest.mark.parametrize("kind", [Scaling, Standard])
def test_scaling_of_two_ranks_is_that_of_one(kind):
    X, weight = wild(), weights(200)
    one = kind.fit(X, weight)
    for found in on_two_ranks(lambda parts, reduce: kind.fit(*parts, reduce=reduce), X, weight):
        for name, values in vars(one).items():
            np.testing.assert_allclose(vars(found)[name], values, rtol=1e-9, atol=1e-9, err_msg=name)


def fitted(kind, data):
    """The head; that of the SVM to more digits than predictions need, so that rounding alone is left."""
    if kind is Ridge:
        return Ridge(np.zeros((3, 6)), 3).fit(data, 1e-4)
    arrays = (torch.from_numpy(array) for array in (data.features, data.labels, data.weight))
    features, labels, weight = arrays
    svm = fit_linear_svm(features, labels, 10.0, classes=3, weight=weight, tol=1e-10, reduce=data.reduce)
    return Head(svm.V.numpy() / svm.norm, svm.intercept.numpy())


@pytest.mark.parametrize("kind", [Ridge, SVM])
@pytest.mark.parametrize("rows", [60, 300])
def test_heads_of_two_ranks_are_those_of_one(kind, rows):
    (X, y), weight = blobs(rows, features=6), weights(rows)

    def work(parts, reduce):
        features, labels, weight = parts
        data = HeadData(lambda: features, labels[:, None].astype(float), weight, reduce)
        head = fitted(kind, data)
        scores = head(features)
        s = sharpness(scores, data)
        return head.coef, head.intercept, s, cross_entropy(s * scores, data), data.norm

    one = work([X, y, weight], lambda total: total)
    for found in on_two_ranks(work, X, y, weight):
        for value, wanted in zip(found, one, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", [Ridge, SVM])
def test_the_strength_of_two_ranks_is_that_of_one(kind):
    (X, y), weight = blobs(400, features=6), weights(400)

    def work(parts, reduce):
        features, labels, weight = parts
        data = HeadData(lambda: features, labels[:, None].astype(float), weight, reduce)
        half = len(features) // 2
        return kind(np.zeros((3, 6)), 3).choose(data.take(slice(half)), data.take(slice(half, None)), 400.0)

    assert on_two_ranks(work, X, y, weight) == [work([X, y, weight], lambda total: total)] * 2


def test_the_svm_of_two_ranks_is_chosen_by_the_errors_of_both():
    X, y = blobs(300, features=6)

    def work(parts, reduce):
        features, labels = (torch.from_numpy(part) for part in parts)
        return choose_svm(features, labels, classes=3, tol=1e-9, reduce=reduce)

    first, second = on_two_ranks(work, X, y)
    assert first.C == second.C
    assert torch.equal(first.V, second.V)


@pytest.mark.parametrize("head", ["logistic", "svm", "ridge", "trained"])
def test_a_classifier_on_two_ranks_is_the_same_on_both_and_as_good(head):
    X, y = blobs(240)

    def work(parts, reduce):
        rows = canonical(parts[0], parts[1][:, None].astype(float), np.ones(len(parts[1])))
        return fit(BCDClassifier(head=head, **QUICK), rows, Classes(np.arange(3), Squared(), head), reduce=reduce).model

    one, two = on_two_ranks(work, X, y)
    np.testing.assert_array_equal(one.scaling.shift, two.scaling.shift)
    np.testing.assert_array_equal(one.scores(X), two.scores(X))
    alone = work([X, y], lambda total: total)
    np.testing.assert_allclose(one.scaling.scale, alone.scaling.scale)
    right = [(model.scores(X).argmax(1) == y).mean() for model in (one, alone)]
    assert right[0] > right[1] - 0.03


def test_numbers_on_two_ranks_are_as_good():
    X, y = line(240)

    def work(parts, reduce):
        rows = canonical(parts[0], parts[1][:, None], np.ones(len(parts[1])))
        return fit(BCDRegressor(**QUICK), rows, Numbers(Squared()), reduce=reduce).model

    one, two = on_two_ranks(work, X, y)
    np.testing.assert_array_equal(one.scores(X), two.scores(X))
    assert np.corrcoef(one.scores(X)[:, 0], y)[0, 1] > 0.95


def test_a_head_that_scikit_learn_fits_is_refused_on_several_ranks():
    X, y = blobs()
    rows = canonical(X, y[:, None].astype(float), np.ones(len(y)))
    with pytest.raises(ValueError, match=r"head must need sums over rows alone .* use logistic, ridge, svm, trained"):
        fit(
            BCDClassifier(**QUICK),
            rows,
            Classes(np.arange(3), Squared(), LinearSVC()),
            reduce=lambda total: total.clone(),
        )


def test_the_logistic_head_of_two_ranks_is_scikit_learns_of_all_rows():
    (X, y), weight = blobs(300, features=6), weights(300)

    def work(parts, reduce):
        features, labels, weight = parts
        data = HeadData(lambda: features, labels[:, None].astype(float), weight, reduce)
        kind = Logistic(np.zeros((4, 6)), 4)  # one class has no rows
        heads = [kind.fit(data, strength) for strength in (3.0, 0.3)]
        return softmax(heads[-1](X), axis=1)

    alone = work([X, y, weight], keep)
    for found in on_two_ranks(work, X, y, weight):
        np.testing.assert_allclose(found, alone, atol=2e-3)
