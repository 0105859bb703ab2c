"""A mistake gives one line on stderr that names the option or file and the remedy, and no output."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from tikhonet.network.errors import ArgumentError

FIT = ["fit", "--data", "digits", "--hidden", "10", "--max-iter", 2]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["fitt"], ["'fitt'", "'fit'"]),
        ([], ["Missing command", "--help"]),
        (["fit", "-o", "m"], ["--data"]),
        (["fit", "--data", "digts", "-o", "m"], ["--data", "'digts'", "did you mean 'digits'?"]),
        (["data", "mnits"], ["did you mean 'mnist'?"]),
        (["data", "--data-home", "nowhere"], ["--data-home", "nowhere", "make it first"]),
        ([*FIT, "--solver", "proxmal", "-o", "m"], ["--solver", "did you mean 'proximal'?"]),
        ([*FIT, "--max-itr", 3, "-o", "m"], ["--max-itr", "--max-iter"]),
        ([*FIT, "--split", "tset", "-o", "m"], ["--split", "did you mean 'test'?"]),
        ([*FIT, "--label", "y", "-o", "m"], ["--label", "is for files"]),
        ([*FIT, "--radius", -1, "-o", "m"], ["--radius", "-1"]),
        ([*FIT, "--gamma", "1,2,3", "-o", "m"], ["--gamma", "(1)"]),
        ([*FIT, "--hidden", "3,x", "-o", "m"], ["--hidden", "'3,x'"]),
        ([*FIT, "--hidden", "0", "-o", "m"], ["--hidden", "[1, inf)"]),
        ([*FIT, "--device", "abacus", "-o", "m"], ["--device", "cpu"]),
        ([*FIT, "--task", "regression", "--loss", "softmax", "-o", "m"], ["--loss", "squared, huber, quantile"]),
        ([*FIT, "--task", "regression", "--head", "svm", "-o", "m"], ["--head", "ridge, trained"]),
        ([*FIT, "-o", "nowhere/m"], ["--output", "nowhere", "make it first"]),
        ([*FIT, "-o", "."], ["--output", "folder"]),
        ([*FIT, "-o", os.devnull], ["--output", "device"]),
        (["reproduce", "mnits"], ["did you mean 'mnist'?"]),
        (["reproduce", "mnist", "--solvers", "adm"], ["--solvers", "did you mean 'adam'?"]),
        (["reproduce", "mnist", "-o", "no/where"], ["--output", "make it first"]),
        (["reproduce", "mnist", "--solvers", ""], ["--solvers", "got ''"]),
        (["reproduce", "mnist", "--solvers", "adam,adam"], ["--solvers", "got adam twice"]),
        (["reproduce", "mnist", "--trials", "-1"], ["--trials", "seeds from 0 to 4294967295, got -1"]),
        (["reproduce", "mnist", "--trials", "99999999999999999999"], ["--trials", "got 99999999999999999999"]),
        (["reproduce", "mnist", "--trials", "0,1,0"], ["--trials", "got 0 twice"]),
        (["bench", "--repeats", 0], ["--repeats"]),
    ],
)
def test_a_wrong_word_is_named(mistake, words, parts):
    line = mistake(*words)
    assert all(part in line for part in parts), line


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a,b,y\n1,2,0\n1,oops,1\n", ["rows.csv, row 2 (line 3)", "'b'", "'oops'"]),
        ("a,b,y\n1,2,0\n1,inf,1\n", ["row 2", "'inf'"]),
        ("a,b,y\n1,2,0\n1,2\n", ["row 2", "3 cells"]),
        ("a,b,y\n", ["no rows"]),
        ("a,b,z\n1,2,0\n", ["no column named 'y'", "a, b, z"]),
        ("a,b,y\n1,2,0\n1,3,0\n", ["2 classes", "got 1 class: 0"]),
        ("y\n0\n1\n", ["columns of numbers besides the label 'y'"]),
        ("a,a,y\n1,2,0\n1,3,1\n", ["different names, got 'a' twice; rename one"]),
    ],
)
def test_an_unreadable_table_is_named_with_its_cell(mistake, tmp_path, content, parts):
    (tmp_path / "rows.csv").write_text(content)
    line = mistake("fit", "--data", "rows.csv", "--label", "y", "-o", "m", code=1)
    assert all(part in line for part in parts), line


def test_a_message_names_options_of_the_command_only(mistake, model, monkeypatch):
    def broken(*_):
        raise ArgumentError("shift", "shift must fit into float32, got 1e300; measure it in other units")

    monkeypatch.setattr("tikhonet.estimators.BCDClassifier.predict", broken)
    line = mistake("predict", model, "--data", "digits", code=1)
    assert line == "tikhonet: shift must fit into float32, got 1e300; measure it in other units\n"


@pytest.mark.parametrize("name", ["missing.csv", "damaged.npz", "folder.csv", "rows.xlsx"])
def test_a_file_that_cannot_be_read_is_named(mistake, tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "rows.xlsx").write_bytes(b"1")
    assert name in mistake("fit", "--data", name, "--label", "y", "-o", "m", code=1)


def test_a_file_that_is_no_model_is_named(mistake, tmp_path):
    (tmp_path / "notes.txt").write_text("not a model")
    for command in ("predict", "evaluate"):
        assert "notes.txt" in mistake(command, "notes.txt", "--data", "digits", code=1)
        assert "nothing.model does not exist" in mistake(command, "nothing.model", "--data", "digits", code=1)
    assert "notes.txt" in mistake("info", "notes.txt", code=1)


def full_disk(times):
    """An fsync that fails so many times, as on a full disk."""
    left = [times]
    real = os.fsync

    def fsync(number):
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(number)

    return fsync


def test_a_full_disk_leaves_the_old_model_and_keeps_the_new_one_elsewhere(mistake, tmp_path, monkeypatch):
    rescue = tmp_path / "rescue"
    rescue.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(rescue))
    monkeypatch.setattr("os.fsync", full_disk(1))
    (tmp_path / "m").write_bytes(b"old")
    line = mistake(*FIT, "-o", "m", code=1)
    assert "cannot write m: No space left on device" in line
    kept = line.split("kept as ")[1].strip()
    assert (tmp_path / "m").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "rescue"]
    from tikhonet.estimators import BCDClassifier

    BCDClassifier.load(kept)


def test_a_full_disk_leaves_the_old_predictions(mistake, model, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", full_disk(2))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "p.csv").write_text("old")
    line = mistake("predict", model, "--data", "digits", "-o", "p.csv", code=1)
    assert "No space left on device" in line
    assert "not be kept elsewhere" in line
    assert (tmp_path / "p.csv").read_text() == "old"


def test_an_unexpected_error_is_one_line_that_says_how_to_see_more(run, monkeypatch, model):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("tikhonet.estimators.BCDClassifier.predict", broken)
    line = run("predict", model, "--data", "digits", code=1).err
    assert line.count("\n") == 1
    assert "TIKHONET_DEBUG=1" in line
    monkeypatch.setenv("TIKHONET_DEBUG", "1")
    assert "Traceback" in run("predict", model, "--data", "digits", code=1).err


def test_values_near_the_end_of_the_number_range_are_no_mistake(run, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "huge.npz", X=rng.normal(size=(50, 3)) * 1e300, y=rng.integers(0, 2, 50))
    ran = run("fit", "--data", "huge.npz", "--hidden", "10", "--max-iter", 2, "--json", "-o", "m")
    assert ran.document["status"] == "FINISHED"


@pytest.mark.parametrize(("status", "code"), [("NONFINITE", 1), ("INTERRUPTED", 130), ("EARLY_STOPPED", 0)])
def test_the_exit_code_says_whether_training_came_to_its_end(run, tmp_path, monkeypatch, status, code):
    from tikhonet.descent.result import Status
    from tikhonet.estimators import BCDClassifier

    fit = BCDClassifier.fit

    def ended(self, X, y):
        self._fitted = replace(fit(self, X, y)._fitted, status=Status[status])

    monkeypatch.setattr("tikhonet.estimators.BCDClassifier.fit", ended)
    assert run(*FIT, "--json", "-o", "m", code=code).document["status"] == status
    assert (tmp_path / "m").is_file()
