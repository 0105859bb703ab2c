"""Memory that stays with the process during runs on images: what `malloc` is told, when, and that no bit changes."""

import threading
from types import SimpleNamespace

import pytest
import torch

from tests.trainer.runs import same
from tests.trainer.test_images import stripes
from tikhonet import Conv2d, GlobalAverage, Network, Problem, Stochastic
from tikhonet.trainer import kept_memory as module
from tikhonet.trainer.kept_memory import KEPT, MMAP_THRESHOLD, TRIM_THRESHOLD, USUAL_MMAP, USUAL_TRIM, kept_memory

IMAGES = Network.sequential((1, 6, 6), Conv2d(3, 3), GlobalAverage())
KEEP = [(TRIM_THRESHOLD, KEPT), (MMAP_THRESHOLD, KEPT)]
GIVE_BACK = [(TRIM_THRESHOLD, USUAL_TRIM), (MMAP_THRESHOLD, USUAL_MMAP), "trim"]


@pytest.fixture
def told(monkeypatch):
    """What a C library that takes `allowed` bytes is told."""
    calls, library = [], SimpleNamespace(allowed=KEPT)

    def mallopt(name, value):
        if value <= library.allowed or name == TRIM_THRESHOLD:
            calls.append((name, value))
            return 1
        return 0

    library.mallopt, library.malloc_trim, library.calls = mallopt, lambda pad: calls.append("trim"), calls
    monkeypatch.setattr(module, "glibc", lambda: library)
    return library


@pytest.mark.parametrize(
    ("network", "keep_memory", "calls"),
    [(IMAGES, True, KEEP + GIVE_BACK), (IMAGES, False, []), (Network.chain([36, 4]), True, [])],
)
def test_runs_on_images_keep_freed_memory_and_give_it_back_at_the_end(told, network, keep_memory, calls):
    X, Y = stripes(40)
    Stochastic(epochs=1, keep_memory=keep_memory).run(Problem(network, lift="fenchel", gamma=1.0), X, Y)
    assert told.calls == calls


def test_it_is_given_back_after_an_error_and_by_the_last_of_runs_that_overlap(told):
    with pytest.raises(RuntimeError), kept_memory(True):
        raise RuntimeError
    assert told.calls == KEEP + GIVE_BACK
    told.calls.clear()
    inside, done = threading.Event(), threading.Event()

    def other():
        with kept_memory(True):
            inside.set()
            done.wait()

    thread = threading.Thread(target=other)
    with kept_memory(True):
        thread.start()
        inside.wait()
    assert told.calls == KEEP + KEEP
    done.set()
    thread.join()
    assert told.calls == KEEP + KEEP + GIVE_BACK


def test_an_older_glibc_that_allows_less_gets_the_most_that_it_allows(told):
    told.allowed = USUAL_MMAP
    with kept_memory(True):
        assert told.calls == [(TRIM_THRESHOLD, KEPT), (MMAP_THRESHOLD, USUAL_MMAP)]


def test_no_bit_of_a_run_depends_on_it():
    X, Y = stripes(120)
    runs = [
        Stochastic(epochs=2, batch_size=40, keep_memory=keep).run(Problem(IMAGES, lift="fenchel", gamma=1.0), X, Y)
        for keep in (True, False)
    ]
    assert same(*runs)


def test_where_there_is_no_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(module.ctypes, "CDLL", lambda name: SimpleNamespace())
    module.glibc.cache_clear()
    try:
        assert module.glibc() is None
        with kept_memory(True):
            torch.zeros(1)
    finally:
        module.glibc.cache_clear()
