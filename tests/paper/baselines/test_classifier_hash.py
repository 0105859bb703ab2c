import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from tikhonet.hashing import evaluate, hamming, pack, unpack
from tikhonet.paper.baselines.classical_hashes import ClassifierHash


def test_codes_are_the_words_of_the_predicted_labels(splits):
    train, test = splits
    method = ClassifierHash(32, KNeighborsClassifier()).fit(train.X, train.y)
    predicted = method.classifier.predict(test.X)
    np.testing.assert_array_equal(method.codes(test.X), method.words_[predicted])
    assert len(np.unique(method.words_, axis=0)) == 10
    between = hamming(method.words_, method.words_)[~np.eye(10, dtype=bool)]
    assert between.min() >= 16


def test_precision_within_any_small_radius_is_that_of_the_predictions(splits):
    train, test = splits
    method = ClassifierHash(16, LogisticRegression(max_iter=200)).fit(train.X, train.y)
    found = evaluate(method.codes(test.X), test.y, method.words_[train.y], train.y)
    accuracy = (method.classifier.predict(test.X) == test.y).mean()
    assert found.precision_within == pytest.approx(accuracy)
    assert found.recall_within == pytest.approx(accuracy)


def test_a_classifier_that_is_fitted_already_only_needs_words():
    labels = np.array(["b", "a", "c"])
    fitted = KNeighborsClassifier(1).fit(np.eye(3), labels)
    method = ClassifierHash(8, fitted).assign()
    np.testing.assert_array_equal(method.codes(np.eye(3)), method.words_[[1, 0, 2]])


def test_mistakes_are_named_by_the_classifier_and_the_words():
    with pytest.raises(ValueError, match="n_bits must be"):
        ClassifierHash(7, KNeighborsClassifier(1))
    method = ClassifierHash(8, KNeighborsClassifier(1))
    with pytest.raises(NotFittedError):
        method.codes(np.eye(3))
    with pytest.raises(ValueError, match="y contains NaN"):
        method.fit(np.eye(3), [1, 2, np.nan])


def test_soft_codes_are_the_signs_of_the_codewords_mean_under_the_probabilities(splits):
    train, test = splits
    method = ClassifierHash(32, LogisticRegression(max_iter=200), soft=True).fit(train.X, train.y)
    words = 2.0 * unpack(method.words_, 32) - 1.0
    mean = method.classifier.predict_proba(test.X) @ words
    np.testing.assert_allclose(method.scores(test.X), mean, atol=1e-6)
    np.testing.assert_array_equal(method.codes(test.X), pack(method.scores(test.X)))
