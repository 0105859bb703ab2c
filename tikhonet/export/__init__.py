"""Trained networks in other forms."""

from tikhonet.export.torch_module import to_torch

__all__ = ["to_torch"]
