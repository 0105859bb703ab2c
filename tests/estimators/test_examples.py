"""Every example runs, and prints what it promises."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name", ["classification", "regression", "grid_search", "own_network", "sparse_network", "images"]
)
def test_example(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "test" in capsys.readouterr().out


def test_the_example_of_ray_train_runs_where_ray_is_installed(capsys, tmp_path, monkeypatch):
    pytest.importorskip("ray.train")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "ray_train.py"), run_name="__main__")
    assert "accuracy" in capsys.readouterr().out


def test_the_example_of_retrieval_finds_more_neighbours_by_bits_that_know_them(capsys):
    runpy.run_path(str(EXAMPLES / "retrieval.py"), run_name="__main__")
    lines = [line for line in capsys.readouterr().out.splitlines() if "true neighbours found" in line]
    labels, both = (float(line.split()[-1]) for line in lines)
    assert both > 2 * labels
