"""How a fit runs and ends: solvers, statuses, warnings, interruption, going on."""

import warnings

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

from tests.estimators.samples import QUICK, blobs, line, rings
from tikhonet import Network, Status
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.estimators.solvers import METHODS
from tikhonet.estimators.stopping import StoppedShort
from tikhonet.hashing import BCDHasher

matplotlib.use("Agg")


def test_a_default_fit_does_not_warn_and_says_how_it_ended():
    model = BCDClassifier(random_state=0).fit(*rings())
    assert model.status_ in (Status.FINISHED, Status.EARLY_STOPPED)
    assert model.n_iter_ == len(model.history_)
    assert model.certificate_["feasible"].holds
    assert model.certificate_["stationary"].holds is None
    assert "tikhonet certify MODEL --data" in model.certificate_["stationary"].figure


@pytest.mark.parametrize("solver", ["proximal", "alg1"])
@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor])
def test_full_batch_solvers_learn_warn_and_certify(solver, Model):
    X, y = blobs(rows=80)
    with pytest.warns(ConvergenceWarning, match="stopped short"):
        model = Model(solver=solver, max_iter=15, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.6
    assert model.certificate_["descent"].holds
    assert model.history_.iterations == model.n_iter_ <= 15


def test_short_training_is_named_with_a_remedy():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        BCDClassifier(max_iter=2, **QUICK).fit(*blobs())


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor, BCDFeatures, BCDHasher])
@pytest.mark.parametrize("wrap", [lambda model: model, make_pipeline])
def test_warnings_point_at_the_line_that_called_fit(Model, wrap):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrap(Model(max_iter=2, **QUICK)).fit(*blobs())
    assert [(warning.category, warning.filename) for warning in caught] == [(StoppedShort, __file__)]
    assert isinstance(caught[0].message, ConvergenceWarning)
    assert str(caught[0].message).endswith(f"): {caught[0].message.remedy}")


def test_skips_are_identities_between_layers_of_equal_width():
    model = BCDClassifier((4, 4, 7), skip=True, random_state=0).fit(*blobs())
    assert model.network_.edges[2, 0].name == "identity"
    assert (3, 1) not in model.network_.edges
    paper = BCDClassifier((4, 4, 4), skip=True).fit(*blobs()).network_
    without_bias = {edge: kind for edge, kind in paper.edges.items() if edge[1] >= 0}
    assert without_bias == Network.paper(4).edges


def test_a_network_of_ones_own():
    network = Network([4, 6, 5], {(1, 0): "learned", (2, 1): "learned", (2, 0): "learned"}, bias=True)
    model = BCDClassifier(network=network, random_state=0).fit(*blobs())
    assert model.network_ == network
    assert set(model.coefs_) == set(network.learned)
    assert model.transform(blobs()[0]).shape == (120, 5)


def test_the_l1_ball_makes_weights_zero():
    model = BCDClassifier((30, 30), constraint="l1", radius=0.5, random_state=0).fit(*blobs(features=20))
    assert model.sparsity_["zeros"] > 0.05
    assert model.sparsity_["kind"] == "set"
    # Summed in float64: a sum of float32 numbers rounds, their true sum is within the radius.
    assert all(np.abs(W).sum(1, dtype=np.float64).max() <= 0.5 for (_, m), W in model.coefs_.items() if m >= 0)


def test_callbacks_see_every_epoch_and_can_end_training():
    seen = []
    model = BCDClassifier(callbacks=[seen.append, lambda epoch: epoch.number >= 5], **QUICK).fit(*blobs())
    assert [epoch.number for epoch in seen] == [1, 2, 3, 4, 5]
    assert model.n_iter_ == 5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["stochastic", "proximal", "alg1"])
def test_ctrl_c_leaves_the_last_finished_epoch_usable(solver):
    X, y = blobs()

    def press(record):
        if getattr(record, "number", None) == 4 or getattr(record, "iterations", None) == 4:
            raise KeyboardInterrupt

    model = BCDClassifier(solver=solver, callbacks=press, **QUICK).fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    assert model.n_iter_ == 4
    assert model.score(X, y) > 0.6
    with pytest.warns(ConvergenceWarning, match="INTERRUPTED.*held-out rows the best one.*warm_start"):
        BCDClassifier(solver=solver, callbacks=press, **QUICK).fit(X, y)


def test_ctrl_c_within_an_epoch_goes_back_to_the_one_before(monkeypatch):
    X, y = blobs()
    from tikhonet.trainer.step import Stepper

    def stopped(self, state, batch, step=Stepper.__call__):
        if len(state.epochs) == 6:
            raise KeyboardInterrupt
        return step(self, state, batch)

    monkeypatch.setattr(Stepper, "__call__", stopped)
    with pytest.warns(ConvergenceWarning, match="INTERRUPTED"):
        model = BCDClassifier(**QUICK).fit(X, y)
    assert model.n_iter_ == 6
    assert model.score(X, y) > 0.8


def test_early_stopping_keeps_the_best_epoch_on_validation_data():
    X, y = rings(300)
    y = np.where(np.random.default_rng(0).random(300) < 0.3, 1 - y, y)
    model = BCDClassifier(random_state=0).fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert model.status_ is Status.EARLY_STOPPED
    assert min(epoch.validation_loss for epoch in model.history_) < model.history_[-1].validation_loss
    late = BCDClassifier(random_state=0, early_stopping=False).fit(X, y)
    assert late.status_ is Status.FINISHED


def test_early_stopping_goes_by_the_weights_of_the_rows_held_out():
    X, y = rings(400)
    wrong = np.random.default_rng(0).random(400) < 0.4
    weight = np.where(wrong, 1e-6, 1.0)
    model = BCDClassifier(random_state=0).fit(X, np.where(wrong, 1 - y, y), weight)
    assert min(epoch.validation_error for epoch in model.history_) < 0.15


def test_validation_rows_count_by_the_weights_of_their_classes():
    X, y = rings(300)
    factors, X_val, y_val = np.array([1, 3])[y], X[200:], y[200:]
    counts = np.array([1, 3])[y_val]
    weighted = BCDClassifier(class_weight={0: 1, 1: 3}, **QUICK).fit(X[:200], y[:200], X_val=X_val, y_val=y_val)
    repeated = BCDClassifier(**QUICK).fit(
        X[:200], y[:200], factors[:200], X_val=X_val.repeat(counts, 0), y_val=y_val.repeat(counts)
    )
    losses = [[epoch.validation_loss for epoch in model.history_] for model in (weighted, repeated)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3)


def test_warm_start_goes_on_from_the_last_weights():
    X, y = line()
    model = BCDRegressor(max_iter=60, warm_start=True, early_stopping=False, **QUICK).fit(X, y)
    cold = model.history_
    # The first batch's loss is that of V = 0, before the first step.
    assert model.fit(X, y).history_[1].loss < 0.5 * cold[1].loss
    with pytest.raises(ValueError, match="warm_start needs the classes of the last fit"):
        BCDClassifier(warm_start=True, **QUICK).fit(*blobs()).fit(*blobs(classes=2))
    wide = np.hstack([X, X])
    fresh = BCDRegressor(max_iter=60, early_stopping=False, **QUICK).fit(wide, y)
    np.testing.assert_array_equal(model.fit(wide, y).predict(wide), fresh.predict(wide))


def test_partial_fit_learns_from_pieces():
    X, y = rings(900)
    model = BCDClassifier(random_state=0)
    for start in range(0, 900, 100):
        for _ in range(3):
            model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1])
    assert model.score(X, y) > 0.9
    X, y = line(400)
    regressor = BCDRegressor(**QUICK)
    for _ in range(40):
        regressor.partial_fit(X, y)
    assert regressor.score(X, y) > 0.9


def test_partial_fit_goes_on_from_a_loaded_model(tmp_path):
    X, y = rings()
    BCDClassifier(random_state=0).fit(X, y).save(tmp_path / "model")
    model = BCDClassifier.load(tmp_path / "model").partial_fit(X, y)
    assert model.score(X, y) > 0.9


def test_partial_fit_is_for_mini_batches_only():
    with pytest.raises(ValueError, match="partial_fit needs solver"):
        BCDRegressor(solver="proximal").partial_fit(*line())


def test_verbose_shows_a_progress_bar(capsys):
    BCDClassifier(verbose=True, **QUICK).fit(*blobs())
    shown = capsys.readouterr().out
    assert "validation error" in shown


def test_threads_are_given_back():
    before = torch.get_num_threads()
    BCDClassifier(n_jobs=1, **QUICK).fit(*blobs())
    assert torch.get_num_threads() == before


def test_float64_trains_in_float64():
    model = BCDClassifier(dtype="float64", **QUICK).fit(*blobs())
    assert model.coefs_[1, 0].dtype == np.float64


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["stochastic", "proximal"])
def test_plot_draws_on_given_axes(solver):
    ax = Figure().subplots()
    assert BCDClassifier(solver=solver, max_iter=20, **QUICK).fit(*blobs()).plot(ax) is ax
    assert ax.lines


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_was_stopped_in_its_first_epoch_says_that_there_is_nothing_to_plot(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tikhonet.trainer.step.Stepper.move", stop)
    model = BCDClassifier(**QUICK).fit(*blobs())
    assert model.status_ is Status.INTERRUPTED
    with pytest.raises(ValueError, match="history_ must hold an epoch to draw, got none"):
        model.plot()


def test_what_was_learned_is_not_there_before_fit():
    model = BCDFeatures()
    for name in ("coefs_", "sparsity_", "network_"):
        assert not hasattr(model, name)
    for method in (model.plot, model.to_torch):
        with pytest.raises(NotFittedError):
            method()


def test_features_are_learned_from_numbers_or_classes():
    X, y = line()
    assert BCDFeatures(**QUICK).fit(X, y).transform(X).shape == (150, 16)
    assert (BCDFeatures(target="numbers", **QUICK).fit(*blobs()).transform(blobs()[0]) >= 0).all()


def test_a_deep_plain_classifier_trains_with_the_same_call():
    X, y = rings()
    deep = BCDClassifier((16,) * 40, random_state=0).fit(X[:200], y[:200])
    gaussian = BCDClassifier((16,) * 40, initial="gaussian", random_state=0).fit(X[:200], y[:200])
    assert deep.score(X[200:], y[200:]) > max(0.85, gaussian.score(X[200:], y[200:]))


def test_dropout_that_is_asked_for_holds_for_deep_networks_too():
    network = Network.chain([2] + [8] * 5)
    build = METHODS["stochastic"].build
    assert build(BCDClassifier(), 500, network).preset(network).drop_inputs == 0
    assert build(BCDClassifier(dropout=(0.3, 0.1)), 500, network).preset(network).drop_inputs == 0.3
    assert build(BCDClassifier(), 500).preset(Network.chain([2, 8]), 1.0).drop_inputs == 0.1


def test_products_in_bfloat16_are_for_mini_batches():
    X, y = blobs()
    plain, rounded = (BCDClassifier(products=kind, **QUICK).fit(X, y) for kind in ("float32", "bfloat16"))
    assert (plain.coefs_[1, 0] != rounded.coefs_[1, 0]).any()
    assert rounded.score(X, y) > 0.9
    for solver in ("proximal", "certified"):
        with pytest.raises(ValueError, match=f'products must be "float32" for solver="{solver}", got \'bfloat16\''):
            BCDClassifier(products="bfloat16", solver=solver).fit(X, y)
