"""Every example of the gallery runs, prints what it promises, and draws."""

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "ray_train")


@pytest.fixture(autouse=True)
def sheets(tmp_path, monkeypatch):
    """Pictures are drawn without a window, and put away afterwards."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    yield
    plt.close("all")


def run(name, monkeypatch):
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


@pytest.mark.parametrize("name", sorted({*NAMES} - {"retrieval", "distributed", "own_module"}))
def test_an_example_runs_and_draws(name, monkeypatch):
    names = run(name, monkeypatch)
    assert plt.get_fignums() or name == "images"  # which prints what it found
    if film := names.get("film"):
        assert "<script" in film.to_jshtml()


def test_the_gallery_has_ten_examples_and_more():
    assert len(NAMES) >= 10


def test_the_example_of_two_processes_finds_the_same_bits(monkeypatch, capsys):
    run("distributed", monkeypatch)
    assert "to the last bit of all 15 iterations: True" in capsys.readouterr().out


def test_the_example_of_a_module_for_images_learns_three_times(monkeypatch, capsys):
    run("images", monkeypatch)
    told = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("test accuracy")]
    assert len(told) == 3
    assert min(map(float, told)) > 0.9


def test_the_example_of_an_optimiser_tells_four_errors(monkeypatch, capsys):
    run("own_module", monkeypatch)
    assert capsys.readouterr().out.count("test error") == 4


def test_the_example_of_retrieval_finds_more_neighbours_by_bits_that_know_them(monkeypatch, capsys):
    run("retrieval", monkeypatch)
    lines = [line for line in capsys.readouterr().out.splitlines() if "true neighbours found" in line]
    labels, both = (float(line.split()[-1]) for line in lines)
    assert both > 2 * labels


def test_the_example_of_ray_train_runs_where_ray_is_installed(monkeypatch, capsys):
    pytest.importorskip("ray.train")
    run("ray_train", monkeypatch)
    assert "accuracy" in capsys.readouterr().out
