"""What "auto" is for tables of different sizes, and how networks are averaged."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from tikhonet import BCDClassifier, BCDRegressor
from tikhonet.estimators.averaged import DECAY_FROM
from tikhonet.estimators.number_targets import Numbers
from tikhonet.estimators.parameters import FULLY_CUT, MOST_CUT
from tikhonet.estimators.solvers import default_batch, default_epochs
from tikhonet.estimators.tabular import Inputs
from tikhonet.problem.losses import Squared


def waves(rows, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, size=(rows, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2]


def sized(model, rows, columns=3):
    inputs = Inputs(model)
    inputs.seen.n_features_in_ = columns
    return model._sized(rows, inputs)


@pytest.mark.parametrize(
    ("rows", "of_classes", "of_numbers"),
    [(500, (100,), "auto"), (5000, (200,), (100,)), (20_000, "auto", "auto"), (60_000, "auto", (200, 200))],
)
def test_the_widths_of_tables_go_by_their_rows(rows, of_classes, of_numbers):
    assert sized(BCDClassifier(), rows).hidden_layer_sizes == of_classes
    assert sized(BCDRegressor(), rows).hidden_layer_sizes == of_numbers
    assert sized(BCDRegressor(hidden_layer_sizes=(7,)), rows).hidden_layer_sizes == (7,)
    assert sized(BCDRegressor(), rows, columns=MOST_CUT + 1).hidden_layer_sizes == "auto"
    assert sized(BCDRegressor(dropout=0.3), rows).dropout == 0.3


def test_many_columns_are_cut_into_fewer_pieces():
    assert [BCDRegressor()._bins(columns) for columns in (FULLY_CUT, FULLY_CUT + 1, MOST_CUT + 1)] == [8, 4, 0]


def test_small_tables_get_as_many_steps_as_they_need_and_large_ones_ten_epochs():
    steps = {n: default_epochs(n, default_batch(n)) * max(1, round(n / default_batch(n))) for n in (90, 900, 2500)}
    assert all(75 <= count <= 160 for count in steps.values())
    assert default_epochs(100_000, default_batch(100_000)) == 10


def test_a_regressor_averages_two_networks_and_the_worse_one_counts_less():
    X, y = waves(400)
    both = BCDRegressor(random_state=0).fit(X, y)
    cut = BCDRegressor(random_state=0, n_networks=1).fit(X, y)
    assert both.network_.widths[1] == 2 * cut.network_.widths[1]
    X, y = waves(500, seed=1)
    assert r2_score(y, both.predict(X)) > r2_score(y, cut.predict(X)) - 0.02
    shares = Numbers(Squared()).shares([0.1, 0.2])
    np.testing.assert_allclose(shares, [0.8, 0.2])
    assert Numbers(Squared()).shares([0.0, 0.2]) == [0.5, 0.5]


def test_the_weights_of_a_plain_classifier_decay_where_there_are_many_columns():
    def decay(model, columns=MOST_CUT + 1, rows=DECAY_FROM):
        return sized(model, rows, columns=columns).decay

    assert decay(BCDClassifier()) == decay(BCDClassifier(hidden_layer_sizes=[9, 9, 9])) == 0.05
    assert decay(BCDClassifier(decay=0.2)) == 0.2
    others = {"skip": True}, {"sparsity": 0.1}, {"constraint": "l1"}, {"hidden_layer_sizes": (9,) * 4}
    assert all(decay(BCDClassifier(**settings)) == "auto" for settings in others)
    assert decay(BCDClassifier(), rows=DECAY_FROM - 1) == decay(BCDClassifier(), columns=MOST_CUT) == "auto"
    assert decay(BCDRegressor()) == 0


def test_partial_fit_goes_on_with_the_widths_of_the_last_fit():
    X, y = waves(150)
    model = BCDClassifier(random_state=0).fit(X, y > 0)
    widths = model.network_.widths
    assert widths[1:] == (100,)
    assert model.partial_fit(X, y > 0).network_.widths == widths
