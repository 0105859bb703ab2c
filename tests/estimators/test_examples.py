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
