"""Folders of version 0.1, a file a trial, become one file of records; and the committed records make their pages."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tikhonet.paper.experiment import experiment_names, load_records
from tikhonet.paper.page import write_report
from tikhonet.paper.records import FILE, RecordError, read_lines

OLD = Path(__file__).parent / "version_0_1"
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(OLD, tmp_path / "old")


def test_every_figure_of_an_old_folder_is_kept_and_its_files_stay(folder):
    before = sorted((folder / "records").iterdir())
    load_records(folder)
    assert sorted((folder / "records").iterdir()) == before
    found = {record.method: record for record in load_records(folder)}
    assert set(found) == {"bcd-16", "fewer-16"}  # the way of fewer passes was called brief
    for method, old in (("bcd-16", "bcd-16-0"), ("fewer-16", "brief-16-0")):
        content = json.loads((folder / "records" / f"{old}.json").read_text())
        for name in ("title", "trial", "data", "settings", "seconds", "loss", "retrieval", "codes", "versions"):
            assert getattr(found[method], name) == content[name]


def test_checks_get_the_keys_of_their_sentences(folder):
    keys = [[check["key"] for check in record.checks] for record in load_records(folder)]
    assert keys == [["feasible", "descent", "stationary", "codes"], ["feasible", "descent", "stationary"]]


def test_pictures_of_one_trial_of_a_method_are_kept(folder):
    for kind in ("json", "npz"):
        shutil.copy(folder / "records" / f"bcd-16-0.{kind}", folder / "records" / f"bcd-16-1.{kind}")
    path = folder / "records" / "bcd-16-1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"trial": 1}))
    shown, hidden, _ = load_records(folder)
    with np.load(folder / "records" / "bcd-16-0.npz") as arrays:
        for name in arrays.files:
            np.testing.assert_array_equal(shown.picture(name), arrays[name])
    assert hidden.pictures == {}


def test_an_old_folder_has_a_page_and_is_converted_once(folder):
    page = write_report(folder).page.read_text()
    assert page.count("BCD, fewer passes") > 1
    before = (folder / FILE).stat().st_mtime_ns
    load_records(folder)
    assert (folder / FILE).stat().st_mtime_ns == before


def test_a_damaged_old_record_is_refused_by_name(folder):
    path = folder / "records" / "brief-16-0.json"
    path.write_text(path.read_text()[:200])
    with pytest.raises(RecordError, match=r"brief-16-0\.json .*must be a record of version 0\.1"):
        load_records(folder)
    assert not (folder / FILE).exists()


@pytest.mark.parametrize("name", ["sparse-fashion", "hashing-cifar10"])
def test_a_committed_record_makes_its_page_figures_and_tables(name, tmp_path):
    shutil.copy(RESULTS / name / FILE, tmp_path)
    report = write_report(tmp_path)
    records = load_records(tmp_path)
    assert report.page.read_text().count('<tr><td class="name') >= len({record.method for record in records})
    assert all(path.stat().st_size > 100 for path in (*report.figures, *report.tables))


def test_all_committed_records_can_be_read():
    paths = sorted(RESULTS.glob(f"*/{FILE}"))
    assert len(paths) >= 11
    for path in paths:
        lines = [content for _, content in read_lines(path.parent)]
        assert len(lines) == path.read_bytes().count(b"\n") > 0
        if {line["experiment"] for line in lines} <= set(experiment_names()):  # the others are benchmarks'
            assert len(load_records(path.parent)) == len(lines)


def test_the_committed_records_are_small():
    assert sum(path.stat().st_size for path in RESULTS.rglob("*.jsonl")) < 8e6
    assert not list(RESULTS.rglob("*.json"))
