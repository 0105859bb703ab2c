"""Measures of a trained network: the refitted classifier (Sec. 3.2), sparsity, and pictures of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tikhonet.model.svm import choose_svm
from tikhonet.network.graph import Network, Weights
from tikhonet.paper.labelled_images import Images
from tikhonet.paper.network_trials import Outcome
from tikhonet.paper.records import Pictures

UNITS = 16
"""First-layer units whose weights are kept: those with the longest rows."""
MISTAKES = 24
"""Test images that are kept: those that are wrong by the largest margin."""
PATTERN = 112
"""Sides of the picture of a matrix's zeros; a larger matrix is averaged over blocks."""


def refit(
    network: Network, outcome: Outcome, X: Tensor, y: Tensor, data: Images, seed: int
) -> tuple[dict[str, Any], Tensor | None]:
    """A linear SVM on the features; its C is chosen on a tenth of the training rows, the same way for all.

    The test errors in percent by the SVM and by V, and the SVM's scores of the test images; none where it diverged.
    """
    features, tested = X, torch.tensor(data.X_test, dtype=torch.float32)
    truth = torch.tensor(data.y_test, dtype=torch.int64)
    if outcome.W is not None:
        features, tested = (network.features(part, outcome.W) for part in (features, tested))
    if outcome.diverged or not bool(features.isfinite().all() & tested.isfinite().all()):
        return {"error": None, "error_V": None, "C": None}, None
    svm = choose_svm(features, y, classes=data.classes, seed=seed)
    scores = svm.scores(tested)
    by_V = None if outcome.V is None else percent_wrong(tested @ outcome.V.T, truth)
    return {"error": percent_wrong(scores, truth), "error_V": by_V, "C": svm.C}, scores


def percent_wrong(scores: Tensor, labels: Tensor) -> float:
    return 100 * float((scores.argmax(1) != labels).double().mean())


def nonzero(outcome: Outcome) -> dict[str, float]:
    """Percent of weights that are not exactly zero, by layer."""
    matrices = {} if outcome.W is None else {f"W{n}": M for (n, _), M in outcome.W.items()}
    if outcome.V is not None:
        matrices["V"] = outcome.V
    return {name: 100 * float((M != 0).double().mean()) for name, M in matrices.items()}


def picture_arrays(outcome: Outcome, scores: Tensor | None, data: Images) -> Pictures:
    """Small arrays from which the report draws."""
    found: Pictures = {}
    if outcome.W is not None:
        found |= weight_pictures(outcome.W)
    if scores is not None:
        found |= mistake_pictures(scores, data)
    return found


def weight_pictures(W: Weights) -> Pictures:
    first = W[min(W)].nan_to_num()
    longest = first.norm(dim=1).argsort(descending=True, stable=True)[:UNITS]
    # Half precision has no room for the weights of a diverged run, so each unit is in units of its largest weight.
    scaled = first[longest] / first[longest].abs().amax(1, keepdim=True).clamp(min=1e-30)
    patterns = {f"pattern_W{n}": pattern(M) for (n, _), M in W.items()}
    return {"units": longest.numpy(), "weights": scaled.numpy().astype(np.float16), **patterns}


def pattern(M: Tensor) -> NDArray[Any]:
    """The share of nonzeros in each block of the matrix, in 255ths."""
    rows, columns = (min(PATTERN, size) for size in M.shape)
    share = torch.nn.functional.adaptive_avg_pool2d((M != 0).float()[None, None], (rows, columns))[0, 0]
    return (255 * share).round().to(torch.uint8).numpy()


def mistake_pictures(scores: Tensor, data: Images) -> Pictures:
    truth = torch.as_tensor(data.y_test, dtype=torch.int64)
    predicted = scores.argmax(1)
    counts = torch.bincount(truth * data.classes + predicted, minlength=data.classes**2)
    margin = scores.amax(1) - scores.gather(1, truth[:, None]).squeeze(1)
    worst = margin.argsort(descending=True, stable=True)[: min(MISTAKES, int((predicted != truth).sum()))].numpy()
    shades = data.X_test[worst].reshape(len(worst), *data.shape)
    top = max(float(data.X_test.max()), 1e-30)
    return {
        "confusion": counts.reshape(data.classes, data.classes).numpy(),
        "mistakes": np.rint(255 * np.clip(shades / top, 0, 1)).astype(np.uint8),
        "mistakes_true": truth.numpy()[worst],
        "mistakes_predicted": predicted.numpy()[worst],
    }
