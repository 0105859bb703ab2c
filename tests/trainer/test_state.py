"""The state of a run: saved, loaded and resumed between any two steps, it goes on to the same bits."""

import io
from dataclasses import replace

import pytest
import torch

from tests.trainer.runs import DEEP64, SMALL64, same
from tikhonet import Budget, Fenchel, Problem, Softmax, Squared, Stochastic
from tikhonet.problem.samples import keep
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.saving import from_plain
from tikhonet.trainer.state import TrainingState
from tikhonet.trainer.step import Stepper

RUNS = {
    "usual": (SMALL64, Squared(), {}),
    "softmax": (SMALL64, Softmax(), {}),
    "full metric": (DEEP64, Squared(), {}),
    "support that is cut to": (SMALL64, Squared(), {"budget": Budget(0.2, frozen=0.3)}),
    "support that is solved on": (SMALL64, Squared(), {"budget": Budget(0.03, frozen=0.3)}),
}


def through_a_file(state):
    """Saved as plain data, and loaded where nothing but tensors, numbers and strings is allowed."""
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    return TrainingState.from_dict(torch.load(file, weights_only=True))


def plain(data):
    if isinstance(data, dict):
        return all(isinstance(key, (str, int, tuple)) and plain(part) for key, part in data.items())
    if isinstance(data, list):
        return all(map(plain, data))
    return data is None or isinstance(data, (torch.Tensor, int, float, str))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_cut_within_an_epoch_goes_on_to_the_same_bits(digits, name, monkeypatch):
    X, y, X_test, y_test = digits
    network, loss, settings = RUNS[name]
    problem, solver = Problem(network, loss, Fenchel()), Stochastic(epochs=4, batch_size=100, **settings)
    data = {"X": X, "targets": loss.encode(y), "validation": (X_test, loss.encode(y_test, 10))}
    whole = solver.run(problem, **data)
    kept = []

    def stop(self, state, batch, step=Stepper.__call__):
        if state.step == 31:  # the sixth batch of the third epoch
            kept.append(through_a_file(state))
            raise KeyboardInterrupt
        return step(self, state, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "__call__", stop)
        solver.run(problem, **data)
    assert (kept[0].batches, len(kept[0].epochs)) == (5, 2)
    rest = solver.run(problem, **data, resume=kept[0])
    assert same(whole, rest)
    assert [epoch.loss for epoch in whole.epochs] == [epoch.loss for epoch in rest.epochs]


@pytest.mark.parametrize("name", RUNS)
def test_a_step_is_a_function_of_state_and_batch(digits, name):
    """A saved state gives the next one again, and the settings hold nothing that a step could change."""
    X, y, *_ = digits
    network, loss, settings = RUNS[name]
    problem, recipe = Problem(network, loss, Fenchel()), Stochastic(**settings)
    batches = [Batch(*part) for part in zip(X.split(100), loss.encode(y).split(100), strict=True)]
    generator = torch.Generator().manual_seed(3)
    step = Stepper.of(problem, recipe, batches[0], 40, generator, keep)
    state = step.begin(batches[0], None, 1.0, 3, generator)
    for batch in batches:
        before = through_a_file(state)
        state = step(state, batch)
        again = step(before, batch)
        assert plain(state.state_dict())
        assert state.step == again.step == before.step + 1
        assert all(torch.equal(state.W[edge], again.W[edge]) for edge in state.W)
        assert torch.equal(state.average.V, again.average.V)
        assert torch.equal(state.generator, again.generator)


def test_plain_data_that_name_another_class_are_refused(digits):
    with pytest.raises(ValueError, match=r"a saved state must name one of .*TrainingState.*, got 'Popen'"):
        from_plain({"class": "Popen"})
    with pytest.raises(ValueError, match=r"must be what TrainingState.state_dict gave, got dict"):
        TrainingState.from_dict({"W": {}})


def started(digits, **settings):
    X, y, *_ = digits
    problem = Problem(SMALL64, lift=Fenchel())
    batches = [Batch(*part) for part in zip(X.split(100), problem.loss.encode(y).split(100), strict=True)]
    generator = torch.Generator().manual_seed(0)
    step = Stepper.of(problem, Stochastic(**settings), batches[0], 40, generator)
    state = step.begin(batches[0], None, 1.0, 0, generator)
    for batch in batches[:11]:
        state = step(state, batch)
    return step, state, batches


def test_a_loss_that_rises_far_brings_the_last_good_state_back(digits):
    step, state, _ = started(digits)
    good = state.good
    assert good.step == 10
    near = step.guard(state.copy(), 2 * good.loss)
    assert (near.trust, near.rejected) == (state.trust, state.rejected)
    for loss in (40 * state.first_loss, float("nan")):
        back = step.guard(state.copy(), loss)
        assert all(torch.equal(back.W[edge], good.W[edge]) for edge in good.W)
        assert (back.step, back.trust, back.rejected) == (state.step, 0.5 * state.trust, state.rejected + 1)
        assert not any(bool(layer.momentum.any()) for layer in back.layers.values())


def test_a_step_after_which_the_loss_is_higher_is_undone(digits):
    step, state, batches = started(digits)
    state = replace(state, step=15)
    wild = replace(step, pace=replace(step.pace, preset=replace(step.pace.preset, change=1e4)))
    after = wild(state.copy(), batches[11])
    assert all(torch.equal(after.W[edge], state.W[edge]) for edge in state.W)
    assert (after.trust, after.rejected) == (0.7 * state.trust, state.rejected + 1)
    assert not any(bool(layer.momentum.any()) for layer in after.layers.values())
    slow = replace(step, pace=replace(step.pace, preset=replace(step.pace.preset, change=0.01)))
    after = slow(state.copy(), batches[11])
    assert (after.trust, after.rejected) == (min(1.0, 1.03 * state.trust), state.rejected)
