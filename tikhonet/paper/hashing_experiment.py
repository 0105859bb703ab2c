"""Sec. 3.3.2: supervised hashing with very deep networks, against ADMM, back-propagation and classical methods.

The paper trains a plain 48 x 256 network on MNIST and a 16 x 1024 one on CIFAR-10, and compares with ADMM. Here the
same network is trained in eleven ways (block coordinate descent towards labels and neighbours, towards labels alone as
the literature's measures ask, once more in a fifth of the passes, and towards class codewords; ADMM, its quadratic
penalties alone and Adam towards class codewords, Adam also with as few passes as the others; and as a classifier whose
predicted class gives the code, or whose probabilities give a mean of the codewords), and six methods without a network
stand beside them, one of them this library's for classes that nobody has labels of. Every way makes codes of every
length from three seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tikhonet.data.dataset import Dataset
from tikhonet.descent.result import Status
from tikhonet.hashing.codes import Codes, pack
from tikhonet.hashing.index import HammingIndex
from tikhonet.network.graph import Network
from tikhonet.paper.baselines.admm import ADMM, QuadraticPenalty
from tikhonet.paper.baselines.backprop import Backprop
from tikhonet.paper.baselines.classical_hashes import ITQ, PrincipalComponents, RandomProjections
from tikhonet.paper.baselines.discrete_hash import DiscreteHash
from tikhonet.paper.comparison import Claim
from tikhonet.paper.experiment import DIVERGED, Column, Experiment, Score, Size, Watch
from tikhonet.paper.hash_coders import Classical, Classifier, Hasher, HashMethod, Quantised, ToCodewords
from tikhonet.paper.hashing_findings import hashing_claims, hashing_figures
from tikhonet.paper.hashing_results import SHOWN_BITS, Coding, Hashing, HashRecord, shown_length
from tikhonet.paper.labelled_images import SETTINGS, Database, read_database
from tikhonet.paper.pictures import Picture, photograph
from tikhonet.paper.records import Pictures, brief
from tikhonet.paper.sheets import Figure
from tikhonet.paper.unseen_findings import unseen_claims

FEW = 10_000
FEWER = 5
"""The part of the passes that shows how soon block coordinate descent is as good as others at the end: one in 5."""
ORDER: tuple[str, ...] = ("mixed", "open", "bcd", "fewer", "words", "nearest", "admm", "penalty", "adam", "same")
ORDER += ("short", "classifier", "soft", "sdh", "pq", "itq", "pca", "random")
NEIGHBOURS = 8
FIRST, HARDEST = 3, 3
"""Queries whose neighbours are kept as pictures: the first ones, and of the others those with most wrong ones."""
SHOWN = ("mixed", "bcd", "admm", "penalty", "adam", "classifier", "words")
"""Whose neighbours are shown: the first two of these that were run."""


@dataclass(frozen=True, kw_only=True)
class HashSize(Size):
    """How much is done: the lengths of the codes, and the settings of each way.

    `hasher` and `classifier` are parameters of the estimators; `adam` and `split` settings of these solvers, `split` of
    ADMM and of its quadratic penalties alone.
    """

    bits: tuple[int, ...]
    hasher: dict[str, Any]
    classifier: dict[str, Any]
    adam: dict[str, Any]
    split: dict[str, Any]
    few: dict[str, int] = field(default_factory=dict)
    """Passes of the hasher, the classifier and Adam over no more than `FEW` images, where they are not those above."""

    shallow: dict[int, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """What networks of so many hidden layers get in place of the settings above, by their names."""

    shallow_bits: tuple[int, ...] = ()
    """The lengths of the codes of these networks, where they are not those above."""

    penalty: dict[str, Any] = field(default_factory=dict)
    """Settings of the quadratic penalties, where they are not those of ADMM."""

    short: dict[str, Any] = field(default_factory=dict)
    """Settings of Adam with fewer passes, where they are not those with more."""

    def for_rows(self, rows: int, layers: int) -> HashSize:
        """The size with the passes that so many training images get in a network of so many layers."""
        if settings := self.shallow.get(layers):
            own = {name: getattr(self, name) | given for name, given in settings.items()}
            return replace(self, bits=self.shallow_bits or self.bits, **own)
        if not self.few or rows > FEW:
            return self
        return replace(
            self,
            hasher=self.hasher | {"max_iter": self.few["hasher"]},
            classifier=self.classifier | {"max_iter": self.few["classifier"]},
            adam=self.adam | {"epochs": self.few["adam"]},
        )


QUICK = HashSize(
    "quick",
    bits=(16, 32),
    hasher={"max_iter": 12, "batch_size": 200, "dropout": 0.0},
    classifier={"max_iter": 12, "batch_size": 200, "dropout": 0.0, "early_stopping": False},
    adam={"rate": 2e-3, "batch_size": 32, "epochs": 12},
    split={"epochs": 12},
    threads=1,
)
"""Chosen by the mAP of 32 bits with 300 of the digits' training images as queries, among eight settings of the hasher
(batch size, epochs, dropout), six of Adam (rate, batch size) and six of the split layers (penalties, warm-up of the
multipliers), which keep their own."""

FULL = HashSize(
    "full",
    bits=(16, 24, 32, 48, 64),
    hasher={"max_iter": 5, "dropout": 0.0},
    classifier={"max_iter": 5, "dropout": 0.0, "early_stopping": False},
    adam={"rate": 1e-4, "batch_size": 128, "epochs": 10},
    split={"epochs": 20, "beta": 0.1},
    few={"hasher": 30, "classifier": 30, "adam": 60},
    shallow={
        2: {
            "hasher": {"max_iter": 20, "dropout": 0.2},
            "classifier": {"max_iter": 10, "dropout": 0.2},
            "adam": {"rate": 1e-3, "epochs": 15},
            "short": {"rate": 3e-3},
            "split": {"beta": 1.0, "alpha": 0.1},
            "penalty": {"beta": 0.1, "alpha": 0.1},
        },
        4: {
            "hasher": {"max_iter": 10, "dropout": 0.1, "codewords": "related"},
            "classifier": {"max_iter": 10, "dropout": 0.1},
        },
    },
    shallow_bits=(16, 32, 48, 64),
)
"""Rate and batch of Adam and the penalties of the split layers are the best of five and six trials, held out from
10,000 images of MNIST (`benchmarks/deep.py --tune`); all start looks-linear. What networks of two layers get is for
each method the best of six trials by label mAP of 48 bits, added up over rows held out from 5,000 images of both sets
(`benchmarks/tune_hashing.py`); supervised discrete hashing keeps its authors' settings, which were its best. Four
layers have the dropout of the best of seven networks of the hasher on CIFAR-10, 1,000 training images held out, ten
passes in place of its eight, and codewords that were better than those of the default on 5,000 training images held
out (`docs/log/hashing.md`)."""


class HashingExperiment(Experiment):
    """Eighteen ways of making codes: retrieval with its bounds by ties, true neighbours, and training time."""

    name = "hashing"
    data_sets = tuple(SETTINGS)
    sizes = (QUICK, FULL)
    record = HashRecord
    score = Score("mean_average_precision", "mAP", 4)
    sides = ("This library, here",)
    template = "hashing.html.j2"

    def read(self, name: str, load: Callable[[str, str], Dataset]) -> Database:
        return read_database(name, load)

    def methods(self, size: HashSize, data: Database, epochs: int | None = None) -> list[HashMethod]:
        """Every way at every length, as `<way>-<bits>`; `epochs` sets the passes of all that train a network."""
        size = size.for_rows(len(data.X_train), len(data.hidden))
        network = Network.chain([data.X.shape[1], *data.hidden], bias=True)
        limit, passes = ({"max_iter": epochs}, {"epochs": epochs}) if epochs else ({}, {})
        classifier = {"network": network, "parameters": size.classifier | limit, "kept": []}
        mixed = {"codes": "learned", "structure": "auto", **size.hasher, **limit}
        hasher = mixed | {"structure": 0.0}
        fewer = hasher | {"max_iter": max(1, hasher["max_iter"] // FEWER)}
        words = hasher | {"codes": "classes"}
        admm = ADMM(**size.split | passes)
        penalty = QuadraticPenalty(**size.split | size.penalty | passes)
        adam = Backprop("Adam", **{"initial": "auto", **size.adam, **passes})
        same, short = (replace(adam, epochs=options["max_iter"]) for options in (hasher, fewer))
        short = replace(short, **size.short)
        open_ = mixed | {"structure": "open"}
        nearest = {"network": network, "parameters": size.hasher | limit | {"codewords": "apart"}, "labels": False}
        ways: list[tuple[str, str, str, type[HashMethod], dict[str, Any]]] = [
            ("mixed", "BCD, labels and neighbours", "stochastic", Hasher, {"network": network, "parameters": mixed}),
            ("open", "BCD, open to new classes", "stochastic", Hasher, {"network": network, "parameters": open_}),
            ("bcd", "BCD, learned codes", "stochastic", Hasher, {"network": network, "parameters": hasher}),
            ("fewer", "BCD, fewer passes", "stochastic", Hasher, {"network": network, "parameters": fewer}),
            ("words", "BCD, class codewords", "stochastic", Hasher, {"network": network, "parameters": words}),
            ("nearest", "BCD, without labels", "stochastic", Hasher, nearest),
            ("admm", "ADMM", "printed", ToCodewords, {"network": network, "solver": admm}),
            ("penalty", "Quadratic penalty", "printed", ToCodewords, {"network": network, "solver": penalty}),
            ("adam", "Adam", "sgd", ToCodewords, {"network": network, "solver": adam}),
            ("same", "Adam, as many passes", "sgd", ToCodewords, {"network": network, "solver": same}),
            ("short", "Adam, fewer passes", "sgd", ToCodewords, {"network": network, "solver": short}),
            ("classifier", "Classifier as hash", "proximal", Classifier, classifier),
            ("soft", "Classifier, soft codes", "proximal", Classifier, classifier | {"soft": True}),
            ("sdh", "SDH", "proximal", Classical, {"make": DiscreteHash}),
            ("pq", "Product quantisation", "reference", Quantised, {}),
            ("itq", "ITQ", "reference", Classical, {"make": ITQ}),
            ("pca", "Principal components", "reference", Classical, {"make": PrincipalComponents}),
            ("random", "Random projections", "reference", Classical, {"make": RandomProjections}),
        ]
        return [
            kind(f"{way}-{bits}", title, family, way=way, bits=bits, curve=bits == shown_length(size.bits), **options)
            for bits in size.bits
            for way, title, family, kind, options in ways
        ]

    def trial(self, method: HashMethod, data: Database, seed: int, watch: Watch) -> dict[str, Any]:
        """Codes are learned, the database is searched for the queries, and both are measured."""
        X, y, searched = data.of_trial(seed)
        scores, fields = method.train(X, y, seed, watch)
        fields = fields | {"way": method.way, "bits": method.bits, "samples": len(X)}
        if fields["status"] == Status.NONFINITE.name or None in fields["loss"]:
            return {**brief(fields), "retrieval": {}, "codes": {}}
        fields = dict(brief(fields | method.judge(scores, searched)))
        if method.way in SHOWN and searched.pictured:
            base, queries = (pack(scores(rows)) for rows in (searched.X, searched.X_query))
            fields["pictures"] = neighbours(base, queries, method.bits, searched)
        return fields

    def order(self, row: Coding) -> int:
        return ORDER.index(row.name)

    def compare(self, records: Any) -> Hashing:
        ordered: list[Any] = sorted(records, key=lambda record: (record.bits, record.trial))
        return Hashing.of(ordered, Coding, self.order)

    def findings(self, results: Hashing) -> list[Claim]:
        return unseen_claims(results) if results.unseen else hashing_claims(results)

    def figures(self, results: Hashing) -> list[Figure]:
        return hashing_figures(results)

    def result_rows(self, results: Hashing) -> list[Coding]:
        return [
            way.at(bits) for way in results.rows.values() for bits in sorted({record.bits for record in way.records})
        ]

    def columns(self, results: Hashing) -> list[Column]:
        def measure(name: str) -> Callable[[Coding], float | None]:
            return lambda row: row.measure(name)

        four, two = "{:.4f}".format, "{:.2f}".format
        return [
            Column("bits", lambda row: row.bits, str),
            Column("mAP", lambda row: row.score, self.score.form, under="by ties", small=ties, unknown=DIVERGED),
            Column("neighbours", measure("neighbour_recall"), four, under="codes", small=tied_codes),
            Column(
                "by scores",
                measure("asymmetric_precision"),
                four,
                under="neighbours",
                small=scored_neighbours,
                wide=True,
            ),
            Column("neighbours by scores", measure("asymmetric_recall"), four, hidden=True),
            Column("mAP by bits of the queries by scores", measure("symmetric_precision"), four, hidden=True),
            Column("distinct codes", measure("distinct"), "{:,.0f}".format, hidden=True),
            Column("first five tied", measure("tied"), hidden=True),
            Column("precision", measure("precision_within"), four, under="empty", small=empty_balls, wide=True),
            Column("recall", measure("recall_within"), four, wide=True),
            Column("seconds", lambda row: row.seconds, wide=True),
            Column("entropy", measure("entropy"), two, hidden=True),
            Column("bit balance", measure("balance"), two, wide=True),
            Column("bit correlation", measure("correlation"), two, hidden=True),
            Column("lowest by ties", lambda row: row.precision and row.precision.lower, hidden=True),
            Column("highest by ties", lambda row: row.precision and row.precision.upper, hidden=True),
            Column("empty balls", measure("empty_balls"), hidden=True),
            Column("trials", lambda row: len(row.records), hidden=True),
        ]

    def parts(self, results: Hashing) -> dict[str, Any]:
        """Queries at the shown length, with their nearest images."""
        ways = [way for name in SHOWN if (way := results.rows.get(name)) and results.shown in way.lengths]
        retrieved = []
        for way in ways[:2]:
            records = [record for record in way.at(results.shown or SHOWN_BITS).records if record.pictures]
            retrieved += [(way, query_pictures(record)) for record in records[:1]]
        trials = sorted({len(row.records) for row in self.result_rows(results)})
        return {"shown": results.shown, "retrieved": retrieved, "trials": trials, "hashing": results}


def ties(row: Coding) -> str:
    tied = row.precision
    return f"{tied.lower:.3f}–{tied.upper:.3f}" if tied else ""  # noqa: RUF001


def tied_codes(row: Coding) -> str:
    """How many codes differ, their entropy, and the share of images whose first five neighbours are tied."""
    found, entropy, share = (row.measure(name) for name in ("distinct", "entropy", "tied"))
    words = [] if found is None else [f"{found:,.0f}"]
    words += [] if entropy is None else [f"{entropy:.1f} bits"]
    return ", ".join(words + ([] if share is None else [f"{100 * share:.0f}% tied"]))


def scored_neighbours(row: Coding) -> str:
    share = row.measure("asymmetric_recall")
    return "" if share is None else f"{share:.4f}"


def empty_balls(row: Coding) -> str:
    share = row.measure("empty_balls")
    return "" if share is None else f"{100 * share:.1f}%"


def neighbours(base: Codes, queries: Codes, n_bits: int, data: Database) -> Pictures:
    """Some queries with the images nearest to them; ties go to those that come first in the database."""
    distances, ids = HammingIndex(n_bits).add(base).search(queries, min(NEIGHBOURS, len(base)))
    wrong = (data.y[ids] != data.y_query[:, None]).sum(1)
    hardest = FIRST + np.argsort(-wrong[FIRST:], kind="stable")[:HARDEST]
    shown = np.concatenate([np.arange(min(FIRST, len(queries))), hardest])
    return {
        "queries": data.query_images[shown],
        "query_labels": data.y_query[shown],
        "found": data.images[ids[shown]],
        "found_labels": data.y[ids[shown]],
        "found_distances": distances[shown],
    }


def query_pictures(record: HashRecord) -> list[tuple[Picture, list[tuple[Picture, bool]]]]:
    """Every query, and the images found for it with whether they are right."""
    names = ("queries", "query_labels", "found", "found_labels", "found_distances")
    labels, shown = record.data["labels"], []
    for query, label, images, others, distances in zip(*map(record.picture, names), strict=True):
        near = []
        for image, other, distance in zip(images, others, distances, strict=True):
            bits = f"{distance} bit{'s' if distance != 1 else ''}"
            near.append((photograph(image, f"{labels[other]}, {bits}"), bool(other == label)))
        shown.append((photograph(query, labels[label]), near))
    return shown
