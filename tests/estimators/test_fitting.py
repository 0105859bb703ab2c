"""`fit(parameters, rows, target)`: what it returns, and what a failure leaves."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.svm import SVC, LinearSVC
from sklearn.utils._param_validation import InvalidParameterError

from tests.estimators.samples import QUICK, blobs, line
from tikhonet import Loss, Network, RowL2Ball, Squared
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.estimators.fitting import fit, most_iterations
from tikhonet.estimators.number_targets import Numbers
from tikhonet.estimators.rows import canonical
from tikhonet.hashing import BCDHasher
from tikhonet.network.activation import ClippedReLU
from tikhonet.network.errors import ArgumentError

ESTIMATORS = [BCDClassifier, BCDRegressor, BCDFeatures, BCDHasher]
PUBLIC = ("n_iter_", "status_", "history_", "certificate_", "model_", "network_", "n_features_in_")


def shown(model, X):
    """All that a user sees of a fitted model."""
    outputs = [getattr(model, name)(X) for name in ("predict", "transform") if hasattr(model, name)]
    own = [getattr(model, name) for name in ("classes_", "report_", "feature_names_in_") if hasattr(model, name)]
    return outputs, own, [getattr(model, name) for name in PUBLIC], model.sparsity_


def fails_late(record):
    raise RuntimeError("in the middle of training")


class Broken(LinearSVC, Ridge):
    """A head that cannot be fitted."""

    def fit(self, *_, **__):
        raise RuntimeError("after training")


@pytest.mark.parametrize("Model", ESTIMATORS)
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_fit_that_fails_in_the_middle_changes_nothing(Model, warm_start):
    X, y = blobs()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = Model(warm_start=warm_start, **QUICK).fit(frame, y)
    before, stored = shown(model, frame), dict(vars(model))
    with pytest.raises(RuntimeError, match="in the middle of training"):
        model.set_params(callbacks=fails_late).fit(X[:100, :3], y[:100])
    model.set_params(callbacks=None)
    assert vars(model) == stored
    for old, new in zip(before, shown(model, frame), strict=True):
        np.testing.assert_equal(new, old)


@pytest.mark.parametrize("Model", [BCDClassifier, BCDRegressor])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_head_that_fails_after_training_changes_nothing(Model, method):
    X, y = blobs()
    model = Model(**QUICK).fit(X, y)
    before, stored = shown(model, X), dict(vars(model))
    head = model.head
    with pytest.raises(RuntimeError, match="after training"):
        getattr(model.set_params(head=Broken()), method)(X[:90], y[:90])
    model.set_params(head=head)
    assert vars(model) == stored
    np.testing.assert_equal(shown(model, X), before)


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_a_first_fit_that_fails_leaves_nothing(Model):
    model = Model(callbacks=fails_late, **QUICK)
    before = dict(vars(model))
    with pytest.raises(RuntimeError):
        model.fit(*blobs())
    assert vars(model) == before
    assert not hasattr(model, "model_")


def test_names_of_columns_go_with_the_fit():
    X, y = blobs()
    model = BCDClassifier(**QUICK).fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert not hasattr(model.fit(X[:, :3], y), "feature_names_in_")
    assert model.n_features_in_ == 3


class Logarithms(Numbers):
    """A target of one's own: the logarithms of positive numbers."""

    def encode(self, Y):
        return torch.from_numpy(self.units(np.log(Y)))

    def in_own_units(self, head):
        return head


def test_a_target_is_one_class():
    X, y = line()
    y = np.exp(y / 100)
    rows = canonical(X, y[:, None], np.ones(len(y)))
    found = fit(BCDRegressor(head="trained", **QUICK), rows, Logarithms(Squared(), "trained"))
    assert np.corrcoef(found.model.scores(X)[:, 0], np.log(y))[0, 1] > 0.95


@pytest.mark.parametrize("solver", ["stochastic", "proximal"])
@pytest.mark.parametrize("rows", [60, 200])
def test_the_number_of_iterations_is_known_before(solver, rows):
    model = BCDClassifier(solver=solver, early_stopping="auto", n_iter_no_change=10**6, tol=1e-12, max_iter=12, **QUICK)
    with pytest.warns(UserWarning, match="stopped short"):
        model.fit(*blobs(rows))
    assert most_iterations(model, rows) == model.n_iter_ == 12
    default = BCDClassifier(early_stopping=False, **QUICK)
    assert most_iterations(default, rows) == default.fit(*blobs(rows)).n_iter_


def named(function):
    with pytest.raises(ArgumentError) as caught:
        function()
    assert isinstance(caught.value, ValueError)
    return caught.value.argument


X, Y = blobs()


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("solver", lambda: BCDClassifier(solver="adam").fit(X, Y)),
        ("n_bits", lambda: BCDHasher(n_bits=7).fit(X, Y)),
        ("hidden_layer_sizes", lambda: BCDClassifier((20.7,)).fit(X, Y)),
        (
            "hidden_layer_sizes",
            lambda: (
                BCDClassifier(**QUICK)
                .fit(X, Y)
                .set_params(skip=True)
                .fit(X, Y)
                .set_params(hidden_layer_sizes=3)
                .partial_fit(X, Y)
            ),
        ),
        ("dropout", lambda: BCDClassifier(dropout=(0.1, 1.5)).fit(X, Y)),
        ("callbacks", lambda: BCDClassifier(callbacks=["a"]).fit(X, Y)),
        ("network", lambda: BCDClassifier(network=Network.chain([7, 3])).fit(X, Y)),
        ("sparsity", lambda: BCDClassifier(sparsity=0.1, solver="alg1").fit(X, Y)),
        ("solver", lambda: BCDRegressor(solver="alg1").partial_fit(X, Y)),
        ("warm_start", lambda: BCDClassifier(warm_start=True, **QUICK).fit(X, Y).fit(X, Y + 1)),
        ("class_weight", lambda: BCDClassifier(class_weight={0: -1}).fit(X, Y)),
        ("classes", lambda: BCDClassifier().partial_fit(X, Y)),
        ("sample_weight", lambda: BCDClassifier().fit(X, Y, np.zeros(len(Y)))),
        ("y", lambda: BCDClassifier().fit(X, 0 * Y)),
        ("y", lambda: BCDHasher().fit(X, 0 * Y)),
        ("y_val", lambda: BCDClassifier().fit(X, Y, X_val=X, y_val=Y + 1)),
        ("X_val", lambda: BCDRegressor().fit(X, Y, X_val=X[:, :2], y_val=Y)),
        ("similarity", lambda: BCDHasher().fit(X, similarity=np.ones((3, 2)))),
        ("device", lambda: BCDClassifier(device="abacus").fit(X, Y)),
        ("n_bits", lambda: BCDHasher(n_bits=8).fit(np.arange(900.0).reshape(300, 3), np.arange(300))),
        ("y", lambda: BCDHasher().fit(X[:2], [{0}, {1}])),
        ("head", lambda: BCDClassifier(head=SVC(), **QUICK).fit(X, Y)),
        ("gamma", lambda: BCDClassifier(gamma=(1.0, 2.0, 3.0)).fit(X, Y)),
    ],
)
def test_errors_name_the_argument_as_a_field(argument, call):
    assert named(call) == argument


def test_errors_of_declared_parameters_are_still_those_of_scikit_learn():
    with pytest.raises(InvalidParameterError, match="The 'solver' parameter of BCDClassifier must be"):
        BCDClassifier(solver="adam").fit(X, Y)


@pytest.mark.parametrize("Model", ESTIMATORS)
@pytest.mark.parametrize("activation", ["clipped_relu", ClippedReLU(0.5)], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_activation_is_a_parameter_and_is_kept_in_files(Model, activation, tmp_path):
    for solver in ("stochastic", "proximal"):
        model = Model(activation=activation, solver=solver, max_iter=20, **QUICK).fit(X, Y)
        kind = model.network_.activation
        assert kind == (ClippedReLU() if activation == "clipped_relu" else activation)
        assert model.model_.features(X).max() <= kind.cap
        model.save(tmp_path / "model")
        loaded = Model.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
        assert loaded.network_ == model.network_ == loaded._network(model.model_.inputs)


class Fourth(Loss):
    """A loss of one's own: the sum of |s - t|^4 / 12 near the targets, with curvature 1 beyond."""

    name = "fourth"
    curvature = 1.0

    def rows(self, T, S):
        E = (S - T).abs()
        return torch.where(E <= 1, E**4 / 12, E.square() / 2 - 2 * E / 3 + 0.25).sum(1)

    def slope(self, T, S):
        E = S - T
        return torch.where(E.abs() <= 1, E**3 / 3, E - 2 * E.sign() / 3)


class HalfBall(RowL2Ball):
    """A set of one's own: rows in the l2 ball of half the radius."""

    name = "half"

    def norm(self, M):
        return 2 * super().norm(M)


def test_a_loss_and_a_set_of_ones_own_are_known_by_their_names(tmp_path):
    X, y = line()
    model = BCDRegressor(loss="fourth", constraint="half", radius=0.8, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.5
    assert np.linalg.norm(model.coefs_[1, 0], axis=1).max() <= 0.4
    model.set_params(constraint=HalfBall(0.8)).save(tmp_path / "model")
    loaded = BCDRegressor.load(tmp_path / "model")
    assert (loaded.loss, loaded.constraint, loaded.radius) == ("fourth", "half", 0.8)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["stochastic", "proximal"])
def test_the_solvers_sums_over_rows_go_through_reduce(solver):
    seen = []
    rows = canonical(X, Y[:, None].astype(float), np.ones(len(Y)))
    for reduce in (lambda total: total, lambda total: seen.append(total.shape) or total):
        found = fit(BCDRegressor(solver=solver, max_iter=3, **QUICK), rows, Numbers(Squared()), reduce=reduce)
    plain = fit(BCDRegressor(solver=solver, max_iter=3, **QUICK), rows, Numbers(Squared()))
    assert len(seen) > 10
    np.testing.assert_array_equal(found.model.scores(X), plain.model.scores(X))
