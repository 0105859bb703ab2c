import pickle
import sys
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hashing import slow
from tikhonet.hashing import HammingIndex, engines, hamming, pack
from tikhonet.model import storage
from tikhonet.model.storage import ModelFormatError

EXACT = ["flat", "numpy"]
KINDS = ["flat", "numpy", "hash", "ivf"]


def random_codes(rows, n_bits, seed=0, different=None):
    """Many of them equal, where only so many bits are `different`: ties are what a search has to get right."""
    bits = np.random.default_rng(seed).random((rows, n_bits)) < 0.5
    bits[:, different or n_bits :] = False
    return pack(bits)


def make(kind, n_bits=32, rows=200, **settings):
    codes = random_codes(rows, n_bits, different=12)
    return HammingIndex(n_bits, kind, **settings).fit(codes).add(codes)


def ball(index, query, radius):
    limits, distances, ids = index.within(query, radius)
    assert limits[0] == 0
    assert limits[-1] == len(ids) == len(distances)
    return [list(zip(distances[a:b].tolist(), ids[a:b].tolist(), strict=True)) for a, b in pairwise(limits)]


@pytest.mark.parametrize("kind", EXACT)
@given(n_bits=st.integers(8, 140), rows=st.integers(1, 60), different=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_exact_kinds_return_the_nearest_by_distance_then_id(kind, n_bits, rows, different, seed):
    rng = np.random.default_rng(seed)
    codes, queries = random_codes(rows, n_bits, seed, different), random_codes(5, n_bits, seed + 1, different)
    ids = rng.choice(1000, rows, replace=False)
    k, radius = int(rng.integers(1, rows + 1)), int(rng.integers(0, 5))
    index = HammingIndex(n_bits, kind).add(codes, ids)
    distances, found = index.search(queries, k)
    for q, row in enumerate(slow.neighbours(hamming(queries, codes), ids)):
        assert list(zip(distances[q].tolist(), found[q].tolist(), strict=True)) == row[:k]
        assert ball(index, queries, radius)[q] == [pair for pair in row if pair[0] <= radius]


@pytest.mark.parametrize("heap", [True, False])
def test_faiss_keeps_the_smallest_ids_among_ties_by_counters_and_by_heaps(heap, monkeypatch):
    monkeypatch.setattr(engines, "COUNTERS", 0 if heap else 10**9)
    codes, queries = random_codes(3000, 64, 0, 5), random_codes(40, 64, 1, 5)
    flat, exact = (HammingIndex(64, kind).add(codes).search(queries, 100) for kind in EXACT)
    np.testing.assert_array_equal(flat[0], exact[0])
    np.testing.assert_array_equal(flat[1], exact[1])


@pytest.mark.parametrize("kind", KINDS)
def test_the_radius_is_inclusive(kind):
    codes = pack(np.tril(np.ones((9, 8)), -1)[[0, 1, 2, 3]])  # at distances 0, 1, 2, 3 of zero
    index = HammingIndex(8, kind, **({"lists": 1} if kind == "ivf" else {"flips": 8} if kind == "hash" else {}))
    index.fit(codes).add(codes)
    zero = np.zeros((1, 1), np.uint8)
    for radius in range(4):
        assert ball(index, zero, radius) == [[(d, d) for d in range(radius + 1)]]
    assert ball(index, ~zero, 0) == [[]]


def test_a_hash_index_finds_all_of_a_ball_up_to_its_flips():
    codes, queries = random_codes(2000, 24, 0, 20), random_codes(50, 24, 1, 20)
    index, exact = HammingIndex(24, "hash", hash_bits=10).add(codes), HammingIndex(24, "numpy").add(codes)
    assert ball(index, queries, 2) == ball(exact, queries, 2)
    assert any(len(found) > 1 for found in ball(exact, queries, 2))


def test_an_ivf_index_that_reads_all_lists_is_exact():
    codes, queries = random_codes(1000, 32, 0), random_codes(20, 32, 1)
    index = HammingIndex(32, "ivf", lists=20, probes=20).fit(codes).add(codes)
    exact = HammingIndex(32, "numpy").add(codes)
    assert ball(index, queries, 10) == ball(exact, queries, 10)
    np.testing.assert_array_equal(index.search(queries, 30)[0], exact.search(queries, 30)[0])


@pytest.mark.parametrize("kind", ["hash", "ivf"])
def test_what_an_approximate_kind_finds_is_true_and_in_order(kind):
    codes, queries = random_codes(1000, 32, 0), random_codes(20, 32, 1)
    settings = {"hash_bits": 16, "flips": 1} if kind == "hash" else {"lists": 50, "probes": 1}
    index = HammingIndex(32, kind, **settings).fit(codes).add(codes, np.arange(1000) * 3)
    distances, ids = index.search(queries, 60)
    exact = hamming(queries, codes)
    assert (ids < 0).any()
    assert (distances[ids < 0] == 33).all()
    rows, columns = np.nonzero(ids >= 0)
    np.testing.assert_array_equal(exact[rows, ids[rows, columns] // 3], distances[rows, columns])
    keys = distances.astype(np.int64) * 10000 + np.where(ids < 0, 9999, ids)
    assert (np.diff(keys, axis=1) >= 0).all()
    again = HammingIndex(32, kind, **settings).fit(codes).add(codes, np.arange(1000) * 3).search(queries, 60)
    np.testing.assert_array_equal(again[1], ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_made_in_any_order_is_the_same(kind):
    codes, queries = random_codes(90, 32, 0), random_codes(7, 32, 1)
    settings = {"lists": 4, "probes": 2} if kind == "ivf" else {}
    whole = HammingIndex(32, kind, **settings).fit(codes).add(codes)
    parts = HammingIndex(32, kind, **settings).fit(codes)
    order = np.random.default_rng(0).permutation(90)
    parts.add(codes[order[:40]], order[:40]).add(codes[order[40:]], order[40:])
    parts.add(codes[:2], [90, 95]).remove([95, 90])
    np.testing.assert_array_equal(parts.codes, codes)
    assert ball(parts, queries, 12) == ball(whole, queries, 12)
    np.testing.assert_array_equal(parts.search(queries, 5), whole.search(queries, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_removed_codes_are_found_no_more_and_the_others_keep_their_ids(kind):
    index = make(kind)
    query = index.codes[7:8]
    before = ball(index, query, 2)[0]
    gone = [id_ for _, id_ in before][::2]
    index.remove(gone)
    assert ball(index, query, 2)[0] == [pair for pair in before if pair[1] not in gone]
    assert len(index) == 200 - len(gone)
    index.add(query, [gone[0]])
    assert (0, gone[0]) in ball(index, query, 0)[0]


def test_ids_follow_the_largest_so_far():
    index = HammingIndex(8, "numpy").add(np.zeros((2, 1), np.uint8)).add(np.zeros((1, 1), np.uint8), [10])
    index.add(np.zeros((1, 1), np.uint8))
    assert index.ids.tolist() == [0, 1, 10, 11]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_index_answers_like_the_saved_one(kind, tmp_path):
    index = make(kind, 20)
    index.remove([3, 4])
    index.save(tmp_path / "index")
    loaded = HammingIndex.load(tmp_path / "index")
    queries = random_codes(9, 20, 1)
    assert repr(loaded) == repr(index)
    assert ball(loaded, queries, 6) == ball(index, queries, 6)
    np.testing.assert_array_equal(loaded.search(queries, 9), index.search(queries, 9))
    assert HammingIndex.load(tmp_path / "index", "numpy").kind == "numpy"


def test_settings_can_be_changed_on_loading(tmp_path):
    make("ivf", lists=np.int64(10), probes=1).save(tmp_path / "index")
    exact = make("numpy")
    queries = random_codes(9, 32, 1)
    assert ball(HammingIndex.load(tmp_path / "index", probes=10), queries, 9) == ball(exact, queries, 9)
    exact.save(tmp_path / "other")
    lists = HammingIndex.load(tmp_path / "other", "ivf", lists=5, probes=5)
    assert ball(lists, queries, 9) == ball(exact, queries, 9)


def test_an_empty_index_is_saved_and_loaded(tmp_path):
    HammingIndex(8, "numpy").save(tmp_path / "index")
    assert len(HammingIndex.load(tmp_path / "index")) == 0


def test_a_file_damaged_anywhere_is_refused_and_the_index_is_not_lost(tmp_path):
    index = make("numpy", rows=20)
    path = tmp_path / "index"
    index.save(path)
    raw = path.read_bytes()
    for place in (*range(0, len(raw), 37), len(raw) - 1):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(ModelFormatError, match="index"):
            HammingIndex.load(path)
    path.write_bytes(raw[:-1])
    with pytest.raises(ModelFormatError, match="cut or extended"):
        HammingIndex.load(path)
    index.save(path)
    assert path.read_bytes() == raw
    assert [file.name for file in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"content": "model"}, "is not a Hamming index"),
        ({"kind": "tree"}, "is not a Hamming index"),
        ({"ids": [1]}, "cannot be an index: ids must hold one number for each"),
        ({"ids": [1, 1]}, "again"),
        ({"ids": [-1, 1]}, "whole numbers from 0"),
        ({"codes": [[1, 2]] * 2}, "1 bytes a code"),
    ],
)
def test_a_sealed_file_that_holds_no_index_is_refused(tmp_path, change, said):
    import torch

    header = {"content": "hamming-index", "n_bits": 8, "kind": "numpy", "settings": {}}
    arrays = {"codes": torch.tensor([[1], [2]], dtype=torch.uint8), "ids": torch.tensor([4, 5])}
    for name, value in change.items():
        if name in header:
            header[name] = value
        else:
            arrays[name] = torch.tensor(value, dtype=arrays[name].dtype)
    storage.save(tmp_path / "file", header, arrays)
    with pytest.raises(ModelFormatError, match=said):
        HammingIndex.load(tmp_path / "file")


def test_without_faiss_flat_is_done_by_numpy_and_the_rest_names_the_extra(monkeypatch):
    queries = random_codes(5, 32, 1)
    expected = make("flat").search(queries, 10)
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = make("flat")
    assert isinstance(index._engine, engines.NumpyEngine)
    np.testing.assert_array_equal(index.search(queries, 10), expected)
    for kind in ("hash", "ivf"):
        with pytest.raises(ImportError, match=r"tikhonet\[search\]"):
            make(kind)


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        ((7,), {}, "n_bits must be a whole number from 8 to 512, got 7"),
        ((64, "tree"), {}, "kind must be one of flat, numpy, hash, ivf, got 'tree'"),
        ((64, "flat"), {"probes": 3}, "kind='flat' must be among: none; got 'probes'"),
        ((64, "ivf"), {"probes": 0}, "probes must be at least 1, got 0"),
        ((64, "ivf"), {"lists": 2.0}, "lists must be a whole number, got 2.0"),
        ((12, "hash"), {"hash_bits": 9}, "hash_bits must be from 1 to 8 for codes of 12 bits, got 9"),
        ((16, "hash"), {"flips": 17}, r"flips must be from 0 to hash_bits \(16\), got 17"),
    ],
)
def test_wrong_settings_are_named(arguments, settings, said):
    with pytest.raises(ValueError, match=said):
        HammingIndex(*arguments, **settings)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda index, codes: index.search(codes[:, :2], 3), r"4 bytes a code \(32 bits\), got 2"),
        (lambda index, codes: index.add(codes[:, :2]), "4 bytes a code"),
        (lambda index, codes: index.within(codes.astype(int), 3), "uint8 matrix of packed codes, got int64"),
        (
            lambda index, codes: index.search(codes, 201),
            "k must be a whole number from 1 to 200.*got 201; ask for fewer",
        ),
        (lambda index, codes: index.search(codes, 0), "k must be"),
        (lambda index, codes: index.search(codes, 1.5), "k must be a whole number"),
        (lambda index, codes: index.within(codes, 33), "radius must be a whole number from 0 to 32"),
        (lambda index, codes: index.within(codes, -1), "radius must be"),
        (lambda index, codes: index.add(codes, [500, 7]), r"ids must be new, each once, got 7 again \(in the index\)"),
        (lambda index, codes: index.add(codes, [500, 500]), r"got 500 again \(among ids\)"),
        (lambda index, codes: index.add(codes, [500]), "one number for each of the 2 codes, got 1"),
        (lambda index, codes: index.add(codes, [0.5, 1.5]), "ids must be a vector of whole numbers from 0"),
        (
            lambda index, codes: index.add(codes, [-1, 500]),
            "2.63 - 1, got int64 of shape .2,. from -1 to 500",
        ),
        (
            lambda index, codes: index.add(codes, np.array([2**63 + 5, 7], np.uint64)),
            "got uint64 of shape .2,. from 7 to 9223372036854775813",
        ),
        (lambda index, codes: index.remove([3, 200]), "ids must be in the index, got 200"),
    ],
)
@pytest.mark.parametrize("kind", EXACT)
def test_a_mistake_is_named_and_changes_nothing(kind, action, said):
    index = make(kind)
    codes = index.codes[:2]
    before = ball(index, codes, 3)
    with pytest.raises(ValueError, match=said):
        action(index, codes)
    assert len(index) == 200
    assert ball(index, codes, 3) == before


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_numpy_are_numbers(kind):
    index = make(kind)
    for found, expected in (
        (index.search(index.codes[:3], np.int64(5)), index.search(index.codes[:3], 5)),
        (index.within(index.codes[:3], np.int32(2)), index.within(index.codes[:3], 2)),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_finds_the_same_and_is_its_own(kind):
    index = make(kind)
    for copy in (pickle.loads(pickle.dumps(index)), deepcopy(index)):
        assert ball(copy, index.codes[:5], 3) == ball(index, index.codes[:5], 3)
        copy.add(index.codes[:1])
        assert (len(index), len(copy)) == (200, 201)
    assert len(pickle.loads(pickle.dumps(HammingIndex(32, kind)))) == 0


def test_other_lists_are_chosen_anew_from_a_file(tmp_path):
    make("ivf", lists=10).save(tmp_path / "i")
    assert [len(HammingIndex.load(tmp_path / "i", lists=lists).centres) for lists in (10, 20)] == [10, 20]


def test_the_largest_id_is_kept_and_nothing_follows_it(tmp_path):
    codes = random_codes(2, 32)
    index = HammingIndex(32).add(codes[:1], [2**63 - 1])
    with pytest.raises(ValueError, match="ids must be given where no numbers follow the largest id"):
        index.add(codes[1:])
    index.save(tmp_path / "i")
    assert HammingIndex.load(tmp_path / "i").ids.tolist() == [2**63 - 1]
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        index.save(tmp_path / "nowhere" / "i")


def test_an_ivf_index_without_lists_says_what_to_do():
    index, codes = HammingIndex(32, "ivf", lists=30), random_codes(20, 32)
    for action in (lambda: index.add(codes), lambda: index.search(codes, 1), lambda: index.within(codes, 1)):
        with pytest.raises(ValueError, match=r"call fit\(codes\) first"):
            action()
    with pytest.raises(ValueError, match=r"at least as many as lists \(30\), got 20"):
        index.fit(codes)


def test_searching_an_empty_index_says_what_to_do():
    with pytest.raises(ValueError, match="add codes first"):
        HammingIndex(32, "numpy").search(random_codes(1, 32), 1)


@pytest.mark.parametrize("kind", EXACT)
def test_no_queries_give_no_answers(kind):
    index = make(kind)
    none = index.codes[:0]
    assert index.search(none, 3)[0].shape == (0, 3)
    assert ball(index, none, 3) == []


def test_codes_of_any_layout_are_taken():
    index = make("flat")
    fixed = index.codes[:6].copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(HammingIndex(32).add(fixed).search(fixed, 1)[0], 0)
    queries = np.asfortranarray(index.codes[:6])[::2]
    np.testing.assert_array_equal(index.search(queries, 4), index.search(queries.copy(order="C"), 4))
