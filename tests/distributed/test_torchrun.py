"""Real processes on this machine: the same bits for any number of them, one model on all ranks, a rank that dies."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch
from scipy.stats import ttest_ind

from tests.distributed import worker
from tikhonet import Ranks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
SETTINGS = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ROOT}


def launch(processes, jobs, folder, *options):
    """What each of the ranks that torchrun starts has found."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone", *options]
    command += ["-m", "tests.distributed.worker", jobs, str(folder)]
    done = subprocess.run(command, env=SETTINGS, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)]


@pytest.fixture(scope="module")
def alone():
    return worker.full_batch(Ranks())


@pytest.fixture(scope="module")
def two_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def two(two_folder):
    return launch(2, "full_batch,sums,trainer,errors,estimators,survivors,half_way,same_bits", two_folder)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return launch(4, "full_batch,sums,same_bits", tmp_path_factory.mktemp("four"))


@pytest.mark.parametrize("name", worker.CASES)
def test_full_batch_solvers_find_the_same_bits_on_1_2_and_4_processes(alone, two, four, name):
    hashes = {found["full_batch"][name]["hash"] for found in (*two, *four)}
    assert hashes == {alone[name]["hash"]}


def test_full_batch_solvers_find_the_same_bits_with_any_number_of_threads(alone):
    count = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        several = worker.full_batch(Ranks())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(count)
    assert several == alone


def test_the_trainer_finds_the_same_bits_on_1_2_and_4_processes_and_with_any_threads(two, four):
    hashes, count = {found["same_bits"] for found in (*two, *four)}, torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            hashes.add(worker.same_bits(Ranks()))
    finally:
        torch.set_num_threads(count)
    assert len(hashes) == 1


def test_a_full_batch_run_of_two_ranks_goes_on_to_the_same_bits_in_one_process(alone, two_folder, two):
    assert {found["half_way"] for found in two} == {"stopped"}
    assert worker.half_way(Ranks(), two_folder, stop=False) == alone["alg1"]["hash"]


def test_sums_over_ranks_are_exact_and_as_short_as_sums_can_be(two, four):
    for processes, ranks in ((2, two), (4, four)):
        for found in ranks:
            assert all(right for right, _ in found["sums"])
            assert found["sums"][-1][1] == pytest.approx(2 * (processes - 1) / processes, rel=1e-3)


def test_a_block_step_needs_few_sums(two):
    """Per iteration of Alg. 1: three of matrices or residuals, one of terms after each of the three blocks."""
    found = two[0]["full_batch"]["alg1"]
    # Two iterations, each with a measurement; the start has one, with the terms, the inputs' Gram matrix and a count.
    assert found["calls"] <= 2 * (6 + 1) + 4


def test_a_trainer_with_unequal_rows_is_the_same_on_all_ranks(two):
    first, second = (found["trainer"] for found in two)
    assert first == second
    assert first["steps"] == 3 * round(worker.ROWS / 200)
    assert first["calls"] < 8


def test_the_trainers_error_over_seeds_does_not_depend_on_the_number_of_processes(two):
    alone = worker.errors(Ranks())
    assert ttest_ind(alone, two[0]["errors"]).pvalue > 0.01


def test_estimators_learn_from_the_rows_of_all_ranks_and_agree(two):
    first, second = (found["estimators"] for found in two)
    assert first == second
    assert first["classes"] == ["late", "no", "yes"]
    assert "NaN where missing" in first["columns"][2]
    assert "high, 1 = low, 2 = odd" in first["columns"][3]
    assert first["iterations"] == 3  # where a callback of the second rank asked for the end
    assert first["score"] > 0.8
    assert first["r2"] > 0.8
    assert "at least 20 different rows on every rank, got 10 on one" in first["refused"]
    assert first["alike"]
    assert first["far"] < 0.01  # from disk, each rank its rows, as from memory


def test_what_torchrun_starts_again_goes_on_by_itself_to_the_same_bits(two, tmp_path):
    """One rank is killed in the first life, after half of the epochs; both have the same model in the end."""
    again = launch(2, "survivors", tmp_path, "--max-restarts=1")
    assert [rank["survivors"]["life"] for rank in again] == ["1", "1"]
    assert {rank["survivors"]["resumed"] for rank in again} == {True}
    assert {rank["survivors"]["hash"] for rank in again} == {two[0]["survivors"]["hash"]}


def test_a_rank_that_dies_ends_the_others_with_one_clear_line(tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "tests.distributed.worker", "killed", str(tmp_path)]
    options = {"cwd": ROOT, "stderr": subprocess.PIPE, "text": True}
    ranks = [subprocess.Popen(command, env=SETTINGS | where | {"RANK": str(k)}, **options) for k in range(2)]
    try:
        ranks[1].communicate(timeout=120)
        assert ranks[1].returncode == -9
        error = ranks[0].communicate(timeout=10)[1].strip().splitlines()[-1]
    finally:
        for rank in ranks:
            rank.kill()
    assert ranks[0].returncode == 1
    assert "rank 0 of 2 lost another rank, which ended or did not answer" in error
