"""The V-step of the trainer for the last linear layer of a module: a regression on running sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tikhonet.network.arguments import POSITIVE, SHARE_OR_NONE, check_type
from tikhonet.network.errors import ArgumentError
from tikhonet.network.graph import Network
from tikhonet.optim.linear_inputs import LinearInputs
from tikhonet.problem.losses import Loss
from tikhonet.problem.objective import Problem
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import Batch, add_numbers
from tikhonet.trainer.recipe import USUAL
from tikhonet.trainer.run import CLEAN_RIDGE
from tikhonet.trainer.saving import changed, from_plain, to_plain
from tikhonet.trainer.statistics import RunningClassifier, fit_classifier

NO_TARGETS = "loss must be computed by `optimizer.loss(model(X), y)` when the last layer is solved for, got no targets"
NOT_SCORES = (
    "scores must be what the last linear layer ({}) gave in its latest pass, got others of shape {}; "
    "leave softmax and the like to the loss, or name the right layer"
)


class LastLayer:
    """The last linear layer of a module, which is solved for in place of following its gradient.

        ``minimise over V: sum over rows of loss(t, V a) + ridge/2 |V|^2``

    In closed form on running sums over the batches for the squared loss; for other losses by one step a batch in the
    metric of the same sums. A bias is a column of V. The rest of the module may be trained by any optimiser:
    `last.loss(model(X), y).backward()`, then `adam.step()` and `last.step()`.

    Parameters
    ----------
    layer : nn.Linear
        Its outputs must be the scores as the loss sees them.
    loss : str or Loss
        "squared", "softmax" (cross-entropy), "squared_hinge" or "huber"; its mean over the rows is minimised.
    ridge : float, default=0.1
        Relative to the mean eigenvalue of the features' Gram matrix.
    memory : float, default=0.94
        The memory of the running sums by 1000 rows, in [0, 1).
    reduce : callable, default=keep
        Adds a tensor up over the ranks of a run on many machines.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from tikhonet.optim import LastLayer
    >>> X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> last = LastLayer(model[2], "squared")
    >>> last.loss(model(X), X[:, :1].abs()).backward()
    >>> last.step()
    """

    def __init__(
        self,
        layer: nn.Linear,
        loss: str | Loss,
        *,
        ridge: float = USUAL.ridge_V,
        memory: float = USUAL.memory,
        reduce: Reduce = keep,
    ) -> None:
        check_type("layer", layer, nn.Linear)
        POSITIVE.check("ridge", ridge)
        SHARE_OR_NONE.check("memory", memory)
        self.kind = Loss.kinds[loss]() if isinstance(loss, str) else loss
        check_type("loss", self.kind, Loss)
        self.inputs, self.ridge, self.memory, self.reduce = LinearInputs(layer), ridge, memory, reduce
        self.every_step = not self.kind.quadratic
        """Whether it wants a step with every batch; a regression that is solved can wait for its sums to change."""
        self.targets: list[Tensor] = []
        self.sums = RunningClassifier.start(self.inputs.matrix)

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """The mean loss of a batch; where backward goes through it, its features and targets count in the next step.

        Parameters
        ----------
        scores : Tensor
            The layer's outputs.
        y : Tensor
            Labels or targets.

        Returns
        -------
        Tensor
            A number.
        """
        layer, rows = self.inputs.layer, scores.reshape(-1, self.inputs.layer.out_features)
        if scores.data_ptr() != self.inputs.latest:
            raise ArgumentError("scores", NOT_SCORES.format(layer, tuple(scores.shape)))
        targets = self.encode(y).to(rows)
        if len(targets) != len(rows):
            raise ArgumentError("y", f"y must hold a target for each of {len(rows)} rows of scores, got {len(targets)}")
        if layer.training and scores.requires_grad:
            scores.register_hook(lambda gradient: self.targets.append(targets))
        return self.kind.rows(targets, rows).mean()

    def encode(self, y: Tensor) -> Tensor:
        """The targets that labels or numbers stand for, a row for each.

        Parameters
        ----------
        y : Tensor
            Labels or targets.

        Returns
        -------
        Tensor
            Rows x outputs.
        """
        outputs = self.inputs.layer.out_features
        return self.kind.encode(y.reshape(-1, outputs) if y.is_floating_point() else y.reshape(-1), outputs)

    @torch.no_grad()
    def step(self) -> None:
        """Add the batches since the last step to the sums, and move the layer."""
        if not self.targets:
            raise ArgumentError("loss", NO_TARGETS)
        rows = Batch(self.inputs.rows, torch.cat(self.targets))
        total = add_numbers(self.reduce, len(rows.X))[0]
        beta = self.memory ** (total / 1000)
        sums = changed(self.sums, V=self.inputs.matrix)
        self.sums = sums.update(rows, total, self.kind, beta=beta, ridge=self.ridge, reduce=self.reduce)
        self.inputs.matrix = self.sums.V
        self.clear()

    def clear(self) -> None:
        """Forget the batches since the last step."""
        self.inputs.clear()
        self.targets = []

    @torch.no_grad()
    def refit(self, model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Fit the layer to the features of all rows at once, in evaluation mode and with a hundredth of the ridge.

        Parameters
        ----------
        model : nn.Module
            The model.
        batches : iterable of (Tensor, Tensor)
            (X, y), as `model(X)` takes them; losses that are not quadratic go through them many times.
        """
        training = model.training
        model.eval()
        problem, features = Problem(Network.chain([1, 1]), loss=self.kind), _Features(self, model, batches)
        ridge = CLEAN_RIDGE * self.ridge
        self.inputs.matrix = fit_classifier(problem, self.inputs.matrix, features, ridge, 1.0, self.reduce)
        model.train(training)

    def state_dict(self) -> dict[str, Any]:
        """The running sums as numbers and tensors.

        Returns
        -------
        dict
            What `load_state_dict` takes.
        """
        plain: dict[str, Any] = to_plain(self.sums)
        return plain

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Parameters
        ----------
        state : dict
            The state.
        """
        self.sums = restore(state, self.inputs.layer.weight)


def restore(plain: Any, like: Tensor) -> Any:
    """A saved state with tensors of its own, in the type of `like` and on its device."""

    def copied(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: copied(part) for name, part in value.items()}
        return value.to(like, copy=True) if isinstance(value, Tensor) else value

    return from_plain(copied(plain))


@dataclass(frozen=True)
class _Features:
    """The last layer's inputs by batches; each pass computes them anew."""

    last: LastLayer
    model: nn.Module
    batches: Iterable[tuple[Tensor, Tensor]]

    def __iter__(self) -> Iterator[Batch]:
        heard: list[Tensor] = []
        inputs = self.last.inputs
        handle = inputs.layer.register_forward_pre_hook(lambda layer, arguments: heard.append(arguments[0]))
        try:
            for X, y in self.batches:
                self.model(X)
                rows = inputs.with_ones(heard.pop())
                yield Batch(rows, self.last.encode(y).to(rows))
        finally:
            handle.remove()
