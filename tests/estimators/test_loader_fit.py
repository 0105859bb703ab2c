"""Fits of a `DataLoader`: batches as it makes them, images that change at every epoch, and what it cannot go with."""

from itertools import count

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import tikhonet
from tests.estimators.test_image_estimators import NETWORK, images
from tikhonet import BCDClassifier, BCDFeatures, BCDRegressor, Checkpoint
from tikhonet.data import AugmentedImages
from tikhonet.estimators.checkpoints import Stopped
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


def changing(rows=240, seed=0, batch_size=40):
    return DataLoader(AugmentedImages(*images(rows, seed), padding=1), batch_size=batch_size, shuffle=True)


def test_random_state_decides_order_and_changes_of_the_batches_and_leaves_torchs_own_numbers_alone():
    before = torch.get_rng_state()
    models = [BCDClassifier(**QUICK | {"random_state": seed, "max_iter": 9}).fit(changing()) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    X = images(seed=1)[0]
    scores = [model.decision_function(X) for model in models]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


def test_a_fit_that_was_stopped_within_an_epoch_goes_on_to_the_same_bits(tmp_path):
    settings = QUICK | {"max_iter": 9}
    whole = BCDClassifier(**settings).fit(changing())
    for steps in (9, 4):  # six batches an epoch
        asked = count(1)
        stop = Checkpoint(tmp_path, every_epochs=1, stop=lambda asked=asked, steps=steps: next(asked) == steps)
        with pytest.raises(Stopped):
            BCDClassifier(**settings, checkpoint=stop).fit(changing())
    with pytest.raises(ArgumentError, match="X, y and sample_weight must be those that the checkpoint was made of"):
        BCDClassifier(**settings, checkpoint=tmp_path).fit(changing(seed=2))
    again = BCDClassifier(**settings, checkpoint=tmp_path).fit(changing())
    X = images(seed=1)[0]
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))


def test_checkpoints_need_batches_that_torchs_seed_decides(tmp_path):
    numbers = np.random.default_rng(0)

    class Noisy(TensorDataset):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image + float(numbers.normal()), label

    X, y = images()
    noisy = DataLoader(Noisy(torch.tensor(X), torch.tensor(y)), batch_size=40)
    own = loader(generator=torch.Generator().manual_seed(0))
    for given in (noisy, own):
        with pytest.raises(ArgumentError, match="draw its order and its changes by torch's own random numbers"):
            BCDClassifier(**QUICK, checkpoint=tmp_path / "states").fit(given)
    assert not (tmp_path / "states").exists()


def rare(options=QUICK, **parameters):
    """A fit of mostly one class, whose labels are partly wrong."""
    X, y = images(400)
    kept = np.flatnonzero((y == 0) | (np.arange(400) % 5 == 0))
    flipped = np.where(np.random.default_rng(0).random(400) < 0.2, 1 - y, y)
    batches = DataLoader(TensorDataset(torch.tensor(X[kept]), torch.tensor(flipped[kept])), batch_size=40, shuffle=True)
    return BCDClassifier(**options, **parameters).fit(batches)


def test_classes_count_by_their_weights_of_which_only_ratios_matter():
    X = images(seed=1)[0]
    weights = None, {0: 2.0, 1: 2.0}, "balanced", {0: 1.0, 1: 20.0}
    plain, doubled, balanced, heavy = (rare(class_weight=given) for given in weights)
    np.testing.assert_array_equal(plain.predict_proba(X), doubled.predict_proba(X))
    means = [model.predict_proba(X)[:, 1].mean() for model in (plain, balanced, heavy)]
    assert means[0] + 0.05 < means[1] < means[2] - 0.05
    losses = [model.history_[-1].loss for model in (plain, balanced)]
    assert losses[0] != losses[1]  # the network has weights too, not its head alone
    none_of_one = rare(class_weight={0: 1.0, 1: 0.0})
    assert set(none_of_one.predict(X)) == {0}


def test_a_warm_start_goes_on_from_the_weights_and_the_scaling_of_the_last_fit():
    losses = []
    for seed in range(3):
        settings = QUICK | {"random_state": seed}
        fresh = BCDClassifier(**settings | {"max_iter": 9}).fit(loader(seed=3))
        warm = BCDClassifier(**settings, warm_start=True).fit(loader())
        first = warm.model_.scaling
        warm.set_params(max_iter=9).fit(loader(seed=3))
        assert warm.model_.scaling is first
        losses.append((warm.history_[0].loss, fresh.history_[0].loss))
    # The steps of a run's first epoch are its longest, so what was learned before shows, but does not stay as it was.
    assert all(after < before for after, before in losses)
    assert sum(after for after, _ in losses) < 0.85 * sum(before for _, before in losses)
    with pytest.raises(ArgumentError, match="warm_start needs the classes of the last fit"):
        warm.fit(loader(labels=lambda y: torch.tensor(y + 1)))


def test_features_are_learned_from_batches_too():
    model = BCDFeatures(**QUICK).fit(loader())
    X, y = images(seed=1)
    features = model.transform(X)
    assert model.model_.head is None
    centre = [features[y == label].mean(0) for label in (0, 1)]
    nearest = np.argmin([np.square(features - place).sum(1) for place in centre], axis=0)
    assert (nearest == y).mean() > 0.9


def test_several_labels_a_row_and_several_numbers_are_learned():
    X, y = images(seed=1)
    both = np.stack([y, 1 - y], 1)
    labels = BCDClassifier(**QUICK).fit(loader(labels=lambda y: torch.tensor(np.stack([y, 1 - y], 1))))
    assert (labels.predict(X) == both).mean() > 0.9
    numbers = BCDRegressor(**QUICK).fit(loader(labels=lambda y: torch.tensor(np.stack([2.0 * y, 1.0 - y], 1))))
    assert numbers.predict(X).shape == both.shape


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
        (
            {},
            lambda model: model.fit(DataLoader(TensorDataset(torch.ones(5, 1, 7, 7), torch.ones(5)))),
            "X must hold images",
        ),
        ({}, lambda model: model.fit(loader(0, shuffle=False)), "at least one batch"),
        ({"batch_size": 10}, lambda model: model.fit(loader()), "batch_size must be 'auto'"),
        ({"solver": "proximal"}, lambda model: model.fit(loader()), "solver must be 'stochastic'"),
        ({"memory_budget": "1GB"}, lambda model: model.fit(loader()), "memory_budget must be None"),
        ({}, lambda model: model.fit(loader(labels=lambda y: torch.zeros(240))), "at least 2 classes"),
        ({}, lambda model: model.fit(loader(labels=lambda y: torch.arange(480).view(240, 2) % 3)), "one class a row"),
        ({"n_networks": 2}, lambda model: model.fit(loader()), "n_networks must be 'auto'"),
        ({"early_stopping": True}, lambda model: model.fit(loader()), "early_stopping must be 'auto'"),
    ],
)
def test_what_a_loader_cannot_go_with_is_refused_by_name_and_changes_nothing(parameters, call, words, tmp_path):
    model = BCDClassifier(**QUICK | parameters)
    with pytest.raises(ArgumentError, match=words):
        call(model)
    assert not hasattr(model, "n_features_in_")
