"""The compiled kernel: all steps of a prediction in one call of `native.c`, which is compiled when first needed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from tikhonet.model.export.forward import Floats, Forward, single
from tikhonet.model.export.program import Add, AddVector, Copy, Load, Product, Relu, Start, Step, compile_forward

SOURCE = Path(__file__).with_name("native.c")
FLAGS = ("-std=c99", "-O3", "-shared", "-fPIC")
KINDS = ("load", "zero", "start", "add_vector", "copy", "add", "sparse", "dense", "relu")
DENSE_FROM = 0.5
"""With this share of nonzeros, a column's places cost more than the zeros that they spare."""


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
    )


class CScaling(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("shift", "inverse", "low", "high"))


@cache
def library() -> Any:
    """The compiled kernel; None where there is no C compiler, or it fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tikhonet-") as folder:
        target = Path(folder, "native.so")
        try:
            subprocess.run([compiler, *FLAGS, "-o", target, SOURCE], check=True, capture_output=True, timeout=60)
            found = ctypes.CDLL(str(target))
        except (OSError, subprocess.SubprocessError):
            return None
    pointer, short, long = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    found.tikhonet_run.argtypes = (pointer, short, pointer, long, short, short, *[pointer] * 5)
    found.tikhonet_run.restype = None
    return found


class NativeKernel:
    """Scores in float32. Calls may overlap: each has its own block of memory."""

    def __init__(self, forward: Forward) -> None:
        program = compile_forward(forward)
        self.inputs, self.outputs = forward.inputs, forward.outputs
        self.length, self.widest = program.length, max(forward.network.widths)
        self._kept: list[NDArray[Any]] = []  # the C side has pointers into these
        inverse = 1 / forward.scale
        origin = (np.clip(0.0, forward.low, forward.high) - forward.shift) * inverse  # as native.c computes it
        self._origin = self._keep(origin, np.float32)
        self._steps = (CStep * len(program.steps))(*map(self._step, program.steps))
        vectors = forward.shift, inverse, forward.low, forward.high
        self._scaling = CScaling(*(self._keep(vector, np.float64) for vector in vectors))
        self._run = library().tikhonet_run

    def __call__(self, X: Floats) -> Floats:
        x = np.ascontiguousarray(X, np.float64)
        scores = np.empty((len(x), self.outputs), np.float32)
        block = np.empty(self.length + 2 * self.widest, np.float32)
        start = block.ctypes.data
        active, factor = start + 4 * self.length, start + 4 * (self.length + self.widest)
        places = x.ctypes.data, scores.ctypes.data, start, active, factor
        scaling = ctypes.addressof(self._scaling)
        self._run(self._steps, len(self._steps), scaling, len(x), self.inputs, self.outputs, *places)
        return scores

    def _step(self, step: Step) -> CStep:
        match step:
            case Product():
                return self._product(step)
            case Load():
                return made("load", step)
            case Start(values=None):
                return made("zero", step)
            case Start(values=values) | AddVector(values=values) if values is not None:
                kind = "start" if isinstance(step, Start) else "add_vector"
                return made(kind, step, value=self._keep(single(step.name, values), np.float32))
            case Copy():
                return made("copy", step, source=step.source)
            case Add():
                return made("add", step, source=step.source)
            case Relu():
                return made("relu", step)
        raise AssertionError(step)

    def _product(self, step: Product) -> CStep:
        matrix = single(step.name, step.matrix)
        rows, columns = matrix.shape
        common = {"length": rows, "columns": columns, "to": step.to, "source": step.source}
        if step.of_input:
            common["origin"] = self._origin
        if np.count_nonzero(matrix) >= DENSE_FROM * matrix.size:
            return CStep(KINDS.index("dense"), **common, value=self._keep(matrix.T, np.float32))
        compressed = csc_array(matrix)
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


def made(kind: str, step: Load | Start | AddVector | Copy | Add | Relu, **more: int) -> CStep:
    return CStep(KINDS.index(kind), step.length, to=step.to, **more)
