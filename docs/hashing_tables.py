"""Tables of Sec. 3.3.2, codes: labels, true neighbours, and how many codes there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from blocks import TABLES, Record, basis, basis_of, by, field, markdown, mean, measured, records, span, table

WAYS = (
    "mixed",
    "open",
    "bcd",
    "fewer",
    "words",
    "nearest",
    "adam",
    "same",
    "short",
    "classifier",
    "soft",
    "admm",
    "penalty",
    "sdh",
    "pq",
    "itq",
)
WAYS += ("pca", "random")
FREE = {"hashing-mnist-small": "MNIST", "hashing-cifar10-small": "CIFAR-10", "hashing-digits": "digits"}
"""Runs in which ways without labels are compared by the neighbours that they find."""
LENGTHS = (16, 32, 48, 64)
CODES = ("distinct codes (entropy, bits)", "first five tied %")


def scores(found: Sequence[Record]) -> list[float]:
    return [record["retrieval"]["mean_average_precision"]["expected"] for record in found]


@table
def hashing_digits() -> str:
    return hashing_table("hashing-digits")


@table
def hashing_cifar10() -> str:
    return hashing_table("hashing-cifar10")


def hashing_table(folder: str) -> str:
    """mAP by length with its widest bounds by ties, and at 48 bits or the most that there are codes and balls."""
    found = by(records(folder), "method")
    lengths = sorted({record["bits"] for own in found.values() for record in own})
    rows, longest = [], 48 if 48 in lengths else lengths[-1]
    for way in [way for way in WAYS if any(name.rpartition("-")[0] == way for name in found)]:
        own = [found.get(f"{way}-{bits}", []) for bits in lengths]
        every = [record for part in own for record in part]
        ties = [record["retrieval"]["mean_average_precision"] for record in every]
        seconds, counts = field(every, "seconds"), sorted({len(part) for part in own if part})
        ball = own[lengths.index(longest)]
        names = [name for name in ("precision_within", "recall_within") if name in ball[0]["retrieval"]]
        within = [fmean(record["retrieval"][name] for record in ball) for name in names]
        codes = [record["codes"] for record in ball]
        rows.append(
            [
                every[0]["title"] + (f" ({every[0]['passes']} passes)" if every[0]["passes"] else ""),
                *(mean(scores(part), 4) for part in own),
                f"{min(tie['lower'] for tie in ties):.3f} to {max(tie['upper'] for tie in ties):.3f}",
                " / ".join(filter(None, (distinct(codes), tied(codes)))),
                " / ".join(f"{value:.3f}" for value in within),
                " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1])))),
                span(seconds),
            ]
        )
    head = [
        "mAP",
        *(f"{bits} bits" for bits in lengths),
        "bounds by ties",
        f"{' / '.join(CODES)} at {longest}",
        f"precision / recall within 2 at {longest}",
        "trials",
    ]
    return markdown([*head, "seconds"], rows) + basis(folder, found)


def neighbour_table(folder: str, bits: int) -> str:
    """Codes of one length: labels, the order within a class, and how many codes there are."""
    found = by([record for record in records(folder) if record["bits"] == bits], "way")
    rows, scored = [], [name for name in ("precision", "recall") if next(iter(found.values()))[0].get("asymmetric")]
    every = [record for own in found.values() for record in own]
    # Of many queries the first ones alone ask by real scores, and of product quantisation nothing else is known.
    part = any(record["neighbours"]["asked"] < record["retrieval"].get("queries", 0) for record in every)
    first = f" (first {max(record['neighbours']['asked'] for record in every):,} queries)" if part else ""
    for own in (found[way] for way in WAYS if way in found):
        codes, balls = [record["codes"] for record in own], [record["retrieval"] for record in own]
        rows.append(
            [
                own[0]["title"],
                mean(scores(own), 4) + (first if "radius" not in balls[0] else ""),
                mean([record["neighbours"]["neighbour_recall"] for record in own], 4),
                *(asymmetric(own, name, part) for name in scored),
                distinct(codes),
                tied(codes),
                f"{fmean(part['precision_within'] for part in balls):.3f}" if "radius" in balls[0] else "",
                str(len(own)),
                span(field(own, "seconds")),
            ]
        )
    real = [f"mAP by scores{first}", "found by scores"] if scored else []
    head = ["", "label mAP", f"neighbours found{first}", *real, *CODES]
    return markdown([*head, "precision within 2", "trials", "seconds"], rows) + basis(folder, found)


def asymmetric(own: Sequence[Record], name: str, part: bool) -> str:
    """A measure by real scores, and by the bits of the same queries where they are some of all."""
    found = [record["asymmetric"] for record in own]
    text = f"{fmean(record[f'asymmetric_{name}'] for record in found):.4f}"
    same = [record["symmetric_precision"] for record in found if "symmetric_precision" in record]
    return text + (f" (by bits {fmean(same):.4f})" if part and name == "precision" and len(same) == len(found) else "")


def distinct(codes: Sequence[Record]) -> str:
    """How many codes differ, and the entropy where it was measured."""
    count = f"{fmean(part['distinct'] for part in codes):,.0f}"
    return count + (f" ({fmean(part['entropy'] for part in codes):.1f})" if "entropy" in codes[0] else "")


def tied(codes: Sequence[Record]) -> str:
    return f"{100 * fmean(part['tied'] for part in codes):.1f}" if "tied" in codes[0] else ""


def length_table(folder: str) -> str:
    """mAP of every length, and beside it for all of them in turn neighbours, codes and ties."""
    found = by(records(folder), "way")
    lengths = sorted({record["bits"] for own in found.values() for record in own})
    rows, counts = [], {len(own) / len(lengths) for own in found.values()}
    for own in (found[way] for way in WAYS if way in found):
        parts = [[record for record in own if record["bits"] == bits] for bits in lengths]
        codes = [[record["codes"] for record in part] for part in parts]
        near = [fmean(record["neighbours"]["neighbour_recall"] for record in part) for part in parts]
        rows.append(
            [
                own[0]["title"],
                *(mean(scores(part), 4) for part in parts),
                " / ".join(f"{value:.3f}" for value in near),
                " / ".join(map(distinct, codes)),
                " / ".join(filter(None, map(tied, codes))),
            ]
        )
    if counts != {3.0}:
        raise ValueError(f"{folder} must hold three trials of every way at every length, got {sorted(counts)}")
    head = ["label mAP", *(f"{bits} bits" for bits in lengths), "neighbours found", *CODES]
    return markdown(head, rows) + basis(folder, by(records(folder), "method"))


@table
def hashing_unlabelled() -> str:
    """What finds true neighbours without any labels, by bits and by the query's real scores, at every length."""
    rows, used = [], {}
    for folder, title in FREE.items():
        for own in (by(records(folder), "way")[way] for way in ("nearest", "itq", "pca", "random", "pq")):
            shares = [[r["neighbours"]["neighbour_recall"] for r in own if r["bits"] == bits] for bits in LENGTHS]
            rows.append(
                [title, own[0]["title"], *(mean(share, 3) for share in shares), f"{fmean(field(own, 'seconds')):.1f}"]
            )
            used[f"{own[0]['title']}, {title}"] = own
    head = ["", "neighbours found", *(f"{bits} bits" for bits in LENGTHS), "seconds"]
    return markdown(head, rows) + basis("`, `results/".join(FREE), used, trials="3 trials of every length")


TABLES |= {
    "hashing-full-mnist": partial(neighbour_table, "hashing-mnist", 48),
    "hashing-full-cifar10": partial(neighbour_table, "hashing-cifar10-shallow", 48),
    "hashing-full-unseen-mnist": partial(neighbour_table, "hashing-mnist-unseen", 48),
    "hashing-full-unseen-cifar10": partial(neighbour_table, "hashing-cifar10-unseen", 48),
    "hashing-neighbours-digits": partial(neighbour_table, "hashing-digits", 32),
    "hashing-neighbours-mnist": partial(neighbour_table, "hashing-mnist-small", 48),
    "hashing-neighbours-cifar10": partial(neighbour_table, "hashing-cifar10-small", 48),
    "hashing-unseen-mnist": partial(neighbour_table, "hashing-mnist-unseen-small", 48),
    "hashing-unseen-cifar10": partial(neighbour_table, "hashing-cifar10-unseen-small", 48),
    "hashing-neighbours-unseen": partial(neighbour_table, "hashing-digits-unseen", 32),
    "hashing-lengths-mnist": partial(length_table, "hashing-mnist-small"),
    "hashing-lengths-cifar10": partial(length_table, "hashing-cifar10-small"),
}


@table
def hashing_gist() -> str:
    """mAP of classical hashes with the 5,000 images that are learned from as database, mean of the seeds."""
    run = measured("classical_hashing")
    found: dict[str, dict[int, list[Record]]] = {}
    for line in run["values"]["methods"]:
        found.setdefault(line["method"], {}).setdefault(line["bits"], []).append(line)
    rows = [
        [
            name,
            *(mean([line["mAP"]["expected"] for line in own], 4) for own in lengths.values()),
            *(" / ".join(map(words, lengths.values())) for words in (distinct, tied)),
        ]
        for name, lengths in found.items()
    ]
    lengths = [f"{bits} bits" for bits in next(iter(found.values()))]
    return markdown(["label mAP", *lengths, *CODES], rows) + basis_of(run, "± over three seeds.")


@table
def hashing_tuning() -> str:
    """The settings that were tried for each way, by what their label mAP adds up to over the sets."""
    run, rows = measured("tune_hashing"), []
    for way, own in by(run["values"]["trials"], "way").items():
        ranked = by(own, "settings").values()
        ranked = sorted(ranked, key=lambda found: -sum(field(found, "precision")))
        for place, found in enumerate(ranked):
            settings = ", ".join(f"{name} {value:g}" for name, value in found[0]["settings"].items())
            cells = [f"{line['precision']:.4f} / {line['within']:.3f}" for line in found]
            rows.append([way if not place else "", settings, *cells, span(field(found, "seconds"))])
    sets = dict.fromkeys(line["set"] for line in run["values"]["trials"])
    head = ["way", "settings", *(f"{name}: label mAP / precision within 2" for name in sets), "seconds"]
    return markdown(head, rows) + basis_of(run)
