"""The useful pieces of the trainer for a PyTorch module of one's own: its metric and its exact last layer."""

from tikhonet.optim.gram_descent import GramDescent
from tikhonet.optim.last_layer import LastLayer
from tikhonet.optim.linear_inputs import LinearInputs

__all__ = ["GramDescent", "LastLayer", "LinearInputs"]
