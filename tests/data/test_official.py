"""The real files, where TIKHONET_DATA holds them: the digests in the catalogue are those of the published files."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from tikhonet.data import load
from tikhonet.data.image_sets import CIFAR10, COLLECTIONS, FASHION_MNIST, MNIST
from tikhonet.data.obtain import content_of

HOME = Path(os.environ.get("TIKHONET_DATA") or "nowhere")
MNIST_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
FASHION_MD5 = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
CIFAR_SHA1 = {
    "data_batch_1.bin": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "data_batch_2.bin": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "data_batch_3.bin": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "data_batch_4.bin": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "data_batch_5.bin": "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "test_batch.bin": "67eb016db431130d61cd03c7ad570b013799c88c",
}


def need(path):
    if not path.is_file():
        pytest.skip(f"TIKHONET_DATA holds no {path.name}")


@pytest.mark.parametrize(("collection", "published"), [(MNIST, MNIST_MD5), (FASHION_MNIST, FASHION_MD5)])
def test_a_file_with_the_published_md5_has_the_content_of_the_catalogue(collection, published):
    for name in collection.sha256:
        path = HOME / collection.folders[0] / f"{name}.gz"
        need(path)
        assert hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() == published[name]
        assert collection.is_authentic(name, content_of(path, name))


@pytest.mark.slow
def test_a_batch_with_the_published_sha1_has_the_content_of_the_catalogue():
    for name, published in CIFAR_SHA1.items():
        path = next(iter(CIFAR10.places(name, HOME)), HOME / name)
        need(path)
        content = content_of(path, name)
        assert hashlib.sha1(content, usedforsecurity=False).hexdigest() == published
        assert CIFAR10.is_authentic(name, content)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", pytest.param("cifar10", marks=pytest.mark.slow)])
def test_the_official_splits_have_their_sizes(name):
    collection = COLLECTIONS[name]
    for file in collection.sha256:
        need(next(iter(collection.places(file, HOME)), HOME / file))
    for split, size in (("train", 50_000 if name == "cifar10" else 60_000), ("test", 10_000)):
        data = load(name, split, HOME)
        assert len(data) == len(data.y) == size
        assert data.shape == ((3, 32, 32) if name == "cifar10" else (28, 28))
        assert set(np.unique(data.y)) == set(range(10))
        assert (data.values.min(), data.values.max()) == (0, 255)
