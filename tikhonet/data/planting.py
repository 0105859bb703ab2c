"""Data made by a random network whose weights are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tikhonet.data.dataset import Dataset, check_split, data_set
from tikhonet.network.graph import Network, Weights

TASKS = ("classification", "regression")


@dataclass(frozen=True, eq=False, repr=False)
class Planted(Dataset):
    """A data set together with the network that made it: `scores = network.features(X, W) @ V.T`.

    Parameters
    ----------
    name : str
        The name of the data set.
    split : {"train", "test"}
        Which part of it.
    values : array
        Real rows.
    y : array
        int64 classes, or real targets.
    classes : tuple of str, default=()
        The names of the classes; empty for regression.
    largest : int, default=1
        Not used for real rows.
    network : Network
        The network that made the targets.
    W : dict of (n, m) to Tensor
        Its weights.
    V : Tensor
        Its classifier.

    Examples
    --------
    >>> from tikhonet.data import planted
    >>> data = planted(samples=50, test_samples=10)
    >>> data.network.widths, data.X.shape
    ((20, 40, 40), (50, 20))
    """

    network: Network = field(kw_only=True)
    W: Weights = field(kw_only=True)
    V: Tensor = field(kw_only=True)


@data_set("planted", files=False)
def planted(
    split: str = "train",
    task: str = "classification",
    *,
    widths: Sequence[int] = (20, 40, 40),
    outputs: int = 5,
    samples: int = 2000,
    test_samples: int = 1000,
    noise: float = 0.0,
    seed: int = 0,
) -> Planted:
    """Standard normal inputs, and what a random ReLU chain of these widths says of them, in float64.

    The scores have mean 0 over both splits, so no class outweighs all others, and deviation near 1. The seed fixes the
    network and, for given numbers of samples, both splits.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which part.
    task : {"classification", "regression"}, default="classification"
        Whether targets are the number of the largest score, or the scores.
    widths : sequence of int, default=(20, 40, 40)
        Those of the input and of the hidden layers.
    outputs : int, default=5
        Classes, or targets.
    samples : int, default=2000
        Rows for training.
    test_samples : int, default=1000
        Rows for testing.
    noise : float, default=0.0
        The deviation of normal noise that is added to the scores.
    seed : int, default=0
        Fixes all that is random.

    Returns
    -------
    Planted
        The data, and the network that made it.

    Examples
    --------
    >>> from tikhonet.data import planted
    >>> planted("test", samples=50, test_samples=10)
    planted, test: 10 samples of 20, 5 classes
    """
    check_split(split)
    if task not in TASKS:
        raise ValueError(f"task must be 'classification' or 'regression', got {task!r}")
    if min(samples, test_samples) < 1:
        raise ValueError(f"samples and test_samples must be at least 1, got {samples} and {test_samples}")
    if outputs < (2 if task == "classification" else 1):
        raise ValueError(f"outputs must be at least 2 classes or 1 target, got {outputs}")
    if not 0 <= noise < float("inf"):
        raise ValueError(f"noise must be a finite number of at least 0, got {noise}")
    generator = torch.Generator().manual_seed(seed)
    network = Network.chain(list(widths))
    W = network.random_weights(generator, 2**0.5, dtype=torch.float64)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    V = normal(outputs, network.widths[-1])
    X = normal(samples + test_samples, network.widths[0])
    U = network.features(X, W)
    mean = U.mean(0)
    V -= torch.outer(V @ mean, mean) / (mean @ mean)
    V /= (U @ V.T).std()
    scores = U @ V.T + noise * normal(len(U), outputs)
    targets = scores if task == "regression" else scores.argmax(1)
    rows = slice(samples) if split == "train" else slice(samples, None)
    classes = tuple(map(str, range(outputs))) if task == "classification" else ()
    return Planted("planted", split, X[rows].numpy(), targets[rows].numpy(), classes, network=network, W=W, V=V)
