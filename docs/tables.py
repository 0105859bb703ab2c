"""The tables of README and docs, made of the records in results/: `python docs/tables.py` writes them anew.

A document marks a place by `<!-- table: NAME -->` and `<!-- end -->`; a table is one function here, whose name is
that of the place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from blocks import (
    ROOT,
    Record,
    basis,
    basis_of,
    by,
    documents,
    field,
    fill,
    markdown,
    mean,
    measured,
    paired,
    records,
    span,
    table,
)

SOLVERS = ("stochastic", "adam", "rmsprop", "adadelta", "adagrad", "nesterov", "sgd")


@table
def mnist_solvers() -> str:
    """Sec. 3.3.1 with back-propagation beside it, on both data sets."""
    mnist, fashion = (by(records(folder), "method") for folder in ("mnist", "fashion-mnist"))
    rows = []
    for name in (*SOLVERS, "stochastic-s", "alg1", "alg1-s", "proximal", "proximal-s", "untrained", "pixels"):
        line = [mnist[name][0]["title"]]
        for found in (mnist, fashion):
            line += [mean(field(found[name], "error")), f"{fmean(field(found[name], 'seconds')):.0f}"]
        rows.append([*line, f"{len(mnist[name])}"])
    head = ["", "MNIST, test error %", "seconds", "Fashion-MNIST, test error %", "seconds", "trials (MNIST)"]
    test = f"Stochastic BCD less Adam on MNIST: {paired(mnist['stochastic'], mnist['adam'])}."
    passes = f"{mnist['adam'][0]['passes']} and {fashion['adam'][0]['passes']} epochs; the full-batch solvers see "
    passes += f"{mnist['alg1'][0]['samples']:,} images for {mnist['alg1'][0]['passes']} iterations. {test} "
    p, tested = fmean(field(mnist["stochastic"], "error")) / 100, mnist["adam"][0]["data"]["test"]
    passes += (
        f"Beyond the trials, {tested:,} test images alone leave a difference of two such errors a standard error of "
    )
    passes += f"{100 * (2 * p * (1 - p) / tested) ** 0.5:.2f}."
    return markdown(head, rows) + basis("mnist` and `results/fashion-mnist", mnist | {"": fashion["adam"]}, passes)


@table
def mnist_digits() -> str:
    """What `make demo` finds."""
    found = by(records("digits"), "method")
    rows = []
    for name in (
        "pixels",
        "untrained",
        "alg1",
        "alg1-s",
        "proximal",
        "proximal-s",
        "stochastic",
        "stochastic-s",
        "adam",
    ):
        own = found[name]
        objective = [record["objective"][-1] for record in own if record["objective"]]
        density = [fmean([v for k, v in record["nonzero"].items() if k != "V"]) for record in own if record["nonzero"]]
        rows.append(
            [
                own[0]["title"],
                f"{fmean(objective):.2g}" if objective else "",
                f"{fmean(residual):.2g}" if (residual := field(own, "residual")) else "",
                ", ".join(sorted({record["status"] for record in own})) if objective else "",
                f"{fmean(density):.1f}" if density and objective else "",
                mean(field(own, "error")),
            ]
        )
    head = ["", "objective per image", "projected gradient", "ended as", "nonzero %", "test error %"]
    return markdown(head, rows) + basis("digits", found)


@table
def sparse_short() -> str:
    """Error against nonzeros, ours and pruned Adam."""
    rows, groups = [], {}
    for folder, title in (("sparse", "MNIST"), ("sparse-fashion", "Fashion-MNIST")):
        found = by(records(folder), "method")
        for name, dense, way in (("`tikhonet`", "dense", "budget-"), ("Adam, pruned gradually", "adam", "gradual-")):
            cells = [found.get(key, []) for key in (dense, *(f"{way}{share}" for share in ("5", "2.42", "1", "0.5")))]
            rows.append([f"{title}, {name}", *(mean(field(own, "error")) for own in cells)])
            groups |= {f"{title} {name} {at}": own for at, own in enumerate(cells)}
    head = ["test error %, by nonzero weights", "all", "5%", "2.42%", "1%", "0.5%"]
    return markdown(head, rows) + basis("sparse` and `results/sparse-fashion", groups, "A single figure is one trial.")


@table
def sparse_all() -> str:
    return sparse_table("sparse")


@table
def sparse_fashion() -> str:
    return sparse_table("sparse-fashion")


def sparse_table(folder: str) -> str:
    found = by(records(folder), "method")
    dense = fmean(field(found["dense"], "error"))
    rows = []
    for own in sorted(
        found.values(), key=lambda own: (own[0]["family"] == "sgd", own[0]["method"].split("-")[0], -density(own))
    ):
        errors, seconds = field(own, "error"), field(own, "seconds")
        each = ", ".join(f"{error:.2f}" for error in errors) if len(errors) > 1 else ""
        rows.append(
            [own[0]["title"], f"{density(own):.2f}", mean(errors), each, f"{fmean(errors) - dense:+.2f}", span(seconds)]
        )
    head = ["", "nonzero %", "test error %", "by seed", "over dense", "seconds"]
    return markdown(head, rows) + basis(folder, found)


def density(found: Sequence[Record]) -> float:
    """Mean percent of nonzeros over the W."""
    return fmean(fmean([v for k, v in record["nonzero"].items() if k != "V"]) for record in found)


WAYS = ("bcd", "fewer", "words", "adam", "classifier", "admm", "sdh", "itq", "pca", "random")


@table
def hashing_short() -> str:
    """48 bits on both data sets."""
    rows, groups = [], {}
    both = {folder: by(records(folder), "method") for folder in ("hashing-mnist", "hashing-cifar10")}
    for way in ("bcd", "fewer", "adam", "classifier", "admm", "sdh"):
        line: list[str] = []
        for folder, found in both.items():
            own = found.get(f"{way}-48", [])
            line = line or [own[0]["title"]]
            groups[f"{folder} {way}"] = own
            line += [mean(scores(own), 3), f"{min(field(own, 'seconds')):.0f}" if own else ""]
        rows.append(line)
    head = ["48 bits", "MNIST, 48 x 256: mAP", "least seconds", "CIFAR-10 descriptors, 16 x 1024: mAP", "least seconds"]
    return markdown(head, rows) + basis("hashing-mnist` and `results/hashing-cifar10", groups)


def scores(found: Sequence[Record]) -> list[float]:
    return [record["retrieval"]["mean_average_precision"]["expected"] for record in found]


@table
def hashing_mnist() -> str:
    return hashing_table("hashing-mnist")


@table
def hashing_mnist_5000() -> str:
    return hashing_table("hashing-mnist-5000")


@table
def hashing_cifar10() -> str:
    return hashing_table("hashing-cifar10")


@table
def hashing_cifar10_5000() -> str:
    return hashing_table("hashing-cifar10-5000")


@table
def hashing_cifar10_pixels() -> str:
    return hashing_table("hashing-cifar10-pixels")


def hashing_table(folder: str) -> str:
    """mAP by length, the widest bounds by ties, and the ball of radius 2 at the longest common length of 48 bits."""
    found = by(records(folder), "method")
    lengths = sorted({record["bits"] for own in found.values() for record in own})
    rows = []
    for way in [way for way in WAYS if any(name.rpartition("-")[0] == way for name in found)]:
        own = [found.get(f"{way}-{bits}", []) for bits in lengths]
        every = [record for part in own for record in part]
        ties = [record["retrieval"]["mean_average_precision"] for record in every]
        seconds, counts = field(every, "seconds"), sorted({len(part) for part in own if part})
        ball = found.get(f"{way}-48", [])
        within = [fmean(record["retrieval"][name] for record in ball) for name in ("precision_within", "recall_within")]
        rows.append(
            [
                every[0]["title"] + (f" ({every[0]['passes']} passes)" if every[0]["passes"] else ""),
                *(mean(scores(part), 4) for part in own),
                f"{min(tie['lower'] for tie in ties):.3f} to {max(tie['upper'] for tie in ties):.3f}",
                " / ".join(f"{value:.3f}" for value in within),
                " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1])))),
                span(seconds),
            ]
        )
    head = [
        "mAP",
        *(f"{bits} bits" for bits in lengths),
        "bounds by ties",
        "precision / recall within 2 at 48",
        "trials",
    ]
    return markdown([*head, "seconds"], rows) + basis(folder, found)


@table
def deep_tuning() -> str:
    """What the rivals miss on held-out images, by setting."""
    rows, machines = [], set()
    for name, what in (("mnist-10000", "error %"), ("mnist-10000-48bits", "100 (1 - mAP)")):
        for line in curves(name):
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
    for line in curves("mnist-60000"):
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
        for line in curves(name):
            if "trial" not in line:
                machines.add(line["machine"])
                at = {k: f"{1 - missed / 100:.3f} ({s:.0f} s)" for k, s, missed in line["curve"]}
                rows.append([f"{line['solver']}, {images} images", *(at.get(k, "") for k in (1, 2, 3, 10, 20))])
    head = ["mAP after epoch or iteration", "1", "2", "3", "10", "20"]
    return markdown(head, rows) + one_seed(machines, "mnist-*-48bits")


def curves(name: str) -> list[dict[str, Any]]:
    """The lines of a file of benchmarks/deep.py."""
    return [json.loads(line) for line in (ROOT / "results" / "deep" / f"{name}.jsonl").read_text().splitlines()]


def one_seed(machines: set[str], name: str) -> str:
    (machine,) = machines
    return f"\n\n(One seed each; {machine}; records: `results/deep/{name}.jsonl`.)"


@table
def full_batch() -> str:
    """Full-batch iterations of the paper's network."""
    run = measured("full_batch")
    rows = [
        [
            f"{line['solver']}, t = {line['t']}",
            f"{line['seconds']:.1f}",
            f"{line['float32']:.1f} float32, {line['float64']:.1f} float64",
            f"{100 * line['share']:.0f}%",
            f"{line['kkt']:.1e}",
        ]
        for line in run["values"]["iterations"]
    ]
    head = ["", "seconds", "products of images x 784 x 784", "share of the machine's own product rate", "u-step KKT"]
    peak = f"{run['values']['images']:,} images, at most {run['values']['peak GB']:.1f} GB."
    return markdown(head, rows) + basis_of(run, peak)


@table
def nonnegative_qp() -> str:
    run = measured("nonnegative_qp")
    rows = [[name, f"{found['ms']:.2f}", f"{found['kkt']:.1e}"] for name, found in run["values"].items()]
    return markdown(["", "ms a sample", "KKT residual"], rows) + basis_of(run)


@table
def row_projection() -> str:
    run = measured("row_projection")
    rows = [[name, *(f"{value:.2f}" for value in found.values())] for name, found in run["values"].items()]
    head = ["CPU ms", "projection", "by sorting", "one pass with a known threshold"]
    return markdown(head, rows) + basis_of(run, "784 x 784.")


@table
def hamming_search() -> str:
    run = measured("hamming_search")
    rows = [[name, f"{value:.3f}"] for name, value in run["values"]["seconds"].items()]
    rows += [
        [f"{name}, for a tenth of the queries", f"{value:.3f}"]
        for name, value in run["values"]["of 100 queries"].items()
    ]
    return markdown(["", "CPU seconds"], rows) + basis_of(run)


@table
def stochastic_epoch() -> str:
    run = measured("stochastic_epoch")
    epochs = run["values"]["epochs"]
    rows = [
        [
            f"{run['values']['rows']:,}",
            f"{run['values']['products']:.0f}",
            spread([epoch["seconds"] for epoch in epochs], ".1f"),
            spread([100 * epoch["share"] for epoch in epochs], ".0f"),
            spread([epoch["gflops"] for epoch in epochs], ".0f"),
        ]
    ]
    head = [
        "rows",
        "products of 1000 x 784 x 784",
        "seconds an epoch",
        "% of the machine's own rate",
        "that rate, Gflop/s",
    ]
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
def exported_sizes() -> str:
    run = measured("sparse_inference")
    tested = run["values"]["tested"]
    rows = [
        [name, f"{size['flash']:,}", f"{size['ram']:,}", f"{100 * size['wrong'] / tested:.2f}", f"{size['other']}"]
        for name, size in run["values"]["sizes"].items()
    ]
    head = ["", "flash bytes", "RAM bytes", "test error %", f"labels other than dense torch's, of {tested:,}"]
    return markdown(head, rows) + basis_of(run)


def main() -> None:
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if (new := fill(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} is new")


if __name__ == "__main__":
    main()
