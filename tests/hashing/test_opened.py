"""Codes for classes that nobody has labels of: `BCDHasher(structure="open")`."""

import numpy as np
import pytest
import torch

import tikhonet
from tikhonet import BCDHasher
from tikhonet.data import load
from tikhonet.hashing import evaluate, pack
from tikhonet.hashing.opened import Opened, View, correlation, directions
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.classical_hashes import ITQ

BITS = 32


@pytest.fixture(scope="module")
def digits():
    """Rows of seven classes to learn from; those of three others, one in four of them to ask with."""
    data = load("digits")
    unseen = np.isin(data.y, (7, 8, 9))
    X, y = data.X[unseen], data.y[unseen]
    asked = np.arange(len(y)) % 4 == 0
    return data.X[~unseen], data.y[~unseen], X[~asked], y[~asked], X[asked], y[asked]


@pytest.fixture(scope="module")
def hasher(digits):
    return BCDHasher(n_bits=BITS, structure="open", random_state=0).fit(*digits[:2])


def precision(codes, digits):
    _, _, base, labels, queries, asked = digits
    return evaluate(codes(queries), asked, codes(base), labels, n_bits=BITS).mean_average_precision.expected


def test_classes_never_seen_are_found_more_often_than_by_codes_of_labels_and_as_often_as_by_itq(hasher, digits):
    closed = BCDHasher(n_bits=BITS, random_state=0, max_iter=10).fit(*digits[:2])
    itq = ITQ(BITS).fit(digits[0], None, 0)
    found = precision(hasher.transform, digits)
    assert found > precision(closed.transform, digits) + 0.1
    assert found > precision(itq.codes, digits) - 0.03


@pytest.mark.parametrize("taught", [False, True])
def test_the_network_of_a_view_gives_its_scores(taught):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 5, generator=generator)
    first = Network.chain([5, 7], bias=True)
    W = {pair: torch.randn(first.shape(pair), generator=generator) for pair in first.learned}
    view = View("first", torch.ones(7), first, W) if taught else View("inputs", torch.arange(5) + 1.0)
    found = directions(view, X, torch.arange(60) % 4, 8, pull=1.0, seed=0, epochs=1)
    network, weights, V = found.network(Network.chain([5, 7, 3]))
    assert network.depth == 1 + taught
    torch.testing.assert_close(network.features(X, weights) @ V.T, found.scores(X), rtol=1e-4, atol=1e-4)


def test_the_fit_says_what_classes_held_out_have_chosen(hasher):
    assert "labels pull by" in hasher.certificate_["classes"].figure
    assert hasher.mixture_.bits == BITS
    assert len(hasher.history_) == 10
    assert hasher.report_.distinct > 0.8 * hasher.report_.codes


def test_a_file_and_a_torch_module_give_the_same_codes(hasher, digits, tmp_path):
    hasher.save(tmp_path / "open.tikhonet")
    again = tikhonet.load(tmp_path / "open.tikhonet")
    np.testing.assert_array_equal(again.transform(digits[2]), hasher.transform(digits[2]))
    module = hasher.to_torch()
    with torch.no_grad():
        scores = module(torch.from_numpy(digits[2])).numpy()
    assert (pack(scores) == hasher.transform(digits[2])).mean() > 0.999


def test_a_warm_start_keeps_the_directions_so_that_stored_codes_stay_comparable(digits):
    X, y = digits[:2]
    warm = BCDHasher(n_bits=16, structure="open", random_state=0, warm_start=True).fit(X, y)
    before = warm.transform(X)
    np.testing.assert_array_equal(warm.fit(X[::2], y[::2]).transform(X), before)


def test_without_labels_directions_follow_nearness_alone(digits):
    found = BCDHasher(n_bits=BITS, structure="open", random_state=0).fit(digits[0])
    assert [check.key for check in found.certificate_.checks] == ["stationary"]
    assert "units as given" in found.certificate_["stationary"].figure
    assert precision(found.transform, digits) > 0.6


def test_rows_that_are_all_equal_give_finite_scores():
    X = np.ones((30, 4))
    with pytest.warns(UserWarning, match="all codes are equal"), pytest.warns(UserWarning, match="X are constant"):
        model = BCDHasher(n_bits=8, structure="open", random_state=0).fit(X, np.arange(30) % 5)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    ("options", "y"),
    [({}, np.linspace(0, 1, 40)), ({"constraint": "l1"}, np.arange(40) % 4), ({"codes": "classes"}, np.arange(40) % 4)],
)
def test_what_open_codes_cannot_serve_is_refused_with_a_remedy(options, y):
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match=r'structure="open" .*use structure="auto"'):
        BCDHasher(n_bits=8, structure="open", **options).fit(X, y)


def test_steps_raise_the_correlation_that_they_are_for():
    generator = torch.Generator().manual_seed(0)
    X, classes = torch.randn(200, 12, generator=generator), torch.arange(200) % 4
    X[:, :4] += 2 * torch.nn.functional.one_hot(classes, 4)
    view = View("as given", torch.ones(12))
    first, last = (directions(view, X, classes, 8, epochs=n, pull=4.0, seed=0) for n in (0, 10))

    def worth(found: Opened) -> float:
        bits, far = found.scores(X).sign(), torch.cdist(X, X)
        alike = 4 * (classes[:, None] == classes).float() - far / far.std()
        return float(correlation(bits @ bits.T, alike))

    assert worth(last) > worth(first) + 0.02
