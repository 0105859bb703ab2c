"""How the files are laid out: IDX, the binary batches of CIFAR-10, and what they are packed in."""

from __future__ import annotations

import gzip
import io
import lzma
import math
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.reading import read_within

IDX_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_SHAPE = (3, 32, 32)
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)
"""Errors of reading a damaged or forbidden file."""

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


def unpack(packed: bytes) -> bytes:
    """The content of a gzip or xz file, told by its first bytes; any other content as it is."""
    if packed.startswith(_GZIP):
        return read_within(gzip.GzipFile(fileobj=io.BytesIO(packed)), len(packed))
    if packed.startswith(_XZ):
        return read_within(lzma.LZMAFile(io.BytesIO(packed)), len(packed))
    return packed


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The base names and contents of the files in a tar archive; nothing is written to disk."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if file := tar.extractfile(member) if member.isfile() else None:
                yield PurePosixPath(member.name).name, file.read()


def parse_idx(content: bytes) -> NDArray[Any]:
    """The array of an IDX file.

    2 zero bytes, 1 byte dtype, 1 byte number of axes, 4 bytes (big-endian) for each axis, then the values.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_DTYPES or content[3] == 0:
        raise ValueError("is not an IDX file: it must begin with two zero bytes, a dtype and a number of axes")
    dtype = np.dtype(IDX_DTYPES[content[2]])
    offset = 4 + 4 * content[3]
    if len(content) < offset:
        raise ValueError(f"is cut off: its header needs {offset} bytes, it has {len(content)}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", content[3], 4))
    declared = offset + math.prod(shape) * dtype.itemsize
    if declared != len(content):
        raise ValueError(f"declares {declared:,} bytes but has {len(content):,}")
    values = np.frombuffer(content, dtype, offset=offset).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def parse_cifar(content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (samples x 3 x 32 x 32) and labels of a binary batch: for each, 1 byte label, then the planes R, G, B."""
    width = 1 + math.prod(CIFAR_SHAPE)
    if not content or len(content) % width:
        raise ValueError(f"must hold records of {width} bytes, got {len(content):,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, width)
    return records[:, 1:].reshape(-1, *CIFAR_SHAPE), records[:, 0]


def pack_cifar(pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> bytes:
    """A binary batch from images whose pixels are interleaved (samples x 1024 x 3)."""
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()
