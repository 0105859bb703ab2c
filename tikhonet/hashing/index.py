"""A searchable set of codes: the k nearest, or all within a Hamming radius."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tikhonet.hashing.asymmetric import by_scores, check_scores
from tikhonet.hashing.codes import Codes, check_codes, check_n_bits, is_whole, n_bytes
from tikhonet.hashing.engines import Engine, FaissEngine, HashEngine, ListsEngine, NumpyEngine, has_faiss
from tikhonet.model import storage
from tikhonet.model.reading import ModelFormatError, refusing
from tikhonet.network.errors import ArgumentError

Ids = NDArray[np.int64]

KINDS = {"flat": (), "numpy": (), "hash": ("hash_bits", "flips"), "ivf": ("lists", "probes")}
"""Each kind with its settings."""
CONTENT = "hamming-index"
LARGEST_ID = 2**63 - 1


class HammingIndex:
    """Codes with ids, searched by Hamming distance.

    Results come in the order of distance, then id. The exact kinds also keep the smallest ids where items at the k-th
    distance are tied; with "hash" and "ivf" it depends on the lists which of those are kept, but the same index gives
    the same answer. Ids are numbers from 0; ascending ones are appended, others sorted in, which takes longer.

    Parameters
    ----------
    n_bits : int
        The length of the codes, 8 to 512.
    kind : {"flat", "numpy", "hash", "ivf"}, default="flat"
        "flat" is exact, by faiss, or by NumPy where faiss is not installed; "numpy" is exact, by NumPy. "hash" is
        faiss's IndexBinaryHash, whose balls up to radius `flips` are complete, the rest may not be. "ivf" is faiss's
        IndexBinaryIVF: `lists` centres, chosen by `fit`, of which the `probes` nearest are read.
    **settings : int
        For "hash" `hash_bits` and `flips` (2), for "ivf" `lists` and `probes`.

    Attributes
    ----------
    codes : array of uint8
        The packed codes, in the order of their ids.
    ids : array of int64
        Ascending.
    centres : array of uint8 or None
        Those of an "ivf" index that was fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from tikhonet.hashing import HammingIndex, pack
    >>> codes = pack(np.eye(8))
    >>> index = HammingIndex(8).add(codes)
    >>> distances, ids = index.search(codes[:1], k=2)
    >>> ids.tolist(), distances.tolist()
    ([[0, 1]], [[0, 2]])
    """

    def __init__(self, n_bits: int, kind: str = "flat", **settings: int) -> None:
        check_n_bits(n_bits)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        for name, value in settings.items():
            if name not in KINDS[kind]:
                allowed = ", ".join(KINDS[kind]) or "none"
                raise ValueError(f"settings of kind={kind!r} must be among: {allowed}; got {name!r}")
            if not is_whole(value):
                raise ValueError(f"{name} must be a whole number, got {value!r}")
        self.n_bits, self.kind = int(n_bits), kind
        self.settings = {name: int(value) for name, value in settings.items()}
        self.codes: Codes = np.zeros((0, n_bytes(n_bits)), np.uint8)
        self.ids: Ids = np.zeros(0, np.int64)
        self.centres: Codes | None = None
        self._engine = self._make_engine()

    def fit(self, codes: Codes) -> HammingIndex:
        """Choose the lists of an "ivf" index; other kinds need none.

        Parameters
        ----------
        codes : array of uint8
            Packed codes like those that it will hold.

        Returns
        -------
        HammingIndex
            The index itself.
        """
        check_codes(codes, self.n_bits)
        if isinstance(self._engine, ListsEngine):
            self.centres = self._engine.fit(contiguous(codes))
            self._engine.rebuild(self.codes)
        return self

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> HammingIndex:
        """Add codes under ids.

        Parameters
        ----------
        codes : array of uint8
            Packed codes.
        ids : array-like of int, optional
            A number for each, not in the index yet; by default those that follow the largest id in the index.

        Returns
        -------
        HammingIndex
            The index itself.
        """
        check_codes(codes, self.n_bits)
        self._need_lists("add")
        after = int(self.ids[-1]) + 1 if len(self) else 0
        if ids is None and after + len(codes) - 1 > LARGEST_ID:
            raise ValueError(f"ids must be given where no numbers follow the largest id, {after - 1}, got none")
        new = np.arange(after, after + len(codes)) if ids is None else check_ids(ids)
        if len(new) != len(codes):
            raise ValueError(f"ids must hold one number for each of the {len(codes)} codes, got {len(new)}")
        together, all_codes = np.concatenate([self.ids, new]), np.concatenate([self.codes, codes])
        if (np.diff(together[max(0, len(self) - 1) :]) > 0).all():
            self._engine.extend(all_codes, len(codes))
        else:
            order = np.argsort(together, kind="stable")
            together, all_codes = together[order], all_codes[order]
            if (repeated := together[1:][np.diff(together) == 0]).size:
                where = "in the index" if repeated[0] in self.ids else "among ids"
                raise ValueError(f"ids must be new, each once, got {repeated[0]} again ({where}); remove it first")
            self._engine.rebuild(all_codes)
        self.ids, self.codes = together, all_codes
        return self

    def remove(self, ids: ArrayLike) -> HammingIndex:
        """Take codes out.

        Parameters
        ----------
        ids : array-like of int
            All of them must be there, else nothing is removed.

        Returns
        -------
        HammingIndex
            The index itself.
        """
        gone = check_ids(ids)
        unknown = gone[~np.isin(gone, self.ids)]
        if unknown.size:
            raise ValueError(
                f"ids must be in the index, got {unknown[0]} ({unknown.size} unknown); nothing was removed"
            )
        keep = ~np.isin(self.ids, gone)
        left = self.codes[keep]
        if gone.size:
            self._engine.rebuild(left)
        self.codes, self.ids = left, self.ids[keep]
        return self

    def search(
        self, codes: Codes, k: int, *, scores: ArrayLike | None = None, candidates: int = 1000
    ) -> tuple[NDArray[Any], Ids]:
        """The k nearest of each query.

        Parameters
        ----------
        codes : array of uint8
            Packed codes of the queries.
        k : int
            Neighbours of each.
        scores : array of shape (queries, n_bits), optional
            The real numbers whose signs are the queries' bits (`BCDHasher.decision_function`). They say how sure a bit
            is, which their signs forget: with them, the `candidates` that are nearest by Hamming distance are put in
            the order of the sum of abs(score) over the bits that differ, and the first k of these returned with it as
            their distance. The index holds no more than without; a query costs some 0.2 ms for a thousand candidates
            beside the search.
        candidates : int, default=1000
            So many are put in order, at least k.

        Returns
        -------
        distances : array
            Queries x k; where a "hash" or "ivf" index finds fewer, n_bits + 1, and infinity with scores.
        ids : array of int64
            Queries x k; -1 where a "hash" or "ivf" index finds fewer.
        """
        check_codes(codes, self.n_bits)
        self._need_lists("search")
        if not len(self):
            raise ValueError(f"the index must hold codes before it is searched, got k = {k} of none; add codes first")
        if not is_whole(k) or not 1 <= k <= len(self):
            remedy = "; ask for fewer" if is_whole(k) and k > 0 else ""
            raise ArgumentError(
                "k",
                f"k must be a whole number from 1 to {len(self)}, the number of codes in the index, got {k}{remedy}",
            )
        distances, positions = self._nearest(codes, int(k), scores, candidates)
        missing = positions < 0
        if not missing.any():
            return distances, self.ids[positions]
        distances[missing] = self.n_bits + 1 if scores is None else np.inf
        return distances, np.where(missing, -1, self.ids[positions])

    def _nearest(
        self, codes: Codes, k: int, scores: ArrayLike | None, candidates: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Distances and positions, by Hamming distance or by scores."""
        if scores is None:
            return self._engine.search(contiguous(codes), k)
        if not is_whole(candidates) or candidates < 1:
            message = f"candidates must be a whole number of at least 1, got {candidates!r}; 1000 is the default"
            raise ArgumentError("candidates", message)
        checked = check_scores(scores, codes, self.n_bits)
        positions = self._engine.search(contiguous(codes), min(len(self), max(k, int(candidates))))[1]
        return by_scores(checked, self.codes, positions, k)

    def within(self, codes: Codes, radius: int) -> tuple[NDArray[np.int64], NDArray[np.int32], Ids]:
        """All codes within a radius of each query.

        Parameters
        ----------
        codes : array of uint8
            Packed codes of the queries.
        radius : int
            The largest distance.

        Returns
        -------
        limits : array of int64
            Those of query q are at ``limits[q] : limits[q + 1]``.
        distances : array of int32
            The distances.
        ids : array of int64
            The ids.
        """
        check_codes(codes, self.n_bits)
        self._need_lists("search")
        if not is_whole(radius) or not 0 <= radius <= self.n_bits:
            message = f"radius must be a whole number from 0 to {self.n_bits}, the number of bits, got {radius}"
            raise ArgumentError("radius", message)
        query, distances, positions = self._engine.within(contiguous(codes), int(radius))
        limits = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(codes)))]).astype(np.int64)
        order = np.lexsort((positions, distances, query))
        return limits, distances[order], self.ids[positions[order]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write codes, ids and settings into one file with a SHA-256, whole or not at all.

        Parameters
        ----------
        path : str or path
            The file.
        """
        header: dict[str, Any] = {"content": CONTENT, "n_bits": self.n_bits, "kind": self.kind}
        tensors = {"codes": torch.from_numpy(self.codes), "ids": torch.from_numpy(self.ids)}
        if self.centres is not None:
            tensors["centres"] = torch.from_numpy(self.centres)
        storage.save(path, header | {"settings": dict(self.settings)}, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kind: str | None = None, **settings: int) -> HammingIndex:
        """The index of a file that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.
        kind : {"flat", "numpy", "hash", "ivf"}, optional
            A kind in place of that of the file.
        **settings : int
            Settings in place of those of the file.

        Returns
        -------
        HammingIndex
            The index.
        """
        header, tensors = storage.load(path)
        match header:
            case {"content": str(content), "n_bits": int(n_bits), "kind": str(saved), "settings": dict(before)}:
                is_index = content == CONTENT and {"codes", "ids"} <= set(tensors) and saved in KINDS
            case _:
                is_index = False
        if not is_index:
            raise ModelFormatError(f"{path} is not a Hamming index; name a file that HammingIndex.save wrote")
        refused = partial(refusing, f"{path} holds what cannot be an index", "save the index again")
        as_saved = kind is None or kind == saved
        with refused():
            check_n_bits(n_bits)
            index = cls(n_bits, saved, **before) if as_saved else None
        if index is None or settings:
            index = cls(n_bits, kind or saved, **(before | settings if as_saved else settings))
        with refused():
            index._fill({name: tensor.numpy() for name, tensor in tensors.items()}, not as_saved or bool(settings))
        return index

    def _fill(self, arrays: dict[str, NDArray[Any]], choose: bool) -> None:
        """Add what a file holds; `choose` says whether lists that do not fit its centres are chosen anew."""
        codes, ids, centres = arrays["codes"], arrays["ids"], arrays.get("centres")
        if centres is not None and len(centres) and self.settings.get("lists", len(centres)) == len(centres):
            self._use(centres)
        elif self.kind == "ivf" and len(codes):
            if not choose:
                raise ValueError("it has other centres than its lists need")
            self.fit(codes)
        if len(codes) or len(ids):
            self.add(codes, ids)

    def _use(self, centres: Codes) -> None:
        if isinstance(self._engine, ListsEngine):
            check_codes(centres, self.n_bits, "the centres")
            self._engine.use(centres)
            self.centres = centres

    def _make_engine(self) -> Engine:
        width = n_bytes(self.n_bits)
        match self.kind:
            case "hash":
                return HashEngine(width, self.n_bits, **self.settings)
            case "ivf":
                return ListsEngine(width, **self.settings)
        return FaissEngine(width) if self.kind == "flat" and has_faiss() else NumpyEngine(width)

    def _need_lists(self, action: str) -> None:
        if self.kind == "ivf" and self.centres is None:
            raise ValueError(f"an index of kind='ivf' must have lists before it can {action}; call fit(codes) first")

    def __getstate__(self) -> dict[str, Any]:
        """Without the engine, which faiss cannot copy; it is made anew."""
        return {name: value for name, value in vars(self).items() if name != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._engine = self._make_engine()
        if self.centres is not None:
            self._use(self.centres)
        if len(self):
            self._engine.rebuild(self.codes)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self.settings.items())
        return f"HammingIndex(n_bits={self.n_bits}, kind={self.kind!r}{settings}) of {len(self):,} codes"


def check_ids(ids: ArrayLike) -> Ids:
    found = np.asarray(ids)
    whole = found.ndim == 1 and (found.dtype.kind in "iu" or not found.size)
    if not whole or (found.size and not 0 <= int(found.min()) <= int(found.max()) <= LARGEST_ID):
        range_ = f" from {found.min()} to {found.max()}" if whole else ""
        raise ValueError(
            "ids must be a vector of whole numbers from 0 to 2^63 - 1, "
            f"got {found.dtype} of shape {found.shape}{range_}"
        )
    return found.astype(np.int64)


def contiguous(codes: Codes) -> Codes:
    return np.ascontiguousarray(codes)
