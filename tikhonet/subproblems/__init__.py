"""Sec. 3.1: the three convex sub-problems of Alg. 1."""

from tikhonet.subproblems.classifier import update_classifier
from tikhonet.subproblems.convex import Solution
from tikhonet.subproblems.features import update_features
from tikhonet.subproblems.weights import update_weights

__all__ = ["Solution", "update_classifier", "update_features", "update_weights"]
