"""Data sets of a few samples with digests of their own, laid out like the real ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

import numpy as np

from tikhonet.data.obtain import Collection

RNG = np.random.default_rng(0)
COUNTS = {"train": 6, "t10k": 4}


def idx(values):
    header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return header + values.astype(np.uint8).tobytes()


IMAGES = {part: RNG.integers(0, 256, (count, 28, 28), np.uint8) for part, count in COUNTS.items()}
LABELS = {part: RNG.integers(0, 10, count, np.uint8) for part, count in COUNTS.items()}
IDX = {f"{part}-images-idx3-ubyte": idx(IMAGES[part]) for part in COUNTS}
IDX |= {f"{part}-labels-idx1-ubyte": idx(LABELS[part]) for part in COUNTS}
GZIPPED = {name: gzip.compress(content, mtime=0) for name, content in IDX.items()}

BATCH_NAMES = [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
BATCHES = {name: RNG.integers(0, 10, (2, 3073), np.uint8).tobytes() for name in BATCH_NAMES}


def tar(files, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


BATCH_ARCHIVE = tar({f"cifar-10-batches-bin/{name}": content for name, content in BATCHES.items()})


def sha256s(contents):
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def idx_collection(*routes):
    return Collection("mini", sha256s(IDX), ("mini", "Mini/raw"), routes, tuple("0123456789"))


def batch_collection(*routes):
    folders = ("mini10", "mini10/cifar-10-batches-bin", "")
    return Collection("mini10", sha256s(BATCHES), folders, routes, tuple("0123456789"), "cifar-10-binary.tar.gz")


def put(folder, contents, suffix="", pack=bytes):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}{suffix}").write_bytes(pack(content))
