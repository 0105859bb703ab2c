"""Mutants of every kind of file that the library reads, loaded under a memory limit and an audit hook.

    python -m tests.fuzz.files COUNT SEED

A mutant is refused by the library's own error, or it loads and then predicts or searches with finite results. Anything
else is told on a line of its own: another error, code that was executed, a process that was started, a connection, a
file opened for writing (but the checkpoints that a fit goes on with, and old records that are rewritten), a load that
takes more than `SECONDS` or more memory than `MEMORY` bytes above those at the start.
"""

import os
import random
import resource
import signal
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from shutil import copyfile

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from tests.faults.kills import FITS, X, Y
from tests.fuzz.mutants import mutate
from tikhonet import BCDClassifier, BCDFeatures, BCDRegressor, Checkpoint, Network, TorchBlocks, from_torch
from tikhonet.data import DataError, read_folder, read_table
from tikhonet.estimators.checkpoints import CheckpointWarning, Stopped
from tikhonet.hashing import BCDHasher, HammingIndex
from tikhonet.model.export import CSRModel
from tikhonet.model.reading import ModelFormatError
from tikhonet.network.errors import ArgumentError
from tikhonet.paper.old_records import convert_folder
from tikhonet.paper.records import FILE, RecordError, Scored, pack_pictures, read_lines, unpack_picture

MEMORY, SECONDS = 2**30, 20
FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.", "ctypes.", "pickle.")
CHANGES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.",
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Escaped(BaseException):
    """Something happened that no file may bring about; a BaseException, so that nobody catches it."""


class Watch:
    """An audit hook of the interpreter's, which hears all that Python code does to the world outside.

    Inside `with watch.allowing(folder)` nothing may be executed, started or connected to, and nothing be opened for
    writing, made, renamed or removed but in that folder.
    """

    def __init__(self):
        self.folder, self.heard = None, Counter()
        sys.addaudithook(self.hear)

    @contextmanager
    def allowing(self, folder):
        self.folder = str(folder)
        try:
            yield
        finally:
            self.folder = None

    def hear(self, event, arguments):
        if self.folder is None:
            return
        self.heard[event] += 1
        # Modules that are imported late are files; what a string or a pickle brings is not.
        executes = event == "exec" and str(getattr(arguments[0], "co_filename", "<")).startswith("<")
        if executes or event.startswith(FORBIDDEN):
            raise Escaped(f"{event} {arguments}")
        if event == "open":
            path, mode, flags = arguments
            writes = flags & WRITING if isinstance(flags, int) else set(mode or "") & set("wxa+")
            self.check(event, [path] if writes else [])
        elif event.startswith(CHANGES):
            self.check(event, [path for path in arguments if isinstance(path, (str, bytes, os.PathLike))])

    def check(self, event, paths):
        for path in map(os.fsdecode, (path for path in paths if not isinstance(path, int))):
            if not path.startswith((self.folder, "/dev/null")):
                raise Escaped(f"{event} {path}, beside {self.folder}")


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
        yield name, folder / name, use_estimator(type(estimator))
    module = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3))
    from_torch(module, (1, 3, 3)).save(folder / "module")
    yield "module", folder / "module", use_module
    CSRModel.save(made["classifier"].to_csr(), folder / "csr")
    yield "csr", folder / "csr", use_csr


def checkpoint_files(folder):
    """A state of each solver, within a fit that goes on from it."""
    for name in ("numbers", "under a budget", "proximal", "certified"):
        place, asked = folder / f"states {name}", count(1)
        with suppress(Stopped):
            FITS[name](checkpoint=Checkpoint(place, stop=lambda asked=asked: next(asked) > 3)).fit(X, Y)
        [state] = place.glob("0*.checkpoint")
        yield f"state, {name}", state, use_state(name), place


def index_files(folder):
    codes = np.random.default_rng(0).integers(256, size=(30, 8), dtype=np.uint8)
    for kind, settings in {"numpy": {}, "flat": {}, "hash": {"hash_bits": 8, "flips": 1}, "ivf": {"lists": 3}}.items():
        HammingIndex(64, kind, **settings).fit(codes).add(codes).save(folder / kind)
        yield f"index {kind}", folder / kind, use_index


def record_files(folder):
    """A line of records, with a picture."""
    words = {name: name for name in ("experiment", "size", "method", "title", "family")}
    numbers = {"trial": 0, "seed": 0, "seconds": 1.0, "wall": 1.0, "score": 0.5}
    tables = {"data": {"rows": 3}, "settings": {"a": [1, 2]}, "versions": {"python": "3"}, "hardware": {"cores": 2}}
    pictures = pack_pictures({"a": np.arange(12.0).reshape(3, 4)})
    record = Scored(**words, **numbers, **tables, pictures=pictures, checks=[{"claim": "x", "holds": True}])
    (folder / "lines").mkdir()
    (folder / "lines" / FILE).write_text(2 * record.to_json())
    yield "records", folder / "lines" / FILE, use_records


def data_files(folder):
    from PIL import Image

    Image.init()  # all formats, whose modules would be imported when an image is of none of the usual ones
    X, y = np.arange(40.0).reshape(10, 4), np.arange(10) % 3
    np.savez_compressed(folder / "table.npz", X=X, y=np.array(["a", "bb", "c"])[y])
    np.save(folder / "table.npy", X)
    for ending in (".npz", ".npy"):
        yield f"table{ending}", folder / f"table{ending}", use_table
    old = folder / "old" / "records"
    old.mkdir(parents=True)
    copyfile(folder / "table.npz", old / "a.npz")
    yield "pictures.npz", old / "a.npz", use_old_pictures, old.parent
    (folder / "picture").write_text(pack_pictures({"a": X})["a"])
    yield "picture", folder / "picture", use_picture
    for ending in (".png", ".bmp", ".gif", ".tiff", ".jpg"):
        place = folder / f"images{ending}"
        place.mkdir()
        Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(place / f"a{ending}")
        yield f"image{ending}", place / f"a{ending}", use_image
    idx = folder / "table-idx2-ubyte"
    idx.write_bytes(b"\0\0\x08\x02" + np.array([5, 4], ">u4").tobytes() + bytes(range(20)))
    yield "idx", idx, use_table


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


def use_module(path):
    read = TorchBlocks.load(path)
    assert read.to_torch()(torch.ones(2, *read.network.shapes[0])).shape == (2, len(read.V))


def use_state(name):
    """A fit makes a step from the state, or says why not and begins anew; one in eight goes on to its end."""

    def use(path):
        for newer in path.parent.glob("*.checkpoint"):
            if newer != path:
                newer.unlink()
        stop = None if zlib.crc32(path.read_bytes()) % 8 == 0 else lambda: True
        with warnings.catch_warnings(record=True) as caught, suppress(Stopped):
            warnings.simplefilter("always", CheckpointWarning)
            try:
                model = FITS[name](checkpoint=Checkpoint(path.parent, stop=stop)).fit(X, Y)
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


def use_table(path):
    assert np.isfinite(read_table(path).X).all()


def use_image(path):
    assert np.isfinite(read_folder(path.parent).X).all()


def use_records(path):
    for where, content in read_lines(path.parent):
        record = Scored.parse(content, where)
        for name in record.pictures:
            record.picture(name)
        record.to_json()


def use_old_pictures(path):
    path.with_suffix(".json").write_text('{"method": "a", "checks": []}')
    convert_folder(path.parent.parent)


def use_picture(path):
    unpack_picture(path.read_text(errors="replace"))


def files_of(folder):
    """Every kind of file: its name, its path and bytes, what is done with it, and the folder that this may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for kind in (model_files, checkpoint_files, index_files, record_files, data_files):
            for name, path, use, *place in kind(folder):
                yield name, path, path.read_bytes(), use, *(place or [folder / "nothing"])


def run(count, seed, folder):
    """The mistakes that were found, and how many mutants were refused and how many loaded."""
    files = [*files_of(folder)]
    for name, path, _, use, _ in files:  # what is imported late is imported before the hook watches
        try:
            use(path)
        except RecordError:
            assert use is use_old_pictures, name
    watch = Watch()
    limit_memory()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Escaped("it takes too long")))
    draw, told, mistakes = random.Random(seed), Counter(), []
    for number in range(count):
        name, path, raw, use, place = files[number % len(files)]
        path.write_bytes(mutate(raw, draw))
        signal.alarm(SECONDS)
        try:
            with warnings.catch_warnings(), watch.allowing(place):
                warnings.simplefilter("ignore")
                use(path)
            told["loaded"] += 1
        except (ModelFormatError, DataError, RecordError) as error:
            told["refused"] += 1
            if len(str(error)) > 2000:
                mistakes.append(f"{name}, mutant {number}: the message has {len(str(error))} characters")
        except BaseException as error:
            mistakes.append(f"{name}, mutant {number} of seed {seed}: {type(error).__name__}: {str(error)[:300]}")
        finally:
            signal.alarm(0)
    assert watch.heard["open"] >= told["loaded"], "the hook heard nothing"
    return mistakes, told


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        found, counts = run(int(sys.argv[1]), int(sys.argv[2]), Path(place))
    print(*found, dict(counts), sep="\n")
