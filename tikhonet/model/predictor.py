"""Which kernel is the fastest depends on the network, the number of rows and the machine: so it is measured.

The first call with about so many rows times the kernels on these rows; later calls use the winner. All of them give
the same scores up to rounding.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.dense_kernel import DenseKernel
from tikhonet.model.export.csr import to_csr
from tikhonet.model.export.forward import Floats, Forward, as_inputs
from tikhonet.model.native_kernel import NativeKernel, library

Kernel = Callable[[Floats], Floats]

KERNELS = ("dense", "csr", "native")
DTYPES = ("float32", "float64")
SPARSE_BELOW = 0.3
"""With more nonzeros than this share no sparse kernel wins, and none is tried."""
SIZES = (1, 16, 256)
"""Numbers of rows between which one measurement holds."""
ROUNDS = 3


class Predictor:
    """Scores of a trained network for one row or many; `kernel` forces one of "dense", "csr" and "native".

    "native" is float32 only and needs a C compiler `cc` when it is first used.
    """

    def __init__(self, forward: Forward, kernel: str = "auto", dtype: str = "float32") -> None:
        if kernel not in ("auto", *KERNELS):
            raise ValueError(f"kernel must be one of auto, {', '.join(KERNELS)}, got {kernel!r}")
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        if kernel == "native" and dtype != "float32":
            raise ValueError('dtype must be "float32" for kernel="native", got "float64"; use kernel="csr"')
        if kernel == "native" and library() is None:
            raise RuntimeError('kernel="native" needs a C compiler named cc, and found none; use kernel="csr"')
        self.forward, self.kernel, self.dtype = forward, kernel, dtype
        self.seconds: dict[int, dict[str, float]] = {}
        """What was measured: for each entry of SIZES (the last for all above) seconds of each kernel."""
        self._kernels: dict[str, Kernel] = {}
        self._chosen: dict[int, str] = {}
        self._labels: NDArray[Any] = np.array(forward.classes)

    def __call__(self, X: Any) -> Floats:
        """The scores: one row for each row of X, a vector for a vector."""
        x = as_inputs(X, self.forward.inputs)
        rows = x[None] if x.ndim == 1 else x
        if not len(rows):
            return np.empty((0, self.forward.outputs), self.dtype)
        scores = self._get(self.choose(rows))(rows)
        return scores[0] if x.ndim == 1 else scores

    def predict(self, X: Any) -> Any:
        """Labels where there are classes, else the scores."""
        scores = self(X)
        return self._labels[scores.argmax(-1)] if self.forward.classes else scores

    def choose(self, rows: Floats) -> str:
        """The kernel for so many rows; the first time it is found by running all on (some of) these."""
        if self.kernel != "auto":
            return self.kernel
        size = bisect_left(SIZES, len(rows))
        if size not in self._chosen:
            self._chosen[size] = self._measure(rows[: 4 * SIZES[-1]], size)
        return self._chosen[size]

    def _measure(self, rows: Floats, size: int) -> str:
        candidates = self._candidates()
        if len(candidates) == 1:
            return candidates[0]
        seconds = dict.fromkeys(candidates, float("inf"))
        for name in candidates:
            self._get(name)(rows)  # kernels are built, caches are warm
        for _ in range(ROUNDS):
            for name in candidates:
                start = time.perf_counter()
                self._get(name)(rows)
                seconds[name] = min(seconds[name], time.perf_counter() - start)
        self.seconds[size] = seconds
        return min(seconds, key=seconds.__getitem__)

    def _candidates(self) -> tuple[str, ...]:
        if self.forward.nonzero >= SPARSE_BELOW:
            return ("dense",)
        return KERNELS if self.dtype == "float32" and library() is not None else ("dense", "csr")

    def _get(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._kernels[name] = self._make(name)
        return self._kernels[name]

    def _make(self, name: str) -> Kernel:
        if name == "csr":
            return to_csr(self.forward, self.dtype).kernel
        return NativeKernel(self.forward) if name == "native" else DenseKernel(self.forward, self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another machine measures for itself."""
        return Predictor, (self.forward, self.kernel, self.dtype)
