"""Bits for classes that nobody has labels of: directions that whole classes, held out, have chosen.

The last layers of a network know its own classes and little of others, but its first layer often tells others apart
better than the inputs do. So these bits are signs of linear coordinates of the inputs or of that layer. Labels say how
to turn them: the agreement of two codes shall go with nearness, and with having one class as far as that helps classes
which the directions have not seen,

    maximise over R:  mean over rows i of  corr over rows j of ( <h_i, h_j>,  pull [y_i = y_j] - |z_i - z_j| / spread ),

with h = tanh(sharpness Z R) and Z the leading principal coordinates. The same with the real scores of row i in place of
h_i counts half as much: a query may keep them. The pull, and whether rows are seen as that layer or as inputs, in units
as given or in those of their own spread, are chosen on classes held out, each third of them once. Where there are no
labels at all, directions follow nearness alone (`directions.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from tikhonet.descent.certificates import Certificate, Check
from tikhonet.descent.result import NOT_CLAIMED, Status
from tikhonet.descent.stationarity import Stationarity
from tikhonet.estimators.solvers import Course, Trained
from tikhonet.hashing.codes import pack, signs
from tikhonet.hashing.directions import rotation, sample, unit
from tikhonet.hashing.structure import Structure, principal_axes
from tikhonet.hashing.ties import average_precision, count_by
from tikhonet.network.graph import BIAS, Network, Weights
from tikhonet.trainer.training import Epoch

ROWS = 5000
"""Rows that the directions learn from, of all ranks together."""
STEPS, EPOCHS, BATCH, RATE = 20, 10, 256, 0.02
"""Steps of an epoch, epochs, rows of a step and its length."""
SHORT = 3
"""Epochs of a trial with classes held out."""
SHARPEST = 3.0
REAL = 0.5
"""How much the real scores of a row count beside its bits."""
PULLS = (1.0, 4.0)
FOLDS, HELD = 3, 600
"""Parts that the classes are held out in, and rows of a part that are sought and searched."""

Watch = Callable[[Epoch], bool | None]


@dataclass(frozen=True, eq=False)
class View:
    """Rows as distances see them: inputs in some units, or the first hidden layer of a network."""

    words: str
    units: Tensor
    network: Network | None = None
    W: Weights = field(default_factory=dict)

    def __call__(self, X: Tensor) -> Tensor:
        seen = self.network.features(X, self.W).flatten(1) if self.network else X
        return seen * self.units.to(X)

    @classmethod
    def taught(cls, course: Course, X: Tensor, targets: Tensor, weight: Tensor) -> View | None:
        """The first layer of the network that learns the codes of these rows; None where it diverges or is no ReLU."""
        network = course.problem.network
        if network.activation.name != "relu":
            return None
        trained = replace(course, X=X, targets=targets, weight=weight).run()
        if trained.status is Status.NONFINITE:
            return None
        edges = {pair: edge for pair, edge in network.edges.items() if pair[0] == 1}
        first = Network(network.shapes[:2], edges)
        W = {pair: trained.W[pair] for pair in first.learned}
        return cls("of the first hidden layer", torch.ones(first.widths[1]), first, W)


@dataclass(frozen=True, eq=False)
class Opened:
    """Scores `view(x) D - threshold` of scaled rows, whose signs are the bits, and what was chosen for them."""

    D: Tensor
    threshold: Tensor
    pull: float
    view: View

    def scores(self, X: Tensor) -> Tensor:
        return self.view(X) @ self.D.to(X) - self.threshold.to(X)

    def network(self, network: Network) -> tuple[Network, Weights, Tensor]:
        """A network with these scores: a layer of their positive and negative parts, whose difference V takes."""
        bits, below = self.D.shape[1], self.view.network
        D = self.view.units.to(self.D)[:, None] * self.D
        both, eye = torch.cat([D, -D], 1).T.contiguous(), torch.eye(bits).to(self.D)
        shift = torch.cat([-self.threshold, self.threshold])[:, None]
        last, shapes = (2, below.shapes) if below else (1, network.shapes[:1])
        edges = (below.edges if below else {}) | {(last, last - 1): "dense", (last, BIAS): "bias"}
        W = self.view.W | {(last, last - 1): both, (last, BIAS): shift}
        return Network((*shapes, 2 * bits), edges), W, torch.cat([eye, -eye], 1)


def train_open(
    course: Course, labels: Tensor, bits: int, last: Opened | None = None, given: bool = False
) -> tuple[Trained, Opened]:
    """Directions for so many bits, by labels of one class a row, or by nearness alone where there is one column.

    With too few classes to choose by, nearness is in units as `given`, or in those of the features' own spread.
    Beside labels every row counts alike, whatever its weight: a direction is to serve rows that are not there.
    After a warm start they are the `last` ones, so that codes stay comparable with those that are stored.
    """
    features = course.X.shape[1]
    columns = [course.X.float(), course.targets.float(), labels.argmax(1)[:, None].float()]
    rows = sample(torch.cat(columns, 1), course.reduce, ROWS)
    X, targets, classes = rows[:, :features], rows[:, features:-1], rows[:, -1].long()
    epochs: list[Epoch] = []
    status = Status.FINISHED

    def heard(epoch: Epoch) -> bool | None:
        epochs.append(epoch)
        return course.watch(epoch) if course.watch else None

    if last is None:
        pull, view = choose(replace(course, watch=None), X, targets, classes, bits, given)
        if pull:
            last = directions(view, X, classes, bits, pull=pull, seed=course.seed, watch=heard)
        else:
            last = by_nearness(view, course, bits)
    network, W, V = last.network(course.problem.network)
    outputs = last.scores(course.X)
    if not torch.isfinite(outputs).all():
        status = Status.NONFINITE
    trained = Trained(W, V, status, epochs, certificate(last), max(1, len(epochs)), outputs=outputs, network=network)
    return trained, last


def certificate(found: Opened) -> Certificate:
    figure = f"not measured: steps of gradients on samples of rows, by distances {found.view.words}"
    checks = [Check("stationary", "the point is stationary", None, figure)]
    if found.pull:
        figure = f"labels pull by {found.pull:g}, distances {found.view.words}"
        checks.insert(0, Check("classes", "directions serve classes held out", None, figure))
    unknown = dict.fromkeys(("U", "V", "W"), math.nan)
    return Certificate(tuple(checks), Stationarity(unknown, unknown, math.nan), None, NOT_CLAIMED)


def choose(
    course: Course, X: Tensor, targets: Tensor, classes: Tensor, bits: int, as_given: bool
) -> tuple[float, View]:
    """The pull of labels and the view whose codes are best for classes held out; with less than four, the mildest."""
    known = classes.unique()
    scale = course.units.to(X)
    scale = scale / scale.max().clamp_min(torch.finfo(scale.dtype).tiny)  # what one unit is plays no part
    spread = View("in units of the features' own spread", torch.ones_like(X[0]))
    given = View("in units as given", scale.expand_as(X[0]))
    if len(known) < FOLDS + 1:
        return (0.0 if len(known) < 2 else PULLS[0]), given if as_given else spread
    worth: dict[tuple[float, str], float] = {}
    for fold in range(FOLDS):
        held = torch.isin(classes, known[fold::FOLDS])
        rows = torch.nonzero(held).flatten()[:HELD]
        weight = X.new_ones(int((~held).sum()))
        taught = View.taught(course, X[~held].to(course.X), targets[~held].to(course.targets), weight.to(course.weight))
        for pull, view in product(PULLS, [part for part in (spread, given, taught) if part]):
            found = directions(view, X[~held], classes[~held], bits, pull=pull, seed=course.seed, epochs=SHORT)
            worth.setdefault((pull, view.words), 0.0)
            worth[pull, view.words] += precision(found, X[rows], classes[rows])
    pull, words = max(worth, key=lambda choice: worth[choice])
    views = {spread.words: spread, given.words: given}
    taught = None if words in views else View.taught(course, course.X, course.targets, course.weight)
    return pull, views.get(words, taught or spread)


def precision(found: Opened, X: Tensor, classes: Tensor) -> float:
    """The mean average precision of every row among the others, by bits and by real scores, added up."""
    scores = found.scores(X).cpu().numpy()
    stored = signs(pack(scores), scores.shape[1])
    same = (classes[:, None] == classes).cpu().numpy()
    total = 0.0
    for asked in (stored, scores):
        far = -(asked @ stored.T)
        np.fill_diagonal(far, np.inf)
        other = same & ~np.eye(len(same), dtype=bool)
        (counts,) = count_by(far, other)
        average = average_precision(counts).expected
        total += float(average[np.isfinite(average)].mean()) if other.any() else 0.0
    return total


def directions(
    view: View,
    X: Tensor,
    classes: Tensor,
    bits: int,
    *,
    pull: float,
    seed: int,
    epochs: int = EPOCHS,
    watch: Watch | None = None,
) -> Opened:
    """Principal coordinates, rotated towards the corners of the cube, then turned by nearness and labels."""
    F = view(X)
    mean = F.mean(0)
    F = F - mean
    axes = principal_axes(F, F.new_ones(len(F)), bits, seed)
    axes = axes / (F @ axes).square().sum(1).mean().sqrt().clamp_min(torch.finfo(F.dtype).tiny)
    Z = F @ axes
    R = rotation(Z, bits, seed).float()
    R = R / unit((Z[:, : len(R)] @ R).square().mean(0))
    R = turned(Z[:, : len(R)], classes, R, pull, seed, epochs, watch)
    D = axes[:, : len(R)] @ R
    return Opened(D, mean @ D, pull, view)


def by_nearness(view: View, course: Course, bits: int) -> Opened:
    """Directions, and thresholds where many bits cut few axes, for rows that nobody has labels of."""
    F, weight, seed, reduce = view(course.X.float()), course.weight.float(), course.seed, course.reduce
    mean = reduce(weight @ F) / reduce(weight.sum())
    F = F - mean
    found = Structure.fit(F, weight, bits, seed, reduce)
    found = found.turned(found.beside(F), F, F, weight, bits, seed=seed, reduce=reduce, last=True)
    assert found.directions is not None
    along, thresholds = found.directions.to(F).split([found.axes.shape[1], int(found.constant)])
    D = found.axes @ along
    return Opened(D, mean @ D - thresholds.sum(0), 0.0, view)


def turned(Z: Tensor, classes: Tensor, R: Tensor, pull: float, seed: int, epochs: int, watch: Watch | None) -> Tensor:
    """Steps of Adam on the correlation of the module's docstring, each on some of the rows."""
    generator, clock = torch.Generator().manual_seed(seed), time.perf_counter()
    R = R.clone().requires_grad_()
    adam = torch.optim.Adam([R], lr=RATE)
    batch = min(BATCH, len(Z))
    for step in range(STEPS * epochs if batch > 2 else 0):
        part = step / (STEPS * epochs)
        adam.param_groups[0]["lr"] = RATE * (1 - 0.95 * part)
        rows = torch.randperm(len(Z), generator=generator)[:batch].to(Z.device)
        far = torch.cdist(Z[rows], Z[rows])
        alike = pull * (classes[rows][:, None] == classes[rows]).float() - far / far.std().clamp_min(1e-12)
        scores = Z[rows] @ R
        bits = torch.tanh((1 + (SHARPEST - 1) * part) * scores)
        loss = -correlation(bits @ bits.T, alike) - REAL * correlation(scores @ bits.T, alike)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if watch and (step + 1) % STEPS == 0:
            value = float(loss.detach())
            seconds = time.perf_counter() - clock
            if watch(Epoch((step + 1) // STEPS, value, value, math.nan, seconds, 1.0, 0)):
                break
    return R.detach()


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """The mean over rows of the correlation of their entries off the diagonal."""
    off = 1 - torch.eye(len(a), device=a.device)
    a, b = (off * (part - (off * part).sum(1, keepdim=True) / (len(part) - 1)) for part in (a, b))
    # Clamped before the root, whose slope at zero would be infinite.
    norms = (a.square().sum(1) * b.square().sum(1)).clamp_min(1e-24).sqrt()
    return ((a * b).sum(1) / norms).mean()
