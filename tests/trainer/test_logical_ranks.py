"""The trainer on logical ranks: its states are kept once, and a run that was stopped goes on to the same bits."""

import pytest
import torch

from tikhonet import Checkpoint, Fenchel, Network, Problem, SameBits, Stochastic
from tikhonet.estimators.checkpoints import Stopped
from tikhonet.estimators.sessions import FolderSession
from tikhonet.model import storage
from tikhonet.network.errors import ArgumentError

PROBLEM = Problem(Network.chain([6, 9], bias=True), lift=Fenchel())
X = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
T = PROBLEM.loss.encode((X[:, 0] * X[:, 1] > 0).long(), 2).float()
SOLVER = SameBits(Stochastic(epochs=4, batch_size=100, drop_features=0.1), ranks=4)


def session(place, stop=lambda: False):
    return FolderSession(Checkpoint(place, stop=stop, every_seconds=0), place, {"fit": "logical"})


def weights(training):
    return [training.blocks.V, *training.blocks.W.values()]


def test_a_run_that_is_stopped_goes_on_to_the_same_bits(tmp_path):
    whole = weights(SOLVER.run(PROBLEM, X, T))
    asked = iter(range(100))
    with pytest.raises(Stopped):
        SOLVER.run(PROBLEM, X, T, slot=session(tmp_path, lambda: next(asked) == 6).slot())
    assert 1 <= len(list(tmp_path.glob("*.checkpoint"))) <= 2
    found = SOLVER.run(PROBLEM, X, T, slot=session(tmp_path).slot())
    assert all(torch.equal(mine, other) for mine, other in zip(weights(found), whole, strict=True))


def test_a_state_that_no_step_can_be_made_from_is_an_error_on_all_threads(tmp_path):
    asked = iter(range(100))
    with pytest.raises(Stopped):
        SOLVER.run(PROBLEM, X, T, slot=session(tmp_path, lambda: next(asked) == 6).slot())
    for path in tmp_path.glob("*.checkpoint"):
        header, tensors = storage.load(path)
        header["state"]["fields"]["end"] = 2**31
        storage.save(path, header, tensors)
    with pytest.raises(ValueError, match="its end must lie in 0 to 4 epochs"):
        SOLVER.run(PROBLEM, X, T, slot=session(tmp_path).slot())


def test_ranks_are_a_power_of_two_with_rows_for_each():
    with pytest.raises(ArgumentError, match="ranks must be a power of 2, got 3"):
        SameBits(Stochastic(), ranks=3)
    with pytest.raises(ArgumentError, match="one for each of 4 ranks or more"):
        SOLVER.run(PROBLEM, X[:3], T[:3])
