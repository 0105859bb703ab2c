"""PyTorch modules as networks: `from_torch` reads one, and fitted blocks are written back into it.

read = from_torch(module, (1, 28, 28))
training = Stochastic().run(Problem(read.network, lift="fenchel", gamma=1.0), X, targets, start=read.W)
read.with_blocks(training.blocks).write(module)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, fx, nn

from tikhonet.model.torch_building import build_module
from tikhonet.model.torch_tracing import HEAD, Reader, refuse
from tikhonet.network.arguments import check_type
from tikhonet.network.graph import BIAS, Network, Pair, Weights
from tikhonet.network.shapes import checked_shape
from tikhonet.problem.objective import Blocks


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

    Examples
    --------
    >>> from torch import nn
    >>> from tikhonet import from_torch
    >>> read = from_torch(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), 3)
    >>> read.V.shape, read.to_torch()[2]
    (torch.Size([2, 4]), Linear(in_features=4, out_features=2, bias=True))
    """

    network: Network
    W: Weights
    V: Tensor
    intercept: Tensor
    owners: dict[Pair, tuple[str, ...]] = field(default_factory=dict, repr=False)

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
        return replace(
            self, W=blocks.W, V=blocks.V, intercept=torch.zeros(len(blocks.V)) if intercept is None else intercept
        )

    def to_torch(self) -> nn.Module:
        """A new module with the scores: `nn.Sequential` for a plain chain of layers, else a graph of such modules.

        Returns
        -------
        nn.Module
            The module.
        """
        return build_module(self.network, self.W, self.V, self.intercept)

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
    return TorchBlocks(*Reader(module, checked_shape(0, input_shape)).read(graph))
