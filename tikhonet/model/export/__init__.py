"""Trained networks in other forms: torch modules, ONNX, SciPy's sparse rows, C99."""

from tikhonet.model.export.c_source import CModel, to_c
from tikhonet.model.export.c_text import c_name
from tikhonet.model.export.csr import CSRModel, to_csr
from tikhonet.model.export.format import Export, Format, Size, formats, sizes
from tikhonet.model.export.onnx_graph import to_onnx
from tikhonet.model.export.torch_module import TorchNetwork, to_torch, torch_program

__all__ = [
    "CModel",
    "CSRModel",
    "Export",
    "Format",
    "Size",
    "TorchNetwork",
    "c_name",
    "formats",
    "sizes",
    "to_c",
    "to_csr",
    "to_onnx",
    "to_torch",
    "torch_program",
]
