"""SciPy's compressed sparse rows: the network for programs that have NumPy and SciPy and nothing else.

The file is an ordinary .npz without pickled objects: a JSON header (as bytes), and for each matrix `W.2.1` the arrays
`W.2.1.data`, `W.2.1.indices` and `W.2.1.indptr`; the head is `coef`, biases and the scaling are plain vectors.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from tikhonet.model.columns import Columns
from tikhonet.model.export.format import Export, Format
from tikhonet.model.kernels import SparseLayers
from tikhonet.model.links import Linear, Link
from tikhonet.model.model import Label, Model, as_inputs, check_scores
from tikhonet.model.model_file import VECTORS, columns_from_header, network_from_header, network_header, weight_name
from tikhonet.model.reading import Arrays, open_file, refusing
from tikhonet.model.scaling import Floats, Scaling
from tikhonet.model.storage import write_atomically
from tikhonet.network.graph import Network

VERSION, LINKED = 2, 3
"""The version of most files, and that of models with a link, which readers of the other would leave out."""
PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True, eq=False, kw_only=True)
class CSRModel:
    """A network and head of `csr_array`s, with the scaling of the inputs."""

    scaling: Scaling
    layers: SparseLayers
    coef: csr_array | None
    intercept: Floats | None
    classes: tuple[Label, ...] = ()
    sharpness: float = 1.0
    columns: Columns | None = None
    link: Link = Linear()

    @property
    def network(self) -> Network:
        return self.layers.network

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays in memory."""
        return sum(array.nbytes for array in self._arrays().values())

    @property
    def dtype(self) -> Any:
        return next(iter(self.layers.weights.values())).dtype if self.layers.weights else np.dtype(np.float32)

    def features(self, X: Any) -> Floats:
        """The last hidden layer, samples x width, in the type of the weights."""
        return self._features(self._inputs(X))

    def scores(self, X: Any) -> Floats:
        """One row for each row of X: scores of the classes, outputs, or features."""
        return self.kernel(self._inputs(X))

    def kernel(self, x: Floats) -> Floats:
        """The scores of a float64 matrix that was checked and encoded before."""
        features = self._features(x)
        if self.coef is None or self.intercept is None:
            return features
        return self.link(linear_scores(features, self.coef, self.intercept))

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels where there are classes, else the scores."""
        scores = self.scores(X)
        return np.array(self.classes)[scores.argmax(1)] if self.classes else scores

    def to_bytes(self) -> bytes:
        """The content of the file; equal models give equal bytes."""
        header = {
            "version": VERSION if self.link.linear else LINKED,
            **({} if self.link.linear else {"link": self.link.name}),
            "network": network_header(self.network),
            "classes": list(self.classes),
            "sharpness": self.sharpness,
            "columns": None if self.columns is None else self.columns.as_list(),
        }
        file = io.BytesIO()
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez_compressed(file, header=text, **self._arrays())  # type: ignore[arg-type]
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        write_atomically(Path(path), (self.to_bytes(),))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model that `save` wrote; `ModelFormatError` for any other file."""
        with open_file(path) as file, refusing(f"{path} is not a whole CSR model", "export it again"):
            model = cls(**_parts(Arrays(file)))
            check_scores(model.scaling, model._largest_scores, model.classes, model.sharpness)
            return model

    def _largest_scores(self, inputs: Floats) -> Floats:
        """Bounds of the absolute scores where scaled inputs have these: the forward pass with absolute weights."""
        weights = {pair: abs(matrix) for pair, matrix in self.layers.weights.items()}
        biases = {pair: abs(bias) for pair, bias in self.layers.biases.items()}
        features = SparseLayers(self.network, weights, biases).features(inputs[None].astype(self.dtype))
        if self.coef is None or self.intercept is None:
            return features
        return linear_scores(features, abs(self.coef), abs(self.intercept))

    def _inputs(self, X: Any) -> Floats:
        encoding = None if self.columns is None else self.columns.encoding
        return np.atleast_2d(as_inputs(X, self.network.widths[0], encoding))

    def _features(self, x: Floats) -> Floats:
        return self.layers.features(self.scaling(x, self.dtype))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Scaling, head, biases and weights by the names that they have in a file."""
        head = {} if self.coef is None else {"coef": self.coef, "intercept": self.intercept}
        weights = {weight_name(pair): values for pair, values in (self.layers.biases | self.layers.weights).items()}
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in (vars(self.scaling) | head | weights).items():
            if issparse(values):
                arrays |= {f"{name}.{part}": getattr(values, part) for part in PARTS}
            else:
                arrays[name] = values
        return arrays


class CSR(Format):
    """SciPy's sparse rows in an .npz file."""

    name = "csr"
    ending = ".npz"

    def make(self, model: Model, name: str = "model", weights: str = "float32") -> Export:
        made = to_csr(model, weights)
        content = made.to_bytes()
        layers = 4 * (sum(model.network.widths) + model.outputs)
        return Export(content, len(content), made.nbytes + layers)


def to_csr(model: Model, dtype: str = "float32") -> CSRModel:
    """All matrices as compressed sparse rows, the scaling in float64."""
    model, kind = model.checked(), np.dtype(dtype)
    return CSRModel(
        scaling=model.scaling,
        layers=SparseLayers.of(model.network, model.W, kind),
        coef=None if model.head is None else csr_array(model.head.coef.astype(kind)),
        intercept=None if model.head is None else model.head.intercept.astype(kind),
        classes=model.classes,
        sharpness=model.sharpness,
        columns=model.columns if model.encoding else None,
        link=model.link,
    )


def linear_scores(features: Floats, coef: csr_array, intercept: Floats) -> Floats:
    scores: Floats = (coef @ features.T).T + intercept
    return scores


def _parts(arrays: Arrays) -> dict[str, Any]:
    """The fields of a model from the arrays of a file, each checked."""
    header = arrays.json("header")
    if header["version"] not in (1, VERSION, LINKED):
        raise ValueError(f"it has version {header['version']}, and this tikhonet reads up to {LINKED}")
    network = network_from_header(header["network"])
    weights, biases = {}, {}
    for pair, edge in network.edges.items():
        name = weight_name(pair)
        if edge.constant:
            biases[pair] = _vector(arrays, name, edge.outputs)
        elif edge.learned or f"{name}.data" in arrays:
            weights[pair] = _matrix(arrays, name, (edge.outputs, edge.inputs))
    outputs, coef, intercept = network.widths[-1], None, None
    if "intercept" in arrays:
        intercept = _vector(arrays, "intercept")
        outputs = len(intercept)
        coef = _matrix(arrays, "coef", (outputs, network.widths[-1]))
    classes = tuple(header["classes"])
    if classes and (len(classes) != outputs or not all(isinstance(label, Label) for label in classes)):
        raise ValueError(f"classes must hold a number or a text for each of {outputs} scores, got {classes}")
    return {
        "scaling": Scaling(*(_vector(arrays, name, network.widths[0]).astype(np.float64) for name in VECTORS)),
        "layers": SparseLayers(network, weights, biases),
        "coef": coef,
        "intercept": intercept,
        "classes": classes,
        "sharpness": float(header["sharpness"]),
        "columns": columns_from_header(header.get("columns"), network),
        "link": Link.kinds[header.get("link", "identity")](),
    }


def _vector(arrays: Mapping[str, NDArray[Any]], name: str, length: int | None = None) -> NDArray[Any]:
    """Finite numbers, in one of the types that kernels know."""
    values = arrays[name]
    fits = values.ndim == 1 and length in (None, len(values))
    if not fits or values.dtype not in (np.float32, np.float64) or not np.isfinite(values).all():
        wanted = "n" if length is None else length
        raise ValueError(f"{name} must hold finite numbers of shape ({wanted},), got {values.dtype} of {values.shape}")
    return values


def _matrix(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, int]) -> csr_array:
    """Sparse rows whose places are all inside the matrix; SciPy's products would read and write outside of it."""
    indptr, indices = arrays[f"{name}.indptr"], arrays[f"{name}.indices"]
    data = _vector(arrays, f"{name}.data", len(indices))
    for part in (indptr, indices):
        if part.dtype not in (np.int32, np.int64) or part.dtype != indptr.dtype or part.ndim != 1:
            raise ValueError(f"the indices of {name} must be int32 or int64, got {part.dtype} of shape {part.shape}")
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"{name}.indptr must lead from 0 to {len(indices)} in {shape[0]} steps")
    if indices.size and not 0 <= indices.min() <= indices.max() < shape[1]:
        raise ValueError(f"{name}.indices must be from 0 to {shape[1] - 1}")
    return csr_array((data, indices, indptr), shape=shape)
