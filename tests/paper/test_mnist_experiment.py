"""The experiment of Sec. 3.3.1: what a trial leaves, and that a run can be stopped at any point."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.paper.tiny import MNIST, TINY, few_digits
from tikhonet.data import load
from tikhonet.descent.result import Status
from tikhonet.paper.experiment import load_records
from tikhonet.paper.network_trials import stop_if_interrupted
from tikhonet.paper.records import FILE, RecordError
from tikhonet.paper.runner import run, torch_threads

QUICK, FULL = MNIST.sizes

ADDED = {"budget-10", "budget-3", "certified"}
MEASURED = {"seconds", "wall", "hardware", "versions", "course"}
"""What may differ between two runs of the same trial."""


@pytest.fixture(scope="module")
def data():
    return few_digits()


@pytest.fixture(scope="module")
def records(data, tmp_path_factory):
    return run(MNIST, data, TINY, tmp_path_factory.mktemp("run"), trials=(0, 1))


def methods(size, epochs=None):
    return {method.name: method for method in MNIST.methods(size, few_digits(), epochs)}


def comparable(record):
    return {name: value for name, value in asdict(record).items() if name not in MEASURED}


@pytest.mark.parametrize("size", [QUICK, FULL], ids=lambda size: size.name)
def test_both_sizes_hold_the_papers_twelve_solvers_and_two_references(size):
    found = {name: method for name, method in methods(size).items() if name not in ADDED}
    families = [method.family for method in found.values()]
    counts = {name: families.count(name) for name in dict.fromkeys(families)}
    assert counts == {"printed": 2, "proximal": 2, "stochastic": 2, "sgd": 6, "reference": 2}
    assert sum(method.sparse for method in found.values()) == 3


def test_the_quick_size_adds_budgets_and_a_certified_descent():
    assert set(methods(QUICK)) - set(methods(FULL)) == ADDED


def test_cross_validation_tests_every_image_once_a_deal_and_learns_from_the_others():
    data = MNIST.read("digits", load)
    assert data.trials == (0, 1, 2, 3, 4, 5)
    for deal in ((0, 1, 2), (3, 4, 5)):
        parts = [data.of_trial(trial) for trial in deal]
        assert sorted(number for part in parts for number in part.test_rows) == list(range(1797))
        for part in parts:
            assert (data.X[part.test_rows] == part.X_test).all()
            assert len(part.X_train) + len(part.X_test) == 1797
    assert (data.of_trial(0).test_rows != data.of_trial(3).test_rows).any()


def test_a_record_says_which_images_were_wrong_and_what_shorter_runs_gave(records, data):
    for record in records:
        assert record.tested == len(data.y_test)
        assert record.error == pytest.approx(100 * len(record.wrong) / record.tested)
    short = {record.method: record.course for record in records}
    assert [part["passes"] for part in short["adam"]] == [part["passes"] for part in short["stochastic"]] == [1]
    assert short["alg1"] == short["stochastic-s"] == []


def test_differences_are_paired_by_the_images(records):
    results = MNIST.compare(records)
    one, two = results.rows["stochastic"], results.rows["pixels"]
    images = results.first.data["test"]
    gaps = np.zeros(images)
    for row, sign in ((one, 1), (two, -1)):
        for record in row.records:
            gaps[record.wrong] += sign / len(row.records)
    gap, error = results.difference(one, two)
    assert gap == pytest.approx(100 * gaps.mean())
    assert error == pytest.approx(100 * gaps.std() / images**0.5)
    assert results.difference(one, one) == (0.0, 0.0)


def test_records_that_do_not_say_which_images_were_wrong_have_no_paired_error(records):
    results = MNIST.compare([replace(record, tested=0, wrong=[]) for record in records])
    assert results.difference(results.rows["adam"], results.rows["pixels"])[1] is None
    assert results.rows["adam"].standard_error is None


def test_alg_1_is_run_as_printed():
    settings = methods(QUICK)["alg1"].settings()
    assert settings["schedule"] == "Power(p=2)"
    assert settings["gamma"] == 0.1
    assert settings["lift"] == "Tikhonov()"
    assert settings["initial_features"] == "random"


def test_epochs_sets_the_passes_of_every_solver():
    found = methods(FULL, epochs=100).values()
    assert {method.steps for method in found if method.family != "reference"} == {100}


def test_every_trial_leaves_the_four_measures_and_a_certificate(records):
    for record in records:
        assert 0 <= record.error <= 100
        if record.family != "reference":
            assert record.seconds > 0
            assert len(record.objective) == record.passes + 1 - record.first_pass
            assert set(record.nonzero) == {"W1", "W2", "W3", "V"}
            assert {"feasible", "stationary"} <= {check["key"] for check in record.checks}
            assert record.residual > 0


def test_full_batch_solvers_see_their_rows_only_and_say_so(records, data):
    seen = {record.method: record.samples for record in records}
    assert seen["alg1"] == seen["proximal-s"] == TINY.rows
    assert seen["stochastic"] == seen["adam"] == len(data.X_train)


def test_networks_in_the_l1_ball_have_exact_zeros_and_dense_ones_none(records):
    for record in records:
        if record.family == "printed":
            assert (record.nonzero["W1"] < 100) == record.sparse


def test_a_finished_run_is_not_done_again(data, tmp_path):
    first = run(MNIST, data, TINY, tmp_path, solvers=["alg1", "pixels"], trials=(0,))
    before = (tmp_path / FILE).stat().st_mtime_ns
    assert run(MNIST, data, TINY, tmp_path, solvers=["alg1", "pixels"], trials=(0,)) == first
    assert (tmp_path / FILE).stat().st_mtime_ns == before


def test_two_processes_share_a_folder(data, tmp_path):
    (theirs,) = run(MNIST, data, TINY, tmp_path / "theirs", solvers=["pixels"], trials=(1,))

    def arrive(progress):  # the other process ends its trial while this one is at its first
        shutil.copytree(tmp_path / "theirs", tmp_path / "ours", dirs_exist_ok=True)

    ours = run(MNIST, data, TINY, tmp_path / "ours", solvers=["pixels"], trials=(0, 1), progress=arrive)
    assert [record.trial for record in ours] == [0, 1]
    assert ours[1].wall == theirs.wall


SCRIPT = """
import sys
from tests.paper.tiny import MNIST, TINY, few_digits
from tikhonet.paper.runner import run

def say(progress):
    print(progress.finished, progress.title, progress.step, flush=True)

run(MNIST, few_digits(), TINY, sys.argv[1], trials=(0, 1), progress=say)
"""


def test_a_killed_run_continues_where_it_was(records, data, tmp_path):
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root) as process:
        for line in process.stdout:
            if line.startswith("4 ") and not line.endswith(" 0\n"):  # in the middle of the fifth trial
                process.send_signal(signal.SIGKILL)
                break
    kept = (tmp_path / FILE).read_bytes()
    assert len(load_records(tmp_path)) == 4
    continued = run(MNIST, data, TINY, tmp_path, trials=(0, 1))
    assert (tmp_path / FILE).read_bytes().startswith(kept)
    assert [comparable(record) for record in continued] == [comparable(record) for record in records]


def test_an_interrupted_solver_leaves_no_record():
    with pytest.raises(KeyboardInterrupt):
        stop_if_interrupted(Status.INTERRUPTED)
    stop_if_interrupted(Status.MAX_ITER)


def test_a_damaged_line_is_refused_by_number_and_left_alone(data, tmp_path):
    run(MNIST, data, TINY, tmp_path, solvers=["pixels"], trials=(0,))
    path = tmp_path / FILE
    path.write_text(path.read_text()[:200] + "\n")
    with pytest.raises(RecordError, match=r"records\.jsonl, line 1 .*digest of its content.*delete the line"):
        run(MNIST, data, TINY, tmp_path, solvers=["pixels"], trials=(0,))
    assert len(path.read_text()) == 201


def test_a_line_that_was_cut_off_is_left_out_with_a_word_and_its_trial_done_again(data, tmp_path):
    both = run(MNIST, data, TINY, tmp_path, solvers=["pixels"], trials=(0, 1))
    path = tmp_path / FILE
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:100])
    with pytest.warns(UserWarning, match=r"the last line was cut off"):
        again = run(MNIST, data, TINY, tmp_path, solvers=["pixels"], trials=(0, 1))
    assert [comparable(record) for record in again] == [comparable(record) for record in both]
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == first
    assert len(lines) == len(load_records(tmp_path)) == 2


def test_a_trial_of_other_settings_is_refused_before_anything_is_run(data, tmp_path):
    run(MNIST, data, TINY, tmp_path, solvers=["sgd"], trials=(0,))
    with pytest.raises(RecordError, match=r"\(sgd-0\) .* epochs = 2 where 3 is asked for; choose another output"):
        run(MNIST, data, TINY, tmp_path, solvers=["adam", "sgd"], trials=(0,), epochs=3)
    assert [record.name for record in load_records(tmp_path)] == ["sgd-0"]


def test_a_trial_on_other_images_is_refused(data, tmp_path):
    run(MNIST, data, TINY, tmp_path, solvers=["pixels"], trials=(0,))
    with pytest.raises(
        RecordError, match="holds trials of digits with train 150, and digits with train 140 is asked for"
    ):
        run(MNIST, few_digits(train=140), TINY, tmp_path, solvers=["pixels"], trials=(0,))


def test_an_unknown_solver_is_named_with_the_known_ones(data, tmp_path):
    with pytest.raises(ValueError, match=r"solvers must be among alg1, .*pixels, got bfgs"):
        run(MNIST, data, TINY, tmp_path, solvers=["bfgs"])


def test_progress_tells_the_time_left_once_a_trial_is_timed(data, tmp_path):
    reports = []
    run(MNIST, data, TINY, tmp_path, solvers=["pixels", "alg1", "sgd"], trials=(0, 1), progress=reports.append)
    shares = [report.share for report in reports]
    assert shares == sorted(shares)
    assert reports[0].seconds_left is None
    assert all(report.seconds_left is not None for report in reports if report.finished)
    assert {report.trials for report in reports} == {6}


def test_a_diverged_training_is_recorded_as_such(data, tmp_path):
    wild = replace(TINY, rates={"SGD": (1e6, 16)})
    (record,) = run(MNIST, data, wild, tmp_path, solvers=["sgd"], trials=(0,))
    assert record.status == "NONFINITE"
    assert record.error is None
    assert record.residual is None
    json.loads(record.to_json(), parse_constant=lambda text: pytest.fail(text))


def test_pictures_hold_units_zeros_confusion_and_mistakes(data, tmp_path):
    (record,) = run(MNIST, data, TINY, tmp_path, solvers=["stochastic-s"], trials=(0,))
    drawn = {name: record.picture(name) for name in record.pictures}
    assert drawn["weights"].shape == (16, 64)
    assert drawn["confusion"].sum() == len(data.y_test)
    wrong = drawn["confusion"].sum() - np.trace(drawn["confusion"])
    assert wrong == round(record.error / 100 * len(data.y_test))
    assert len(drawn["mistakes"]) == min(24, wrong)
    assert (drawn["mistakes_true"] != drawn["mistakes_predicted"]).all()
    share = (drawn["pattern_W1"] > 0).mean()
    assert math.isclose(100 * share, record.nonzero["W1"])


def test_only_one_trial_of_a_method_keeps_its_pictures(records):
    pictured = [record.name for record in records if record.pictures]
    assert pictured == [record.name for record in records if record.trial == 0]


def test_records_say_nothing_of_the_machines_name_or_folders(records):
    for record in records:
        content = record.to_json()
        assert set(record.hardware) == {"system", "processor", "cores", "threads", "load"}
        assert str(Path.home()) not in content
        assert os.getcwd() not in content


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
