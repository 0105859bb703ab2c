"""SciPy's compressed sparse rows: the network for programs that have NumPy and SciPy and nothing else.

The file is an ordinary .npz without pickled objects: a JSON header (as bytes), and for each matrix `W.2.1` the arrays
`W.2.1.data`, `W.2.1.indices` and `W.2.1.indptr`; the head is `coef`, biases and the scaling are plain vectors.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tikhonet.model.export.format import Export, Format
from tikhonet.model.kernels import SparseLayers
from tikhonet.model.model import Label, Model, as_inputs
from tikhonet.model.model_file import VECTORS, network_from_header, network_header, weight_name
from tikhonet.model.scaling import Floats, Scaling
from tikhonet.model.storage import ModelFormatError, open_file, parse_json, write_atomically
from tikhonet.network.graph import Network

VERSION = 2
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

    @property
    def network(self) -> Network:
        return self.layers.network

    @property
    def matrices(self) -> dict[str, csr_array]:
        """Weights and head by the names that they have in a file."""
        named = {weight_name(pair): matrix for pair, matrix in self.layers.weights.items()}
        return named if self.coef is None else named | {"coef": self.coef}

    @property
    def vectors(self) -> dict[str, Floats]:
        """Scaling, intercept and biases by the names that they have in a file."""
        intercept = {} if self.intercept is None else {"intercept": self.intercept}
        biases = {weight_name(pair): bias for pair, bias in self.layers.biases.items()}
        return vars(self.scaling) | intercept | biases

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays in memory."""
        return sum(array.nbytes for array in self._arrays().values())

    @property
    def dtype(self) -> Any:
        return next(iter(self.layers.weights.values())).dtype if self.layers.weights else np.dtype(np.float32)

    def features(self, X: Any) -> Floats:
        """The last hidden layer, samples x width, in the type of the weights."""
        return self._features(np.atleast_2d(as_inputs(X, self.network.widths[0])))

    def scores(self, X: Any) -> Floats:
        """One row for each row of X: scores of the classes, outputs, or features."""
        return self.kernel(np.atleast_2d(as_inputs(X, self.network.widths[0])))

    def kernel(self, x: Floats) -> Floats:
        """The scores of a float64 matrix that was checked before."""
        features = self._features(x)
        if self.coef is None or self.intercept is None:
            return features
        scores: Floats = (self.coef @ features.T).T + self.intercept
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels where there are classes, else the scores."""
        scores = self.scores(X)
        return np.array(self.classes)[scores.argmax(1)] if self.classes else scores

    def to_bytes(self) -> bytes:
        """The content of the file; equal models give equal bytes."""
        header = {
            "version": VERSION,
            "network": network_header(self.network),
            "classes": list(self.classes),
            "sharpness": self.sharpness,
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
        with open_file(path) as raw:
            try:
                with np.load(raw, allow_pickle=False) as file:
                    return cls(**_parts(dict(file)))
            except Exception as error:  # archives, their compression, NumPy and SciPy have some ten errors for damage
                raise ModelFormatError(f"{path} is not a whole CSR model: {error}; export it again") from None

    def _features(self, x: Floats) -> Floats:
        return self.layers.features(self.scaling(x, self.dtype))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        parts = {f"{name}.{part}": getattr(matrix, part) for name, matrix in self.matrices.items() for part in PARTS}
        return self.vectors | parts


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
    )


def _parts(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The fields of a model from the arrays of a file, each checked."""
    header = parse_json(arrays["header"].tobytes())
    if header["version"] not in (1, VERSION):
        raise ValueError(f"it has version {header['version']}, and this tikhonet reads up to {VERSION}")
    network = network_from_header(header["network"])
    weights, biases = {}, {}
    for pair, edge in network.edges.items():
        name = weight_name(pair)
        if edge.constant:
            biases[pair] = _checked(arrays, name, (edge.outputs,))
        elif edge.learned or f"{name}.data" in arrays:
            weights[pair] = _matrix(arrays, name, (edge.outputs, edge.inputs))
    outputs, coef, intercept = network.widths[-1], None, None
    if "intercept" in arrays:
        outputs = arrays["intercept"].size
        intercept = _checked(arrays, "intercept", (outputs,))
        coef = _matrix(arrays, "coef", (outputs, network.widths[-1]))
    classes = tuple(header["classes"])
    if classes and (len(classes) != outputs or not all(isinstance(label, Label) for label in classes)):
        raise ValueError(f"classes must hold a number or a text for each of {outputs} scores, got {classes}")
    return {
        "scaling": Scaling(*(_checked(arrays, name, (network.widths[0],)) for name in VECTORS)),
        "layers": SparseLayers(network, weights, biases),
        "coef": coef,
        "intercept": intercept,
        "classes": classes,
        "sharpness": float(header["sharpness"]),
    }


def _checked(arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    values = arrays[name]
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers of shape {shape}, got shape {values.shape} or NaN, infinity")
    return values


def _matrix(arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, int]) -> csr_array:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in PARTS)
    _checked(arrays, f"{name}.data", indices.shape)
    matrix = csr_array((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix
