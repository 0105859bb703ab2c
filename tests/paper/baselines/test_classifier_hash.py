import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from tikhonet.data import load
from tikhonet.hashing import evaluate, hamming
from tikhonet.paper.baselines.classical_hashes import ClassifierHash


@pytest.fixture(scope="module")
def digits():
    return load("digits"), load("digits", "test")


def test_codes_are_the_words_of_the_predicted_labels(digits):
    train, test = digits
    method = ClassifierHash(32, KNeighborsClassifier()).fit(train.X, train.y)
    predicted = method.classifier.predict(test.X)
    np.testing.assert_array_equal(method.codes(test.X), method.words_[predicted])
    assert len(np.unique(method.words_, axis=0)) == 10
    between = hamming(method.words_, method.words_)[~np.eye(10, dtype=bool)]
    assert between.min() >= 16


def test_precision_within_any_small_radius_is_that_of_the_predictions(digits):
    train, test = digits
    method = ClassifierHash(16, LogisticRegression(max_iter=200)).fit(train.X, train.y)
    found = evaluate(method.codes(test.X), test.y, method.codes_of(train.y), train.y)
    accuracy = (method.classifier.predict(test.X) == test.y).mean()
    assert found.precision_within == pytest.approx(accuracy)
    assert found.recall_within == pytest.approx(accuracy)


def test_a_classifier_that_is_fitted_already_only_needs_words():
    labels = np.array(["b", "a", "c"])
    fitted = KNeighborsClassifier(1).fit(np.eye(3), labels)
    method = ClassifierHash(8, fitted).assign(labels)
    np.testing.assert_array_equal(method.codes(np.eye(3)), method.words_[[1, 0, 2]])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="classifier must have fit and predict, got str"):
        ClassifierHash(8, "svm")
    method = ClassifierHash(8, KNeighborsClassifier(1))
    with pytest.raises(ValueError, match="must be fitted"):
        method.codes(np.eye(3))
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        method.fit(np.eye(3), [1, 1, 1])
    with pytest.raises(ValueError, match=r"vector of labels, got shape \(3, 3\)"):
        method.fit(np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match="y must hold a label for each row, got None"):
        method.fit(np.eye(3), None)
    for labels, got in (([1, 2, None], "None"), ([1, 2, np.nan], "nan"), (np.array(["a", "b", np.nan], object), "nan")):
        with pytest.raises(ValueError, match=f"y must hold labels, got {got} in row 2; leave such rows out"):
            method.fit(np.eye(3), labels)
    with pytest.raises(ValueError, match=r"labels must be classes of y, got np.int64\(7\)"):
        method.fit(np.eye(3), [1, 2, 3]).codes_of([1, 7])
