"""Where a warning points: the line of the user's that called."""

from __future__ import annotations

import sys

LIBRARIES = ("tikhonet", "sklearn", "joblib")


def users_level() -> int:
    """The `stacklevel` for a warning by the caller to point at the line outside of these libraries."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in LIBRARIES:
        frame, level = frame.f_back, level + 1
    return level
