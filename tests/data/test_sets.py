"""The embedded sets: digits and planted networks."""

import hashlib

import numpy as np
import pytest
import torch

from tikhonet.data import NAMES, Dataset, data_set, digits, load, planted
from tikhonet.data.dataset import LOADERS


def test_the_digits_have_a_fixed_split_that_covers_all():
    train, test = digits("train"), digits("test")
    assert (len(train), len(test)) == (1297, 500)
    assert train.X.shape == (1297, 64)
    assert train.X.dtype == np.float32
    assert (train.X.min(), train.X.max()) == (0, 1)
    assert train.shape == (8, 8)
    assert np.bincount(np.concatenate([train.y, test.y])).sum() == 1797
    known = "6cdbed418dec"
    assert hashlib.sha256(test.values.tobytes() + test.y.tobytes()).hexdigest().startswith(known)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_planted_targets_are_what_the_planted_network_says(task):
    for split in ("train", "test"):
        data = planted(split, task, seed=3)
        scores = data.network.features(torch.tensor(data.X), data.W) @ data.V.T
        expected = scores if task == "regression" else scores.argmax(1)
        np.testing.assert_allclose(data.y, expected.numpy(), atol=1e-12)


def test_planted_noise_is_of_the_given_size():
    clean, noisy = (planted("train", "regression", noise=noise, samples=5000) for noise in (0.0, 0.3))
    assert (noisy.y - clean.y).std() == pytest.approx(0.3, rel=0.05)


def test_both_planted_splits_come_from_one_network_and_the_seed_fixes_it():
    train, test, again, other = planted("train"), planted("test"), planted("train"), planted("train", seed=1)
    assert torch.equal(train.V, test.V)
    np.testing.assert_array_equal(train.X, again.X)
    np.testing.assert_array_equal(train.y, again.y)
    assert not np.array_equal(train.X, other.X)
    assert not np.isin(train.X[:, 0], test.X[:, 0]).any()
    assert np.bincount(train.y, minlength=5).min() > 100


def test_load_knows_every_name_and_says_so_of_others():
    assert load("digits").name == "digits"
    assert load("Planted", "test").split == "test"
    assert repr(load("digits", "test")) == "digits, test: 500 samples of 8 x 8, 10 classes"
    with pytest.raises(ValueError, match=", ".join(NAMES)):
        load("imagenet")
    with pytest.raises(ValueError, match="split must be 'train' or 'test', got 'validation'"):
        load("mnist", "validation")


@pytest.mark.parametrize("wrong", [{"task": "x"}, {"samples": 0}, {"outputs": 1}, {"noise": -1.0}])
def test_planted_names_a_wrong_argument(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        planted(**wrong)


def test_a_data_set_is_one_function(monkeypatch):
    monkeypatch.setitem(LOADERS, "coins", None)

    @data_set("coins", files=False)
    def coins(split):
        return Dataset("coins", split, np.eye(2), np.arange(2), ("heads", "tails"))

    assert repr(load("coins", "test")) == "coins, test: 2 samples of 2, 2 classes"
    assert "coins" in NAMES
