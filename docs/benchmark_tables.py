"""Tables of the benchmarks, from the lines that they leave with `--record`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any

from blocks import basis_of, lines_of, markdown, mean, measured, table


@table
def deep_tuning() -> str:
    """What the rivals miss on held-out images, by setting."""
    rows, machines = [], set()
    for name, what in (("mnist-10000", "error %"), ("mnist-10000-48bits", "100 (1 - mAP)")):
        for line in lines_of("deep", name):
            if "trial" in line:
                machines.add(line["machine"])
                settings = ", ".join(f"{key} {value:g}" for key, value in line["settings"].items())
                least = min(line["curve"], key=lambda point: point[2])
                rows.append(
                    [line["solver"], settings, what, f"{line['curve'][-1][2]:.2f}", f"{least[2]:.2f} after {least[0]}"]
                )
    return markdown(["", "settings", "held out", "at the end", "at its best"], rows) + one_seed(
        machines, "mnist-10000*"
    )


@table
def deep_mnist() -> str:
    """Test error by training seconds of the plain 48 x 256 network."""
    rows, machines = [], set()
    for line in lines_of("deep", "mnist-60000"):
        if line["timed"]:
            machines.add(line["machine"])
            reached = [
                next((f"{s:.1f}" for _, s, error in line["curve"] if error <= goal), "")
                for goal in (2.5, 2.2, 2.0, 1.8)
            ]
            _, seconds, error = line["curve"][-1]
            rows.append([f"{line['solver']}, {line['epochs']} epochs", *reached, f"{error:.2f}", f"{seconds:.0f}"])
    head = ["seconds to", "2.5%", "2.2%", "2.0%", "1.8%", "error % at the end", "seconds in all"]
    return markdown(head, rows) + one_seed(machines, "mnist-60000")


@table
def deep_codes() -> str:
    """mAP of 48-bit codes by pass."""
    rows, machines = [], set()
    for name, images in (("mnist-10000-48bits", "10,000"), ("mnist-60000-48bits", "60,000")):
        for line in lines_of("deep", name):
            if "trial" not in line:
                machines.add(line["machine"])
                at = {k: f"{1 - missed / 100:.3f} ({s:.0f} s)" for k, s, missed in line["curve"]}
                rows.append([f"{line['solver']}, {images} images", *(at.get(k, "") for k in (1, 2, 3, 10, 20))])
    head = ["mAP after epoch or iteration", "1", "2", "3", "10", "20"]
    return markdown(head, rows) + one_seed(machines, "mnist-*-48bits")


def one_seed(machines: set[str], name: str) -> str:
    (machine,) = machines
    return f"\n\n(One seed each; {machine}; records: `results/deep/{name}.jsonl`.)"


GAINED = {"seconds": 1, "products": 0, "steps": 0}
"""What is shown of each iteration, and its digits."""


@table
def full_batch() -> str:
    """Full-batch iterations of the paper's network."""
    run = measured("full_batch")
    rows = [
        [
            f"{line['solver']}, t = {line['t']}",
            f"{line['seconds']:.1f}",
            f"{line['float32']:.1f} float32, {line['float64']:.1f} float64",
            f"{line['kkt']:.1e}",
        ]
        for line in run["values"]["iterations"]
    ]
    head = ["", "CPU seconds", "products of images x 784 x 784", "u-step KKT"]
    peak = f"{run['values']['images']:,} images, at most {run['values']['peak GB']:.1f} GB."
    return markdown(head, rows) + basis_of(run, peak)


@table
def full_batch_gains() -> str:
    """Full-batch iterations of the paper's network as they are and as they were, in one process and in turn."""
    run = measured("full_batch_gains")
    rows = []
    for solver, sides in run["values"]["solvers"].items():
        for t, (now, before) in enumerate(zip(sides["now"], sides["before"], strict=True), 1):
            pairs = [(f"{before[key]:.{digits}f}", f"{now[key]:.{digits}f}") for key, digits in GAINED.items()]
            ratio = f"{before['seconds'] / now['seconds']:.2f}"
            rows.append([f"{solver}, t = {t}", *(f"{former} to {present}" for former, present in pairs), ratio])
    head = ["", "CPU seconds", "products of images x 784 x 784", "inner steps over U", "times faster"]
    counted = "A product in float64 counts twice; t = 1 includes f and stationarity at the start."
    note = f"{run['values']['images']:,} images. {counted}"
    return markdown(head, rows) + basis_of(run, note)


@table
def out_of_core() -> str:
    """Fits of data four times as large as their memory."""
    run = measured("out_of_core")
    values = run["values"]
    rows = [
        [side, f"{found['seconds']:.1f}", f"{found['peak'] / 1e6:.0f}", f"{100 * found['accuracy']:.1f}"]
        for side, found in values["sides"].items()
    ]
    budget = values["sides"]["on disk"]["budget"] / 1e6
    note = (
        f"{values['rows']:,} rows, {values['data_bytes'] / 1e6:.0f} MB, a budget of {budget:.0f} MB; medians of 3. "
        f"Peak over budget {values['peak_over_budget']:.2f}, time over that in memory {values['time_over_memory']:.2f}."
    )
    return markdown(["", "CPU seconds", "MB at most", "accuracy on rows trained on, %"], rows) + basis_of(run, note)


@table
def nonnegative_qp() -> str:
    run = measured("nonnegative_qp")
    rows = [[name, f"{found['ms']:.2f}", f"{found['kkt']:.1e}"] for name, found in run["values"].items()]
    return markdown(["", "CPU ms a sample", "KKT residual"], rows) + basis_of(run)


@table
def row_projection() -> str:
    run = measured("row_projection")
    rows = [[name, *(f"{value:.2f}" for value in found.values())] for name, found in run["values"].items()]
    head = ["CPU ms", "projection", "by sorting", "one pass with a known threshold"]
    return markdown(head, rows) + basis_of(run, "784 x 784.")


@table
def hamming_search() -> str:
    run = measured("hamming_search")
    found = run["values"]["seconds"]
    plain = found["HammingIndex"]
    rows = [
        [name, f"{value:.3f}", f"{value / plain:.2f}" if name.startswith("HammingIndex") else ""]
        for name, value in found.items()
    ]
    rows += [
        [f"{name}, for a tenth of the queries", f"{value:.3f}", ""]
        for name, value in run["values"]["of 100 queries"].items()
    ]
    sizes = ", ".join(f"{value:.1f} {name}" for name, value in run["values"]["bytes a code"].items())
    words = f"Bytes a code, with its id, whether queries have scores or not: {sizes}."
    return markdown(["", "CPU seconds", "of the plain search"], rows) + basis_of(run, words)


@table
def stochastic_epoch() -> str:
    run = measured("stochastic_epoch")
    found = run["values"]
    seconds = spread([epoch["seconds"] for epoch in found["epochs"]], ".1f")
    head = ["rows", "products of 1000 x 784 x 784", "CPU seconds an epoch"]
    rows = [[f"{found['rows']:,}", f"{found['products']:.0f}", seconds]]
    return markdown(head, rows) + basis_of(run)


def spread(values: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(f"{value:{form}}" for value in (min(values), max(values))))


@table
def energy_rule() -> str:
    run = measured("energy_rule")
    rows = [
        [
            name,
            *(mean(found[rule], 1) for rule in ("head", "V", "energy")),
            *(f"{fmean(found[k]):.3f}" for k in ("ms forward", "ms energy")),
        ]
        for name, found in run["values"].items()
    ]
    head = ["network", "error %: logistic head", "V", "energy", "CPU ms a row: forward", "energy"]
    return markdown(head, rows) + basis_of(run, "± over the splits.")


@table
def sparse_inference() -> str:
    run = measured("sparse_inference")
    rows = [
        [name, f"{found['us']:.0f}", f"{median(found['ratios']):.1f} ({spread(found['ratios'], '.1f')})"]
        for name, found in run["values"]["one row"].items()
    ]
    head = ["one row", "CPU us (median)", "dense torch / this: median (least to most of 10 streaks)"]
    return markdown(head, rows) + basis_of(run)


@table
def export_sizes() -> str:
    run, more = measured("export_sizes"), {True: "", False: " and the runtime's own"}
    rows = [
        [size["format"], f"{size['flash']:,}", f"{size['ram']:,}{more[size['complete']]}"]
        for size in run["values"]["formats"]
    ]
    return markdown(["format", "flash bytes", "RAM bytes"], rows) + basis_of(run)


@table
def exported_sizes() -> str:
    run = measured("sparse_inference")
    tested = run["values"]["tested"]
    rows = [
        [name, f"{size['flash']:,}", f"{size['ram']:,}", f"{100 * size['wrong'] / tested:.2f}", f"{size['other']}"]
        for name, size in run["values"]["sizes"].items()
    ]
    head = ["", "flash bytes", "RAM bytes", "test error %", f"labels other than dense torch's, of {tested:,}"]
    return markdown(head, rows) + basis_of(run)


def by_processes(run: dict[str, Any], cells: Callable[[dict[str, float]], list[str]]) -> list[list[str]]:
    """A row for each solver and number of processes, with these cells of what was found."""
    return [
        [f"{name}, {processes}", *cells(runs[name])]
        for name in ("trainer", "alg1")
        for processes, runs in run["values"]["runs"].items()
    ]


@table
def distributed_runs() -> str:
    """Bytes and CPU seconds by number of processes."""
    run = measured("distributed")
    rows = by_processes(
        run,
        lambda found: [
            f"{found['sums']}",
            f"{found['bytes'] / 1e6:.2f}",
            f"{found['model'] / 1e6:.2f}",
            f"{found['cpu']:.1f}",
            f"{found['speedup_cpu']:.2f}",
        ],
    )
    head = ["solver, processes", "sums", "MB sent", "by the model", "CPU seconds, slowest rank", "1 process / this"]
    values = run["values"]
    note = f"{values['rows']:,} rows: an epoch of the trainer, {values['iterations']} iteration of Alg. 1."
    return markdown(head, rows) + basis_of(run, note)


@table
def distributed_costs() -> str:
    """Multiplications and memory of a rank, counted and by the model."""
    run = measured("distributed")
    rows = by_processes(
        run,
        lambda found: [
            f"{found['products'] / 1e9:.1f}",
            f"{found['model_products'] / 1e9:.1f}",
            f"{2 * found['products'] / found['cpu'] / 1e9:.0f}",
            f"{found['memory'] / 1e6:.0f}",
            f"{found['model_memory'] / 1e6:.0f}",
        ],
    )
    counted, operations = "1e9 multiplications of a rank", "1e9 operations a CPU second"
    head = ["solver, processes", counted, "by the model", operations, "MB at most", "by the model"]
    return markdown(head, rows) + basis_of(run)


@table
def checkpoint_cost() -> str:
    """What checkpoints cost a long fit."""
    run = measured("checkpoint_cost")
    values = run["values"]
    rows = [[side, f"{found['cpu']:.1f}", f"{found['wall']:.1f}"] for side, found in values["sides"].items()]
    ended = values["sides"]["with"]
    rows.append(["spent in checkpoints", f"{ended['cpu_spent']:.2f}", f"{ended['wall_spent']:.2f}"])
    note = (
        f"{values['rows']:,} rows of {values['columns']} columns, two hidden layers of 500, {values['epochs']} epochs; "
        f"{ended['states']:.0f} states were written. They took {100 * values['share_cpu']:.2f}% of the CPU seconds and "
        f"{100 * values['share_wall']:.2f}% of the clock's."
    )
    return markdown(["", "CPU seconds", "seconds by the clock"], rows) + basis_of(run, note)


@table
def distributed_bytes() -> str:
    """How many times more DDP sends."""
    values = measured("distributed")["values"]
    epochs = values["to_goal"]
    both = f"{min(epochs['adam'])} epochs of batch 128 against {max(epochs['trainer'])} of batch 1000"
    rows = [
        ["a pass of Alg. 1, against an epoch with batch 128", f"{values['full_batch']['alone']:.0f}"],
        ["the same, with stationarity measured in every pass", f"{values['full_batch']['measured']:.0f}"],
        [f"the trainer to 1.6% test error, against Adam ({both})", f"{values['trainer']:.1f}"],
    ]
    return markdown(["60,000 rows of MNIST", "times that DDP sends more bytes"], rows) + (
        "\n\n(Epochs: the timed runs of `results/time_to_error/mnist-60000.jsonl`, the fastest of Adam's and the "
        "slowest of the trainer's; bytes: the model above.)"
    )


@table
def distributed_simulated() -> str:
    """The cost model at many workers."""
    values = measured("distributed")["values"]
    rows = [
        [f"{line['workers']:,}", f"{line['rows']:.0e}", *(f"{line[name]:,.1f}" for name in ("trainer", "ddp", "alg1"))]
        for line in values["simulated"]
    ]
    note = f"{values['flops']:.0e} operations a second and worker, {values['bandwidth']:.2e} bytes a second, "
    return markdown(["workers", "rows", "trainer", "DDP Adam", "Alg. 1"], rows) + (
        f"\n\n({note}{values['latency']:.0e} seconds a message; simulated, not measured.)"
    )
