"""Every command explains itself, and its example works as it is printed."""

import shlex
from importlib import import_module

import pytest

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
