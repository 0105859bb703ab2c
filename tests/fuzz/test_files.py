"""No file crashes the process: mutants of every kind, and the attacks that version 0.1 fell to."""

import gzip
import io
import json
import lzma
import shutil
import subprocess
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from tests.faults.forked import printed
from tests.model.test_storage import sealed
from tikhonet import BCDClassifier
from tikhonet.data import DataError, read_folder, read_table
from tikhonet.hashing import HammingIndex
from tikhonet.model import storage
from tikhonet.model.export import CSRModel
from tikhonet.model.reading import FLOOR, GROWTH, ModelFormatError
from tikhonet.paper.old_records import convert_folder
from tikhonet.paper.records import RecordError, unpack_picture

pytest.importorskip("resource", reason="memory is limited by POSIX calls")


def fuzz(count, seed):
    *mistakes, counts = printed("tests.fuzz.files", count, seed)
    assert not mistakes, "\n".join(mistakes)
    return json.loads(counts.replace("'", '"'))


def test_two_thousand_mutants_are_refused_or_load_and_work():
    counts = fuzz(2000, 0)
    assert sum(counts.values()) == 2000
    assert min(counts.values()) > 100


ESCAPES = """
import os, pickle, subprocess, sys
from tests.fuzz.files import Escaped, Watch

place, watch = sys.argv[1], Watch()
inside, outside = os.path.join(place, "in", "a"), os.path.join(place, "out")
attempts = {
    "opens": lambda: open(outside, "w"),
    "appends": lambda: open(outside, "ab"),
    "opens by a number": lambda: os.open(outside, os.O_CREAT | os.O_RDWR),
    "renames": lambda: os.rename(inside, outside),
    "removes": lambda: os.remove(__file__ if "__file__" in globals() else outside),
    "starts": lambda: subprocess.run(["true"]),
    "executes": lambda: eval("1 + 1"),
    "unpickles": lambda: pickle.loads(pickle.dumps(Escaped)),
}
for name, attempt in attempts.items():
    with watch.allowing(os.path.join(place, "in")):
        open(inside, "w").close()
        try:
            attempt()
            print(name, "was not heard")
        except Escaped:
            pass
print(sorted(os.listdir(place)))
"""


def test_the_hook_hears_code_processes_and_writes(tmp_path):
    (tmp_path / "in").mkdir()
    words = [sys.executable, "-c", ESCAPES, str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stdout == "['in']\n", ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_hundred_thousand_mutants_are_refused_or_load_and_work(seed):
    assert sum(fuzz(10_000, seed).values()) == 10_000


@pytest.fixture(scope="module")
def model():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 16))
    return BCDClassifier((6,), head="ridge", random_state=0).fit(X, np.arange(80) % 10)


@pytest.fixture
def forged(model, tmp_path):
    """A sealed classifier with changes to header and tensors."""

    def forge(header=None, tensors=None):
        path = tmp_path / "forged"
        model.save(path)
        held, arrays = storage.load(path)
        storage.save(path, held | (header or {}), arrays | (tensors or {}))
        return path

    return forge


def fitted(**changes):
    return {"classes": list(range(10)), "dtype": "<i8", "sharpness": {"forward": 1.0}} | changes


FORGED = {
    "a type of 60 million letters": lambda m: ({"fitted": fitted(classes=list("abcdefghij"), dtype="<U60000000")}, {}),
    "ten equal classes": lambda m: ({"fitted": fitted(classes=[1] * 10)}, {}),
    "classes that are equal in their type": lambda m: ({"fitted": fitted(classes=[k / 3 for k in range(10)])}, {}),
    "one name for 16 columns": lambda m: ({"feature_names": ["x"]}, {}),
    "names that are numbers": lambda m: ({"feature_names": list(range(16))}, {}),
    "scale 0": lambda m: ({}, {"scale": torch.zeros(16, dtype=torch.float64)}),
    "scale 5e-324": lambda m: ({}, {"scale": torch.full((16,), 5e-324, dtype=torch.float64)}),
    "scale below zero": lambda m: ({}, {"scale": torch.full((16,), -1.0, dtype=torch.float64)}),
    "coefficients of 1e308": lambda m: ({}, {"coef": torch.full((10, 6), 1e308, dtype=torch.float64)}),
    "bounds that cross": lambda m: ({}, {"low": torch.full((16,), 1e9, dtype=torch.float64)}),
    "shift of 1e308": lambda m: ({}, {"shift": torch.full((16,), 1e308, dtype=torch.float64)}),
    "a sharpness of 1e308": lambda m: ({"fitted": fitted(sharpness={"forward": 1e308})}, {}),
    "a sharpness of 0": lambda m: ({"fitted": fitted(sharpness={"forward": 0.0})}, {}),
    "an endless width": lambda m: ({"network": {"widths": [16, 10**300], "edges": [[1, 0, "dense"]]}}, {}),
    "a device that is none": lambda m: ({"parameters": {"device": "ivf"}}, {}),
    "energies beyond numbers": lambda m: (
        {"parameters": {"decision": "energy"}},
        {"V": torch.full(m.model_.V.shape, 1e200, dtype=torch.float64)},
    ),
    "steps without end": lambda m: ({"n_iter": 1e300}, {}),
}


@pytest.mark.parametrize("attack", FORGED)
def test_a_sealed_model_with_impossible_content_is_refused_without_memory(attack, forged, model):
    path = forged(*FORGED[attack](model))
    tracemalloc.start()
    with pytest.raises(ModelFormatError, match="forged") as caught:
        BCDClassifier.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25
    assert len(str(caught.value)) < 1000


def test_a_width_beyond_all_numbers_is_refused(model, tmp_path):
    header, tensors = {"estimator": "BCDClassifier"}, {}
    with pytest.raises(ModelFormatError, match="finite"):
        storage.save(tmp_path / "m", header | {"network": {"widths": [10**400]}}, tensors)


@pytest.fixture
def csr(model, tmp_path):
    """The arrays of a CSR model with changes, as a file."""

    def write(**changes):
        with np.load(io.BytesIO(model.to_csr().to_bytes())) as file:
            np.savez(tmp_path / "csr.npz", **(dict(file) | changes))
        return tmp_path / "csr.npz"

    return write


CSR = {
    "indptr of int8": lambda a: {"W.1.0.indptr": a["W.1.0.indptr"].astype(np.int8)},
    "indices of int8": lambda a: {"W.1.0.indices": a["W.1.0.indices"].astype(np.int8)},
    "big-endian indptr": lambda a: {"W.1.0.indptr": a["W.1.0.indptr"].astype(">i4")},
    "indptr that falls": lambda a: {"W.1.0.indptr": a["W.1.0.indptr"][::-1].copy()},
    "indptr beyond the end": lambda a: {"W.1.0.indptr": a["W.1.0.indptr"] * 1000},
    "indices beyond the end": lambda a: {"coef.indices": a["coef.indices"] + 1000},
    "negative indices": lambda a: {"coef.indices": a["coef.indices"] - 1000},
    "scale 0": lambda a: {"scale": 0 * a["scale"]},
    "coefficients of 1e38": lambda a: {"coef.data": np.full_like(a["coef.data"], 1e38)},
    "texts for numbers": lambda a: {"shift": a["shift"].astype("<U9")},
}


@pytest.mark.parametrize("attack", CSR)
def test_sparse_rows_that_lead_out_of_memory_are_refused(attack, csr):
    with np.load(csr()) as file:
        changes = CSR[attack](dict(file))
    with pytest.raises(ModelFormatError, match="not a whole CSR model"):
        CSRModel.load(csr(**changes))


def zeros(path, count, name="X.npy"):
    """An archive of a few megabytes whose array takes `count` bytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1000, count // 1000)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w", force_zip64=True) as file:
        file.write(header.getvalue())
        for _ in range(count // 10**7):
            file.write(bytes(10**7))
    return path


def readers(path):
    yield ModelFormatError, lambda: CSRModel.load(path)
    yield DataError, lambda: read_table(path)
    place = path.parent / "records"
    place.mkdir()
    shutil.copy(path, place / "a.npz")
    (place / "a.json").write_text('{"method": "a", "checks": []}')
    yield RecordError, lambda: convert_folder(path.parent)


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(tmp_path):
    path = zeros(tmp_path / "bomb.npz", 10**9)
    assert max(FLOOR, GROWTH * path.stat().st_size) < 10**9
    for error, read in readers(path):
        tracemalloc.start()
        with pytest.raises(error):
            read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**24


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, 99])
@pytest.mark.parametrize("damage", [False, True])
def test_archives_of_other_kinds_and_broken_ones_give_the_librarys_error(method, damage, tmp_path):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w", method if method != 99 else zipfile.ZIP_DEFLATED) as archive:
        for name in ("header", "X"):
            archive.writestr(f"{name}.npy", bytes(1000))
    content = bytearray(path.read_bytes())
    if damage:
        content[60:90] = bytes(30)
    path.write_bytes(bytes(content[:-30]) if method == 99 else content)
    for error, read in readers(path):
        with pytest.raises(error):
            read()


@pytest.mark.parametrize("piece", ["[]", "{}", '{"":0}', "1e1", '"aa"'])
def test_a_header_costs_no_more_than_a_hundred_times_its_file(piece, tmp_path, csr):
    text = f"[{','.join([piece] * 100_000)}]"
    (tmp_path / "m").write_bytes(sealed([], header_text=f'{{"a":{text}}}'))
    tracemalloc.start()
    storage.load(tmp_path / "m")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < GROWTH * (tmp_path / "m").stat().st_size
    long = f"[{','.join([piece] * (FLOOR // 100))}]"
    path = csr(header=np.frombuffer(long.encode(), np.uint8))
    with np.load(path) as file:
        np.savez_compressed(path, **file)
    tracemalloc.start()
    with pytest.raises(ModelFormatError, match="of memory"):
        CSRModel.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < FLOOR


@pytest.mark.parametrize("text", ["", "!!", "AAAA", "eJw=", "eJzt"])
def test_a_picture_that_is_none_gives_the_librarys_error(text):
    with pytest.raises(ModelFormatError, match="a picture cannot be read"):
        unpack_picture(text)


def index_file(path, **header):
    codes = torch.arange(64, dtype=torch.uint8).reshape(8, 8)
    held = {"content": "hamming-index", "n_bits": 64, "kind": "hash", "settings": {}} | header
    storage.save(path, held, {"codes": codes, "ids": torch.arange(8)})
    return path


@pytest.mark.parametrize(
    "header",
    [
        {"settings": {"hash_bits": 48, "flips": 24}},
        {"settings": {"n_bits": 3}},
        {"settings": {"self": 3}},
        {"settings": {"flips": "2"}},
        {"settings": {"flips": -1}},
        {"n_bits": 10**300},
        {"n_bits": 7},
        {"n_bits": True},
        {"kind": "ivf"},
        {"kind": "ivf", "settings": {"lists": 4}},
    ],
)
def test_an_index_that_would_search_without_end_or_cannot_be_is_refused(header, tmp_path):
    pytest.importorskip("faiss")
    start = time.monotonic()
    with pytest.raises(ModelFormatError):
        HammingIndex.load(index_file(tmp_path / "index", **header))
    assert time.monotonic() - start < 60
    assert len(HammingIndex.load(index_file(tmp_path / "index"))) == 8


def test_a_mistake_of_the_caller_is_no_fault_of_the_file(tmp_path):
    path = index_file(tmp_path / "index", kind="numpy")
    with pytest.raises(ValueError, match="kind must be one of") as caught:
        HammingIndex.load(path, "tree")
    assert not isinstance(caught.value, ModelFormatError)


def test_an_image_of_far_more_pixels_than_its_file_is_worth_is_refused(tmp_path):
    from PIL import Image

    Image.new("L", (9000, 9000)).save(tmp_path / "black.png")
    with pytest.raises(DataError, match="would take 243,000,000 bytes of memory"):
        read_folder(tmp_path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_of_far_more_than_it_is_worth_is_refused(pack, tmp_path):
    (tmp_path / "a-idx1-ubyte.gz").write_bytes(pack(bytes(FLOOR + 1)))
    with pytest.raises(DataError, match="of memory"):
        read_table(tmp_path / "a-idx1-ubyte.gz")
