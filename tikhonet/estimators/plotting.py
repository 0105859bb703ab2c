"""The course of a fit, drawn on given axes."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from tikhonet.descent.result import History
from tikhonet.trainer.training import Epoch


def plot_history(history: History | list[Epoch], ax: Axes | None = None) -> Axes:
    """The objective by iteration, or the loss by epoch with the held-out loss and error where there are any."""
    ax = plt.subplots()[1] if ax is None else ax
    if isinstance(history, History):
        ax.plot(history.objective, label="objective (Eq. 4)")
        ax.set(xlabel="iteration", ylabel="objective", yscale="log")
    else:
        epochs = [epoch.number for epoch in history]
        loss, held_out, error = (
            np.array([getattr(epoch, name) for epoch in history])
            for name in ("loss", "validation_loss", "validation_error")
        )
        ax.plot(epochs, loss, label="training loss")
        if (held_out != loss).any():
            ax.plot(epochs, held_out, label="validation loss")
        if np.isfinite(error).any():
            ax.plot(epochs, error, "--", label="validation error")
        ax.set(xlabel="epoch", ylabel="loss", yscale="log")
    ax.legend()
    return ax
