"""PyTorch modules as networks: `from_torch` reads one, and fitted blocks are written back into it.

read = from_torch(module, (1, 28, 28))
fitted = read.fit(loader)  # a DataLoader of images and labels, or arrays of both
fitted.write(module)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tikhonet.descent.result import Status
from tikhonet.model import storage
from tikhonet.model.heads import Head
from tikhonet.model.model import Label, Model
from tikhonet.model.model_file import network_from_header, network_header, weight_tensors, weights_from_tensors
from tikhonet.model.reading import ModelFormatError, refusing
from tikhonet.model.scaling import Scaling
from tikhonet.model.torch_building import build_module
from tikhonet.model.torch_tracing import Reader
from tikhonet.model.torch_values import HEAD, refuse
from tikhonet.network.arguments import check_type
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import BIAS, Array, Network, Pair, Weights, tensor
from tikhonet.network.shapes import checked_shape
from tikhonet.problem.lifts import Fenchel
from tikhonet.problem.losses import Loss, Squared
from tikhonet.problem.objective import Blocks, Problem
from tikhonet.trainer.batches import parts_of
from tikhonet.trainer.logical_ranks import SameBits
from tikhonet.trainer.recipe import IMAGES_BATCH
from tikhonet.trainer.run import Stochastic
from tikhonet.trainer.training import Training

KIND = "TorchBlocks"
SQUARED = Squared()
OTHER_SOLVERS = "run any other on a Problem of this network, and give its blocks to with_blocks"
UNBOUNDED = 1e30
"""A bound on inputs that no input reaches, and that a float32 can hold."""


@dataclass(frozen=True)
class Encoded:
    """Batches of (X, y) with y encoded, anew at every pass."""

    source: Any
    encode: Callable[[Any], Tensor]

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.source:
            X, y, *weight = parts_of(batch)
            yield X, self.encode(y), *weight


def loader_of(rows: Dataset[Any], size: int) -> DataLoader[Any]:
    """Batches of about this size, all alike but for the last: a small rest would be noise."""
    if isinstance(rows, IterableDataset):
        message = f"X must be a DataLoader, arrays or a Dataset with places, got an {type(rows).__name__}"
        raise ArgumentError("X", f"{message}; use DataLoader(X, batch_size={size})")
    count = len(rows)  # type: ignore[arg-type]
    return DataLoader(rows, batch_size=-(-count // max(1, round(count / size))), shuffle=True)


@dataclass(frozen=True, eq=False)
class TorchBlocks:
    """What a module says: the network, its weights W and V, and the intercept of the last layer.

    Parameters
    ----------
    network : Network
        The layers.
    W : dict of (n, m) to Tensor
        Their matrices.
    V : Tensor
        The matrix of the last linear layer.
    intercept : Tensor
        The bias of the last linear layer.
    owners : dict of (n, m) to tuple of str, optional
        The submodules that have the weights of each edge, several where biases were added up; V's is that of (0, 0).
    run : Training, optional
        The run of `fit` that these weights come from, with its status and epochs; None where they were read.

    Examples
    --------
    >>> from torch import nn
    >>> from tikhonet import from_torch
    >>> read = from_torch(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), 3)
    >>> read.V.shape, read.to_torch()[2]
    (torch.Size([2, 4]), Linear(in_features=4, out_features=2, bias=True))
    """

    network: Network
    W: Weights = field(repr=False)
    V: Tensor = field(repr=False)
    intercept: Tensor = field(repr=False)
    owners: dict[Pair, tuple[str, ...]] = field(default_factory=dict, repr=False)
    run: Training | None = field(default=None, repr=False, kw_only=True)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        solver: Stochastic | SameBits | None = None,
        loss: Loss = SQUARED,
        seed: int = 0,
    ) -> TorchBlocks:
        """The network trained from these weights on, by mini-batches of arrays X and y or of a `DataLoader` X of both.

        Weights of 16 bits are trained in 32, and `write` rounds them again.

        Parameters
        ----------
        X : array-like, DataLoader or Dataset
            Images or rows; a `DataLoader` of X and y may change them at every epoch, and a `Dataset` becomes one.
        y : array-like, default=None
            The number of a class for each row, below the number of scores, or a row of numbers for each.
        solver : Stochastic, default=None
            How it is trained; None is `Stochastic` with its defaults, in batches that suit images where there are any.
        loss : Loss or str, default=Squared()
            The loss of the scores, or its name.
        seed : int, default=0
            The seed of batches and dropout.

        Returns
        -------
        blocks : TorchBlocks
            The same network with fitted weights; the intercept is zero, and `run` has the epochs.

        Raises
        ------
        ArgumentError
            Where an argument is none of these, and where training came to NaN or infinity.
        """
        check_type("solver", solver, Stochastic, SameBits, NoneType, remedy=OTHER_SOLVERS)
        problem = Problem(self.network, lift=Fenchel(), gamma=1.0, loss=loss)

        def encode(labels: Any) -> Tensor:
            try:
                labels = torch.as_tensor(labels)
            except (TypeError, ValueError):
                raise ArgumentError(
                    "y", f"y must hold numbers, got {labels!r:.80}; number the classes (np.unique, return_inverse)"
                ) from None
            targets = problem.loss.encode(labels, len(self.V))
            if targets.shape[1] != len(self.V):
                raise ArgumentError(
                    "y",
                    f"y must hold the integer of a class a row, or rows of {len(self.V)} numbers, one for each of its "
                    f"scores, got {targets.shape[1]}; use y.long() for classes",
                )
            return targets

        if solver is None:
            solver = Stochastic(batch_size=IMAGES_BATCH) if self.network.has_images else Stochastic()
        if y is None and isinstance(X, Array):
            raise ArgumentError("y", "y must hold a label for each row of an array X, got None; or give a DataLoader X")
        if y is None and isinstance(X, Dataset):
            X = loader_of(X, getattr(solver, "batch_size", IMAGES_BATCH))
        if y is None and isinstance(solver, SameBits):
            raise ArgumentError("X", f"X and y must be arrays for SameBits, got a {type(X).__name__}; use Stochastic")
        rows = (Encoded(X, encode),) if y is None else (X if isinstance(X, Array) else tensor(X, "X"), encode(y))
        dtype = torch.promote_types(self.V.dtype, torch.float32)
        start = {pair: matrix.to(dtype) for pair, matrix in self.W.items()}
        run = solver.run(problem, *rows, start=start, seed=seed, dtype=dtype)
        if run.status is Status.NONFINITE:
            where = run.detail or "a step"
            raise ArgumentError(
                "X",
                f"X and y must be finite and of a size that steps can follow, got NaN or infinity after "
                f"{len(run.epochs)} epochs: {where}; replace what is missing, bring images to mean 0 and deviation 1, "
                "or read module.double()",
            )
        return replace(self.with_blocks(run.blocks), run=run)

    def with_blocks(self, blocks: Blocks, intercept: Tensor | None = None) -> TorchBlocks:
        """The network with fitted weights.

        Parameters
        ----------
        blocks : Blocks
            V and W.
        intercept : Tensor, optional
            The bias of the scores; zero where it is None.

        Returns
        -------
        TorchBlocks
            With these weights.
        """
        self.network.check_weights(blocks.W)
        intercept = blocks.V.new_zeros(len(blocks.V)) if intercept is None else intercept
        return replace(self, W=blocks.W, V=blocks.V, intercept=intercept)

    def to_torch(self) -> nn.Module:
        """A new module with the scores: `nn.Sequential` for a plain chain of layers, else a graph of such modules.

        Returns
        -------
        nn.Module
            The module.
        """
        return build_module(self.network, self.W, self.V, self.intercept)

    def to_model(self, classes: tuple[Label, ...] = ()) -> Model:
        """A model of inputs as they are, for exports such as C99.

        Parameters
        ----------
        classes : tuple of labels, default=()
            The names of the scores.

        Returns
        -------
        model : Model
            The network without scaling, and V with its intercept as the head.
        """
        ones = np.ones(self.network.widths[0])
        scaling = Scaling(0 * ones, ones, -UNBOUNDED * ones, UNBOUNDED * ones)
        head = Head(self.V.double().numpy(), self.intercept.double().numpy())
        return Model(scaling, self.network, self.W, self.V, head, classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file of the network and its weights, from which `tikhonet.load` makes them again.

        Parameters
        ----------
        path : str or path
            The file; it is written whole or not at all.
        """
        header = {"estimator": KIND, "network": network_header(self.network)}
        storage.save(path, header, weight_tensors(self.W) | {"V": self.V, "intercept": self.intercept})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The network and the weights that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        blocks : TorchBlocks
            Without the run that they came from.

        Raises
        ------
        ModelFormatError
            For any other file.
        """
        header, tensors = storage.load(path)
        with refusing(f"{path} does not hold a whole {KIND}", "save it again"):
            if header["estimator"] != KIND:
                raise ModelFormatError(f"it holds a {str(header['estimator'])[:80]}")
            network, V, intercept = network_from_header(header["network"]), tensors["V"], tensors["intercept"]
            W = weights_from_tensors(network, tensors)
            numbers = V.is_floating_point() and intercept.is_floating_point()
            if V.shape != (len(intercept), network.widths[-1]) or intercept.ndim != 1 or not numbers:
                raise ModelFormatError(f"V and intercept do not fit the network, got V of {tuple(V.shape)}, {V.dtype}")
            return cls(network, W, V, intercept)

    @torch.no_grad()
    def write(self, module: nn.Module) -> nn.Module:
        """Write these weights into a module of the same layers.

        Parameters
        ----------
        module : nn.Module
            The module; its parameters are overwritten.

        Returns
        -------
        nn.Module
            The module itself.
        """
        there = from_torch(module, self.network.shapes[0])
        if there.network != self.network or there.V.shape != self.V.shape:
            raise refuse(f"module must have the layers of\n{self.network}\ngot\n{there.network}")
        for pair, owners in there.owners.items():
            name = "bias" if pair[1] == BIAS else "weight"
            matrix = self.V if pair == HEAD else self.W[pair]
            for k, owner in enumerate(owners):
                parameter = getattr(module.get_submodule(owner), name)
                parameter.copy_(matrix.reshape(parameter.shape) if k == 0 else torch.zeros_like(parameter))
        head = module.get_submodule(there.owners[HEAD][0])
        if isinstance(head.bias, Tensor):
            head.bias.copy_(self.intercept)
        elif bool(self.intercept.any()):
            raise refuse("module must have a bias in its last Linear for this intercept, got bias=False")
        return module


def from_torch(module: nn.Module, input_shape: int | tuple[int, ...]) -> TorchBlocks:
    """Read a module that maps rows, or images of shape (channels, height, width), to scores.

    Its training mode does not matter: dropout is left out, and what would depend on it is refused.

    Parameters
    ----------
    module : nn.Module
        Linear layers, convolutions, averages, ReLUs and sums of them, with a linear layer last.
    input_shape : int or tuple of int
        The width of a row, or the shape of an image.

    Returns
    -------
    TorchBlocks
        The network and its weights.

    Examples
    --------
    >>> from torch import nn
    >>> from tikhonet import from_torch
    >>> from_torch(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), 3).network
    Network(3 -> 4)
      u1 = relu(W[1,0] u0 + b1)
      16 weights in 2 learned edges
    """
    check_type("module", module, nn.Module)
    try:
        graph = fx.symbolic_trace(module).graph
    except Exception as error:
        raise refuse(
            f"module cannot be traced by torch.fx ({error}); write its forward without branches on data"
        ) from None
    try:
        shape = checked_shape(0, input_shape)
    except ValueError:
        raise ArgumentError(
            "input_shape",
            "input_shape must be the width of a row or (channels, height, width) of an image, each an integer of at "
            f"least 1, got {input_shape!r}",
        ) from None
    return TorchBlocks(*Reader(module, shape).read(graph))
