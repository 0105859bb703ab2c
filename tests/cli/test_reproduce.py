import errno
import os
import shutil

import pytest

from tikhonet.paper.experiment import load_records
from tikhonet.paper.mnist_experiment import Mnist
from tikhonet.paper.page import Report
from tikhonet.paper.sheets import Figure

SOLVERS = "proximal-s,stochastic,adam,pixels"
SPACED = SOLVERS.replace(",", ", ")
WORDS = ["reproduce", "mnist", "--quick", "--epochs", 2, "--trials", "0", "--solvers", SOLVERS, "--output", "out"]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A run of a few solvers, two passes each."""
    from tests.cli.conftest import invoke

    folder = tmp_path_factory.mktemp("reproduce")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ran = invoke(*WORDS, "--json")
    assert ran.code == 0, ran.err
    return folder / "out", ran


def test_the_page_the_figures_and_the_records_are_there(once):
    folder, ran = once
    assert (folder / "report.html").stat().st_size > 10_000
    assert ran.document["page"] == "out/report.html"
    assert ran.document["records"] == len(ran.document["results"]) == 4
    assert all((folder.parent / path).is_file() for path in ran.document["figures"] + ran.document["tables"])


def test_the_page_says_how_to_redo_it(once):
    page = (once[0] / "report.html").read_text()
    assert f"tikhonet reproduce mnist --quick --output out --solvers {SOLVERS} --trials 0 --epochs 2" in page


def test_a_finished_run_is_not_done_again(once, run, monkeypatch):
    folder = once[0]
    before = (folder / "records.jsonl").stat().st_mtime_ns
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr(
        "tikhonet.paper.page.write_report", lambda output, command: Report(output / "report.html", [], [])
    )
    assert "report.html" in run(*(SPACED if word == SOLVERS else word for word in WORDS)).out
    assert (folder / "records.jsonl").stat().st_mtime_ns == before


def test_other_settings_in_the_same_folder_are_refused(once, mistake, monkeypatch):
    monkeypatch.chdir(once[0].parent)
    words = ["3" if word == 2 else word for word in WORDS]
    assert "choose another output folder" in mistake(*words, code=1)


@pytest.mark.parametrize("experiment", ["sparse", "hashing"])
def test_another_experiment_in_the_same_folder_is_refused_before_it_begins(once, mistake, monkeypatch, experiment):
    monkeypatch.chdir(once[0].parent)
    before = (once[0] / "records.jsonl").read_bytes()
    line = mistake("reproduce", experiment, "--quick", "--trials", 0, "--output", "out", code=1)
    assert f"out holds trials of mnist, and {experiment} is asked for; choose another folder (--output)" in line
    assert (once[0] / "records.jsonl").read_bytes() == before


def test_one_pass_of_one_solver_has_a_page(run, tmp_path):
    run("reproduce", "mnist", "--quick", "--trials", 0, "--solvers", "adam", "--epochs", 1, "--output", "one")
    assert (tmp_path / "one" / "report.html").is_file()


def test_ctrl_c_keeps_finished_trials(run, tmp_path, monkeypatch):
    trial = Mnist.trial

    def interrupted(self, method, *rest):
        if method.name == "pixels":
            raise KeyboardInterrupt
        return trial(self, method, *rest)

    monkeypatch.setattr(Mnist, "trial", interrupted)
    line = run(*("adam,pixels" if word == SOLVERS else word for word in WORDS), code=130).err
    assert "1 finished trials are kept in out" in line
    assert [record.name for record in load_records(tmp_path / "out")] == ["adam-0"]


def test_ctrl_c_while_the_page_is_written_says_that_the_trials_are_kept(once, run, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    shutil.copy(once[0] / "records.jsonl", tmp_path / "out")

    def interrupted(self, form):
        if form == "pdf":
            raise KeyboardInterrupt
        return b"whole"

    monkeypatch.setattr(Figure, "save", interrupted)
    line = run("reproduce", "mnist", "--output", "out", "--page-only", code=130).err
    assert "interrupted; 4 finished trials are kept in out" in line
    assert [path.read_bytes() for path in (tmp_path / "out" / "figures").iterdir()] == [b"whole"]
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_full_disk_while_figures_are_drawn_is_named_and_leaves_none_that_is_cut(once, mistake, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    shutil.copy(once[0] / "records.jsonl", tmp_path / "out")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    line = mistake("reproduce", "mnist", "--output", "out", "--page-only", code=1)
    assert "No space left on device; make room or choose another folder, what was finished is kept" in line
    assert list((tmp_path / "out" / "figures").iterdir()) == []


def test_a_page_is_made_from_records_alone(once, run, tmp_path):
    (tmp_path / "out").mkdir()
    shutil.copy(once[0] / "records.jsonl", tmp_path / "out")
    document = run("reproduce", "mnist", "--output", "out", "--page-only", "--json").document
    assert document["results"] == once[1].document["results"]
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_a_page_is_refused_of_records_of_another_experiment_or_of_none(once, mistake, tmp_path):
    (tmp_path / "out").mkdir()
    assert "there are none" in mistake("reproduce", "mnist", "--output", "out", "--page-only", code=1)
    shutil.copy(once[0] / "records.jsonl", tmp_path / "out")
    line = mistake("reproduce", "sparse", "--output", "out", "--page-only", code=1)
    assert "out holds trials of mnist, and sparse is asked for; use `tikhonet reproduce mnist`" in line


def test_the_sparse_experiment_has_its_own_page(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--epochs", 1, "--trials", "0", "--solvers", "dense,budget-5", "--output", "out"]
    document = run("reproduce", "sparse", *words, "--json").document
    assert set(document["results"]) == {"dense", "budget-5"}
    assert "How few weights are enough?" in (tmp_path / "out" / "report.html").read_text()


def test_the_hashing_experiment_has_its_own_data_solvers_and_page(run, mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--epochs", 1, "--trials", "0", "--solvers", "words-16,itq", "--output", "out"]
    document = run("reproduce", "hashing", *words, "--json").document
    assert set(document["results"]) == {"words-16", "itq-16", "itq-32"}
    assert 0 < document["results"]["itq-32"]["mean_average_precision"] < 1
    assert "Short codes from very deep networks" in (tmp_path / "out" / "report.html").read_text()
    assert "ITQ, 32 bits" in run("reproduce", "hashing", *words).out
    assert "mnist-5000" in mistake("reproduce", "hashing", "--data", "mnist-500")
    assert "--solvers" in mistake("reproduce", "hashing", "--solvers", "bcd-48")
    assert "--data" in mistake("reproduce", "mnist", "--data", "mnist-5000")
