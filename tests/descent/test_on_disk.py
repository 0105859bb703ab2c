"""Full-batch runs with their samples and U in files: the same bits within a budget of memory."""

import gc
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.strategies import normal
from tikhonet import BlockDescent, Fenchel, Network, Power, Problem, Proximal, Softmax
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.row_store import MappedStore, map_of

ROWS = 1100
NETWORK = Network([6, 8, 6, 5], {(1, 0): "dense", (2, 1): "dense", (2, 0): "identity", (3, 2): "dense"}, bias=[1, 3])
RUNS = {
    "alg1": (BlockDescent(Power(2), max_iter=3, chunk_rows=100), Problem(NETWORK, gamma=0.1, ridge_V=0.1)),
    "proximal": (
        BlockDescent(Proximal(0.1), max_iter=3, extrapolate=True, initial_features="forward", chunk_rows=100),
        Problem(NETWORK, Softmax(), Fenchel(), gamma=1.0, ridge_V=0.1),
    ),
}


@pytest.fixture
def rows(tmp_path):
    """X and targets as maps of files, and weights."""
    X = normal(ROWS, 6, seed=0).float()
    for name, values in (("X", X), ("targets", torch.nn.functional.one_hot(X[:, :3].argmax(1)).float())):
        np.save(tmp_path / name, values.numpy())
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("X", "targets")]
    return *maps, normal(ROWS, seed=1).abs().float()


def bits(result):
    tensors = [result.blocks.V, *result.blocks.W.values(), *(result.blocks.U[n] for n in NETWORK.hidden)]
    return [tensor.tolist() for tensor in tensors], result.history.objective, result.status


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_on_disk_finds_the_bits_of_one_in_memory(name, threads, rows):
    (solver, problem), (X, targets, weight), before = RUNS[name], rows, torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        on_disk = replace(solver, memory_budget="20MB").run(problem, X, targets, weight=weight)
    finally:
        torch.set_num_threads(before)
    in_memory = solver.run(problem, np.array(X), np.array(targets), weight=weight)
    assert bits(on_disk) == bits(in_memory)
    assert on_disk.room.chunk_rows == 100
    assert 0 < on_disk.room.needed < 20e6
    assert in_memory.room is None


def test_matrices_of_a_run_are_in_files_which_are_gone_with_it(rows, monkeypatch):
    stores = []
    monkeypatch.setattr("tikhonet.descent.start.MappedStore", lambda: stores.append(MappedStore()) or stores[-1])
    solver, problem = RUNS["alg1"]
    result = replace(solver, memory_budget="20MB").run(problem, rows[0], rows[1])
    assert len(stores[0]._maps) >= 2 + len(NETWORK.hidden)
    del result
    gc.collect()
    assert not stores[0]._maps


def test_a_smaller_budget_makes_chunks_smaller_and_too_small_a_one_is_refused_before_anything_is_made(
    rows, monkeypatch
):
    X, targets, _ = rows
    solver, problem = BlockDescent(Power(2), max_iter=2), RUNS["alg1"][1]
    whole = solver.run(problem, np.array(X), np.array(targets))
    most = replace(solver, memory_budget="1GB")._room(problem, X, targets).needed
    small = replace(solver, memory_budget=0.8 * most).run(problem, X, targets)
    assert small.room.chunk_rows < solver.chunk_rows
    assert small.room.needed <= 0.8 * most
    np.testing.assert_allclose(small.history.objective, whole.history.objective, rtol=2 * solver.inner_tol)
    monkeypatch.setattr("tikhonet.problem.row_store.map_of", lambda size: pytest.fail("a file was made"))
    with pytest.raises(ArgumentError, match=r"memory_budget must be at least \d+ MB for 1,100 rows .* got 0 MB"):
        replace(solver, memory_budget="1KB").run(problem, X, targets)
    with pytest.raises(ArgumentError, match="memory_budget must be a number of bytes"):
        replace(solver, memory_budget="much").run(problem, X, targets)


def test_a_full_disk_is_an_error_that_says_what_was_needed():
    """Without the room being taken at once, a page that has no place on the disk would end the process."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match="1 MB more were needed; make room, or set TMPDIR"):
            map_of(1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


LIMITED = """
import re, resource, sys
import numpy as np, torch
from tikhonet import BlockDescent, Network, Power, Problem

torch.set_num_threads(1)
X, T = (np.load(path, mmap_mode="r") for path in sys.argv[1:])
problem, solver = Problem(Network.chain([100, 20, 20])), BlockDescent(Power(2), max_iter=1, memory_budget="16MB")
solver.run(problem, np.array(X[:500]), np.array(T[:500]))
now = 1024 * int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1])
most = int(now + 1.1 * 16e6)
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
result = solver.run(problem, X, T)
print(result.history.iterations)
try:
    np.array(X)
except MemoryError:
    print("no room")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory of a process's own is limited by Linux")
def test_a_limit_of_the_system_under_which_no_copy_of_the_rows_can_be_made_is_enough_for_a_run(tmp_path):
    """40 MB of rows, and 16 MB of layers, within 16 MB and a tenth; maps of files are no memory of a process's own."""
    X = np.random.default_rng(0).normal(size=(100_000, 100)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "T.npy", X[:, :2])
    words = [sys.executable, "-c", LIMITED, tmp_path / "X.npy", tmp_path / "T.npy"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert ran.stdout.split("\n")[:2] == ["1", "no room"], ran.stderr[-2000:]
