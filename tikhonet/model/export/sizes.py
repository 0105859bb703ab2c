"""How many bytes a model takes in each format, by making it.

On a device, flash holds the file or the constant arrays (the code comes on top) and RAM what one prediction needs. C
reads its weights from flash; torch, ONNX and SciPy hold them in RAM beside all layers, and need their own on top.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from tikhonet.model.export.c99 import to_c
from tikhonet.model.export.csr import to_csr
from tikhonet.model.export.forward import Forward
from tikhonet.model.export.onnx_graph import to_onnx
from tikhonet.model.export.torch_module import torch_program


@dataclass(frozen=True)
class Size:
    format: str
    flash: int
    ram: int
    complete: bool
    """Whether RAM is all that is needed; otherwise the runtime's own comes on top."""


def sizes(forward: Forward) -> list[Size]:
    """One entry for each format; ONNX only where its package is installed."""
    network = forward.network
    layers = 4 * (sum(network.widths) + forward.outputs)
    head = 0 if forward.coef is None else 4 * (forward.coef.size + forward.outputs)
    dense = 4 * sum(matrix.numel() for matrix in forward.W.values()) + head
    scaling = 8 * 4 * forward.inputs
    found = []
    for int8 in (True, False):
        made = to_c(forward, int8=int8)
        found.append(Size(f"c, {'int8' if int8 else 'float32'}", made.flash, made.ram, complete=True))
    csr = to_csr(forward)
    found.append(Size("csr", len(csr.to_bytes()), csr.nbytes + layers, complete=False))
    if importlib.util.find_spec("onnx") is not None:
        found.append(Size("onnx", to_onnx(forward).ByteSize(), dense + scaling + layers, complete=False))
    found.append(Size("torch", len(torch_program(forward)), dense + scaling + layers, complete=False))
    return found
