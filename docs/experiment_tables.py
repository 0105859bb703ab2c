"""Tables of the experiments that `tikhonet reproduce` runs, from their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean

from blocks import (
    TABLES,
    Record,
    basis,
    by,
    conditions,
    field,
    markdown,
    mean,
    number,
    paired,
    records,
    run_of,
    signed,
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
        "budget-10",
        "budget-3",
        "certified",
        *SOLVERS[1:],
    ):
        own = found[name]
        objective = [record["objective"][-1] for record in own if record["objective"]]
        weights = [record for record in own if record["nonzero"]]
        rows.append(
            [
                own[0]["title"],
                number(fmean(objective), 2) if objective else "",
                number(fmean(residual), 2) if (residual := field(own, "residual")) else "",
                ", ".join(sorted({record["status"] for record in own})) if objective else "",
                f"{density(weights):.1f}" if weights and objective else "",
                mean(field(own, "error")),
            ]
        )
    head = ["", "objective per image", "projected gradient", "ended as", "nonzero %", "test error %"]
    return markdown(head, rows) + basis("digits", found)


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


PRINTED = "alg1", "alg1-s"
"""Alg. 1 as printed and BCD-S, on all images."""
PRINTED_IN, TENTH = ("literal-mnist", "literal-mnist-10"), 10
"""Their trials to the end of the schedule, and of ten iterations."""


@table
def literal_mnist_10() -> str:
    """Alg. 1 and BCD-S on all images after ten iterations, trial by trial, and how they differ from no training."""
    found = [record for folder in PRINTED_IN for record in records(folder)]
    untrained = {record["trial"]: record for record in found if record["method"] == "untrained-all"}
    rows, used = [], [*untrained.values()]
    for name in PRINTED:
        errors: list[list[float]] = [[], [], []]
        own = {r["trial"]: r for r in reversed(found) if r["method"] == name}  # the longer one, if one was done twice
        for _, record in sorted(own.items()):
            parts = {part["iteration"]: part for part in record["course"]}
            if TENTH in parts:
                first, last, base = parts[1], parts[TENTH], untrained.get(record["trial"])
                new = [first["error"], last["error"], *([last["error"] - base["error"]] if base else [])]
                for column, error in zip(errors, new, strict=False):
                    column.append(error)
                ends = (f"{number(first[key])} to {number(last[key])}" for key in ("objective", "gradient"))
                cells = [*(f"{error:.2f}" for error in new), ""][: len(errors)]
                rows.append([record["title"], f"{record['trial']}", *ends, *cells])
                used.append(record)
        if len(errors[0]) > 1:
            rows.append([f"{used[-1]['title']}, mean", "", "", "", *map(mean, errors)])
    rows.append(["Untrained network", "", "", "", mean(field([*untrained.values()], "error")), "", ""])
    head = [
        "",
        "trial",
        "f an image",
        "gradient",
        "error % after t = 1",
        f"after t = {TENTH}",
        "over the untrained network",
    ]
    note = f"f and gradient: after t = 1 to t = {TENTH}. The last column is paired by trial."
    if mixed := [title for title, own in by(used, "title").items() if len({conditions([one]) for one in own}) > 1]:
        note += f" Means over trials of several versions: {'; '.join(mixed)}."
    known = {f"{record['title']}, trial {record['trial']}": [record] for record in used}
    trials = "one trial a line, and means of them"
    return markdown(head, rows) + basis("`, `results/".join(PRINTED_IN), known, note, trials)


def literal_table(folder: str) -> str:
    """Alg. 1 as printed on all images and its readings on the first ones: after the first iteration, and at the end."""
    found = by(records(folder), "method")
    rows = []
    for own in sorted(found.values(), key=lambda own: (-own[0]["samples"], own[0]["passes"] == 0, own[0]["method"])):
        first = [record["course"][0] for record in own if record["course"]]
        last = [record["course"][-1] for record in own if record["course"]]
        cells = [own[0]["title"], f"{own[0]['samples']:,}", f"{own[0]['passes'] or ''}"]
        for key in ("objective", "gradient"):
            values = [[part[key] for part in at if part[key] is not None] for at in (first, last)]
            cells.append(" to ".join(number(fmean(at)) for at in values if at))
        cells += [mean([part["error"] for part in first]), mean(field(own, "error"))]
        rows.append([*cells, ", ".join(sorted({record["status"] for record in own})) if own[0]["passes"] else ""])
    head = ["", "images", "iterations", "f an image", "gradient", "test error % after t = 1", "at the end", "ended as"]
    note = "f and gradient: after t = 1 to the end. The SVM sees the images that the method saw."
    return markdown(head, rows) + basis(folder, found, note)


@table
def claims_ablation() -> str:
    """The verdicts of all four runs of the ablation side by side."""
    runs = {name: verdicts(f"ablation-{name}") for name in ("digits", "mnist-10000", "fashion-mnist-10000", "mnist")}
    rows = [[claim, *(" ".join(found[claim]) for found in runs.values())] for claim in runs["digits"]]
    return markdown(["claim", "digits", "MNIST, 10,000", "Fashion-MNIST, 10,000", "MNIST, 60,000"], rows)


def verdicts(folder: str) -> dict[str, list[str]]:
    """What the page of a run says of each claim: the verdicts, and the figures behind them."""
    experiment, results = run_of(folder)
    return {
        claim.words: [f"**{finding.verdict}.** {finding.text}" for finding in claim.findings]
        for claim in experiment.findings(results)
    }


def claims_table(folder: str) -> str:
    """The claims that the page of a run judges, with their verdicts."""
    rows = [[claim, *found] for claim, found in verdicts(folder).items()]
    head = ["claim", *(side.lower() for side in run_of(folder)[0].sides)]
    return markdown(head, rows) + basis(folder, by(records(folder), "method"))


def ablation_table(folder: str) -> str:
    """Every variant, and its difference to the trainer paired by seed."""
    results = run_of(folder)[1]
    lines = []
    for row in results.rows.values():
        difference = results.difference(row)
        gap = signed(row.less(results.rows["default"])) if row.name != "default" else ""
        chance = f"{difference.p:.2g}" if difference.p == difference.p else ""
        cosine = f"{row.cosine:.3f}" if row.cosine == row.cosine else ""
        lines.append([row.ingredient, row.title, mean(row.scores), gap, chance, cosine])
    head = ["exchanged", "variant", "test error %", "against the trainer, paired", "p (t)", "cosine, least of a layer"]
    known = {row.title: [asdict(record) for record in row.records] for row in results.rows.values()}
    return markdown(head, lines) + basis(folder, known)


@table
def certified() -> str:
    """The certified descent beside the trainer; the checks that failed are named."""
    lines = []
    groups = by(records("certified"), "size", "title")
    for own in groups.values():
        failed = [check["claim"] for record in own for check in record["checks"] if check["holds"] is False]
        data = f"{own[0]['data']['name']}, {own[0]['data']['rows']:,} rows"
        share = [record["settings"]["share"] for record in own if "share" in record["settings"]]
        trainer = {record["seed"]: record["score"] for record in groups[f"{own[0]['size']} The trainer"]}
        less = [record["score"] - trainer[record["seed"]] for record in own if record["family"] != "trainer"]
        errors = [mean(field(own, "score")), signed(less)]
        times = [*errors, span(field(own, "passes")), span(field(own, "seconds"))]
        ended = ", ".join(sorted({record["status"] for record in own}))
        failures = "; ".join(f"{claim} ({failed.count(claim)})" for claim in dict.fromkeys(failed))
        lines.append([data, own[0]["title"], *times, ended, f"{max(share):.1e}" if share else "", failures])
    head = [
        "",
        "solver",
        "test error %",
        "less the trainer's, paired",
        "passes",
        "CPU s",
        "ended as",
        "largest share of the loss left",
        "checks not true",
    ]
    return markdown(head, lines) + basis("certified", groups, "Two hidden layers of 100 units.")


TABLES |= {
    "sparse-all": partial(sparse_table, "sparse"),
    "sparse-fashion": partial(sparse_table, "sparse-fashion"),
    "sparse-digits": partial(sparse_table, "sparse-digits"),
    "literal-mnist": partial(literal_table, "literal-mnist"),
    "literal-digits": partial(literal_table, "literal-digits"),
    "claims-digits": partial(claims_table, "digits"),
    "claims-mnist": partial(claims_table, "mnist"),
    "claims-fashion": partial(claims_table, "fashion-mnist"),
    "claims-literal": partial(claims_table, "literal-mnist"),
    "ablation-digits": partial(ablation_table, "ablation-digits"),
    "ablation-mnist-10000": partial(ablation_table, "ablation-mnist-10000"),
    "ablation-fashion-mnist-10000": partial(ablation_table, "ablation-fashion-mnist-10000"),
    "ablation-mnist": partial(ablation_table, "ablation-mnist"),
}
