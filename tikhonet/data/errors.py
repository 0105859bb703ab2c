"""The one exception of this package, and its one warning."""

from __future__ import annotations


class DataError(RuntimeError):
    """Data cannot be found, read, fetched or saved; the message is one line that names the file and the remedy."""


class DataWarning(UserWarning):
    """A damaged file was refused, and its content taken from elsewhere."""
