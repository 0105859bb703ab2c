"""Records are written whole or not at all, and read with suspicion."""

import errno
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.paper.tiny import MNIST, TINY, few_digits
from tikhonet.paper.experiment import load_records
from tikhonet.paper.labelled_images import Images
from tikhonet.paper.records import (
    FILE,
    RecordError,
    Scored,
    append_record,
    pack_pictures,
    read_lines,
    seal,
    unpack_picture,
    write_whole,
)
from tikhonet.paper.runner import run

WHOLE = dict.fromkeys(("experiment", "size", "method", "title", "family"), "words") | {
    "trial": 0,
    "seed": 0,
    "data": {"name": "digits"},
    "settings": {},
    "seconds": 1.5,
    "wall": 2.0,
    "score": 0.25,
    "versions": {"numpy": "2"},
    "hardware": {},
}


@pytest.fixture
def folder(tmp_path):
    run(MNIST, few_digits(), TINY, tmp_path, solvers=["pixels"], trials=(0,))
    return tmp_path


def test_a_record_survives_its_file(folder):
    (record,) = load_records(folder)
    assert record.to_json() == (folder / FILE).read_text()
    assert json.loads(record.to_json())["method"] == "pixels"


@given(data=st.data())
def test_a_line_that_is_changed_anywhere_is_refused_by_its_place(tmp_path_factory, data):
    line = Scored(**WHOLE).to_json().encode()
    place = data.draw(st.integers(0, len(line) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    path = tmp_path_factory.mktemp("damaged") / FILE
    path.write_bytes(line + line[:place] + bytes([byte]) + line[place + 1 :])
    with pytest.raises(RecordError, match=r"records\.jsonl, line [23] must end with the digest of its content"):
        read_lines(path.parent)


def test_the_message_of_a_record_with_a_name_without_end_is_short(folder):
    content = json.loads((folder / FILE).read_text())
    content.pop("digest")
    (folder / FILE).write_text(seal(content | {"method": 5000 * "a", "guess": 1}))
    with pytest.raises(RecordError, match="differs in guess") as caught:
        load_records(folder)
    assert len(str(caught.value)) < 1000


def test_a_line_without_a_digest_is_refused(folder):
    content = json.loads((folder / FILE).read_text())
    content.pop("digest")
    (folder / FILE).write_text(json.dumps(content) + "\n")
    with pytest.raises(RecordError, match="line 1 must end with the digest"):
        load_records(folder)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content | {"version": 99}, "record of version 2"),
        (lambda content: content | {"guess": 1}, "differs in guess"),
        (lambda content: {k: v for k, v in content.items() if k != "error"}, "differs in error"),
        (lambda content: content | {"seconds": "fast"}, "seconds as float, got str"),
        (lambda content: content | {"trial": True}, "trial as int, got bool"),
    ],
)
def test_a_record_of_another_form_is_refused_by_name(folder, damage, words):
    path = folder / FILE
    content = json.loads(path.read_text())
    content.pop("digest")
    path.write_text(seal(damage(content)))
    with pytest.raises(RecordError, match=rf"records\.jsonl, line 1 .*{words}"):
        load_records(folder)


@pytest.mark.parametrize(
    ("images", "size", "words"),
    [
        (few_digits(), replace(TINY, name="large"), "holds trials of tiny, and large is asked for"),
        (replace(few_digits(), name="letters"), TINY, "holds trials of digits, and letters is asked for"),
        (replace(few_digits(), X_test=few_digits().X_test / 2), TINY, "holds trials of digits with sha256 "),
    ],
)
def test_a_folder_of_other_trials_is_refused_before_any_is_done(folder, monkeypatch, images, size, words):
    monkeypatch.setattr("tikhonet.paper.runner.do_trial", None)
    with pytest.raises(RecordError, match=rf"{words}.*; choose another folder \(--output\)"):
        run(MNIST, images, size, folder, solvers=["untrained"], trials=(1,))


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(RecordError, match="there are none; run the experiment first"):
        load_records(tmp_path)


def test_damaged_or_missing_pictures_are_refused_by_name(folder):
    (record,) = load_records(folder)
    for pictures in ({}, {"confusion": "nonsense"}):
        with pytest.raises(RecordError, match="the record pixels-0 must hold the picture confusion"):
            replace(record, pictures=pictures).picture("confusion")


def test_pictures_survive_their_text():
    for array in (np.arange(12, dtype=np.uint8).reshape(3, 4), np.float16([0.5, -1.0]), np.zeros((0, 2))):
        again = unpack_picture(pack_pictures({"one": array})["one"])
        np.testing.assert_array_equal(again, array)
        assert again.dtype == array.dtype


def test_a_line_is_appended_to_what_is_there_and_what_was_cut_off_is_removed(folder):
    (record,) = load_records(folder)
    whole = (folder / FILE).read_bytes()
    append_record(folder, replace(record, trial=1))
    assert (folder / FILE).read_bytes().startswith(whole)
    (folder / FILE).write_bytes(whole + b'{"version": 2, "exper')
    append_record(folder, replace(record, trial=2))
    assert [found.trial for found in load_records(folder)] == [0, 2]


def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device; make room.*'.*file'"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_images_name_what_is_wrong_with_them():
    X, y = np.zeros((4, 6)), np.array([0, 1, 0, 1])
    Images(X, y, X, y, "fine", (2, 3))
    with pytest.raises(ValueError, match=r"X_train must hold one image of 6 pixels"):
        Images(X[:, :5], y, X, y, "narrow", (2, 3))
    with pytest.raises(ValueError, match=r"X_test .*uint8; divide bytes by 255"):
        Images(X, y, X.astype(np.uint8), y, "bytes", (2, 3))
    with pytest.raises(ValueError, match="y_train must hold one integer label from 0 for each of the 4"):
        Images(X, y[:3], X, y, "short", (2, 3))
    with pytest.raises(ValueError, match=r"y_test must hold labels of y_train \(0 to 1\), got 2"):
        Images(X, y, X, y + 1, "new", (2, 3))
