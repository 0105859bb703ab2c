"""The reproduction: one class an experiment, its records and its page, and the methods that it compares with."""

from pathlib import Path


def experiment_files() -> dict[str, Path]:
    """The library's own experiments: by name, the file that defines each."""
    paths = sorted(Path(__file__).parent.glob("*_experiment.py"))
    return {path.stem.removesuffix("_experiment"): path for path in paths}
