"""Trained networks in other forms: torch modules, ONNX, SciPy's sparse rows, C99."""

from tikhonet.model.export.c99 import CModel, c_name, to_c
from tikhonet.model.export.csr import CSRModel, to_csr
from tikhonet.model.export.forward import Forward
from tikhonet.model.export.onnx_graph import to_onnx
from tikhonet.model.export.sizes import Size, sizes
from tikhonet.model.export.torch_module import forward_module, to_torch, torch_program

__all__ = [
    "CModel",
    "CSRModel",
    "Forward",
    "Size",
    "c_name",
    "forward_module",
    "sizes",
    "to_c",
    "to_csr",
    "to_onnx",
    "to_torch",
    "torch_program",
]
