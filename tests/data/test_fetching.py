"""Downloads from a real server on loopback: verified, atomic, by the first route that delivers."""

import errno
import io
import os

import pytest
from rich.console import Console

from tests.data.miniature import (
    BATCH_ARCHIVE,
    BATCHES,
    GZIPPED,
    IDX,
    batch_collection,
    idx_collection,
    put,
)
from tikhonet.data import DataError, DataWarning, obtain
from tikhonet.data.image_sets import read_batches, read_idx_pair
from tikhonet.data.routes import ArchiveMirror, GzipMirror, download_bar

TRAIN = "train-images-idx3-ubyte"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("tikhonet.data.routes.TIMEOUT", (0.5, 0.3))


def mirror(server, folder="good"):
    server.files |= {f"/{folder}/{name}.gz": content for name, content in GZIPPED.items()}
    return GzipMirror(f"{server.url}/{folder}")


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_download_is_saved_unpacked_and_serves_without_the_server_afterwards(server, tmp_path):
    assert len(read_idx_pair(idx_collection(mirror(server)), "train", tmp_path)) == 6
    assert held(tmp_path / "mini") == IDX
    assert len(server.asked) == 4
    assert len(read_idx_pair(idx_collection(), "test", tmp_path)) == 4


def test_an_archive_is_downloaded_once_for_both_splits(server, tmp_path):
    server.files["/cifar.tar.gz"] = BATCH_ARCHIVE
    collection = batch_collection(ArchiveMirror(f"{server.url}/cifar.tar.gz"))
    assert len(read_batches(collection, "test", tmp_path)) == 2
    assert len(read_batches(collection, "train", tmp_path)) == 10
    assert held(tmp_path / "mini10") == BATCHES
    assert server.asked == ["/cifar.tar.gz"]


def test_a_damaged_file_is_fetched_anew_and_the_intact_ones_stay(server, tmp_path):
    put(tmp_path / "mini", IDX)
    (tmp_path / "mini" / TRAIN).write_bytes(b"damaged")
    with pytest.warns(DataWarning, match=f"{TRAIN} is refused"):
        read_idx_pair(idx_collection(mirror(server)), "train", tmp_path)
    assert server.asked == [f"/good/{TRAIN}.gz"]
    assert held(tmp_path / "mini") == IDX


def spoil_missing(server, path):
    del server.files[path]


def spoil_content(server, path):
    server.files[path] = server.files[path][:-9] + b"x" + server.files[path][-8:]


def spoil_truncated(server, path):
    server.truncated.add(path)


def spoil_stalling(server, path):
    server.stalling.add(path)


SPOILED = {
    spoil_missing: "the server answered 404",
    spoil_content: "what arrived is damaged",
    spoil_truncated: "the download broke off",
    spoil_stalling: "the server could not be reached or stopped answering",
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_a_bad_mirror_is_left_for_the_next_one_and_what_was_finished_is_kept(server, tmp_path, spoil):
    bad, good = mirror(server, "bad"), mirror(server, "good")
    spoil(server, "/bad/t10k-images-idx3-ubyte.gz")
    assert len(read_idx_pair(idx_collection(bad), "train", tmp_path)) == 6
    with pytest.raises(DataError, match=f"t10k-images-idx3-ubyte.gz: {SPOILED[spoil]}"):
        read_idx_pair(idx_collection(bad), "test", tmp_path)
    assert held(tmp_path / "mini") == {name: IDX[name] for name in IDX if name.startswith("train")}

    server.asked.clear()
    read_idx_pair(idx_collection(bad, good), "test", tmp_path)
    assert held(tmp_path / "mini") == IDX
    assert f"/bad/{TRAIN}.gz" not in server.asked


def test_a_server_that_is_not_there_is_one_line_with_the_remedy(tmp_path):
    nowhere = GzipMirror("http://127.0.0.1:9")
    with pytest.raises(DataError) as caught:
        read_idx_pair(idx_collection(nowhere), "train", tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "127.0.0.1:9" in message
    assert "put the official files there" in message


def test_a_mirror_with_another_content_is_refused(server, tmp_path):
    server.files |= {f"/other/{name}.gz": b"whatever" for name in IDX}
    other = GzipMirror(f"{server.url}/other")
    with pytest.raises(DataError, match="its SHA-256 is not the official one"):
        read_idx_pair(idx_collection(other), "train", tmp_path)
    assert not list((tmp_path / "mini").iterdir())


def test_an_interruption_leaves_finished_files_only(server, tmp_path, monkeypatch):
    write, saved = obtain.write_atomically, []

    def interrupted_third(path, parts):
        if len(saved) == 2:
            raise KeyboardInterrupt
        write(path, parts)
        saved.append(path.name)

    monkeypatch.setattr("tikhonet.data.obtain.write_atomically", interrupted_third)
    with pytest.raises(KeyboardInterrupt):
        read_idx_pair(idx_collection(mirror(server)), "train", tmp_path)
    assert held(tmp_path / "mini") == {name: IDX[name] for name in saved}


@pytest.mark.skipif(os.name != "posix", reason="limits of file sizes are POSIX")
def test_a_file_that_cannot_be_written_whole_is_no_file(server, tmp_path):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(
            DataError, match=r"cannot save train-images-idx3-ubyte, .* into .*mini: .*; make room there"
        ):
            read_idx_pair(idx_collection(mirror(server)), "train", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((tmp_path / "mini").iterdir())


def test_a_full_disk_keeps_what_was_finished_and_says_so(server, tmp_path, monkeypatch):
    write, saved = obtain.write_atomically, []

    def full_at_third(path, parts):
        if len(saved) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, parts)
        saved.append(path.name)

    monkeypatch.setattr("tikhonet.data.obtain.write_atomically", full_at_third)
    with pytest.raises(DataError, match=f"{os.strerror(errno.ENOSPC)}; make room there"):
        read_idx_pair(idx_collection(mirror(server)), "train", tmp_path)
    assert held(tmp_path / "mini") == {name: IDX[name] for name in saved}


def test_the_bar_shows_name_and_amount_on_a_terminal_and_nothing_elsewhere():
    for terminal in (True, False):
        output = io.StringIO()
        with download_bar("file.gz", Console(file=output, force_terminal=terminal, width=100)) as bar:
            bar.total = 4_000_000
            bar.update(1_000_000)
            bar.reset()
            bar.update(4_000_000)
            bar.close()
        assert ("file.gz" in output.getvalue()) == terminal
        bar.pulse("saving")
        assert bar.progress.tasks[0].total is None
        assert ("4.0/4.0 MB" in output.getvalue()) == terminal
