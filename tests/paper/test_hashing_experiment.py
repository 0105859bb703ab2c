"""The experiment of Sec. 3.3.2: what a trial of hashing leaves, on what, and that a run can be stopped at any point."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from tests.paper.tiny import HASHING, TINY_HASHING, small_database
from tikhonet.data import Dataset
from tikhonet.hashing import evaluate, hamming, signs
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.classical_hashes import ITQ, as_rows
from tikhonet.paper.experiment import load_records
from tikhonet.paper.hash_coders import shown
from tikhonet.paper.hashing_experiment import neighbours
from tikhonet.paper.labelled_images import SETTINGS, read_database, spread_over_classes
from tikhonet.paper.records import FILE, RecordError, brief
from tikhonet.paper.runner import run

QUICK, FULL = HASHING.sizes
TRAINED = ["mixed", "open", "bcd", "fewer", "words", "nearest", "admm", "penalty", "adam", "same", "short"]
WAYS = [*TRAINED, "classifier", "soft", "sdh", "pq", "itq", "pca", "random"]


DEEP = 48


def methods(size, epochs=None, layers=DEEP):
    data = replace(small_database(), hidden=(4,) * layers)
    return {method.name: method for method in HASHING.methods(size, data, epochs)}


@pytest.fixture(scope="module")
def data():
    return small_database()


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hashing")
    run(HASHING, data, TINY_HASHING, folder, trials=(0,))
    return folder


@pytest.fixture(scope="module")
def records(folder):
    return {record.method: record for record in load_records(folder)}


@pytest.mark.parametrize("size", [QUICK, FULL], ids=lambda size: size.name)
def test_both_sizes_hold_all_ways_at_every_length(size):
    assert list(methods(size)) == [f"{way}-{bits}" for bits in size.bits for way in WAYS]


def test_the_papers_networks_and_lengths_are_those_of_the_full_size():
    assert FULL.bits == (16, 24, 32, 48, 64)
    assert {name: shown(Network.chain([9, *SETTINGS[name].hidden])) for name in ("mnist", "cifar10")} == {
        "mnist": "9, 48 x 256",
        "cifar10": "9, 16 x 1024",
    }


def test_epochs_sets_the_passes_of_all_that_train_a_network():
    found = methods(FULL.for_rows(60_000, DEEP), epochs=11)
    assert {name: method.steps for name, method in found.items() if method.way in TRAINED} == {
        f"{way}-{bits}": 2 if way in ("fewer", "short") else 11 for way in TRAINED for bits in FULL.bits
    }


def test_a_fifth_of_the_passes_is_at_least_one():
    assert [methods(FULL, epochs=n)["fewer-48"].steps for n in (1, 4, 9, 10)] == [1, 1, 1, 2]


def test_few_images_get_passes_of_their_own_in_the_full_size():
    assert FULL.for_rows(60_000, DEEP) is FULL
    all_, few = (methods(replace(FULL.for_rows(rows, DEEP), few={})) for rows in (60_000, 5000))
    passes = {"bcd": "hasher", "classifier": "classifier", "adam": "adam"}
    assert {way: few[f"{way}-48"].steps for way in passes} == {way: FULL.few[name] for way, name in passes.items()}
    assert all(few[f"{way}-48"].steps > all_[f"{way}-48"].steps for way in passes)
    assert few["admm-48"].steps == all_["admm-48"].steps
    assert QUICK.for_rows(100, DEEP) is QUICK


def test_shallow_networks_have_settings_and_lengths_of_their_own():
    for layers, settings in FULL.shallow.items():
        size = FULL.for_rows(60_000, layers)
        assert size.bits == FULL.shallow_bits
        assert {name: getattr(size, name) for name in settings} == {
            name: getattr(FULL, name) | given for name, given in settings.items()
        }
    passes = {layers: methods(FULL, layers=layers)["bcd-48"].steps for layers in (2, 4, DEEP)}
    assert passes == {2: 20, 4: 10, DEEP: 30}


def test_every_trial_leaves_measures_with_their_bounds_and_a_report_of_the_codes(records, data):
    assert len(records) == 36
    for record in records.values():
        assert 0 <= record.neighbours["neighbour_recall"] <= 1
        assert 1 <= record.codes["distinct"] <= len(data.X)
        assert 0 < record.asymmetric["asymmetric_precision"] <= 1
        assert 0 <= record.asymmetric["asymmetric_recall"] <= 1
        if record.way == "pq":
            continue
        tied = record.retrieval["mean_average_precision"]
        assert 0 < tied["lower"] <= tied["expected"] <= tied["upper"] <= 1
        assert record.score == tied["expected"]
        assert record.retrieval["database"] == record.codes["codes"] == len(data.X)
        assert record.retrieval["n_bits"] == record.bits == record.codes["n_bits"]
        assert 0 <= record.retrieval["empty_balls"] <= 1
        assert record.seconds > 0
        assert len(record.loss) == record.passes
        assert (record.passes == 0) == (record.way in ("nearest", *WAYS[len(TRAINED) + 2 :]))


def test_networks_learn_something_and_say_how_they_ended(records):
    chance = records["random-16"].score
    assert records["bcd-16"].score > chance
    assert records["bcd-16"].passes == 12
    assert any(check["key"] == "codes" for check in records["bcd-16"].checks)
    assert records["adam-16"].loss[-1] < records["adam-16"].loss[0]


def test_the_measures_are_those_of_the_methods_codes(records, data):
    fitted = ITQ(16).fit(data.X, data.y, 0)
    found = evaluate(fitted.codes(data.X_query), data.y_query, fitted.codes(data.X), data.y, n_bits=16)
    expected = json.loads(json.dumps(found.to_dict()))
    codes = expected.pop("codes")
    expected["curve"] = {name: expected["curve"][name] for name in ("pooled_precision", "pooled_recall")}
    assert records["itq-16"].retrieval == brief(expected)
    assert records["itq-16"].codes == brief(codes)
    assert records["itq-16"].score == pytest.approx(found.mean_average_precision.expected, abs=1e-6)


def test_real_scores_of_queries_order_codes_as_exact_products_do(records, data):
    fitted = ITQ(16).fit(data.X, data.y, 0)
    base = signs(fitted.codes(data.X), 16)
    products = fitted.scores(as_rows(data.X_query)).numpy() @ base.T
    same = data.y_query[:, None] == data.y
    found = [average_precision_score(*pair) for pair in zip(same, products, strict=True)]
    assert records["itq-16"].asymmetric["asymmetric_precision"] == pytest.approx(np.mean(found), abs=0.01)


def test_curves_are_kept_of_the_length_that_a_page_shows(records):
    assert {record.bits for record in records.values() if "curve" in record.retrieval} == {16}


def test_one_classifier_serves_every_length(records):
    assert records["classifier-8"].seconds == records["classifier-16"].seconds
    assert records["classifier-8"].loss == records["classifier-16"].loss


def test_bits_for_neighbours_tell_images_of_a_class_apart(records):
    both, labels = records["mixed-16"], records["bcd-16"]
    assert both.codes["distinct"] > 2 * labels.codes["distinct"]
    assert both.neighbours["neighbour_recall"] > labels.neighbours["neighbour_recall"]
    assert both.mixture["bits"] > 0


def test_unseen_classes_are_searched_and_never_trained_on(data):
    X, y, searched = replace(data, unseen=True).of_trial(1)
    assert not set(y) & set(searched.y)
    assert set(searched.y_query) <= set(searched.y)
    assert len(set(searched.y)) == 3
    assert len(X) + len(searched.X) == len(data.X)
    others = replace(data, unseen=True).of_trial(2).searched
    assert set(others.y) != set(searched.y)


def test_the_rows_to_learn_from_can_be_a_part_of_the_database(data, tmp_path):
    part = replace(data, trained=np.arange(0, 150, 2))
    (record,) = run(HASHING, part, TINY_HASHING, tmp_path, solvers=["itq-8"], trials=(0,))
    assert record.samples == 75
    fitted = ITQ(8).fit(data.X[::2], data.y[::2], 0)
    found = evaluate(fitted.codes(data.X_query), data.y_query, fitted.codes(data.X), data.y, n_bits=8)
    assert record.score == brief(found.mean_average_precision.expected)


def test_pictures_are_the_queries_with_their_nearest_images(data):
    base, queries = (ITQ(16).fit(data.X, data.y, 0).codes(rows) for rows in (data.X, data.X_query))
    drawn, distances = neighbours(base, queries, 16, data), hamming(queries, base)
    order = np.argsort(distances, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(drawn["queries"][:3], data.query_images[:3])
    np.testing.assert_array_equal(drawn["found"][:3], data.images[order[:3]])
    np.testing.assert_array_equal(drawn["found_distances"][:3], np.take_along_axis(distances, order, 1)[:3])
    wrong = (drawn["found_labels"] != drawn["query_labels"][:, None]).sum(1)
    assert wrong[3] == (data.y[order[3:]] != data.y_query[3:, None]).sum(1).max()


def test_a_finished_run_is_not_done_again_and_a_new_length_is_added(data, tmp_path):
    first = run(HASHING, data, TINY_HASHING, tmp_path, solvers=["itq-8", "bcd-8"], trials=(0,))
    before = (tmp_path / FILE).read_bytes()
    again = run(HASHING, data, TINY_HASHING, tmp_path, solvers=["itq", "bcd-8"], trials=(0,))
    assert [record for record in again if record.bits == 8] == sorted(first, key=lambda record: record.method)
    assert (tmp_path / FILE).read_bytes().startswith(before)
    assert {record.method for record in again} == {"itq-8", "bcd-8", "itq-16"}


def test_pictures_are_kept_of_the_ways_that_a_page_shows(records):
    pictured = {record.way for record in records.values() if record.pictures}
    assert pictured == {"mixed", "bcd", "admm", "penalty", "adam", "classifier", "words"}


def test_a_trial_of_other_settings_or_data_is_refused(data, tmp_path):
    run(HASHING, data, TINY_HASHING, tmp_path, solvers=["adam-8"], trials=(0,))
    with pytest.raises(RecordError, match=r"\(adam-8-0\) .* epochs = 2 where 3 is asked for"):
        run(HASHING, data, TINY_HASHING, tmp_path, solvers=["adam-8"], trials=(0,), epochs=3)
    with pytest.raises(RecordError, match="with queries 40, and digits with queries 30 is asked for"):
        run(HASHING, small_database(queries=30), TINY_HASHING, tmp_path, solvers=["adam-8"], trials=(0,))


def test_a_diverged_training_is_recorded_as_such(data, tmp_path):
    wild = replace(TINY_HASHING, adam={"rate": 1e30, "batch_size": 16, "epochs": 3})
    (record,) = run(HASHING, data, wild, tmp_path, solvers=["adam-8"], trials=(0,))
    assert record.status == "NONFINITE"
    assert record.score is None
    assert record.retrieval == {}
    json.loads(record.to_json(), parse_constant=lambda text: pytest.fail(text))


def test_a_way_stands_for_all_of_its_lengths_and_unknown_names_are_refused():
    known = methods(QUICK).values()
    assert [method.name for method in HASHING.choose(known, ["itq", "bcd-32"])] == ["itq-16", "bcd-32", "itq-32"]
    with pytest.raises(ValueError, match=r"solvers must be among mixed, open, bcd, .* such as mixed-16, got bcd-48"):
        HASHING.choose(known, ["bcd-48"])


def fake(name, split):
    """6,000 images of one pixel's brightness, and 1,200 to test."""
    count = {"train": 6000, "test": 1200}[split]
    values = np.random.default_rng(0).integers(0, 256, (count, 4, 4)).astype(np.uint8)
    return Dataset(name, split, values, np.arange(count) % 3, ("a", "b", "c"), largest=255)


def test_the_split_of_5000_images_keeps_the_whole_database_and_takes_classes_by_their_share():
    data = read_database("mnist-5000", fake)
    assert (len(data.X), len(data.X_train), len(data.X_query)) == (6000, 5000, 1000)
    assert abs(np.bincount(data.y_train) - 5000 / 3).max() <= 1
    assert abs(np.bincount(data.y_query) - 1000 / 3).max() <= 1
    np.testing.assert_array_equal(data.X_train, data.X[data.trained])
    everything = read_database("mnist", fake)
    assert (len(everything.X_train), len(everything.X_query)) == (6000, 1200)


def test_the_small_settings_search_what_they_learn_from_and_keep_no_pictures():
    data = read_database("mnist-small", fake)
    assert (len(data.X), len(data.X_train), len(data.X_query)) == (2500, 2500, 500)
    assert not data.pictured
    sized = FULL.for_rows(2500, 2)
    assert sized.bits == (16, 32, 48, 64)
    assert methods(sized)["admm-48"].solver.beta != methods(sized)["penalty-48"].solver.beta


def test_rows_are_spread_over_classes_without_repetition():
    y = np.random.default_rng(1).integers(0, 5, 997)
    rows = spread_over_classes(y, 100)
    assert len(set(rows)) == 100
    assert abs(np.bincount(y[rows]) - np.bincount(y) * 100 / 997).max() <= 1


def test_a_database_names_what_is_wrong_with_it(data):
    with pytest.raises(ValueError, match="y_query must hold one integer label from 0 for each of the 40 images"):
        replace(data, y_query=data.y_query[:3])
    with pytest.raises(ValueError, match="X_query must have 64 columns as X has, got 5"):
        replace(data, X_query=data.X_query[:, :5])
    with pytest.raises(ValueError, match="the pictures of X must be bytes"):
        replace(data, images=data.images[:7])
    with pytest.raises(ValueError, match="y_query must share labels with y"):
        replace(data, y_query=data.y_query + 10)
    with pytest.raises(ValueError, match="name must be one of digits, digits-unseen, mnist"):
        read_database("imagenet", fake)
