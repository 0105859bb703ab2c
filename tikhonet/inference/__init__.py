"""Prediction by the fastest kernel: dense, sparse rows of SciPy's, or sparse columns in compiled C."""

from tikhonet.inference.predictor import SPARSE_BELOW, Predictor

__all__ = ["SPARSE_BELOW", "Predictor"]
