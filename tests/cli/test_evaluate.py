import numpy as np
import pytest

from tikhonet.data import load
from tikhonet.estimators import BCDClassifier


def test_the_error_and_the_confusion_matrix_are_those_of_the_predictions(run, model):
    document = run("evaluate", model, "--data", "digits", "--json").document
    test = load("digits", "test")
    predicted = BCDClassifier.load(model).predict(test.X)
    assert document["wrong"] == int((predicted != test.y).sum())
    assert document["error_percent"] == pytest.approx(100 * np.mean(predicted != test.y))
    matrix = np.array(document["confusion"])
    assert matrix.sum() == 500
    assert np.trace(matrix) == 500 - document["wrong"]
    assert "of 500 wrong" in run("evaluate", model, "--data", "digits").out


def test_labels_that_the_model_does_not_know_count_as_wrong(run, mistake, model, tmp_path):
    data = load("digits", "test")
    np.savez(tmp_path / "some.npz", X=data.X[:20], y=np.r_[data.y[:19], 77])
    np.savez(tmp_path / "none.npz", X=data.X[:20], y=np.full(20, 77))
    assert run("evaluate", model, "--data", "some.npz", "--json").document["unknown_labels"] == 1
    assert "none of its labels" in mistake("evaluate", model, "--data", "none.npz", code=1)


def test_a_file_without_labels_is_refused(mistake, model, tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((3, 64)))
    assert "--label" in mistake("evaluate", model, "--data", "rows.npy")
