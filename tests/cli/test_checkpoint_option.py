"""`tikhonet fit --checkpoint`: signals, and the command that goes on."""

import os
import signal

import numpy as np
import pytest

from tikhonet.cli import progress as command

WORDS = ["fit", "--data", "table.npz", "--hidden", "6", "--max-iter", "4", "--batch-size", "40"]


@pytest.fixture
def table(tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 4))
    np.savez(tmp_path / "table.npz", X=X, y=(X[:, 0] * X[:, 1] > 0).astype(int))


@pytest.fixture
def at_second_epoch(monkeypatch):
    """Send this process a signal when the second epoch is told of."""
    describe = command.describe

    def go(number):
        def told(record):
            if record.number == 2:
                os.kill(os.getpid(), number)
            return describe(record)

        monkeypatch.setattr(command, "describe", told)
        return lambda: monkeypatch.setattr(command, "describe", describe)

    return go


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_the_state_and_the_same_command_goes_on_to_the_same_bits(
    number, code, run, mistake, table, tmp_path, at_second_epoch
):
    run(*WORDS, "-o", "whole")
    end = at_second_epoch(number)
    line = mistake(*WORDS, "-o", "m", "--checkpoint", "states", code=code)
    assert "stopped; the state of the fit is kept in states, and the same command goes on from there" in line
    assert not (tmp_path / "m").exists()
    end()
    run(*WORDS, "-o", "m", "--checkpoint", "states")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_sigterm_without_a_checkpoint_saves_the_model_of_the_epochs_done(run, table, at_second_epoch, tmp_path):
    at_second_epoch(signal.SIGTERM)
    ran = run(*WORDS, "-o", "m", "--json", code=143)
    assert ran.document["status"] == "INTERRUPTED"
    assert ran.document["iterations"] == 2
    assert (tmp_path / "m").exists()


def test_a_changed_file_and_another_option_are_refused(run, mistake, table, tmp_path, at_second_epoch):
    end = at_second_epoch(signal.SIGTERM)
    run(*WORDS, "-o", "m", "--checkpoint", "states", code=143)
    end()
    line = mistake(*WORDS, "-o", "m", "--checkpoint", "states", "--loss", "softmax")
    assert "--checkpoint is that of a fit with loss='squared', got loss='softmax'; go on with those" in line
    arrays = dict(np.load(tmp_path / "table.npz"))
    arrays["X"][7, 2] += 1e-9
    np.savez(tmp_path / "table.npz", **arrays)
    line = mistake(*WORDS, "-o", "m", "--checkpoint", "states", code=1)
    assert "X, y and sample_weight must be those that the checkpoint was made of" in line
