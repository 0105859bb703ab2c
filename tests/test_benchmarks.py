"""What benchmarks make of their measurements, which are made up here."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def distributed(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield pytest.importorskip("distributed")
    for name in ("distributed", "machine"):
        sys.modules.pop(name, None)


def test_runs_on_several_processes_are_held_against_the_model_of_their_costs(distributed, monkeypatch):
    recorded = {}
    measured = {"sums": 3, "bytes": 8, "cpu": 2.0, "wall": 3.0, "memory": 5.0, "products": 7}
    monkeypatch.setattr(distributed, "launch", lambda *_: {name: dict(measured) for name in ("trainer", "alg1")})
    monkeypatch.setattr(distributed, "record", lambda options, values: recorded.update(values))
    given = {"rows": 2000, "iterations": 2, "processes": [1, 2], "bandwidth": 1e9, "latency": 5e-5, "flops": 5e10}
    distributed.main(Namespace(**given))
    one, two = (recorded["runs"][processes]["alg1"] for processes in ("1", "2"))
    assert one["model"] == 0 < two["model"]
    assert two["model_memory"] < one["model_memory"] == distributed.full_memory(2000, 2000)
    assert two["model_products"] < one["model_products"]
