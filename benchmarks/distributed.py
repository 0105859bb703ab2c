"""Bytes, products, memory and seconds of runs on 1, 2 and 4 processes, by the model of docs/benchmarks/scale.md.

    python benchmarks/distributed.py --rows 20000 --processes 1 2 4

The paper's network on MNIST: epochs of the trainer and iterations of Alg. 1, each rank with one thread. Bytes are
counted exactly, and so are the multiplications of matrix products. Memory is what a rank takes at most above what it
has before a run, after a short run of the same kind. Where processes share cores with other work, seconds are CPU
seconds of the slowest rank, which leave out what it waited; `wall` is what a clock on the wall says. The model then
goes on to many workers and rows.
"""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from machine import CountProducts, arguments, images, lines, record

from tikhonet import BlockDescent, Fenchel, Network, Power, Problem, Ranks, Squared, Stochastic
from tikhonet.cli.progress import memory_now, memory_peak
from tikhonet.trainer.sweep import Dropout

NETWORK, OUTPUTS = Network.paper(), 10
PARAMETERS = 3 * 784 * 784 + OUTPUTS * 784
ERRORS = Path(__file__).resolve().parents[1] / "results" / "time_to_error" / "mnist-60000.jsonl"
GOAL = 1.6
"""Test error in percent that bytes are counted up to."""
SQUARE = 784 * 784
RANK = 64
"""Eigenpairs of the trainer's metric, and rows that the length of a step is measured on."""
FULL = 565
"""Products of a row with a matrix in an iteration of Alg. 1 on MNIST, the first one: its inner steps are not known
before; counted on 500 to 2,000 rows."""
FULL_ALONE = 26
"""Products of two matrices in such an iteration, which no rank shares."""
STATES, WORK = 8, 5
"""Matrices like the weights and sums that the trainer keeps, and matrices like the layers of its batch."""
BATCH = 128
"""Rows of a batch of DDP with Adam, over all workers: the setting that the records have curves of."""


def share(processes: int) -> float:
    """What a rank sends of a tensor whose sum all get, in units of its size."""
    return 2 * (processes - 1) / processes


def renewals(batches: int, every: int) -> int:
    """The steps of so many that renew what is renewed at every so many of them; the first five renew all."""
    warm = min(batches, 5)
    return warm + len([t for t in range(warm, batches) if t % every == 0])


def trainer_numbers(batches: int) -> float:
    """Numbers that a run's epoch of so many batches of 1000 rows adds up: pulls, Gram halves, the V-step's sums."""
    pulls, grams = 3 * SQUARE * batches, 3 * 784 * 785 / 2 * renewals(batches, 6)
    return pulls + grams + (SQUARE + OUTPUTS * 784) * (renewals(batches, 3) + 1)


def trainer_products(batches: int, rows: float) -> float:
    """Multiplications of an epoch of so many batches, of which this rank has so many rows each.

    Forward, back and pulls of a step are 8 products of a row with a matrix, the last V-step 4; Gram matrices and the
    V-step's sums come where they are due, and the first batch sets the size of the weights twice. What does not
    shrink with the rows are the metric's products with the pulls and the probes of steps, and the metric's renewal.
    """
    grams, sums = renewals(batches, 6), renewals(batches, 3)
    by_rows = rows * (12 * batches + 6 + 3 * grams + sums)
    return SQUARE * (by_rows + RANK * (9 * batches + 6 * grams))


def full_products(rows: float, iterations: int) -> float:
    """Multiplications of so many iterations of Alg. 1 on the rows of a rank."""
    return SQUARE * iterations * (FULL * rows + 784 * FULL_ALONE)


def trainer_memory(rows: float) -> float:
    """Bytes of the trainer with so many rows of a batch: states, layers, and the pools of two dropouts' masks."""
    kept = STATES * (PARAMETERS + 3 * SQUARE) + WORK * rows * (4 * 784 + OUTPUTS)
    return 4 * (kept + 2 * Dropout.size(int(rows) * 784))


def full_memory(rows: float, total: int) -> float:
    """Bytes of Alg. 1 on so many rows of all: hidden layers and minimisers, work on a block of rows, sums in float64.

    There are 8 blocks of all rows, of 256 at least, however many ranks there are: so the same bits are found.
    """
    return 4 * 3 * 784 * (2.3 * rows + 17 * max(256, total / 8)) + 8 * 3 * (PARAMETERS + 3 * SQUARE)


def full_numbers(iterations: int) -> float:
    """Numbers that Alg. 1 adds up: Gram matrices of V and of two layers, pulls; as many to measure stationarity."""
    once, step = SQUARE, 6 * SQUARE + OUTPUTS * 784  # once: the inputs' Gram matrix
    return once + iterations * step + (iterations + 1) * step


def ddp_numbers(rows: int) -> float:
    """Numbers that DDP adds up in an epoch: a gradient for each batch."""
    return PARAMETERS * math.ceil(rows / BATCH)


def peak_from_now() -> float:
    """Bytes that this process has; the peak begins anew here."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return memory_now()


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
            solver.run(problem, X[:64], T[:64])  # what is loaded late is loaded before
            ranks(torch.zeros(1))  # all begin together
            before, memory = (ranks.calls, ranks.bytes), peak_from_now()
            cpu, wall = time.process_time(), time.perf_counter()
            with CountProducts() as products:
                solver.run(problem, X[mine], T[mine], reduce=ranks)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            found[name] = {"sums": ranks.calls - before[0], "bytes": ranks.bytes - before[1]}
            here = {"cpu": cpu, "wall": wall, "memory": memory_peak() - memory, "products": products.total}
            found[name] |= {key: max(ranks.each(value)) for key, value in here.items()}
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
        ("trainer", max(1000, 125 * workers), lambda rows: trainer_products(60, rows) / 60, trainer_numbers(60) / 60),
        ("ddp", max(BATCH, 16 * workers), lambda rows: 8 * SQUARE * rows, PARAMETERS),
    ):
        steps = rows / batch
        compute = 2 * steps * products(batch / workers) / flops
        found[name] = compute + steps * (4 * numbers * share(workers) / bandwidth + messages * latency)
    passes = 2 * full_products(rows / workers, 1) / flops
    found["alg1"] = (
        passes + 8 * (full_numbers(2) - full_numbers(1)) * share(workers) / bandwidth + 6 * messages * latency
    )
    return found


def models_of(processes: int, rows: int, iterations: int) -> dict[str, tuple[float, float]]:
    """Multiplications and bytes of memory of a rank by the model: an epoch of the trainer, iterations of Alg. 1."""
    batch, mine = 1000 / processes, rows / processes
    return {
        "trainer": (trainer_products(round(rows / 1000), batch), trainer_memory(batch)),
        "alg1": (full_products(mine, iterations), full_memory(mine, rows)),
    }


def main(options) -> None:
    counts = {processes: launch(processes, options) for processes in options.processes}
    batches = round(options.rows / 1000)
    expected = {"trainer": 4 * trainer_numbers(batches), "alg1": 8 * full_numbers(options.iterations)}
    values = {"rows": options.rows, "iterations": options.iterations, "runs": {}}
    for processes, found in counts.items():
        models = models_of(processes, options.rows, options.iterations)
        for name, run in found.items():
            run["model"] = expected[name] * share(processes)
            run["model_products"], run["model_memory"] = models[name]
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
