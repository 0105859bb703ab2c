"""Every command explains itself, and its example works as it is printed."""

import shlex
import sys
from importlib import import_module

import pytest

from tikhonet import cli
from tikhonet.cli.app import find_commands

ORDER = ["data", "fit", "predict", "evaluate", "certify", "export", "size", "hash", "search", "bench", "info"]
"""The commands whose examples are quick, in an order in which each finds the files that those before it wrote."""


def example(name):
    return import_module(f"tikhonet.cli.{name}").EXAMPLE


def test_the_commands_are_the_files_of_the_package():
    assert set(find_commands()) == {*ORDER, "reproduce"}


@pytest.mark.parametrize("name", [*ORDER, "reproduce"])
def test_the_help_of_a_command_ends_with_its_example_in_one_line(run, name):
    assert example(name) in run(name, "--help").out.splitlines()[-1]
    assert example(name).startswith(f"tikhonet {name} ") or example(name) == f"tikhonet {name}"


def test_the_examples_run_one_after_another_as_printed(run):
    small = ["--bits", 16, "--hidden", "20", "--max-iter", 2]
    run("fit", "--task", "hash", *small, "--data", "digits", "--output", "my.hasher")
    for name in ORDER:
        run(*shlex.split(example(name))[1:])


@pytest.mark.slow
def test_the_example_of_reproduce_runs(run):
    run(*shlex.split(example("reproduce"))[1:])


def test_the_top_lists_every_command(run):
    listed = run("--help").out
    assert all(f"\n  {name} " in listed for name in (*ORDER, "reproduce"))


def test_the_version_is_printed(run):
    import tikhonet

    assert run("--version").out == f"tikhonet {tikhonet.__version__}\n"


COMMAND = '''
"""`tikhonet greet`: a command that is one file."""

import typer

EXAMPLE = "tikhonet greet you"


def greet(name: str) -> None:
    """Greet somebody."""
    if name == "nobody":
        raise typer.BadParameter("must be somebody", param_hint="NAME")
    print(f"hello {name}")
'''


def test_a_file_is_a_command(run, mistake, tmp_path, monkeypatch):
    """One that lies elsewhere serves as well, if its folder is one of those that the package looks in."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "greet.py").write_text(COMMAND)
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path / "more")])
    monkeypatch.delitem(sys.modules, "tikhonet.cli.greet", raising=False)
    assert "\n  greet      Greet somebody." in run("--help").out
    assert "tikhonet greet you" in run("greet", "--help").out.splitlines()[-1]
    assert run("greet", "you").out == "hello you\n"
    assert "must be somebody" in mistake("greet", "nobody")
    assert "'greet'" in mistake("gret")
