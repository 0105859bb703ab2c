"""Model files: round trips, every flipped bit, hostile content, writes that fail."""

import errno
import hashlib
import json
import os
import struct
import subprocess
import sys
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from tests.strategies import networks, seeds
from tikhonet.model.model_file import network_from_header, network_header, weight_tensors, weights_from_tensors
from tikhonet.model.storage import DTYPES, MAX_HEADER, ModelFormatError, load, save

OPENING = '{"__metadata__":{"tikhonet":"{\\"sha256\\":\\"'
ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.tikhonet"


def sealed(entries=None, data=b"", *, seal=None, header_text="{}", version="1", length=None):
    """A file of any content with the right SHA-256: what a hostile writer can make."""
    seal = seal or f'{{"sha256":"{"0" * 64}","version":{version},"header":{header_text}}}'
    listed = entries if isinstance(entries, str) else "".join(f",{json.dumps(k)}:{json.dumps(v)}" for k, v in entries)
    head = f'{{"__metadata__":{{"tikhonet":{json.dumps(seal)}}}{listed}}}'.encode()
    raw = struct.pack("<Q", len(head) if length is None else length) + head + data
    return reseal(raw)


def reseal(raw):
    at = 8 + len(OPENING)
    raw = raw[:at] + b"0" * 64 + raw[at + 64 :]
    return raw[:at] + hashlib.sha256(raw).hexdigest().encode() + raw[at + 64 :]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    header=st.dictionaries(st.text(), json_values, max_size=4),
    shapes=st.lists(st.tuples(st.lists(st.integers(0, 4), max_size=3), st.sampled_from(list(DTYPES.values())))),
    seed=seeds,
)
def test_what_was_saved_is_loaded(tmp_path_factory, header, shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        f"tensor {k}": (torch.randn(shape, generator=generator) * 50).to(dtype)
        for k, (shape, dtype) in enumerate(shapes)
    }
    path = tmp_path_factory.mktemp("round") / "model"
    save(path, header, tensors)
    found_header, found = load(path)
    assert found_header == header
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@given(network=networks(), seed=seeds, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_network_and_its_weights_are_loaded(tmp_path_factory, network, seed, dtype):
    path = tmp_path_factory.mktemp("network") / "model"
    W = network.random_weights(seed, dtype=dtype)
    V = torch.ones(3, network.widths[-1], dtype=dtype)
    save(path, {"network": network_header(network)}, weight_tensors(W) | {"V": V})
    header, tensors = load(path)
    found = network_from_header(header["network"])
    assert found == network
    X = torch.ones(4, network.widths[0], dtype=dtype)
    assert torch.equal(found.features(X, weights_from_tensors(found, tensors)), network.features(X, W))


def test_safetensors_itself_reads_the_file(path):
    save(path, {"a": 1}, {"V": torch.eye(3)})
    with safe_open(path, "pt") as file:
        assert torch.equal(file.get_tensor("V"), torch.eye(3))
        assert json.loads(file.metadata()["tikhonet"])["header"] == {"a": 1}


def test_equal_content_gives_equal_bytes(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    save(first, {"a": 1, "b": 2}, {"V": torch.eye(3), "W.1.0": torch.ones(2)})
    save(second, {"b": 2, "a": 1}, {"W.1.0": torch.ones(2), "V": torch.eye(3)})
    assert first.read_bytes() == second.read_bytes()


def test_views_and_shared_memory_are_saved_by_value(path):
    base = torch.arange(12.0).reshape(3, 4).requires_grad_()
    views = {"all": base, "transposed": base.T, "column": base[:, 1], "same": base, "wide": base[:1].expand(3, 4)}
    save(path, {}, views)
    found = load(path)[1]
    for name, view in views.items():
        assert torch.equal(found[name], view)
    found["all"].zero_()
    assert torch.equal(found["same"], base)


def test_every_bit_of_the_header_and_sampled_bits_of_the_data_are_guarded(path):
    save(path, {"classes": ["no", "yes"]}, {"V": torch.randn(3, 40), "W.1.0": torch.randn(40, 7)})
    raw = path.read_bytes()
    data = 8 + struct.unpack("<Q", raw[:8])[0]
    generator = torch.Generator().manual_seed(0)
    sampled = torch.randint(8 * data, 8 * len(raw), (500,), generator=generator).tolist()
    missed = []
    with path.open("r+b", buffering=0) as file:
        for bit in [*range(8 * data), *sampled, 8 * len(raw) - 1]:
            byte = raw[bit // 8]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))
            try:
                load(path)
                missed.append(bit)
            except ModelFormatError:
                pass
            file.seek(bit // 8)
            file.write(bytes([byte]))
    assert not missed
    load(path)


@settings(max_examples=300)
@given(edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=4))
def test_any_edit_under_a_right_digest_is_refused_or_loads_well_formed_content(tmp_path_factory, edits):
    path = tmp_path_factory.mktemp("edit") / "model"
    save(path, {"a": [1, "b"]}, {"V": torch.eye(2), "n": torch.arange(3)})
    raw = path.read_bytes()
    after = 8 + len(OPENING) + 64
    for place, removed, inserted in edits:
        at = after + round(place * (len(raw) - after))
        raw = raw[:at] + inserted + raw[at + removed :]
    header_end = raw.rindex(b"}") + 1
    path.write_bytes(reseal(struct.pack("<Q", header_end + -header_end % 8 - 8) + raw[8:]))
    try:
        header, tensors = load(path)
    except ModelFormatError:
        return
    assert isinstance(header, dict)
    assert all(tensor.dtype in DTYPES.values() for tensor in tensors.values())


def test_a_file_cut_anywhere_or_extended_is_refused(path):
    save(path, {}, {"V": torch.randn(3)})
    raw = path.read_bytes()
    for damaged in [*(raw[:length] for length in range(len(raw))), raw + b"\0", raw + raw]:
        path.write_bytes(damaged)
        with pytest.raises(ModelFormatError, match="use another copy of it, or save the model again"):
            load(path)


def tensor(**changes):
    return [("a", ONE | changes)]


FOUR = bytes(4)
HOSTILE = {
    "empty": (b"", "is empty"),
    "text": (b"{'not': 'a model'}" * 20, "is not a tikhonet model file"),
    "pickle": (b"\x80\x04cos\nsystem\n(S'true'\ntR." + bytes(99), "is not a tikhonet model file"),
    "huge header": (sealed([], length=2**63), r"declares a header of 9,223,372,036,854,775,808 bytes where at most"),
    "long header": (sealed([], bytes(MAX_HEADER), length=MAX_HEADER + 1), "declares a header of"),
    "overlap": (sealed([("a", ONE), ("b", ONE)], FOUR), "tensors that cannot be: .*offset"),
    "hole": (sealed(tensor(data_offsets=[4, 8]), bytes(8)), "tensors that cannot be: .*offset"),
    "out of range": (sealed(tensor(shape=[2**40], data_offsets=[0, 2**42]), FOUR), "declares .* bytes of tensors"),
    "reversed": (sealed(tensor(data_offsets=[8, 4]), FOUR), "tensors that cannot be"),
    "negative": (sealed(tensor(data_offsets=[-4, 0])), "tensors that cannot be"),
    "wrong shape": (sealed(tensor(shape=[2]), FOUR), "tensors that cannot be"),
    "overflowing shape": (sealed(tensor(shape=[2**62, 2**62]), FOUR), "tensors that cannot be: .*overflow"),
    "overflowing empty shape": (sealed(tensor(shape=[0, 2**62, 2**62], data_offsets=[0, 0])), "tensors that cannot be"),
    "unrepresentable shape": (sealed(tensor(shape=[2**63 + 5, 0], data_offsets=[0, 0])), "tensors that cannot be"),
    "text for an offset": (sealed(tensor(data_offsets=["0", "4"]), FOUR), "in an unknown way"),
    "a number for a tensor": (sealed([("a", 7)], FOUR), "in an unknown way"),
    "extra field": (sealed(tensor(extra=1), FOUR), "in an unknown way"),
    "unsupported dtype": (sealed(tensor(dtype="F8_E4M3", shape=[4]), FOUR), "dtype 'F8_E4M3'; allowed are F16"),
    "unknown dtype": (sealed(tensor(dtype="object"), FOUR), "dtype 'object'; allowed are F16"),
    "NaN": (sealed(tensor(), struct.pack("<f", float("nan"))), "holds NaN or infinity in the tensor 'a'"),
    "infinity": (sealed(tensor(), struct.pack("<f", float("-inf"))), "holds NaN or infinity in the tensor 'a'"),
    "duplicate tensor": (sealed(2 * f',"a":{json.dumps(ONE)}', FOUR), "a key occurs twice"),
    "duplicate metadata": (sealed(',"__metadata__":{}'), "a key occurs twice"),
    "duplicate header key": (sealed([], header_text='{"a":1,"a":2}'), "a key occurs twice"),
    "deep header": (sealed([], header_text=10**6 * "["), "not valid JSON"),
    "deep tensors": (sealed(f',"a":{10**6 * "["}'), "not valid JSON"),
    "NaN in the header": (sealed([], header_text='{"a":NaN}'), "not finite"),
    "overflow in the header": (sealed([], header_text='{"a":1e999}'), "not finite"),
    "endless integer": (sealed([], header_text=f'{{"a":{"9" * 10**5}}}'), "not valid JSON"),
    "list for a header": (sealed([], header_text="[]"), "a header of an unknown kind"),
    "newer": (sealed([], version="3"), "has version 3 and this tikhonet reads up to 2; install a newer tikhonet$"),
    "version 0": (sealed([], version="0"), "a header of an unknown kind"),
    "version true": (sealed([], version="true"), "a header of an unknown kind"),
    "seal without header": (sealed([], seal=f'{{"sha256":"{"0" * 64}","version":1}}'), "a header of an unknown kind"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_with_a_reason(path, kind):
    content, reason = HOSTILE[kind]
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000


def test_the_hostile_files_are_refused_for_their_content_alone(path):
    path.write_bytes(sealed(tensor(), FOUR, header_text='{"a":1}'))
    header, tensors = load(path)
    assert header == {"a": 1}
    assert torch.equal(tensors["a"], torch.zeros(1))


@pytest.mark.parametrize("kind", ["huge header", "out of range", "overflowing empty shape"])
def test_no_memory_is_taken_for_what_a_file_claims(path, kind):
    path.write_bytes(HOSTILE[kind][0])
    tracemalloc.start()
    with pytest.raises(ModelFormatError):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_only_the_beginning_of_a_large_foreign_file_is_read(path):
    with path.open("wb") as file:
        file.write(sealed(tensor(), FOUR))
        file.truncate(2**40)
    with pytest.raises(ModelFormatError, match="was cut or extended"):
        load(path)


def test_a_folder_and_a_device_are_refused(tmp_path):
    for path in [tmp_path, *(["/dev/zero"] if os.path.exists("/dev/zero") else [])]:
        with pytest.raises(ModelFormatError, match="must be a model file, got a folder or a device"):
            load(path)


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        load(path)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failed_save_leaves_the_former_file_and_nothing_else(path, monkeypatch, step):
    save(path, {"kept": True}, {"V": torch.eye(2)})
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if step == "write":
            resource = pytest.importorskip("resource")
            signal = pytest.importorskip("signal")
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        else:
            patch.setattr(os, step, full)
        try:
            with pytest.raises(OSError):
                save(path, {}, {"V": torch.zeros(5000)})
        finally:
            if step == "write":
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
                signal.signal(signal.SIGXFSZ, former)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    save(path, {}, {})
    assert load(path) == ({}, {})


def test_an_interrupted_save_leaves_nothing_behind(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(path, {}, {})
    assert not list(path.parent.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX links and permissions")
def test_the_file_has_usual_permissions_and_links_are_followed(tmp_path):
    plain, link, target = tmp_path / "plain", tmp_path / "link", tmp_path / "target"
    plain.touch()
    link.symlink_to(target)
    save(link, {"a": 1}, {})
    assert link.is_symlink()
    assert load(target)[0] == {"a": 1}
    assert target.stat().st_mode == plain.stat().st_mode


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_file_that_is_replaced_keeps_its_permissions(path):
    save(path, {}, {})
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        save(path, {"a": mode}, {})
        assert path.stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
def test_a_pipe_a_device_and_a_folder_are_not_replaced(path):
    os.mkfifo(path)
    for target, kind in ((path, "a device or a pipe"), ("/dev/null", "a device or a pipe"), (path.parent, "a folder")):
        with pytest.raises(OSError, match=f"must be a file or not exist, got {kind}; name another file"):
            save(target, {}, {})
    assert path.is_fifo()
    assert list(path.parent.iterdir()) == [path]


STOPPED = """
import os, sys, time, torch
from tikhonet.model import storage
def stop(*_):
    print("written", flush=True)
    time.sleep(60)
os.replace = stop
storage.save(sys.argv[1], {}, {"V": torch.eye(2)})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_what_a_killed_save_left_is_removed_by_the_next_and_a_running_one_is_left_alone(path):
    with subprocess.Popen([sys.executable, "-c", STOPPED, str(path)], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "written\n"
        save(path, {}, {})
        assert len(list(path.parent.iterdir())) == 2
        running.kill()
    save(path.with_name("other"), {}, {})
    assert len(list(path.parent.iterdir())) == 3
    save(path, {}, {})
    assert {file.name for file in path.parent.iterdir()} == {path.name, "other"}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"a": float("nan")}, "finite numbers"),
        ({"a": [float("inf")]}, "finite numbers"),
        ({"a": (1, 2)}, "lists rather than tuples"),
        ({1: "a"}, "text as keys"),
        ({"a": torch.ones(1)}, "plain JSON"),
        ([], "must be a dict"),
        ({"a": "x" * MAX_HEADER}, "must fit 16,777,216 bytes"),
    ],
)
def test_a_header_that_would_not_come_back_is_not_saved(path, header, reason):
    with pytest.raises(ModelFormatError, match=reason):
        save(path, header, {})
    assert not path.exists()


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"a": torch.tensor([1.0, float("nan")])}, r"tensors\['a'\] must hold finite numbers"),
        ({"a": torch.tensor(float("inf"), dtype=torch.bfloat16)}, "must hold finite numbers"),
        ({"a": torch.ones(2, dtype=torch.complex64)}, "must be a dense tensor of float16, .*got .*complex64"),
        ({"a": torch.eye(2).to_sparse()}, "must be a dense tensor of .*got torch.sparse_coo"),
        ({"a": [1.0]}, "must be a dense tensor of .*got list"),
        ({"__metadata__": torch.ones(1)}, "printable names"),
        ({"": torch.ones(1)}, "printable names"),
        ({"\ud800": torch.ones(1)}, "printable names"),
        ({3: torch.ones(1)}, "printable names"),
    ],
)
def test_tensors_that_would_not_come_back_are_not_saved(path, tensors, reason):
    with pytest.raises(ModelFormatError, match=reason):
        save(path, {}, tensors)
    assert not path.exists()
