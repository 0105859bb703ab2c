"""C99 for small devices."""

from tikhonet.model.export.c99.names import c_name
from tikhonet.model.export.c99.source import CModel, to_c

__all__ = ["CModel", "c_name", "to_c"]
