"""Reading files that may be damaged or hostile: one error, and no memory before it is known that the file is worth it.

What a file unpacks to may take `GROWTH` times its own size, and `FLOOR` bytes in any case. Sizes that a file declares
are compared with that, and with what it really holds, before anything of that size is made. Nothing in a file is ever
executed: arrays of objects, which would be pickles, are refused.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

GROWTH = 100
"""Real arrays are packed to a tenth or a fiftieth; deflate packs zeros to a thousandth."""
FLOOR = 2**27
PIECE = 2**20
OBJECTS = 40
"""Bytes of memory for one of JSON: `{},` has three, and takes 90."""
LONGEST = 300
"""Characters of another library's complaint that are passed on."""


class ModelFormatError(ValueError):
    """A model file is damaged, hostile or too new, or something cannot be put into one."""


@contextmanager
def refusing(what: str, remedy: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes a `ModelFormatError` of one line.

    Archives, their compression, NumPy, SciPy and scikit-learn have some twenty errors for content that cannot be.
    """
    try:
        yield
    except ImportError:  # of an optional package
        raise
    except Exception as error:
        raise ModelFormatError(f"{what}: {complaint(error)}; {remedy}") from None


def complaint(error: Exception) -> str:
    """The message of an error in one line of bounded length, or its kind where it has none."""
    return " ".join(str(error)[: 4 * LONGEST].split())[:LONGEST] or type(error).__name__


def allowed(held: int) -> int:
    """The bytes of memory that so many bytes of a file may take."""
    return max(FLOOR, GROWTH * held)


def check_growth(wanted: int, held: int) -> None:
    """Raise where so many bytes of memory are wanted for so many that are held."""
    if wanted > allowed(held):
        raise ModelFormatError(
            f"it would take {wanted:,} bytes of memory, and {held:,} bytes of a file may take {allowed(held):,}; "
            "save it without compression if that is what it holds"
        )


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """An ordinary file, to be read."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ModelFormatError(f"{path} must be a model file, got a folder or a device; name the file inside it")
    return path.open("rb")


class Arrays(Mapping[str, NDArray[Any]]):
    """The arrays of an .npz file by name, each read when it is asked for; together they stay within the growth."""

    def __init__(self, file: IO[bytes]) -> None:
        self._held = file.seek(0, os.SEEK_END)
        self._taken = 0
        self._archive = zipfile.ZipFile(file)
        self._members = {member.filename.removesuffix(".npy"): member for member in self._archive.infolist()}
        if len(self._members) < len(self._archive.infolist()):
            raise ModelFormatError("two of its arrays have one name")

    def __getitem__(self, name: str) -> NDArray[Any]:
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ModelFormatError(f"the array {name[:80]!r} is compressed in an unknown way")
        self._take(member.file_size)
        with self._archive.open(member) as stream:
            return read_array(stream, member.file_size)

    def json(self, name: str) -> Any:
        """The JSON that an array of bytes holds."""
        text = self[name].tobytes()
        self._take(OBJECTS * len(text))
        return parse_json(text)

    def _take(self, wanted: int) -> None:
        self._taken += wanted
        check_growth(self._taken, self._held)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """The array of an .npy file of this size, whose header must not declare more than that."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ModelFormatError(f"its .npy version {version} is unknown")
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = header(stream)
    wanted = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ModelFormatError("it holds pickled objects, which are never opened (allow_pickle is False)")
    if min(shape, default=0) < 0 or wanted > size - stream.tell():
        raise ModelFormatError(f"its header declares {dtype} of shape {str(shape)[:80]}, which it cannot hold")
    content = bytearray(stream.read())
    values = np.frombuffer(memoryview(content)[:wanted], dtype) if wanted else np.empty(0, dtype)
    return values.reshape(shape, order="F" if by_columns else "C")


def load_arrays(file: IO[bytes]) -> NDArray[Any] | Arrays:
    """The array of an .npy file, or those of an .npz file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    packed = file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    file.seek(0)
    return Arrays(file) if packed else read_array(file, size)


def inflate(packed: bytes) -> bytes:
    """The content of zlib's bytes, within the growth."""
    stream = zlib.decompressobj()
    content = stream.decompress(packed, allowed(len(packed)))
    if not stream.eof:
        raise ModelFormatError(f"its {len(packed):,} compressed bytes are cut off, or hold far more than they should")
    return content


def read_within(stream: Any, held: int) -> bytes:
    """All that a decompressing stream gives, within the growth of what is held."""
    content = bytearray()
    while piece := stream.read(PIECE):
        content += piece
        check_growth(len(content), held)
    return bytes(content)


def parse_json(text: str | bytes) -> Any:
    """JSON in which no key comes twice and every number is finite."""
    return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite, parse_int=_whole)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is not finite")
    return number


def _whole(text: str) -> int:
    _finite(text)
    return int(text)
