"""Files that already lie in a data home: every form is read, every damage is refused."""

import gzip
import lzma

import numpy as np
import pytest

from tests.data.miniature import (
    BATCH_ARCHIVE,
    BATCHES,
    IDX,
    IMAGES,
    LABELS,
    batch_collection,
    idx_collection,
    put,
)
from tikhonet.data import DataError, DataWarning
from tikhonet.data.image_sets import read_batches, read_idx_pair
from tikhonet.data.obtain import find_home

PACKINGS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKINGS)
@pytest.mark.parametrize("folder", ["mini", "Mini/raw"])
def test_idx_files_are_read_raw_and_packed(tmp_path, suffix, folder):
    put(tmp_path / folder, IDX, suffix, PACKINGS[suffix])
    for split, part in (("train", "train"), ("test", "t10k")):
        data = read_idx_pair(idx_collection(), split, tmp_path)
        np.testing.assert_array_equal(data.values, IMAGES[part])
        np.testing.assert_array_equal(data.y, LABELS[part])
        assert data.y.dtype == np.int64
        assert data.X.dtype == np.float32
        np.testing.assert_allclose(data.X, IMAGES[part].reshape(-1, 784) / 255, rtol=1e-6)


@pytest.mark.parametrize("suffix", PACKINGS)
@pytest.mark.parametrize("folder", ["mini10", "mini10/cifar-10-batches-bin", "."])
def test_binary_batches_are_read_raw_and_packed(tmp_path, suffix, folder):
    put(tmp_path / folder, BATCHES, suffix, PACKINGS[suffix])
    check_batches(tmp_path)


@pytest.mark.parametrize("folder", ["mini10", "."])
def test_binary_batches_are_read_from_their_archive(tmp_path, folder):
    put(tmp_path / folder, {"cifar-10-binary.tar.gz": BATCH_ARCHIVE})
    check_batches(tmp_path)


def check_batches(home):
    records = np.stack([np.frombuffer(content, np.uint8).reshape(-1, 3073) for content in BATCHES.values()])
    for split, expected in (("train", records[:5]), ("test", records[5:])):
        data = read_batches(batch_collection(), split, home)
        rows = expected.reshape(-1, 3073)
        assert data.shape == (3, 32, 32)
        np.testing.assert_array_equal(data.values.reshape(len(rows), -1), rows[:, 1:])
        np.testing.assert_array_equal(data.y, rows[:, 0])


def flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def halved(content):
    return content[: len(content) // 2]


@pytest.mark.parametrize("damage", [flipped, halved, lambda content: b""], ids=["flipped", "halved", "empty"])
@pytest.mark.parametrize("suffix", PACKINGS)
def test_a_damaged_file_is_named_and_never_used(tmp_path, damage, suffix):
    put(tmp_path / "mini", IDX, suffix, PACKINGS[suffix])
    path = tmp_path / "mini" / f"t10k-images-idx3-ubyte{suffix}"
    path.write_bytes(damage(path.read_bytes()))
    with (
        pytest.warns(DataWarning, match=f"{path.name} is refused"),
        pytest.raises(DataError, match="no intact t10k-images-idx3-ubyte in"),
    ):
        read_idx_pair(idx_collection(), "test", tmp_path)
    assert len(read_idx_pair(idx_collection(), "train", tmp_path)) == 6


def test_an_intact_copy_beside_a_damaged_one_is_used(tmp_path):
    put(tmp_path / "mini", IDX)
    put(tmp_path / "mini", IDX, ".gz", gzip.compress)
    (tmp_path / "mini" / "t10k-images-idx3-ubyte").write_bytes(b"damaged")
    with pytest.warns(DataWarning, match="t10k-images-idx3-ubyte is refused"):
        assert len(read_idx_pair(idx_collection(), "test", tmp_path)) == 4


def test_a_cut_off_archive_gives_what_is_whole_and_names_itself(tmp_path):
    put(tmp_path / "mini10", {"cifar-10-binary.tar.gz": halved(BATCH_ARCHIVE)})
    with (
        pytest.warns(DataWarning, match=r"cifar-10-binary.tar.gz is refused"),
        pytest.raises(DataError, match="test_batch"),
    ):
        read_batches(batch_collection(), "test", tmp_path)


def test_a_read_only_folder_is_enough(tmp_path):
    put(tmp_path / "mini", IDX)
    (tmp_path / "mini").chmod(0o555)
    before = sorted(path.name for path in (tmp_path / "mini").iterdir())
    assert len(read_idx_pair(idx_collection(), "train", tmp_path)) == 6
    assert sorted(path.name for path in (tmp_path / "mini").iterdir()) == before


def test_the_home_is_the_argument_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.setenv("TIKHONET_DATA", str(tmp_path / "two"))
    assert find_home(tmp_path / "one") == tmp_path / "one"
    assert find_home() == tmp_path / "two"
    monkeypatch.delenv("TIKHONET_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "tikhonet" in str(find_home())


def test_a_wrong_folder_is_named_with_where_it_came_from(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"data_home must be a folder, got .*nowhere, which does not exist; make it"):
        find_home(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIKHONET_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"TIKHONET_DATA must be a folder, got .*file, which is a file"):
        find_home()
