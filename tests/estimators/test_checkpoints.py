"""Checkpoints of fits: what they promise, what they refuse, and what they do when files go wrong."""

import os
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from tests.estimators.samples import blobs
from tests.estimators.test_ranks import on_two_ranks
from tests.faults.kills import FITS, X, Y
from tikhonet import BCDClassifier, Checkpoint
from tikhonet.descent.result import Status
from tikhonet.estimators import sessions
from tikhonet.estimators.checkpoints import CheckpointWarning, Stopped
from tikhonet.estimators.rows import Rows, digest
from tikhonet.estimators.sessions import FolderSession
from tikhonet.model import storage
from tikhonet.network.errors import ArgumentError
from tikhonet.trainer.saving import from_parts, to_parts

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def content(model, tmp_path):
    model.save(tmp_path / "model")
    return (tmp_path / "model").read_bytes()


def stopping(after):
    """A question that is answered by yes the `after`th time."""
    left = [after]

    def stop():
        left[0] -= 1
        return left[0] < 1

    return stop


def stopped(name, place, after=3, **settings):
    with pytest.raises(Stopped, match="fit again to go on"):
        FITS[name](checkpoint=Checkpoint(place, stop=stopping(after)), **settings).fit(X, Y)
    return sorted(place.glob("0*.checkpoint"))


@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_is_stopped_after_every_few_steps_ends_with_the_same_bits(name, tmp_path):
    whole = content(FITS[name]().fit(X, Y), tmp_path)
    stops, model = 0, None
    while model is None:
        try:
            model = FITS[name](checkpoint=Checkpoint(tmp_path / "states", stop=stopping(3))).fit(X, Y)
        except Stopped:
            stops += 1
    assert stops > 1
    assert model.status_ is (Status.EARLY_STOPPED if name == "stopped early" else FITS[name]().fit(X, Y).status_)
    assert content(model, tmp_path) == whole


def test_a_finished_fit_is_read_again_and_makes_room_for_another(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "states", every_seconds=0)
    first = content(FITS["numbers"](checkpoint=checkpoint).fit(X, Y), tmp_path)
    assert (tmp_path / "states" / "finished.checkpoint").exists()
    with monkeypatch.context() as patch:
        patch.setattr(sessions.FolderSlot, "offer", lambda *_: pytest.fail("a step was made"))
        assert content(FITS["numbers"](checkpoint=checkpoint).fit(X, Y), tmp_path) == first
    other = content(FITS["numbers"](checkpoint=checkpoint).fit(X[:150], Y[:150]), tmp_path)
    assert other == content(FITS["numbers"]().fit(X[:150], Y[:150]), tmp_path) != first


def test_other_rows_and_other_parameters_are_refused_by_name(tmp_path):
    stopped("numbers", tmp_path / "states")
    moved = X.copy()
    moved[[0, 1], 0] = moved[[1, 0], 0]
    with pytest.raises(ArgumentError, match="X, y and sample_weight must be those that the checkpoint was made of"):
        FITS["numbers"](checkpoint=tmp_path / "states").fit(moved, Y)
    with pytest.raises(ArgumentError, match="checkpoint is that of a fit with batch_size=80, got batch_size=70"):
        FITS["numbers"](checkpoint=tmp_path / "states").set_params(batch_size=70).fit(X, Y)
    with pytest.raises(ArgumentError, match="with estimator=BCDRegressor, got estimator=BCDClassifier"):
        FITS["under a budget"](checkpoint=tmp_path / "states").fit(X, Y)
    FITS["numbers"](checkpoint=tmp_path / "states", callbacks=lambda record: None, verbose=False).fit(X, Y)


def test_without_a_random_state_a_fit_goes_on_with_the_seed_that_it_began_with(tmp_path):
    path = stopped("numbers", tmp_path / "states", after=4)[-1]
    model = FITS["numbers"](checkpoint=tmp_path / "any").set_params(random_state=None)
    with pytest.raises(Stopped):
        clone(model).set_params(checkpoint=Checkpoint(tmp_path / "any", stop=stopping(4))).fit(X, Y)
    seed = storage.load(next((tmp_path / "any").glob("0*.checkpoint")))[0]["seed"]
    assert seed != storage.load(path)[0]["seed"]
    session = FolderSession(Checkpoint(tmp_path / "any"), tmp_path / "any", {})
    assert session.seed(lambda: pytest.fail("another seed was drawn")) == seed
    assert model.fit(X, Y).n_iter_ == 3


@pytest.mark.parametrize("name", ["numbers", "proximal"])
def test_where_the_newest_state_is_damaged_the_one_before_is_used_and_it_is_said(name, tmp_path):
    whole = content(FITS[name]().fit(X, Y), tmp_path)
    rule = Checkpoint(tmp_path / "states", every_seconds=0, stop=stopping(4))
    with pytest.raises(Stopped):
        FITS[name](checkpoint=rule).fit(X, Y)
    *_, newest = files = sorted((tmp_path / "states").glob("0*.checkpoint"))
    assert len(files) == 2
    raw = bytearray(newest.read_bytes())
    raw[-100] ^= 1
    newest.write_bytes(raw)
    with pytest.warns(CheckpointWarning, match=r"000000004.checkpoint is damaged.*; the one before it is used"):
        assert content(FITS[name](checkpoint=tmp_path / "states").fit(X, Y), tmp_path) == whole
    with pytest.raises(Stopped):
        FITS[name](checkpoint=replace(rule, path=tmp_path / "cut", stop=stopping(1))).fit(X, Y)
    for path in (tmp_path / "cut").glob("0*.checkpoint"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match="; the run begins anew"):
        assert content(FITS[name](checkpoint=tmp_path / "cut").fit(X, Y), tmp_path) == whole


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_full_disk_is_said_and_training_goes_on_to_the_same_bits(tmp_path):
    import resource

    whole = content(FITS["numbers"]().fit(X, Y), tmp_path)
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, former[1]))
        with pytest.warns(
            CheckpointWarning, match="no checkpoint could be written to .*: File too large; training goes"
        ):
            model = FITS["numbers"](checkpoint=Checkpoint(tmp_path / "states", every_seconds=0)).fit(X, Y)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert content(model, tmp_path) == whole
    assert os.listdir(tmp_path / "states") == ["lock"]


def test_a_folder_that_another_fit_uses_or_that_is_a_file_is_refused(tmp_path):
    place = tmp_path / "states"

    def within(record):
        with pytest.raises(ArgumentError, match="which another fit uses; name another"):
            FITS["numbers"](checkpoint=place).fit(X, Y)

    FITS["numbers"](checkpoint=place, callbacks=within).fit(X, Y)
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match="checkpoint must be a folder or not exist, got the file"):
        FITS["numbers"](checkpoint=str(tmp_path / "file")).fit(X, Y)
    with pytest.raises(ArgumentError, match="keep must be a number of at least 1, got 0"):
        Checkpoint(place, keep=0)


def test_a_state_that_is_none_of_this_run_is_left_aside(tmp_path):
    """Sealed rightly, but with a matrix of another shape, a class that is none, or a word in place of a number."""
    whole = content(FITS["numbers"]().fit(X, Y), tmp_path)
    for change in (
        lambda state, tensors: tensors.update({name: matrix[..., :1] for name, matrix in tensors.items()}),
        lambda state, tensors: state.update({"class": "Popen"}),
        lambda state, tensors: state["fields"].update(step="1"),
        lambda state, tensors: state["fields"].update(layers={"pairs": []}),
    ):
        [path] = stopped("numbers", tmp_path / "states")
        header, tensors = storage.load(path)
        change(header["state"], tensors)
        storage.save(path, header, tensors)
        with pytest.warns(CheckpointWarning, match="holds no state of this run: .*the run begins anew"):
            assert content(FITS["numbers"](checkpoint=tmp_path / "states").fit(X, Y), tmp_path) == whole
        for old in (tmp_path / "states").glob("*.checkpoint"):
            old.unlink()


def long_run(header, tensors):
    header["state"]["fields"]["end"] = 2**31


def wild_momentum(header, tensors):
    header["state"]["fields"]["momentum"] = 1e308


def other_names(header, tensors):
    header["ranks"], tensors["rows"] = 2, tensors["rows"].reshape(2, -1)


@pytest.mark.parametrize(
    ("name", "change"), [("numbers", long_run), ("proximal", wild_momentum), ("proximal", other_names)]
)
def test_states_that_the_fuzzer_found_are_left_aside(name, change, tmp_path):
    """Epochs to go that would never end, an extrapolation beyond all numbers, names of rows in another shape."""
    [path] = stopped(name, tmp_path / "states")
    header, tensors = storage.load(path)
    change(header, tensors)
    storage.save(path, header, tensors)
    with pytest.warns(CheckpointWarning, match="the run begins anew"):
        found = FITS[name](checkpoint=tmp_path / "states").fit(X, Y)
    assert content(found, tmp_path) == content(FITS[name]().fit(X, Y), tmp_path)


def test_states_take_at_most_their_share_of_the_time_by_default(tmp_path, monkeypatch):
    """By a clock that a state takes 1 second of, and a step 0.5."""
    now = [0.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now[0])
    session = FolderSession(Checkpoint(tmp_path), tmp_path, {})
    slot, kept = session.slot(), []

    def save(path, *_):
        kept.append(now[0])
        now[0] += 1.0

    monkeypatch.setattr(storage, "save", save)
    state = torch.zeros(100)
    for _ in range(4000):
        now[0] += 0.5
        slot.offer([state])
    assert len(kept) / now[0] <= sessions.COST
    assert len(kept) / now[0] > 0.7 * sessions.COST
    assert kept[0] >= sessions.SHORTEST


def test_every_epoch_keeps_a_state_where_that_is_asked_for(tmp_path, monkeypatch):
    numbers = []
    monkeypatch.setattr(FolderSession, "write", lambda self, run, text, *_: numbers.append(text["fields"]["step"]))
    FITS["numbers"](checkpoint=Checkpoint(tmp_path, every_epochs=2), early_stopping=False).fit(X, Y)
    assert numbers == [4, 6]  # two batches an epoch, and the end


def test_values_go_through_files_with_their_sharing_and_their_order_in_memory():
    shared, column = torch.randn(3, 4), torch.randn(5, 2).T
    value = {(1, -1): [shared, column], "x": {2: shared, 3: float("nan"), 4: torch.tensor([True, False])}}
    text, tensors = to_parts(value)
    assert len(tensors) == 3
    found = from_parts(text, tensors)
    assert found[1, -1][0] is found["x"][2] is not shared
    assert found[1, -1][1].stride() == column.stride()
    assert torch.equal(found[1, -1][1], column)
    assert found["x"][3] != found["x"][3]
    assert found["x"][4].tolist() == [True, False]


def test_the_fingerprint_of_rows_knows_no_order_and_no_machine_but_every_number():
    X, y = blobs(50)
    rows = Rows(X, y[:, None].astype(float), np.ones(50))
    order = np.random.default_rng(0).permutation(50)
    assert digest(rows) == digest(rows.take(order))
    twice = rows.take(np.r_[:50, 7])  # a row that two machines have is one of weight 2 where one machine has both
    merged = replace(rows, weight=rows.weight + (np.arange(50) == 7))
    parts = on_two_ranks(lambda parts, reduce: digest(Rows(*parts), reduce), twice.X, twice.Y, twice.weight)
    assert parts == [digest(merged)] * 2
    for changes in (
        {"X": X[:, ::-1].copy()},
        {"Y": rows.Y + (np.arange(50) == 3)[:, None]},
        {"weight": rows.weight * 2},
    ):
        assert digest(replace(rows, **changes)) != digest(rows)


def test_a_checkpoint_is_a_parameter_like_any_other_and_no_part_of_a_model(tmp_path):
    model = BCDClassifier((5,), max_iter=2, checkpoint=Checkpoint(tmp_path / "states"))
    assert clone(model).checkpoint == model.checkpoint
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y).save(tmp_path / "model")
    assert BCDClassifier.load(tmp_path / "model").checkpoint is None
    assert os.listdir(tmp_path / "states") == ["lock"]  # a fit of a second needs none
