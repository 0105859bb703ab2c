"""Several networks, trained one after the other, as one: their layers side by side, their scores averaged.

    u_n = (u_n of the first, u_n of the second, ...),   W_n = their matrices as blocks,   scores = the mean of theirs

So files, exports and predictions know nothing of it. A network may take some of the inputs only: of a table, the
numbers without their pieces.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from tikhonet.descent.result import Status
from tikhonet.estimators.fitting import Fitted, fit
from tikhonet.estimators.parameters import Parameters
from tikhonet.estimators.rows import Rows
from tikhonet.estimators.sessions import session_of
from tikhonet.estimators.stopping import StoppedShort
from tikhonet.estimators.targets import Target
from tikhonet.model.heads import Head
from tikhonet.model.model import Model
from tikhonet.network.graph import BIAS, Network
from tikhonet.problem.ranks import current_reduce
from tikhonet.trainer.training import best_epoch

Places = NDArray[np.int64]
UNUSABLE = (Status.INTERRUPTED, Status.NONFINITE)


def fit_several(
    parameters: Parameters, rows: Rows, target: Target, members: Sequence[Places], validation: Sequence[Rows] = ()
) -> Fitted:
    """A fit for each of the members, which takes these of the inputs; the first takes all of them.

    History, certificate and memory are those of the first. A fit that did not come to its end is the last, and is left
    out of the average where there are others.
    """
    done: list[Fitted] = []
    with session_of(parameters, rows, validation, reduce=current_reduce()) as session:
        for turn, places in enumerate(members):
            judged_by = [part.inputs(places) for part in validation]
            some = rows.inputs(places)
            with warnings.catch_warnings():
                if done:  # the first said all that there is to say
                    warnings.simplefilter("ignore", StoppedShort)
                done.append(
                    fit(parameters, some, target.of_inputs(places), validation=judged_by, turn=turn, session=session)
                )
            if done[-1].status in UNUSABLE or not done[0].model.scaling.varies.any():
                break
    first, status = done[0], done[-1].status
    good = done[:-1] if status in UNUSABLE else done
    if len(good) < 2:
        return replace(first, status=status)
    losses = [best_epoch(one.history).validation_loss if isinstance(one.history, list) else 1.0 for one in good]
    model = side_by_side([one.model for one in good], members, rows.X.shape[1], target.shares(losses))
    memory = replace(first.memory, state=None)  # the state is that of one network
    return replace(first, model=model, target=first.target.averaged(), memory=memory, status=status)


def side_by_side(models: Sequence[Model], members: Sequence[Places], inputs: int, shares: Sequence[float]) -> Model:
    """One model with the mean scores, by these shares, of models that take these of so many inputs."""
    first, believed = models[0], [model.sharpness * share for model, share in zip(models, shares, strict=True)]
    network = widened(first.network, inputs, len(models))
    W = {}
    for n, m in network.learned:
        blocks = [model.W[n, m] for model in models]
        if m == 0:
            W[n, m] = torch.cat(
                [spread_out(block, places, inputs) for block, places in zip(blocks, members, strict=False)]
            )
        else:
            W[n, m] = torch.cat(blocks) if m == BIAS else torch.block_diag(*blocks)
    heads = [model.linear_head for model in models]
    coef = np.hstack([share * head.coef for share, head in zip(believed, heads, strict=True)])
    intercept = sum(share * head.intercept for share, head in zip(believed, heads, strict=True))
    V = torch.cat([share * model.V for model, share in zip(models, shares, strict=True)], 1)
    return replace(first, network=network, W=W, V=V, head=Head(coef, np.asarray(intercept)), sharpness=1.0)


def widened(network: Network, inputs: int, times: int) -> Network:
    """The network of so many inputs whose hidden layers are so many times as wide."""
    widths = [inputs, *(times * width for width in network.widths[1:])]
    edges = {pair: edge.name for pair, edge in network.edges.items()}
    return Network(widths, edges, activation=network.activation)


def spread_out(block: torch.Tensor, places: Places, inputs: int) -> torch.Tensor:
    """A matrix of some inputs as one of all, zero for the others."""
    wide = block.new_zeros(len(block), inputs)
    wide[:, torch.from_numpy(places)] = block
    return wide
