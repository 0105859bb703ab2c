"""MNIST and Fashion-MNIST from the official gzipped IDX files in a folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch

FOLDERS = {"mnist": "mnist", "fashion": "fashion-mnist"}


def load(folder: str | Path, name: str, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as rows in [0, 1] and labels; `part` is "train" or "t10k"."""
    path = Path(folder, FOLDERS[name])
    images, labels = (path / f"{part}-{kind}.gz" for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    if not images.is_file():
        raise SystemExit(f"{images} is missing: give the folder of the data with --data or TIKHONET_DATA")
    X = np.frombuffer(gzip.decompress(images.read_bytes()), np.uint8, offset=16).reshape(-1, 784)
    y = np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8)
    return torch.tensor(X).float().div_(255), torch.tensor(y).long()
