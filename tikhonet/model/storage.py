"""Model files: named tensors and a JSON header in one safetensors file, sealed by a SHA-256.

    8 bytes   length of the safetensors header
    header    {"__metadata__": {"tikhonet": SEAL}, name: {dtype, shape, data_offsets}, ...}
    data      the tensors

SEAL is the text `{"sha256": ..., "version": 2, "header": {...}}`; version 1 is what tikhonet 0.1 wrote, and is read.
The SHA-256 is that of the whole file with its own 64 characters, which stand at a fixed place, read as zeros: no bit
can change unnoticed. It tells damage, not authorship. Equal content gives equal bytes. Nothing in a file is
ever executed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as serialise_tensors
from torch import Tensor

from tikhonet.model.reading import ModelFormatError as ModelFormatError
from tikhonet.model.reading import complaint, open_file, parse_json

VERSION = 2
MAX_HEADER = 16 * 2**20
"""Bytes of a safetensors header; what JSON of this size expands to still fits a small machine."""
DTYPES = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}

_NO_DIGEST = b"0" * 64
_LENGTH = 8
_OPENING = b'{"__metadata__":{"tikhonet":"{\\"sha256\\":\\"'
_DIGEST = slice(_LENGTH + len(_OPENING), _LENGTH + len(_OPENING) + len(_NO_DIGEST))


def save(path: str | os.PathLike[str], header: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model file, whole or not at all; what was at `path` before stays until the new file is complete."""
    seal = f'{{"sha256":"{_NO_DIGEST.decode()}","version":{VERSION},"header":{_header_text(header)}}}'
    on_cpu = {name: _storable(name, tensor) for name, tensor in tensors.items()}
    raw = serialise_tensors(on_cpu, {"tikhonet": seal})
    length = int.from_bytes(raw[:_LENGTH], "little")
    if length > MAX_HEADER:
        raise ModelFormatError(
            f"header and tensor names must fit {MAX_HEADER:,} bytes, got {length:,}; put long lists into tensors"
        )
    assert raw[_LENGTH : _DIGEST.start] == _OPENING
    view = memoryview(raw)
    write_atomically(Path(path), (view[: _DIGEST.start], _digest(raw), view[_DIGEST.stop :]))


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors, on the CPU, of a file that `save` wrote; `ModelFormatError` for any other."""
    with open_file(path) as file:
        try:
            return _read(file, os.fstat(file.fileno()).st_size)
        except ModelFormatError as error:
            raise ModelFormatError(f"{path} {error}") from None


def _header_text(header: dict[str, Any]) -> str:
    try:
        text = json.dumps(header, sort_keys=True, allow_nan=False, separators=(",", ":"))
        faithful = parse_json(text) == header
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFormatError(f"header must be plain JSON with finite numbers, got {error}") from None
    if not faithful or not isinstance(header, dict):
        raise ModelFormatError("header must be a dict of plain JSON, with lists rather than tuples and text as keys")
    return text


def _storable(name: object, tensor: object) -> Tensor:
    """A dense copy on the CPU; a copy, because safetensors refuses tensors that share memory."""
    if not isinstance(name, str) or not name or not name.isprintable() or name == "__metadata__":
        raise ModelFormatError(f"tensors must have printable names other than '__metadata__', got {name!r}")
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.dtype not in DTYPES.values():
        kind = f"{tensor.layout}, {tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES.values())
        raise ModelFormatError(f"tensors[{name!r}] must be a dense tensor of {allowed}, got {kind}; convert it first")
    if not _is_finite(tensor):
        raise ModelFormatError(
            f"tensors[{name!r}] must hold finite numbers, got NaN or infinity; the training diverged"
        )
    return tensor.detach().to("cpu", copy=True).contiguous()


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def write_atomically(path: Path, parts: tuple[bytes | memoryview, ...]) -> None:
    """The file appears complete under its name, or not at all; one that is replaced leaves its permissions to it."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder {target.parent} does not exist; make it first", str(path))
    if target.exists() and not target.is_file():
        number, kind = (errno.EISDIR, "a folder") if target.is_dir() else (errno.EINVAL, "a device or a pipe")
        raise OSError(number, f"must be a file or not exist, got {kind}; name another file", str(path))
    with _temporary(target) as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
        if os.name == "nt":
            file.close()  # Windows does not rename an open file; elsewhere the lock is kept until the end
        os.replace(file.name, target)
    if hasattr(os, "O_DIRECTORY"):  # the new name, too, is to survive a power cut; Windows has no such call
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _temporary(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside the target, locked until it is closed; those that killed processes left are removed."""
    beginning = f".tikhonet-{hashlib.sha256(target.name.encode(errors='surrogateescape')).hexdigest()[:16]}-"
    for left in target.parent.glob(f"{beginning}*.tmp"):
        with suppress(OSError), left.open("rb") as file:
            if lock(file):  # its process is no more
                left.unlink()
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    while True:
        temporary = target.with_name(f"{beginning}{secrets.token_hex(8)}.tmp")
        opener = partial(os.open, mode=0o666 if mode is None else 0o600)
        with open(temporary, "xb", opener=opener) as file:
            lock(file, wait=True)
            if not os.fstat(file.fileno()).st_nlink:
                continue  # another process took it for one that was left, before it was locked
            try:
                if mode is not None:
                    os.chmod(temporary, mode)
                yield file
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            return


def lock(file: IO[bytes], wait: bool = False) -> bool:
    """Whether this process now holds the only lock on the file; it ends with the process or with the file."""
    try:
        import fcntl
    except ImportError:
        return True  # on Windows an open file cannot be removed, so none needs a lock
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _digest(raw: bytes) -> bytes:
    view = memoryview(raw)
    digest = hashlib.sha256(view[: _DIGEST.start])
    digest.update(_NO_DIGEST)
    digest.update(view[_DIGEST.stop :])
    return digest.hexdigest().encode()


def _unusable(what: str) -> ModelFormatError:
    return ModelFormatError(f"{what}; use another copy of it, or save the model again")


def _read(file: IO[bytes], size: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Lengths are compared with the file's own size before anything of that length is read."""
    opening = file.read(_DIGEST.stop)
    if opening[_LENGTH : _DIGEST.start] != _OPENING:
        raise _unusable("is empty" if size == 0 else "is not a tikhonet model file, or its beginning is damaged")
    length = int.from_bytes(opening[:_LENGTH], "little")
    if length > min(size - _LENGTH, MAX_HEADER):
        raise _unusable(
            f"declares a header of {length:,} bytes where at most {min(size - _LENGTH, MAX_HEADER):,} can be"
        )
    file.seek(_LENGTH)
    entries = _parse_object(file.read(length))
    seal = entries.pop("__metadata__")["tikhonet"]
    _check_entries(entries, size - _LENGTH - length)
    file.seek(0)
    raw = file.read(size)
    if _digest(raw) != raw[_DIGEST]:
        raise _unusable("is damaged: its SHA-256 is not the one it was saved with")
    header = _open_seal(seal)
    try:
        tensors = parse_tensors(raw)
    except (SafetensorError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise _unusable(f"describes tensors that cannot be: {complaint(error)}") from None
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise _unusable(f"holds NaN or infinity in the tensor {name[:80]!r}")
    return header, tensors


def _check_entries(entries: dict[str, Any], held: int) -> None:
    """Raise unless the tensors are of known dtypes and end where the file does; safetensors checks the rest."""
    declared = 0
    for name, entry in entries.items():
        match entry:
            case {"dtype": str(dtype), "shape": list(), "data_offsets": [int(), int(end)], **rest} if not rest:
                declared = max(declared, end)
            case _:
                raise _unusable(f"describes the tensor {name[:80]!r} in an unknown way")
        if dtype not in DTYPES:
            raise _unusable(f"holds the tensor {name[:80]!r} of dtype {dtype[:80]!r}; allowed are {', '.join(DTYPES)}")
    if declared != held:
        raise _unusable(f"declares {declared:,} bytes of tensors and holds {held:,}, so it was cut or extended")


def _open_seal(seal: str) -> dict[str, Any]:
    match _parse_object(seal):
        case {"sha256": str(), "version": int(version), "header": header, **rest}:
            if version > VERSION:
                raise ModelFormatError(
                    f"has version {version} and this tikhonet reads up to {VERSION}; install a newer tikhonet"
                )
            if version in (1, VERSION) and type(version) is int and isinstance(header, dict) and not rest:
                return header
    raise _unusable("has a header of an unknown kind")


def _parse_object(text: str | bytes) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(f"has a header that is not valid JSON ({complaint(error)})") from None
    if not isinstance(found, dict):
        raise _unusable("has a header that is not a JSON object")
    return found
