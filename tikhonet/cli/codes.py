"""Binary codes in files: .npy, .npz, or an index that `HammingIndex.save` wrote."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.cli.errors import Failure
from tikhonet.cli.outputs import save_or_rescue
from tikhonet.data.tables import MALFORMED
from tikhonet.hashing import HammingIndex, pack
from tikhonet.hashing.codes import Codes, check_codes
from tikhonet.paper.records import write_whole

ARRAYS = (".npy", ".npz")
Names = dict[int, str]
"""By id; empty where codes have none."""


@dataclass(frozen=True)
class CodeFile:
    """What a file holds: packed codes, their length, and ids and names where it has some."""

    path: Path
    codes: Codes
    n_bits: int
    ids: NDArray[Any] | None = None
    names: NDArray[Any] | None = None

    def index(self, kind: str) -> HammingIndex:
        """An index of these codes; lists of an "ivf" one are chosen from them."""
        return HammingIndex(self.n_bits, kind).fit(self.codes).add(self.codes, self.ids)

    def by_id(self) -> Names:
        ids = range(len(self.codes)) if self.ids is None else self.ids.tolist()
        return {} if self.names is None else dict(zip(ids, self.names.tolist(), strict=True))


def read_codes(path: Path) -> CodeFile:
    """Codes of a .npy (a matrix) or .npz (`codes`, perhaps `ids`, `names` and `n_bits`).

    A uint8 matrix holds packed codes. Any other holds one column a bit, which is 1 where the number is positive.
    """
    held = read_arrays(path)
    if "codes" not in held:
        raise Failure(f"{path} holds {', '.join(held) or 'nothing'}, but no array `codes`; name it so")
    matrix = held["codes"]
    try:
        if matrix.dtype == np.uint8:
            check_codes(matrix)
            codes, bits = matrix, whole(held.get("n_bits", np.array(8 * matrix.shape[1])))
        else:
            codes, bits = pack(matrix), matrix.shape[1]
        check_codes(codes, bits)
    except (ValueError, TypeError) as error:
        raise Failure(f"{path} holds no codes: {error}") from None
    names = held.get("names")
    if names is not None and (names.dtype.kind != "U" or names.shape != (len(codes),)):
        raise Failure(
            f"{path}: names must be one text for each of the {len(codes)} codes, got {names.dtype} of shape "
            f"{names.shape}"
        )
    return CodeFile(path, codes, bits, held.get("ids"), names)


def whole(n_bits: NDArray[Any]) -> int:
    if n_bits.ndim or n_bits.dtype.kind not in "iu":
        raise ValueError(f"n_bits must be a whole number, got {n_bits.tolist()!r}; save it as one")
    return int(n_bits)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz, or that of a .npy as `codes`; nothing in a file is ever executed."""
    if not path.is_file():
        raise Failure(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; name a .npy or .npz of codes")
    if path.suffix.lower() not in ARRAYS:
        raise Failure(f"{path} is of an unknown kind; codes are read from .npy and .npz")
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return {"codes": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded}
    except MALFORMED as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Failure(f"{path} cannot be read: {reason}; use another copy") from None


def save_codes(path: Path, codes: Codes, n_bits: int, names: Sequence[str] = ()) -> None:
    """A .npy of the packed codes, or a .npz that also holds `n_bits` and any `names`; whole or not at all."""
    check_codes(codes, n_bits)
    buffer = io.BytesIO()
    if path.suffix.lower() == ".npz":
        arrays: dict[str, Any] = {"codes": codes, "n_bits": n_bits, **({"names": np.array(names)} if names else {})}
        np.savez(buffer, **arrays)
    else:
        np.save(buffer, codes, allow_pickle=False)
    save_or_rescue(lambda target: write_whole(target, buffer.getvalue()), path)


def open_database(path: Path, kind: str) -> tuple[HammingIndex, Names]:
    """The index of a file of codes, or one that was saved; `kind` "" keeps a saved one's own, else it is "flat"."""
    if path.suffix.lower() in ARRAYS or not path.is_file():
        held = read_codes(path)
        return held.index(kind or "flat"), held.by_id()
    return HammingIndex.load(path, kind or None), {}
