"""SciPy's compressed sparse rows: the network for programs that have NumPy and SciPy and nothing else.

The file is an ordinary .npz without pickled objects: a JSON header (as bytes), and for each matrix `W.2.1` the arrays
`W.2.1.data`, `W.2.1.indices` and `W.2.1.indptr`; the head is `coef`, biases and the scaling are plain vectors.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tikhonet.model.export.forward import Floats, Forward, Label, as_inputs, check
from tikhonet.model.storage import (
    ModelFormatError,
    network_from_header,
    network_header,
    parse_weight_name,
    weight_name,
    write_atomically,
)
from tikhonet.network.graph import BIAS, Network, Pair

VERSION = 1
SCALING = ("shift", "scale", "low", "high")
PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True, eq=False, kw_only=True)
class CSRModel:
    """Weights and head as `csr_array`s, biases and the four vectors of the input scaling as arrays."""

    network: Network
    weights: dict[Pair, csr_array]
    biases: dict[int, Floats]
    scaling: dict[str, Floats]
    coef: csr_array | None
    intercept: Floats | None
    classes: tuple[Label, ...] = ()
    sharpness: float = 1.0

    def features(self, X: Any) -> Floats:
        """The last hidden layer, samples x width, in the type of the weights."""
        return self._features(np.atleast_2d(as_inputs(X, self.network.widths[0])))

    def _features(self, x: Floats) -> Floats:
        last = self._layers(x[0] if len(x) == 1 else x)[self.network.depth]
        return last.T.reshape(len(x), self.network.widths[-1])

    def _layers(self, x: Floats) -> dict[int, Floats]:
        """All layers, a column for each row of x; for a single row vectors, which SciPy multiplies faster."""
        shift, scale, low, high = (self.scaling[name] for name in SCALING)
        scaled = (np.minimum(np.maximum(x, low), high) - shift) / scale
        U = {0: np.ascontiguousarray(scaled.T, self.dtype)}
        for n in self.network.hidden:
            terms = [self._term(n, m, U) for m in self.network.sources(n)]
            Z = terms[0] + terms[1] if len(terms) > 1 else terms[0]
            for term in terms[2:]:
                Z += term
            U[n] = np.maximum(Z, 0)
        return U

    def _term(self, n: int, m: int, U: Mapping[int, Floats]) -> Any:
        if m == BIAS:
            return self.biases[n] if U[0].ndim == 1 else self.biases[n][:, None]
        return self.weights[n, m] @ U[m] if (n, m) in self.weights else U[m]

    @property
    def nbytes(self) -> int:
        """Of all arrays in memory."""
        matrices = [*self.weights.values(), *([] if self.coef is None else [self.coef])]
        arrays = [getattr(matrix, part) for matrix in matrices for part in PARTS]
        vectors = [*self.biases.values(), *self.scaling.values(), *([] if self.intercept is None else [self.intercept])]
        return sum(array.nbytes for array in [*arrays, *vectors])

    @property
    def dtype(self) -> Any:
        return next(iter(self.weights.values())).dtype if self.weights else np.dtype(np.float32)

    def scores(self, X: Any) -> Floats:
        """One row for each row of X: scores of the classes, outputs, or features."""
        return self.kernel(np.atleast_2d(as_inputs(X, self.network.widths[0])))

    def kernel(self, x: Floats) -> Floats:
        """`scores` of a float64 matrix that was checked before."""
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
        arrays = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **self.scaling}
        matrices = {weight_name(edge): matrix for edge, matrix in self.weights.items()}
        if self.coef is not None and self.intercept is not None:
            matrices["coef"], arrays["intercept"] = self.coef, self.intercept
        arrays |= {weight_name((n, BIAS)): bias for n, bias in self.biases.items()}
        for name, matrix in matrices.items():
            arrays |= {f"{name}.{part}": getattr(matrix, part) for part in PARTS}
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        write_atomically(Path(path), (self.to_bytes(),))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model that `save` wrote; `ModelFormatError` for any other file."""
        with Path(path).open("rb") as raw:
            try:
                with np.load(raw, allow_pickle=False) as file:
                    return cls(**_parts(dict(file)))
            except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile) as error:
                raise ModelFormatError(f"{path} is not a whole CSR model: {error}; export it again") from None


def to_csr(forward: Forward, dtype: str = "float32") -> CSRModel:
    """All matrices as compressed sparse rows, the scaling in float64."""
    kind = np.dtype(dtype)
    matrices = {edge: forward.matrix(edge).astype(kind) for edge in forward.W}
    return CSRModel(
        network=forward.network,
        weights={edge: csr_array(matrix) for edge, matrix in matrices.items() if edge[1] != BIAS},
        biases={edge[0]: matrix[:, 0] for edge, matrix in matrices.items() if edge[1] == BIAS},
        scaling={name: getattr(forward, name) for name in SCALING},
        coef=None if forward.coef is None else csr_array(forward.coef.astype(kind)),
        intercept=None if forward.intercept is None else forward.intercept.astype(kind),
        classes=forward.classes,
        sharpness=forward.sharpness,
    )


def _parts(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The fields of a model from the arrays of a file, each checked."""
    header = json.loads(arrays["header"].tobytes())
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']}, and this tikhonet reads {VERSION}")
    network = network_from_header(header["network"])
    weights, biases = {}, {}
    for edge in network.learned:
        name = weight_name(edge)
        if edge[1] == BIAS:
            biases[edge[0]] = arrays[name]
            check(name, arrays[name], (network.widths[edge[0]],))
        else:
            weights[parse_weight_name(name)] = _matrix(arrays, name, network.shape(edge))
    for name in SCALING:
        check(name, arrays[name], (network.widths[0],))
    intercept = arrays.get("intercept")
    coef = None if intercept is None else _matrix(arrays, "coef", (len(intercept), network.widths[-1]))
    classes = tuple(header["classes"])
    if classes and len(classes) != (network.widths[-1] if intercept is None else len(intercept)):
        raise ValueError(f"there are {len(classes)} classes for another number of scores")
    return {
        "network": network,
        "weights": weights,
        "biases": biases,
        "scaling": {name: arrays[name] for name in SCALING},
        "coef": coef,
        "intercept": intercept,
        "classes": classes,
        "sharpness": float(header["sharpness"]),
    }


def _matrix(arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, int]) -> csr_array:
    parts = [arrays[f"{name}.{part}"] for part in PARTS]
    check(name, parts[0], parts[1].shape)
    matrix = csr_array(tuple(parts), shape=shape)
    matrix.check_format(full_check=True)
    return matrix
