"""`tikhonet info`: this installation, or what is in a model file."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from tikhonet.cli.inputs import open_model, sha256
from tikhonet.cli.outputs import Answer, facts
from tikhonet.data import DataError, find_home
from tikhonet.descent.devices import devices
from tikhonet.estimators.files import plain
from tikhonet.model.columns import Columns
from tikhonet.network.extras import MissingExtraError
from tikhonet.network.graph import BIAS, Network, Weights
from tikhonet.network.shapes import shown_shape

EXAMPLE = "tikhonet info"

SHOWN = 30
"""Columns of a table that are printed."""
PACKAGES = ("tikhonet", "torch", "numpy", "scipy", "scikit-learn", "rich", "typer", "safetensors")


def info(
    model: Annotated[Path | None, typer.Argument(help="A model file to describe.", metavar="[MODEL]")] = None,
) -> Answer:
    """Describe this installation or a model.

    Versions, threads, devices and the data home; of a model file its network, parameters, zeros and size.
    """
    return describe_installation() if model is None else describe_model(model)


def describe_installation() -> Answer:
    versions = {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    try:
        home = str(find_home())
    except (DataError, MissingExtraError) as error:
        home = str(error)
    document = {
        "versions": versions,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "devices": devices(),
        "data_home": home,
    }
    human = facts(
        versions=", ".join(f"{name} {number}" for name, number in versions.items()),
        threads=f"{torch.get_num_threads()} of torch on {os.cpu_count()} cores",
        devices=", ".join(devices()),
        data_home=home,
    )
    return Answer(document, human)


def describe_model(path: Path) -> Answer:
    saved = open_model(path)
    estimator: Any = saved.estimator
    learned = estimator.model_
    nonzero = {f"{n},{'bias' if m == BIAS else m}": share_nonzero(W) for (n, m), W in learned.W.items()}
    weights = sum(matrix.numel() for matrix in learned.W.values())
    parameters, defaults = saved.header["parameters"], type(estimator)().get_params()
    changed = {name: value for name, value in parameters.items() if value != plain(defaults[name])}
    document = {
        "model": path,
        "estimator": saved.kind,
        "task": saved.task,
        "widths": learned.network.widths,
        "outputs": learned.outputs,
        "weights": weights,
        "sparsity": estimator.sparsity_["zeros"],
        "sparsity_kind": estimator.sparsity_["kind"],
        "nonzero": nonzero,
        "status": estimator.status_.name,
        "iterations": estimator.n_iter_,
        "parameters": parameters,
        "classes": getattr(estimator, "classes_", None),
        "feature_names": saved.names,
        "columns": None if learned.columns is None else learned.columns.as_list(),
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
    }
    human = facts(
        model=f"{path} ({path.stat().st_size:,} bytes)",
        estimator=f"{saved.kind}, {estimator.n_iter_} iterations, {estimator.status_.name}",
        weights=f"{weights:,}, of which {zeros(estimator.sparsity_)}",
        changed=", ".join(f"{name} = {value}" for name, value in changed.items()) or "nothing: all are defaults",
    )
    parts = [human, *draw_columns(learned.columns), draw_text(learned.network, learned.W, learned.outputs)]
    return Answer(document, "\n\n".join(parts))


def draw_columns(columns: Columns | None) -> list[str]:
    """The columns of a table, a line each."""
    if columns is None:
        return []
    lines = [f"{column.name}: {column.meaning()}" for column in columns.columns]
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return ["\n".join([*lines[:SHOWN], *more])]


def zeros(sparsity: dict[str, Any]) -> str:
    """How many weights are zero, and what made them so."""
    budget = f", by a budget of {sparsity['asked']} of each {sparsity['over']}"
    words = {
        "none": "",
        "set": ", by the constraint",
        "budget": budget,
        "budget and set": f"{budget} in the constraint",
    }
    return f"{100 * sparsity['zeros']:.1f}% are exactly zero (biases not counted){words[sparsity['kind']]}"


def draw_text(network: Network, W: Weights, outputs: int) -> str:
    """Layers with their widths, and between them what feeds each: learned matrices with their zeros, identities."""
    lines = [f"x   {shown_shape(network.shapes[0])} inputs"]
    for n in network.hidden:
        for m in reversed(network.sources(n)):
            edge = network.edges[n, m]
            if edge.constant:
                continue
            text = f"{edge.name} ({shown_shape(network.shapes[n])})"
            if edge.learned:
                rows, columns = edge.shape
                text = f"W[{n},{m}] {rows} x {columns}, {100 * share_nonzero(W[n, m]):.1f}% nonzero"
            lines.append(f"|     {f'u{m}' if m else 'x'} -> {text}")
        bias = " + bias" if BIAS in network.sources(n) else ""
        lines.append(f"u{n}  {shown_shape(network.shapes[n])} = {network.activation.formula(f'sum{bias}')}")
    lines += ["|     the head, a linear map", f"y   {outputs} outputs"]
    return "\n".join(lines)


def share_nonzero(matrix: torch.Tensor) -> float:
    return float((matrix != 0).double().mean())
