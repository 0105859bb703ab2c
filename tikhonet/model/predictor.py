"""Predictions with as little overhead as possible, by the fastest of three kernels.

"dense" is torch, "csr" is SciPy, "native" runs all steps of a prediction in one call of `native.c`. Only a user who
asks for "native" by name has it compiled: nothing else here starts a process. All of them give the same scores up to
rounding.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from tikhonet.model.export.csr import to_csr
from tikhonet.model.export.program import Add, Clip, Load, Multiply, Put, Slide, Step, Vector, compile_model
from tikhonet.model.kernels import Fastest, Kernel, operator_rows
from tikhonet.model.model import SPARSE_BELOW, Model, as_inputs, single
from tikhonet.model.scaling import Floats

KERNELS = ("dense", "csr", "native")
DTYPES = ("float32", "float64")
SOURCE = Path(__file__).with_name("native.c")
FLAGS = ("-std=c99", "-O3", "-shared", "-fPIC")
TIMEOUT = 60.0
"""Seconds; a compiler takes less than one."""
KINDS = ("load", "zero", "put", "add", "sparse", "dense", "clip")
"""The kinds of steps that `native.c` knows, in its order."""
DENSE_FROM = 0.5
"""With this share of nonzeros, a column's places cost more than the zeros that they spare."""


class Predictor(Fastest):
    """Scores of a trained network for one row or many.

    kernel  "auto"    the faster of "dense" and "csr", measured on the first rows
            "dense"   torch
            "csr"     SciPy's sparse rows
            "native"  a C kernel in float32, often the fastest for sparse networks. Asking for it runs the C compiler
                      `cc` that is first on PATH, once in a process, and loads what that made; a RuntimeError where it
                      fails or takes more than a minute. A pickled predictor asks for it again where it is loaded.
    """

    def __init__(self, model: Model, kernel: str = "auto", dtype: str = "float32") -> None:
        if kernel not in ("auto", *KERNELS):
            raise ValueError(f"kernel must be one of auto, {', '.join(KERNELS)}, got {kernel!r}")
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        if kernel == "native" and dtype != "float32":
            raise ValueError('dtype must be "float32" for kernel="native", got "float64"; use kernel="csr"')
        if kernel == "native":
            library()
        self.model, self.kernel, self.dtype = model.checked(), kernel, dtype
        names: tuple[str, ...] = (kernel,)
        if kernel == "auto":
            names = ("dense",) if model.nonzero >= SPARSE_BELOW else ("dense", "csr")
        super().__init__({name: partial(self._make, name) for name in names})

    def __call__(self, X: Any) -> Floats:
        """The scores: one row for each row of X, a vector for a vector."""
        x = as_inputs(X, self.model.inputs, self.model.encoding)
        rows = x[None] if x.ndim == 1 else x
        if not len(rows):
            return np.empty((0, self.model.outputs), self.dtype)
        scores = super().__call__(rows)
        return scores[0] if x.ndim == 1 else scores

    def predict(self, X: Any) -> Any:
        """Labels where there are classes, else the scores."""
        return self.model.labels(self(X))

    def _make(self, name: str) -> Kernel:
        if name == "dense":
            inner = replace(self.model.astype(self.dtype), columns=None)  # the rows that kernels get are encoded
            return partial(inner.dense_scores, dtype=self.dtype)
        return NativeKernel(self.model) if name == "native" else to_csr(self.model, self.dtype).kernel

    def __reduce__(self) -> tuple[Any, ...]:
        """Another machine measures for itself."""
        return Predictor, (self.model, self.kernel, self.dtype)


class CStep(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("length", ctypes.c_int32),
        ("columns", ctypes.c_int32),
        ("to", ctypes.c_int64),
        ("source", ctypes.c_int64),
        ("first", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("origin", ctypes.c_void_p),
        ("lower", ctypes.c_float),
        ("upper", ctypes.c_float),
    )


class CScaling(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("shift", "inverse", "low", "high"))


@cache
def library() -> Any:
    """The kernel, compiled and loaded."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError('kernel="native" needs a C compiler named cc, and found none; use kernel="csr"')
    try:
        with tempfile.TemporaryDirectory(prefix="tikhonet-", ignore_cleanup_errors=True) as folder:
            target = Path(folder, "native.so")
            subprocess.run([compiler, *FLAGS, "-o", target, SOURCE], check=True, capture_output=True, timeout=TIMEOUT)
            found = ctypes.CDLL(str(target))
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f'kernel="native" could not be compiled by {compiler} ({error}); use kernel="csr"') from None
    pointer, short, long = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    found.tikhonet_run.argtypes = (pointer, short, pointer, long, short, short, *[pointer] * 5)
    found.tikhonet_run.restype = None
    return found


class NativeKernel:
    """Scores in float32. Calls may overlap: each has its own block of memory."""

    def __init__(self, model: Model) -> None:
        program, self.link = compile_model(model), model.link
        self.inputs, self.outputs = model.inputs, model.outputs
        self.length, self.widest = program.length, max(model.network.widths)
        self._kept: list[NDArray[Any]] = []  # the C side has pointers into these
        scaling = model.scaling
        self.shift, self.fills = scaling.shift, model.encoding is not None
        inverse = 1 / scaling.scale
        origin = (np.clip(0.0, scaling.low, scaling.high) - scaling.shift) * inverse  # as native.c computes it
        self._origin = self._keep(origin, np.float32)
        self._steps = (CStep * len(program.steps))(*map(self._step, program.steps))
        vectors = scaling.shift, inverse, scaling.low, scaling.high
        self._scaling = CScaling(*(self._keep(vector, np.float64) for vector in vectors))
        self._run = library().tikhonet_run

    def __call__(self, X: Floats) -> Floats:
        x = np.ascontiguousarray(X, np.float64)
        if self.fills and np.isnan(x).any():
            x = np.where(np.isnan(x), self.shift, x)
        scores = np.empty((len(x), self.outputs), np.float32)
        block = np.empty(self.length + 2 * self.widest, np.float32)
        start = block.ctypes.data
        active, factor = start + 4 * self.length, start + 4 * (self.length + self.widest)
        places = x.ctypes.data, scores.ctypes.data, start, active, factor
        scaling = ctypes.addressof(self._scaling)
        self._run(self._steps, len(self._steps), scaling, len(x), self.inputs, self.outputs, *places)
        return self.link(scores)

    def _step(self, step: Step) -> CStep:
        match step:
            case Multiply():
                return self._product(step, step.matrix)
            case Slide():
                return self._product(step, operator_rows(step.edge, step.weights, np.float64))
            case Load():
                return made("load", step)
            case Put(source=None):
                return made("zero", step)
            case Put(source=source) | Add(source=source) if source is not None:
                kind = "put" if isinstance(step, Put) else "add"
                if isinstance(source, Vector):
                    values = single(source.name, source.values).repeat(source.each)
                    return made(kind, step, value=self._keep(values, np.float32))
                return made(kind, step, source=source)
            case Clip():
                return made("clip", step, lower=step.lower, upper=step.upper)
        raise AssertionError(step)

    def _product(self, step: Multiply | Slide, matrix: Floats | csr_array) -> CStep:
        rows, columns = matrix.shape
        common = {"length": rows, "columns": columns, "to": step.to, "source": step.source}
        if step.of_input:
            common["origin"] = self._origin
        compressed = csc_array(matrix)
        single(step.name, compressed.data)
        if compressed.nnz >= DENSE_FROM * rows * columns:
            return CStep(KINDS.index("dense"), **common, value=self._keep(compressed.toarray().T, np.float32))
        return CStep(
            KINDS.index("sparse"),
            **common,
            first=self._keep(compressed.indptr, np.int32),
            row=self._keep(compressed.indices, np.int32),
            value=self._keep(compressed.data, np.float32),
        )

    def _keep(self, values: NDArray[Any], kind: Any) -> int:
        """The address of a copy that lives as long as the kernel."""
        self._kept.append(np.array(values, kind, order="C"))
        return self._kept[-1].ctypes.data


def made(kind: str, step: Load | Put | Add | Clip, **more: float) -> CStep:
    return CStep(KINDS.index(kind), step.length, to=step.to, **more)
