"""Tables of networks for images, from the lines of `benchmarks/image_training.py` and `image_epoch.py`."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any

from blocks import TABLES, basis_of, by, lines_of, markdown, mean, measured, signed, table
from tabular_tables import png

NAMES = {
    "trainer": "`Stochastic`",
    "ScheduleFree": "schedule-free AdamW",
    "Nesterov": "SGD, Nesterov, one cycle",
}
COLOURS = "#00805c", "#c0392b", "#1f6fb2", "#8a6d1d"


def race(name: str) -> str:
    """Test errors of each method's best setting, and how many settings it was chosen from."""
    lines = lines_of("image_race", name)
    few, most = sorted({line["rows"] for line in lines if line["by"] == "held out"})
    tried = by((line for line in lines if line["rows"] == few), "method")
    races = by((line for line in lines if line["by"] == "test"), "method").values()
    ours = next(ends_by_seed(found) for found in races if found[0]["method"] == "trainer")
    rows = []
    for found in races:
        one, ends, spent = found[0], ends_by_seed(found), [line["curve"][-1][0] for line in found]
        settings = f"dropout {one['drop']}, batches of {one['batch_size']}"
        rows.append(
            [
                NAMES.get(one["method"], one["method"]),
                settings + (f", rate {one['rate']:g}" if "rate" in one else ""),
                str(len(tried[one["method"]])),
                f"{fmean(spent):.0f}",
                f"{fmean(spent) / one['epochs']:.1f}",
                mean(list(ends.values())),
                ", ".join(f"{error:.2f}" for error in ends.values()),
                signed([ends[seed] - ours[seed] for seed in ends if seed in ours]) if ends != ours else "",
                curve(found),
            ]
        )
    head = ["", "best setting", "of", "CPU s", "an epoch", "test error %", "by seed", "over ours, paired"]
    (machine,), (weights,) = ({line[key] for line in lines} for key in ("machine", "weights"))
    return markdown([*head, "after each epoch"], sorted(rows, key=lambda row: float(row[5].split()[0]))) + (
        f"\n\n({weights:,} weights; settings chosen on {few:,} images, the best two of each again on {most:,}; "
        f"{machine}, other work on the machine; records: `results/image_race/{name}.jsonl`.)"
    )


def ends_by_seed(found: list[dict[str, Any]]) -> dict[int, float]:
    """The last errors of a method's runs."""
    return {line["seed"]: line["curve"][-1][1] for line in found}


def curve(found: list[dict[str, Any]]) -> str:
    """The mean error after every epoch."""
    return ", ".join(
        f"{fmean(error for _, error in points):.2f}" for points in zip(*(line["curve"] for line in found), strict=True)
    )


TABLES |= {f"image-race-{name}": partial(race, name) for name in ("mnist", "cifar10")}


def draw_race() -> bytes:
    """Test error on CIFAR-10 against CPU seconds, after every epoch of every run."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = sheet.subplots()
    runs = by((line for line in lines_of("image_race", "cifar10") if line["by"] == "test"), "method").items()
    for colour, (method, found) in zip(COLOURS, sorted(runs, reverse=True), strict=False):
        label = NAMES.get(method, method).strip("`").replace("`", "")
        for place, line in enumerate(found):
            seconds, errors = zip(*line["curve"], strict=True)
            axes.plot(seconds, errors, "o-", ms=3.5, color=colour, label=None if place else label)
    axes.set(xlabel="CPU seconds of training, one thread", ylabel="test error, %", xlim=(0, None))
    axes.grid(color="#e4e1da", lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return png(sheet)


@table
def image_epoch() -> str:
    """An epoch over one of Adam's, and the convolutions' share of it."""
    run = measured("image_epoch")
    found = run["values"]
    row = [f"{found['seconds']:.2f}", f"{found['adam']:.2f}", f"{found['ratio']:.2f}", f"{100 * found['share']:.0f}"]
    head = ["CPU s of an epoch", "of one of Adam's", "ratio", "convolutions alone, %"]
    return markdown(head, [row]) + basis_of(run)
