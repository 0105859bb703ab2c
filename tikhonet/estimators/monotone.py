"""Predictions that rise or fall with some columns: signs of weights along every path from a column to the score.

Each input, hidden unit and output has a sign s: it rises (1) with what is to rise, falls (-1), or may do either (0,
inputs only). All weights between two of them stay in the convex set  W_ij s_i s_j >= 0.  Activations rise, so every
score does what its columns ask for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import _check_monotonic_cst

from tikhonet.model.monotone_head import unit_signs
from tikhonet.network.errors import ArgumentError
from tikhonet.problem.objective import Problem
from tikhonet.problem.sets import Signed

PLAIN = {"network": None, "skip": False, "constraint": None, "sparsity": None, "solver": "stochastic"}
"""What parameters must be where columns have signs; `decision` too, where there is one."""


@dataclass(frozen=True, eq=False)
class Signs:
    """The signs of the inputs and of the outputs."""

    inputs: NDArray[Any]
    outputs: list[int]

    def take(self, places: NDArray[np.int64]) -> Signs:
        """The signs where a network takes these of the inputs only."""
        return Signs(self.inputs[places], self.outputs)

    def confine(self, problem: Problem) -> Problem:
        """The problem with the sets of V and W that these signs ask for."""
        network = problem.network
        layers = [self.inputs, *map(unit_signs, network.widths[1:])]
        W_set = {(n, m): signed(layers[n], layers[m]) for n, m in network.penalised}
        return replace(problem, W_set=W_set, V_set=signed(self.outputs, layers[-1]))


def signed(left: Any, right: Any) -> Signed:
    """The matrices whose entries have the signs of this outer product."""
    return Signed(torch.from_numpy(np.outer(left, right)))


def column_signs(parameters: Any, inputs: Any) -> NDArray[Any]:
    """The sign that `monotonic_cst` gives each input of the network, after all checks of the parameters."""
    for name, wanted in {**PLAIN, "decision": "forward"}.items():
        if (got := getattr(parameters, name, wanted)) is not wanted and got != wanted:
            raise ArgumentError("monotonic_cst", f"monotonic_cst needs {name}={wanted!r}, got {got!r}; leave out one")
    heads = (parameters._own_head, "trained")
    if not isinstance(parameters.head, str) or parameters.head not in heads:
        raise ArgumentError("monotonic_cst", f"monotonic_cst needs head in {heads}, got {parameters.head!r}")
    try:
        signs = _check_monotonic_cst(inputs.seen, parameters.monotonic_cst)
    except ValueError as error:
        raise ArgumentError("monotonic_cst", str(error)) from None
    if inputs.columns is None:
        return np.asarray(signs)
    columns, encoding = inputs.columns.columns, inputs.columns.encoding
    lone = [column.fields() for column in columns]
    for column, fields, sign in zip(columns, lone, signs, strict=True):
        if sign and not (len(fields) == 1 and fields[0].number):
            message = f"monotonic_cst must be 0 for columns that are not numbers, got {sign} for {column.name!r}"
            raise ArgumentError("monotonic_cst", message)
    of_fields = np.repeat(signs, [len(fields) for fields in lone])
    free = np.zeros(len(encoding.missing)), np.zeros(len(encoding.coded))
    return np.concatenate([of_fields[encoding.numbers], free[0], of_fields[encoding.pieces], free[1]])
