"""Fits of a `DataLoader`: batches as it makes them, images that change at every epoch, and what it cannot go with."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import tikhonet
from tests.estimators.test_image_estimators import NETWORK, images
from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.data import AugmentedImages
from tikhonet.network.errors import ArgumentError

QUICK = {"network": NETWORK, "max_iter": 15, "random_state": 0}


def loader(rows=240, seed=0, labels=None, **options):
    X, y = images(rows, seed)
    y = torch.tensor(y) if labels is None else labels(y)
    return DataLoader(TensorDataset(torch.tensor(X), y), **{"batch_size": 40, "shuffle": True} | options)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return BCDClassifier(**QUICK).fit(loader())


def test_a_classifier_learns_from_batches_and_is_like_any_other(model, tmp_path):
    X, y = images(seed=1)
    assert model.score(X, y) > 0.9
    assert model.n_features_in_ == 36
    assert model.classes_.tolist() == [0, 1]
    assert model.predict_proba(X).sum(1) == pytest.approx(1)
    model.save(tmp_path / "m")
    loaded = tikhonet.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.partial_fit(X[:40], y[:40]).score(X, y) > 0.9


def test_its_scaling_is_that_of_the_rows(model):
    whole = BCDClassifier(**QUICK, batch_size=40).fit(*images())
    for name in ("shift", "scale", "low", "high"):
        np.testing.assert_allclose(getattr(model.model_.scaling, name), getattr(whole.model_.scaling, name), rtol=1e-9)


def test_every_epoch_asks_for_the_images_anew():
    X, y = images()
    asked = []

    class Counted(AugmentedImages):
        def __getitems__(self, indices):
            asked.extend(indices)
            return super().__getitems__(indices)

    torch.manual_seed(0)
    batches = DataLoader(Counted(X, y, padding=1), batch_size=40, shuffle=True)
    model = BCDClassifier(**QUICK).fit(batches)
    # The first pass, the trainer's first batch, 15 epochs, the last V, the rows of the head.
    assert len(asked) >= (1 + 15 + 1 + 1) * 240
    assert model.score(*images(seed=1)) > 0.85


def test_validation_rows_may_be_arrays_or_a_loader_and_decide_the_epoch():
    X_val, y_val = images(60, 1)
    models = []
    for given in ({"X_val": X_val, "y_val": y_val}, {"X_val": loader(60, 1, shuffle=False)}):
        models.append(BCDClassifier(**QUICK).fit(loader(shuffle=False), **given))
    losses = [[epoch.validation_loss for epoch in model.history_] for model in models]
    assert losses[0] == losses[1]
    assert np.isfinite(losses[0]).all()


def test_names_of_classes_and_numbers_are_learned_too():
    X, y = images(seed=1)
    names = np.array(["across", "down"])

    class Named(TensorDataset):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image, str(names[int(label)])

    X_train, y_train = images()
    torch.manual_seed(0)
    named = DataLoader(Named(torch.tensor(X_train), torch.tensor(y_train)), batch_size=40, shuffle=True)
    assert BCDClassifier(**QUICK).fit(named).score(X, names[y]) > 0.9
    numbers = loader(labels=lambda y: torch.tensor(3.0 + 10 * y))
    assert BCDRegressor(**QUICK).fit(numbers).score(X, 3.0 + 10 * y) > 0.5


def bad(value):
    X, y = images()
    X = X.copy()
    X[100] = value
    return DataLoader(TensorDataset(torch.tensor(X), torch.tensor(y)), batch_size=40)


@pytest.mark.parametrize(
    ("parameters", "call", "words"),
    [
        ({}, lambda model: model.fit(loader(), np.ones(240)), "y and sample_weight must be None"),
        ({}, lambda model: model.fit(bad(np.nan)), "batch 2"),
        ({}, lambda model: model.fit(DataLoader(torch.ones(5, 1, 6, 6))), r"batches \(X, y\)"),
        ({}, lambda model: model.fit(DataLoader(TensorDataset(torch.ones(5, 1, 7, 7), torch.ones(5)))), "network must"),
        ({}, lambda model: model.fit(loader(0, shuffle=False)), "at least one batch"),
        ({"batch_size": 10}, lambda model: model.fit(loader()), "batch_size must be 'auto'"),
        ({"solver": "proximal"}, lambda model: model.fit(loader()), "solver must be 'stochastic'"),
        ({"checkpoint": "folder"}, lambda model: model.fit(loader()), "checkpoint must be None"),
        ({"memory_budget": "1GB"}, lambda model: model.fit(loader()), "memory_budget must be None"),
        ({"class_weight": "balanced"}, lambda model: model.fit(loader()), "class_weight must be None"),
        ({"early_stopping": True}, lambda model: model.fit(loader()), "early_stopping must be 'auto'"),
    ],
)
def test_what_a_loader_cannot_go_with_is_refused_by_name_and_changes_nothing(parameters, call, words, tmp_path):
    model = BCDClassifier(**QUICK | parameters)
    with pytest.raises(ArgumentError, match=words):
        call(model)
    assert not hasattr(model, "n_features_in_")
