import pytest


def test_all_data_sets_are_listed_with_where_they_are(run, tmp_path):
    document = run("data", "--data-home", tmp_path, "--json").document
    states = {row["name"]: row["state"] for row in document["data_sets"]}
    assert states == {
        "mnist": "not here",
        "fashion-mnist": "not here",
        "cifar10": "not here",
        "digits": "built in",
        "planted": "built in",
    }
    assert "mnist" in run("data", "--data-home", tmp_path).out


@pytest.mark.parametrize(("name", "rows"), [("digits", [1297, 500]), ("planted", [2000, 1000])])
def test_a_built_in_set_is_described(run, name, rows):
    document = run("data", name, "--json").document
    assert [document["splits"][split]["rows"] for split in ("train", "test")] == rows


def test_a_set_with_files_is_verified(run, mistake, tmp_path, monkeypatch):
    """With digests of our own, because the real files are not part of the suite."""
    import gzip
    import hashlib

    import numpy as np

    from tikhonet.data import COLLECTIONS
    from tikhonet.data.obtain import Collection

    def idx(array):
        return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()

    contents = {}
    for part, count in (("train", 6), ("t10k", 3)):
        contents[f"{part}-images-idx3-ubyte"] = idx(np.zeros((count, 28, 28), np.uint8))
        contents[f"{part}-labels-idx1-ubyte"] = idx(np.zeros(count, np.uint8))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    collection = Collection("mnist", digests, ("mnist",), (), tuple("0123456789"))
    monkeypatch.setitem(COLLECTIONS, "mnist", collection)
    folder = tmp_path / "home" / "mnist"
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    document = run("data", "mnist", "--data-home", "home", "--json").document
    assert document["splits"]["train"] == {"rows": 6, "shape": [28, 28], "classes": 10}
    assert len(document["files"]) == 4
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"other"))
    monkeypatch.setattr("warnings.filters", [])
    ran = run("data", "mnist", "--data-home", "home", code=1)
    assert "warning" in ran.err
    assert "t10k-images-idx3-ubyte" in ran.err.splitlines()[-1]
    assert "put the official files there" in ran.err.splitlines()[-1]
