"""Bytes and seconds of runs on 1, 2 and 4 processes, against the cost model of docs/guide/distributed.md.

    python benchmarks/distributed.py --rows 20000 --processes 1 2 4

The paper's network on MNIST: epochs of the trainer and iterations of Alg. 1, each rank with one thread. Bytes are
counted exactly. Where processes share cores with other work, seconds are CPU seconds of the slowest rank, which leave
out what it waited; `wall` is what a clock on the wall says. The model then goes on to many workers and rows.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from machine import arguments, images, lines, record

from tikhonet import BlockDescent, Fenchel, Network, Power, Problem, Ranks, Squared, Stochastic

NETWORK, OUTPUTS = Network.paper(), 10
PARAMETERS = 3 * 784 * 784 + OUTPUTS * 784
ERRORS = Path(__file__).resolve().parents[1] / "results" / "time_to_error" / "mnist-60000.jsonl"
GOAL = 1.6
"""Test error in percent that bytes are counted up to."""
BATCH = 128
"""Rows of a batch of DDP with Adam, over all workers: the setting that the records have curves of."""


def share(processes: int) -> float:
    """What a rank sends of a tensor whose sum all get, in units of its size."""
    return 2 * (processes - 1) / processes


def trainer_numbers(batches: int) -> float:
    """Numbers that a run's epoch of so many batches of 1000 rows adds up: pulls, Gram halves, the V-step's sums."""
    pulls = 3 * 784 * 784 * batches
    warm = min(batches, 5)  # the first steps renew all
    grams = 3 * 784 * 785 / 2 * (warm + len([t for t in range(warm, batches) if t % 6 == 0]))
    sums = (784 * 784 + OUTPUTS * 784) * (warm + len([t for t in range(warm, batches) if t % 3 == 0]) + 1)
    return pulls + grams + sums


def full_numbers(iterations: int) -> float:
    """Numbers that Alg. 1 adds up: Gram matrices of V and of two layers, pulls; as many to measure stationarity."""
    once = 784 * 784  # the inputs' Gram matrix
    step = (784 * 784 + OUTPUTS * 784) + 2 * 784 * 784 + 3 * 784 * 784
    return once + iterations * step + (iterations + 1) * step


def ddp_numbers(rows: int) -> float:
    """Numbers that DDP adds up in an epoch: a gradient for each batch."""
    return PARAMETERS * math.ceil(rows / BATCH)


def work(options) -> None:
    """What one rank does: both solvers on its share of the rows, with the bytes, sums and seconds of each."""
    torch.set_num_threads(1)
    X, y = images("mnist", "train", options.data)
    X, T = X[: options.rows].float(), Squared().encode(y[: options.rows], OUTPUTS).float()
    found = {}
    with Ranks() as ranks:
        mine = ranks.shard(len(X))
        size = 1000 // ranks.size
        runs = {
            "trainer": (Stochastic(epochs=1, batch_size=size), Problem(NETWORK, lift=Fenchel())),
            "alg1": (BlockDescent(Power(2), max_iter=options.iterations), Problem(NETWORK, gamma=0.1)),
        }
        for name, (solver, problem) in runs.items():
            ranks(torch.zeros(1))  # all begin together
            before, cpu, wall = (ranks.calls, ranks.bytes), time.process_time(), time.perf_counter()
            solver.run(problem, X[mine], T[mine], reduce=ranks)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            found[name] = {"sums": ranks.calls - before[0], "bytes": ranks.bytes - before[1]}
            found[name] |= {"cpu": max(ranks.each(cpu)), "wall": max(ranks.each(wall))}
    if ranks.rank == 0:
        Path(options.worker).write_text(json.dumps(found))


def launch(processes: int, options) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "found.json")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command += [__file__, "--worker", str(store), "--rows", str(options.rows)]
        command += ["--iterations", str(options.iterations), *(["--data", options.data] if options.data else [])]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return json.loads(store.read_text())


def epochs_to_goal(solver: str, epochs: int) -> list[int]:
    """The epoch at which each timed run of so many epochs is at the goal, from the records."""
    runs = [line for line in lines(ERRORS) if line["solver"] == solver and line["epochs"] == epochs and line["timed"]]
    return [next(epoch for epoch, _, error in run["curve"] if error <= GOAL) for run in runs]


def simulate(workers: int, rows: float, bandwidth: float, latency: float, flops: float) -> dict[str, float]:
    """Seconds of an epoch on many workers: products at a rate, bytes at a bandwidth, messages with a latency.

    Batches grow with the workers so that each has at least 125 rows of the trainer's and 16 of Adam's.
    """
    found = {}
    messages = 2 * math.ceil(math.log2(workers)) if workers > 1 else 0
    for name, batch, products, numbers in (
        ("trainer", max(1000, 125 * workers), 8.5, trainer_numbers(60) / 60),
        ("ddp", max(BATCH, 16 * workers), 8.0, PARAMETERS),
    ):
        steps = rows / batch
        compute = 2 * products * 784 * 784 * rows / workers / flops
        found[name] = compute + steps * (4 * numbers * share(workers) / bandwidth + messages * latency)
    passes = 2 * 100 * 784 * 784 * rows / workers / flops  # a u-step of some ten inner steps, in all three layers
    found["alg1"] = (
        passes + 8 * (full_numbers(2) - full_numbers(1)) * share(workers) / bandwidth + 6 * messages * latency
    )
    return found


def main(options) -> None:
    counts = {processes: launch(processes, options) for processes in options.processes}
    batches = round(options.rows / 1000)
    expected = {"trainer": 4 * trainer_numbers(batches), "alg1": 8 * full_numbers(options.iterations)}
    values = {"rows": options.rows, "iterations": options.iterations, "runs": {}}
    for processes, found in counts.items():
        for name, run in found.items():
            run["model"] = expected[name] * share(processes)
            run["speedup_cpu"], run["speedup_wall"] = (counts[1][name][k] / run[k] for k in ("cpu", "wall"))
            print(processes, name, {key: round(value, 3) for key, value in run.items()})
        values["runs"][str(processes)] = found
    trained, adam = epochs_to_goal("BCD", 3), epochs_to_goal("Adam/0", 10)
    ddp = 4 * ddp_numbers(60000)
    pass_ = 8 * (full_numbers(2) - full_numbers(1))  # half of it measures stationarity
    values["full_batch"] = {"measured": ddp / pass_, "alone": 2 * ddp / pass_}
    values["to_goal"] = {"trainer": trained, "adam": adam}
    values["trainer"] = min(adam) * ddp / (max(trained) * 4 * trainer_numbers(60))
    print("an epoch of DDP sends so many times a pass of Alg. 1:", values["full_batch"])
    print(f"Adam sends {values['trainer']:.1f} times what the trainer sends to {GOAL}%; {adam}, {trained} epochs")
    values["simulated"] = []
    for workers, rows in ((1, 6e4), (4, 6e4), (16, 6e4), (100, 1e9), (1000, 1e9)):
        seconds = simulate(workers, rows, options.bandwidth, options.latency, options.flops)
        values["simulated"].append({"workers": workers, "rows": rows, **seconds})
        print(workers, rows, {name: round(value, 1) for name, value in seconds.items()})
    values |= {name: getattr(options, name) for name in ("bandwidth", "latency", "flops")}
    record(options, values)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes a second between two workers")
    parser.add_argument("--latency", type=float, default=5e-5, help="seconds of a message")
    parser.add_argument("--flops", type=float, default=5e10, help="operations a second of one worker")
    parser.add_argument("--worker", help="where a rank leaves what it found; for this file itself")
    options = parser.parse_args()
    work(options) if options.worker else main(options)
