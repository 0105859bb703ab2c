"""Mutants of every kind of file that the library reads, loaded under a memory limit and an audit hook.

    python -m tests.fuzz.files COUNT SEED

A mutant is refused by the library's own error, or it loads and then predicts or searches with finite results. Anything
else is told on a line of its own: another error, a process that was started, a connection, a file that was written
elsewhere, a load that takes more than `SECONDS` or more memory than `MEMORY` bytes above those at the start.
"""

import io
import json
import random
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from itertools import count
from pathlib import Path

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from tests.faults.kills import FITS, X, Y
from tests.model.test_storage import reseal
from tikhonet import BCDClassifier, BCDFeatures, BCDRegressor, Checkpoint, Network
from tikhonet.data import DataError, read_folder, read_table
from tikhonet.estimators.checkpoints import CheckpointWarning, Stopped
from tikhonet.hashing import BCDHasher, HammingIndex
from tikhonet.model.export import CSRModel
from tikhonet.model.reading import ModelFormatError
from tikhonet.network.errors import ArgumentError
from tikhonet.paper.old_records import convert_folder
from tikhonet.paper.records import RecordError, pack_pictures, unpack_picture

MEMORY, SECONDS = 2**30, 20
FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.", "ctypes.", "pickle.")
VALUES = (
    None, True, -1, 0, 1, 2, 7, 2**31, 2**63, 10**15, 10**400, 0.0, 5e-324, 1e308, -1e308, "", "x", "\x1b[2J",
    "<U60000000", "<i8", "O", "|V8", "tree", "ivf", "hash", "dense", "identity", "energy", "A" * 5000, [], {}, [[]],
    {"pairs": 3}, [1] * 50,
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e38, 1e300, -1e308, np.nan, np.inf)
DTYPES = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", ">f8", ">i4", "<U3", "bool")


class Escaped(BaseException):
    """Something happened that no file may bring about; a BaseException, so that nobody catches it."""


def watch(folder):
    """Forbid processes, connections and writes outside of the folder, for the rest of this process's life."""

    def hook(event, arguments):
        if event.startswith(FORBIDDEN):
            raise Escaped(f"{event} {arguments}")
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa+")
        if writes and not str(arguments[0]).startswith((str(folder), "/dev/null")):
            raise Escaped(f"{event} {arguments}")

    sys.addaudithook(hook)


def limit_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


# Files to begin with


def model_files(folder):
    """Each kind of estimator, once with words as classes and names of columns."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 4)), generator.integers(3, size=60)
    quick = {"hidden_layer_sizes": (5,), "max_iter": 2, "random_state": 0}
    made = {
        "classifier": BCDClassifier(**quick).fit(X, np.array(["a", "b\x07", "c"])[y]),
        "numbers": BCDClassifier(network=Network.paper(4), decision="energy", head="ridge", random_state=0).fit(X, y),
        "regressor": BCDRegressor(**quick).fit(X, X[:, :2]),
        "features": BCDFeatures(**quick).fit(X, y),
        "hasher": BCDHasher(8, max_iter=2, random_state=0).fit(X, y),
    }
    for name, estimator in made.items():
        estimator.save(folder / name)
        yield name, (folder / name).read_bytes(), use_estimator(type(estimator))
    CSRModel.save(made["classifier"].to_csr(), folder / "csr")
    yield "csr", (folder / "csr").read_bytes(), use_csr


def checkpoint_files(folder):
    """A state of each solver, within a fit that goes on from it."""
    for name in ("numbers", "under a budget", "proximal", "certified"):
        place, asked = folder / f"states {name}", count(1)
        with suppress(Stopped):
            FITS[name](checkpoint=Checkpoint(place, stop=lambda asked=asked: next(asked) > 3)).fit(X, Y)
        [state] = place.glob("0*.checkpoint")
        yield f"state, {name}", state.read_bytes(), use_state(name, place, state.name)


def index_files(folder):
    codes = np.random.default_rng(0).integers(256, size=(30, 8), dtype=np.uint8)
    for kind, settings in {"numpy": {}, "flat": {}, "hash": {"hash_bits": 8, "flips": 1}, "ivf": {"lists": 3}}.items():
        HammingIndex(64, kind, **settings).fit(codes).add(codes).save(folder / kind)
        yield f"index {kind}", (folder / kind).read_bytes(), use_index


def data_files(folder):
    from PIL import Image

    X, y = np.arange(40.0).reshape(10, 4), np.arange(10) % 3
    np.savez_compressed(folder / "table.npz", X=X, y=np.array(["a", "bb", "c"])[y])
    np.save(folder / "table.npy", X)
    for ending in (".npz", ".npy"):
        yield f"table{ending}", (folder / f"table{ending}").read_bytes(), use_table(ending)
    yield "pictures.npz", (folder / "table.npz").read_bytes(), use_old_pictures
    yield "picture", pack_pictures({"a": X})["a"].encode(), use_picture
    for ending in (".png", ".bmp", ".gif", ".tiff", ".jpg"):
        made = io.BytesIO()
        Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(made, Image.registered_extensions()[ending])
        yield f"image{ending}", made.getvalue(), use_image(ending)
    idx = b"\0\0\x08\x02" + np.array([5, 4], ">u4").tobytes() + bytes(range(20))
    yield "idx", idx, use_table("-idx2-ubyte")


# What is done with a mutant; all of it is to end well once the file is loaded


def use_estimator(cls):
    def use(path):
        model = cls.load(path)
        X = np.linspace(-3, 1e6, 2 * model.n_features_in_).reshape(2, -1)
        for method in ("predict", "predict_proba", "transform"):
            if hasattr(model, method):
                try:
                    found = np.asarray(getattr(model, method)(X))
                except ArgumentError as error:
                    # A decision that was set after the fit has no probabilities, which a user may save like any other.
                    if (method, error.argument) != ("predict_proba", "decision"):
                        raise
                    continue
                assert found.dtype.kind in "biUO" or np.isfinite(found).all(), f"{method} is not finite"

    return use


def use_state(name, place, file):
    """A fit makes a step from the state, or says why not and begins anew; one in eight goes on to its end."""

    def use(path):
        for old in place.glob("*.checkpoint"):
            old.unlink()
        path.rename(place / file)
        stop = None if zlib.crc32((place / file).read_bytes()) % 8 == 0 else lambda: True
        with warnings.catch_warnings(record=True) as caught, suppress(Stopped):
            warnings.simplefilter("always", CheckpointWarning)
            try:
                model = FITS[name](checkpoint=Checkpoint(place, stop=stop)).fit(X, Y)
                assert np.isfinite(model.transform(X)).all(), "features are not finite"
            except ArgumentError as error:  # the state says that it is one of other rows or parameters
                raise ModelFormatError(str(error)) from None
        if refused := [str(one.message) for one in caught if one.category is CheckpointWarning]:
            raise ModelFormatError(refused[0])

    return use


def use_csr(path):
    model = CSRModel.load(path)
    assert np.isfinite(model.scores(np.ones((2, model.network.widths[0])))).all()
    model.predict(np.full((2, model.network.widths[0]), 1e300))


def use_index(path):
    index = HammingIndex.load(path)
    if len(index):
        index.search(index.codes[:2], 1)
        index.within(index.codes[:2], 1)


def use_table(ending):
    def use(path):
        table = read_table(path.rename(path.with_name(f"mutant{ending}")))
        assert np.isfinite(table.X).all()

    return use


def use_image(ending):
    def use(path):
        (path.parent / "images").mkdir(exist_ok=True)
        place = path.rename(path.parent / "images" / f"mutant{ending}")
        try:
            assert np.isfinite(read_folder(path.parent / "images").X).all()
        finally:
            place.unlink()

    return use


def use_old_pictures(path):
    place = path.parent / "records"
    place.mkdir(exist_ok=True)
    path.rename(place / "a.npz")
    (place / "a.json").write_text('{"method": "a", "checks": []}')
    convert_folder(path.parent)


def use_picture(path):
    unpack_picture(path.read_text(errors="replace"))


# Mutations


def damaged(raw, draw):
    """Bytes changed, cut out, repeated or put in."""
    raw = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at, length = draw.randrange(len(raw) + 1), draw.choice((1, 1, 4, 30))
        match draw.randrange(4):
            case 0:
                raw[at : at + length] = draw.randbytes(len(raw[at : at + length]))
            case 1:
                del raw[at : at + length]
            case 2:
                raw[at:at] = raw[at : at + length]
            case 3:
                raw[at:at] = draw.choice((b"\0" * length, b"\xff" * length, draw.randbytes(length)))
    return bytes(raw[: draw.randrange(len(raw) + 1)] if draw.random() < 0.1 else raw)


def changed(content, draw):
    """JSON with something in it replaced, dropped or added."""
    value = deepcopy(draw.choice(VALUES))
    if isinstance(content, (dict, list)) and content and draw.random() < 0.85:
        keys = list(content) if isinstance(content, dict) else range(len(content))
        key = draw.choice(list(keys))
        match draw.randrange(8):
            case 0:
                del content[key]
            case 1 if isinstance(content, dict):
                content[draw.choice(("n_bits", "self", "x", "lists", "flips", "network"))] = value
            case 1 | 2 if isinstance(content, list):
                content.append(deepcopy(draw.choice((content[key], value))))
            case _:
                content[key] = changed(content[key], draw)
        return content
    return value


def changed_array(values, draw):
    """An array of another type, shape or content."""
    text = values.dtype.kind == "U"
    match draw.randrange(4):
        case 0:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return values.astype(draw.choice(("<U1", "<U9", "S2") if text else DTYPES))
        case 1:
            return values[: draw.randrange(len(values) + 1)] if values.ndim and len(values) else values[None]
        case 2 if values.size and not text:
            values = values.copy()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values.flat[draw.randrange(values.size)] = np.array(draw.choice(NUMBERS)).astype(values.dtype)
            return values
    return draw.choice((values.T, values.ravel(), np.repeat(values[None], 2, 0), values[..., None]))


def resealed(raw, draw):
    """A model file with other content under a right SHA-256."""
    length = int.from_bytes(raw[:8], "little")
    entries, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    seal = json.loads(entries["__metadata__"]["tikhonet"])
    for _ in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.7:
            seal["header"] = changed(seal["header"], draw)
        else:
            entries, data = changed_tensors(entries, data, draw)
    entries["__metadata__"] = {"tikhonet": json.dumps(seal, separators=(",", ":"))}
    text = json.dumps(entries, separators=(",", ":")).encode()
    return reseal(len(text).to_bytes(8, "little") + text + data)


def changed_tensors(entries, data, draw):
    names = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8, "I32": np.int32, "F16": np.float16}
    kinds = {np.dtype(kind): name for name, kind in names.items()}
    arrays = {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], names[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in entries.items()
        if name != "__metadata__"
    }
    chosen = draw.choice(list(arrays))
    made = changed_array(arrays[chosen], draw)
    arrays[chosen] = made if made.dtype in kinds else np.frombuffer(made.tobytes(), np.uint8)
    if draw.random() < 0.1:
        arrays[draw.choice(("W.9.0", "V", "centres", "coef", "x"))] = arrays.pop(chosen)
    parts, offset = {"__metadata__": None}, 0
    for name, values in arrays.items():
        parts[name] = {
            "dtype": kinds[values.dtype],
            "shape": values.shape,
            "data_offsets": [offset, offset + values.nbytes],
        }
        offset += values.nbytes
    return parts, b"".join(values.tobytes() for values in arrays.values())


def rezipped(raw, draw):
    """An .npz file with other arrays, or another header inside."""
    with np.load(io.BytesIO(raw)) as file:
        arrays = dict(file)
    chosen = draw.choice(list(arrays))
    if chosen == "header" or ("header" in arrays and draw.random() < 0.4):
        text = json.dumps(changed(json.loads(arrays["header"].tobytes()), draw)).encode()
        arrays["header"] = np.frombuffer(text, np.uint8)
    elif draw.random() < 0.1:
        del arrays[chosen]
    else:
        arrays[chosen] = changed_array(arrays[chosen], draw)
    made = io.BytesIO()
    with zipfile.ZipFile(
        made, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    ) as archive:
        for name, values in arrays.items():
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            text = content.getvalue()
            if draw.random() < 0.05:
                text = text.replace(b"(", b"(99999999", 1)
            archive.writestr(f"{name}.npy", text)
    return made.getvalue()


def mutate(raw, draw):
    if raw[8:24].startswith(b'{"__metadata__"') and draw.random() < 0.8:
        return resealed(raw, draw)
    if raw.startswith(b"PK") and draw.random() < 0.6:
        return rezipped(raw, draw)
    return damaged(raw, draw)


def run(count, seed, folder):
    """The mistakes that were found, and how many mutants were refused and how many loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        files = [*model_files(folder), *checkpoint_files(folder), *index_files(folder), *data_files(folder)]
    for name, raw, use in files:  # what is imported late is imported before the hook watches
        (folder / "mutant").write_bytes(raw)
        try:
            use(folder / "mutant")
        except RecordError:
            assert use is use_old_pictures, name
    watch(folder)
    limit_memory()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Escaped("it takes too long")))
    draw, told, mistakes = random.Random(seed), Counter(), []
    for number in range(count):
        name, raw, use = files[number % len(files)]
        (folder / "mutant").write_bytes(mutate(raw, draw))
        signal.alarm(SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(folder / "mutant")
            told["loaded"] += 1
        except (ModelFormatError, DataError, RecordError) as error:
            told["refused"] += 1
            if len(str(error)) > 2000:
                mistakes.append(f"{name}, mutant {number}: the message has {len(str(error))} characters")
        except BaseException as error:
            mistakes.append(f"{name}, mutant {number} of seed {seed}: {type(error).__name__}: {str(error)[:300]}")
        finally:
            signal.alarm(0)
    return mistakes, told


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        found, counts = run(int(sys.argv[1]), int(sys.argv[2]), Path(place))
    print(*found, dict(counts), sep="\n")
