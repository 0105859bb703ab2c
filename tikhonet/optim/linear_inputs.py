"""A linear layer as the trainer sees it: weights and bias in one matrix, and the rows that reach it in training."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from tikhonet.network.errors import ArgumentError

TIED = (
    "model must not share the weights of a linear layer, got {} with one tensor: each has inputs of its own, and the "
    "metric knows those of one; untie them, or train such a model with another optimiser"
)


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """The linear layers of a model whose parameters are all trained; subclasses may do other things, and are left out.

    Raises where one of them shares a parameter with another module.
    """
    users: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            users.setdefault(id(parameter), []).append(name or type(module).__name__)
    layers = [module for module in model.modules() if type(module) is nn.Linear]
    layers = [layer for layer in layers if all(parameter.requires_grad for parameter in layer.parameters())]
    if not layers:
        raise ArgumentError("model", f"model must have nn.Linear layers to train, got none in {type(model).__name__}")
    for parameter in (parameter for layer in layers for parameter in layer.parameters()):
        if len(names := users[id(parameter)]) > 1:
            raise ArgumentError("model", TIED.format(" and ".join(names)))
    return layers


class LinearInputs:
    """What a linear layer has seen in the forward passes that backward has gone through since `clear`.

    Passes without gradients, in evaluation mode, or whose loss is never differentiated leave no rows. Several passes
    (gradient accumulation, a layer that is applied twice) are put below each other, and so are the steps of sequences.
    A bias is a column of ones. The hook leaves the layer when this object is deleted.

    Parameters
    ----------
    layer : nn.Linear
        The layer to listen to.
    output_rows : int, default=0
        The rows whose outputs are kept too.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from tikhonet.optim import LinearInputs
    >>> layer = nn.Linear(3, 2)
    >>> inputs = LinearInputs(layer)
    >>> layer(torch.zeros(4, 3)).sum().backward()
    >>> inputs.rows
    tensor([[0., 0., 0., 1.],
            [0., 0., 0., 1.],
            [0., 0., 0., 1.],
            [0., 0., 0., 1.]])
    """

    def __init__(self, layer: nn.Linear, output_rows: int = 0) -> None:
        self.layer, self.output_rows = layer, output_rows
        self.parts: list[tuple[Tensor, Tensor]] = []
        self.latest: int | None = None
        """Where in memory the layer's latest outputs are."""
        reference = weakref.ref(self)

        def hear(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
            gathering = reference()
            if gathering is not None and module is gathering.layer:  # copies of the model have this hook too
                gathering.hear(arguments[0].detach(), output)

        weakref.finalize(self, layer.register_forward_hook(hear).remove)

    def hear(self, inputs: Tensor, output: Tensor) -> None:
        """Keep the inputs, and the outputs of the first rows, for when backward comes back to these outputs.

        Parameters
        ----------
        inputs : Tensor
            What the layer was given.
        output : Tensor
            What it answered.
        """
        self.latest = output.data_ptr()
        if not (self.layer.training and output.requires_grad):
            return
        few = output.detach().reshape(-1, self.layer.out_features)[: self.output_rows].clone()
        output.register_hook(lambda gradient: self.parts.append((inputs, few)))

    def clear(self) -> None:
        """Forget the rows."""
        self.parts = []

    @property
    def samples(self) -> int:
        """The rows of the user's batch, in which a sequence counts once."""
        return sum(len(inputs) if inputs.ndim > 1 else 1 for inputs, _ in self.parts)

    @property
    def rows(self) -> Tensor:
        """The rows that reached the layer, with a column of ones where there is a bias."""
        return torch.cat([self.with_ones(inputs) for inputs, _ in self.parts])

    @property
    def outputs(self) -> Tensor:
        """The outputs of the first of these rows."""
        return torch.cat([few for _, few in self.parts])[: self.output_rows].to(self.layer.weight.dtype)

    def with_ones(self, inputs: Tensor) -> Tensor:
        """The inputs as rows in the type of the weights, with a column of ones where there is a bias.

        Parameters
        ----------
        inputs : Tensor
            What the layer was given.

        Returns
        -------
        Tensor
            A row for each sample, or step of a sequence.
        """
        rows = inputs.reshape(-1, self.layer.in_features).to(self.layer.weight.dtype)
        return rows if self.layer.bias is None else torch.cat([rows, rows.new_ones(len(rows), 1)], 1)

    @property
    def matrix(self) -> Tensor:
        """A copy of weights and bias in one matrix M; the outputs are `rows @ M.T`."""
        return self.stack(self.layer.weight, self.layer.bias)

    @matrix.setter
    def matrix(self, M: Tensor) -> None:
        self.layer.weight.copy_(M[:, : self.layer.in_features])
        if self.layer.bias is not None:
            self.layer.bias.copy_(M[:, -1])

    @property
    def gradient(self) -> Tensor | None:
        """The gradient of that matrix as a copy; None where backward has not reached the layer."""
        weight, bias = self.layer.weight.grad, self.layer.bias
        if weight is None or bias is None:
            return None if weight is None else weight.clone()
        return self.stack(weight, torch.zeros_like(bias) if bias.grad is None else bias.grad)

    def stack(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Weights and bias in one matrix, as a copy.

        Parameters
        ----------
        weight : Tensor
            Outputs x inputs.
        bias : Tensor or None
            A number for each output.

        Returns
        -------
        Tensor
            Outputs x inputs, or one more column.
        """
        weight = weight.detach()
        return weight.clone() if bias is None else torch.cat([weight, bias.detach()[:, None]], 1)
