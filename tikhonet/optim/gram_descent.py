"""The W-step of the trainer as a torch optimiser: gradients in the metric of each linear layer's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from tikhonet.network.arguments import COUNT, POSITIVE, SEED, SHARE_OR_NONE, Numbers, check_type
from tikhonet.network.errors import ArgumentError
from tikhonet.optim.last_layer import LastLayer, restore
from tikhonet.optim.linear_inputs import LinearInputs, linear_layers
from tikhonet.problem.losses import Loss
from tikhonet.problem.samples import Reduce, keep
from tikhonet.trainer.batches import Batch, add_numbers
from tikhonet.trainer.pace import Pace
from tikhonet.trainer.rank_sums import mean_squares
from tikhonet.trainer.recipe import USUAL, Recipe
from tikhonet.trainer.saving import changed, to_plain
from tikhonet.trainer.statistics import Gram, LayerState

UNSEEN = (
    "model must call its linear layers as modules, but {} has a gradient and no inputs; where its weights are used by "
    "a function, keep them in an nn.Parameter of their own, which is moved by Adam's rule"
)


class GramDescent(torch.optim.Optimizer):
    """Descent in the metric of every linear layer's inputs, by steps of a given relative change: a torch optimiser.

        ``dW = -gradient (G + damping I)^-1, G the running Gram matrix of the layer's inputs``

    A bias is an input of 1. A step is as long as makes the layer's outputs change by `lr` of their size, and shorter
    with every step of the run. With `loss` the last linear layer is solved for (`LastLayer`) and the loss comes from
    `optimizer.loss(model(X), y)`; without, it moves like the others and the loss may be any. Subclasses of nn.Linear
    and all parameters outside of linear layers (norms, embeddings, convolutions) move by Adam's rule at `other_lr`.
    Where `step` gets a closure, every fifth step is tried, and undone if the loss of its batch has risen by more than a
    tenth.

    Parameters
    ----------
    model : nn.Module
        Anything with linear layers.
    total_steps : int
        Steps of the run, over which steps get shorter.
    loss : str or Loss, optional
        Of the last layer that is solved for: "squared", "softmax" (cross-entropy), "squared_hinge" or "huber".
    last : nn.Linear, optional
        The layer to solve for; the last one in the model's order where it is None.
    lr : float, default=0.6
        The relative change of a layer's outputs by the first step, for batches of 1000 rows.
    momentum : float, default=0.8
        The memory of directions by 1000 rows, in [0, 1).
    damping : float, default=10.0
        Of the metric, relative to the mean eigenvalue of each Gram matrix.
    metric : {"leading", "full"}, default="leading"
        By `rank` leading eigenpairs of the Gram matrix, or by its whole inverse, for a damping below 1.
    rank : int, default=64
        Eigenpairs of the metric "leading".
    ridge : float, default=0.1
        Of the last layer, relative to the mean eigenvalue of its Gram matrix.
    memory : float, default=0.94
        The memory of running sums by 1000 rows, in [0, 1).
    other_lr : float, default=0.001
        Adam's rate for the other parameters; it falls like `lr`.
    seed : int, default=0
        Fixes where the search for eigenpairs starts.
    reduce : callable, default=keep
        Adds a tensor up over the ranks of a run on many machines, whose gradients have been averaged already.

    Attributes
    ----------
    last : LastLayer or None
        The layer that is solved for.
    inputs : list of LinearInputs
        The other linear layers, with the rows that reached them.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from tikhonet.optim import GramDescent
    >>> X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    >>> y = (X[:, 0] > 0).long()
    >>> model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> optimizer = GramDescent(model, total_steps=5, loss="softmax")
    >>> for _ in range(5):
    ...     optimizer.zero_grad()
    ...     optimizer.loss(model(X), y).backward()
    ...     optimizer.step()
    >>> optimizer.refit(model, [(X, y)])
    >>> bool((model(X).argmax(1) == y).float().mean() > 0.8)
    True
    """

    def __init__(
        self,
        model: nn.Module,
        total_steps: int,
        *,
        loss: str | Loss | None = None,
        last: nn.Linear | None = None,
        lr: float = 0.6,
        momentum: float = 0.8,
        damping: float = USUAL.damping_W,
        metric: str = USUAL.metric,
        rank: int = Recipe.rank,
        ridge: float = USUAL.ridge_V,
        memory: float = USUAL.memory,
        other_lr: float = 1e-3,
        seed: int = 0,
        reduce: Reduce = keep,
    ) -> None:
        check_type("model", model, nn.Module)
        check_all(POSITIVE, lr=lr, damping=damping, other_lr=other_lr)
        check_all(COUNT, total_steps=total_steps, rank=rank)
        check_all(SHARE_OR_NONE, momentum=momentum, memory=memory)
        check_all(SEED, seed=seed)
        layers = linear_layers(model)
        self.last: LastLayer | None = None
        if loss is not None:
            self.last = LastLayer(last or layers[-1], loss, ridge=ridge, memory=memory, reduce=reduce)
            layers = [layer for layer in layers if layer is not self.last.inputs.layer]
        self.inputs = [LinearInputs(layer, Pace.probe_rows) for layer in layers]
        self.gram, self.seed, self.reduce = Gram.kinds[metric], seed, reduce
        linear = [parameter for layer in layers for parameter in layer.parameters()]
        solved = list(self.last.inputs.layer.parameters()) if self.last else []
        known = set(linear + solved)
        others = [parameter for parameter in model.parameters() if parameter not in known]
        self.adam = torch.optim.Adam(others, lr=other_lr) if others else None
        run = {"total": total_steps, "size": 0.0, "step": 0, "trust": 1.0}
        settings = {"momentum": momentum, "damping": damping, "rank": rank, "memory": memory}
        groups: list[dict[str, Any]] = [
            {"params": linear, "lr": lr, **settings, **run},
            dict(self.adam.param_groups[0]) if self.adam else {"params": [], "lr": other_lr},
            {"params": solved, "lr": 1.0},
        ]
        super().__init__(groups, {})

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """The mean loss of a batch, for `backward`.

        Parameters
        ----------
        scores : Tensor
            The model's outputs.
        y : Tensor
            Labels or targets.

        Returns
        -------
        Tensor
            A number.
        """
        if self.last is None:
            raise ArgumentError("loss", "loss must be given to the optimiser for `optimizer.loss`, got None")
        return self.last.loss(scores, y)

    def refit(self, model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """At the end of a run: the last layer fitted to the features of all rows (`LastLayer.refit`).

        Parameters
        ----------
        model : nn.Module
            The model.
        batches : iterable of (Tensor, Tensor)
            (X, y), as `model(X)` takes them.
        """
        if self.last is None:
            raise ArgumentError("loss", "loss must be given to the optimiser for `optimizer.refit`, got None")
        self.last.refit(model, batches)

    @property
    def pace(self) -> Pace:
        """Lengths and intervals of the steps, by the settings of the parameter groups as they are now."""
        run = self.param_groups[0]
        preset = replace(USUAL, change=run["lr"], momentum=run["momentum"], memory=run["memory"])
        return Pace(preset, run["total"], run["size"], len(self.inputs), Recipe.averaging)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step by the gradients that are there.

        Parameters
        ----------
        closure : callable, optional
            Computes loss and gradients, `zero_grad` included.

        Returns
        -------
        Tensor or None
            The loss of the closure.
        """
        run = self.param_groups[0]
        if closure is None:
            self._move()
            run["step"] += 1
            return None
        tried = self.pace.checks(run["step"])
        # What is forked is taken back: dropout has the same masks when the step is tried.
        with torch.enable_grad(), torch.random.fork_rng(devices_of(self.param_groups), enabled=tried):
            loss = closure()
        before = [parameter.detach().clone() for parameter in self._moved] if tried else []
        self._move()
        if tried:
            self._try_step(closure, float(loss.detach()), before)
        run["step"] += 1
        return loss

    @property
    def _moved(self) -> list[Tensor]:
        """All parameters but those that are solved for."""
        return [parameter for group in self.param_groups[:2] for parameter in group["params"]]

    @torch.no_grad()
    def _move(self) -> None:
        """Move all parameters; before the last layer is solved for once, its random start gives nobody a direction."""
        run = self.param_groups[0]
        reached = [inputs for inputs in self.inputs if inputs.gradient is not None]
        if unseen := [inputs.layer for inputs in reached if not inputs.parts]:
            raise ArgumentError("model", UNSEEN.format(unseen[0]))
        if not run["size"]:
            samples = min((inputs.samples for inputs in reached), default=1000)
            run["size"] = add_numbers(self.reduce, samples)[0] / 1000
        pace, begun = self.pace, self.last is None or bool(self.last.sums.weight)
        for inputs in reached:
            self._move_linear(inputs, pace, begun)
        if begun:
            self._move_others(pace)
        if self.last and (not begun or self.last.every_step or pace.renews(run["step"], pace.classifier_every)):
            self.last.step()
        self.clear()

    def clear(self) -> None:
        """Forget the rows that were gathered since the last step."""
        for inputs in self.inputs:
            inputs.clear()
        if self.last:
            self.last.clear()

    def _move_linear(self, inputs: LinearInputs, pace: Pace, begun: bool) -> None:
        """The damped least-squares step of one layer, as long as the pace allows its outputs to change."""
        run, A, R = self.param_groups[0], inputs.rows, inputs.gradient
        assert R is not None
        layer = self.state[inputs.layer.weight].get("layer") or self._begin(R)
        if not layer.gram.weight or pace.renews(run["step"], pace.gram_every):
            total = add_numbers(self.reduce, len(A))[0]
            whole = None if self.reduce is keep else self.reduce(A.T @ A)
            layer = changed(layer, gram=layer.gram.update(Batch(A, A), total, beta=pace.beta, whole=whole))
        if begun:
            rate = pace.rate(run["step"], run["trust"])
            R, Z = layer.direction(R).neg_(), inputs.outputs
            probed = add_numbers(self.reduce, len(Z))[0]
            latest, now = mean_squares(self.reduce, probed, A[: len(Z)] @ R.T, Z)
            length, layer = pace.advance(layer, R, latest, now, rate)
            inputs.matrix = inputs.matrix.add_(layer.momentum, alpha=length)
        self.state[inputs.layer.weight]["layer"] = layer

    def _begin(self, like: Tensor) -> LayerState:
        """A layer that has seen nothing yet."""
        run, generator = self.param_groups[0], torch.Generator().manual_seed(self.seed)
        gram = self.gram.empty(like.shape[1], run["rank"], run["damping"], generator, like)
        return LayerState(gram, torch.zeros_like(like))

    def _move_others(self, pace: Pace) -> None:
        """Adam's rule; its rate falls as the changes of linear layers do."""
        if self.adam is not None:
            run, group = self.param_groups[:2]
            fallen = pace.rate(run["step"], run["trust"]) / pace.rate(0, 1.0)
            self.adam.state, self.adam.param_groups = self.state, [{**group, "lr": fallen * group["lr"]}]
            self.adam.step()

    @torch.no_grad()
    def _try_step(self, closure: Callable[[], Any], loss: float, before: list[Tensor]) -> None:
        """Compare the loss after a step with the one before; where it has risen, undo the step and trust less."""
        run, pace = self.param_groups[0], self.pace
        with torch.enable_grad():
            after = float(closure().detach())
        self.clear()
        if pace.falls(loss, after):
            run["trust"] = min(1.0, pace.recovery * run["trust"])
            return
        run["trust"] *= pace.cut
        for parameter, old in zip(self._moved, before, strict=True):
            parameter.copy_(old)
        for state in self.state.values():
            if "layer" in state:
                state["layer"].momentum.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Groups and states as numbers, words and tensors; with it a run goes on bit for bit.

        Returns
        -------
        dict
            What `load_state_dict` takes.
        """
        state = super().state_dict()
        state["state"] = {key: to_plain(value) for key, value in state["state"].items()}
        return state | {"last": self.last.state_dict() if self.last else None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave, for a model and settings of the same kind.

        Parameters
        ----------
        state_dict : dict
            The state.
        """
        if bool(self.last) != bool(state_dict.get("last")):
            words = "without" if self.last else "with"
            raise ArgumentError("state_dict", f"state_dict must be of a run with the same `loss`, got one {words} it")
        state, parameters = {}, [parameter for group in self.param_groups for parameter in group["params"]]
        for key, value in state_dict["state"].items():
            layer = {"layer": restore(value["layer"], parameters[key])} if "layer" in value else {}
            state[key] = value | layer
        super().load_state_dict({"state": state, "param_groups": state_dict["param_groups"]})
        if self.last:
            self.last.load_state_dict(state_dict["last"])


def check_all(allowed: Numbers, **values: Any) -> None:
    for name, value in values.items():
        allowed.check(name, value)


def devices_of(groups: list[dict[str, Any]]) -> list[torch.device]:
    """Where the parameters are, other than in the processor's memory."""
    return list({p.device for group in groups for p in group["params"] if p.device.type != "cpu"})
