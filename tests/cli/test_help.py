"""Every command explains itself, and its example works as it is printed."""

import shlex

import pytest

from tikhonet.cli import bench, certify, data, evaluate, export, fit, hash_rows, info, predict, reproduce, search, size

COMMANDS = {
    module.EXAMPLE.split()[1]: module
    for module in (data, fit, predict, evaluate, certify, export, size, hash_rows, search, bench, info)
}


@pytest.mark.parametrize("name", [*COMMANDS, "reproduce"])
def test_the_help_of_a_command_ends_with_its_example_in_one_line(run, name):
    example = (COMMANDS | {"reproduce": reproduce})[name].EXAMPLE
    assert example in run(name, "--help").out.splitlines()[-1]
    assert example.startswith(f"tikhonet {name} ") or example == f"tikhonet {name}"


def test_the_examples_run_one_after_another_as_printed(run):
    small = ["--bits", 16, "--hidden", "20", "--max-iter", 2]
    run("fit", "--task", "hash", *small, "--data", "digits", "--output", "my.hasher")
    for module in COMMANDS.values():
        run(*shlex.split(module.EXAMPLE)[1:])


@pytest.mark.slow
def test_the_example_of_reproduce_runs(run):
    run(*shlex.split(reproduce.EXAMPLE)[1:])


def test_the_top_lists_every_command(run):
    listed = run("--help").out
    assert all(f"\n  {name} " in listed for name in (*COMMANDS, "reproduce"))


def test_the_version_is_printed(run):
    import tikhonet

    assert run("--version").out == f"tikhonet {tikhonet.__version__}\n"
