"""What a step needs of the host: a device would wait at every number that Python reads from it."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from tikhonet import Fenchel, Network, Problem, Samples, Softmax, Squared, Stochastic, Tikhonov
from tikhonet.descent.feature_step import FeatureModel
from tikhonet.descent.linear import layer_fit
from tikhonet.problem.objective import Blocks
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.saving import from_plain, to_plain
from tikhonet.trainer.step import Stepper
from tikhonet.trainer.sweep import Dropout, forward, targets_sweep

READS = ("__float__", "__bool__", "__int__", "item", "tolist", "cpu", "numpy")
NETWORK = Network([8, 12, 8, 6], {(1, 0): "dense", (2, 1): "dense", (2, 0): "identity", (3, 2): "dense"}, bias=[1, 3])


@pytest.fixture
def reads(monkeypatch):
    """How often each way of reading numbers from a tensor of the floating-point type was taken."""
    found = Counter()

    def heard(name):
        original = getattr(torch.Tensor, name)

        def read(tensor, *arguments, **options):
            found[name] += tensor.is_floating_point()  # random offsets are whole numbers, and on the host anyway
            return original(tensor, *arguments, **options)

        monkeypatch.setattr(torch.Tensor, name, read)

    for name in READS:
        heard(name)
    return found


@pytest.mark.parametrize("loss", [Squared(), Softmax()], ids=str)
def test_a_step_between_two_updates_of_its_statistics_reads_its_loss_and_the_lengths_once(loss, reads):
    problem, generator = Problem(NETWORK, loss, Fenchel()), torch.Generator().manual_seed(0)
    X = torch.randn(60, 8, generator=generator)
    batch = Batch(X, loss.encode(X[:, :3].argmax(1), 3).float())
    step = Stepper.of(problem, Stochastic(), batch, 100, generator)
    state = step.begin(batch, None, 1.0, 0, generator)
    for _ in range(13):
        state = step(state, batch)
    reads.clear()
    step(state, batch)  # the fourteenth: no check, no V-step, no Gram matrix
    assert +reads == {"__float__": 1, "tolist": 1}


def away(value):
    """The value with its numbers on a device that has none; random numbers and counts stay on the host."""
    if isinstance(value, torch.Tensor):
        return value.to("meta") if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: away(part) for name, part in value.items()}
    return [away(part) for part in value] if isinstance(value, list) else value


def test_a_whole_step_runs_on_another_device_and_reads_numbers_only_where_its_guards_need_them(monkeypatch):
    """On tensors without numbers, a stray `.cpu()`, a tensor of the host's or its random numbers would be errors.

    What Python reads of them is made up here and counted: the loss and the lengths of the steps in each step; two
    losses where it is checked; three numbers where the V-step is due, three where the Gram matrices are.
    """
    problem, generator, found = Problem(NETWORK, Softmax(), Fenchel()), torch.Generator().manual_seed(0), []
    X = torch.randn(60, 8, generator=generator)
    batch = Batch(X, Softmax().encode(X[:, :3].argmax(1), 3).float())
    step = Stepper.of(problem, Stochastic(), batch, 100, generator)
    state = step.begin(batch, None, 1.0, 0, generator)
    state, batch = from_plain(away(to_plain(state))).open_epoch(), Batch(*away(list(batch[:2])))
    step = replace(step, dropout={m: Dropout(drop.pool.to("meta")) for m, drop in step.dropout.items()})

    def made_up(name, value):
        original = getattr(torch.Tensor, name)

        def read(tensor, *arguments):
            if not tensor.is_meta:
                return original(tensor, *arguments)
            found.append(name)
            return value(tensor)

        monkeypatch.setattr(torch.Tensor, name, read)

    for name, value in {"__float__": 1.0, "__bool__": False, "__int__": 0, "item": 1.0}.items():
        made_up(name, lambda _, value=value: value)
    made_up("tolist", lambda tensor: [1.0] * tensor.numel())
    counts = []
    for _ in range(14):
        found.clear()
        state = step.move(state, batch)[0]
        assert set(found) <= {"__float__", "__bool__", "tolist"}
        counts.append(len(found))
        assert all(part.is_meta for part in (*state.W.values(), *state.average.W.values(), state.classifier.V))
    assert counts == [10, 8, 8, 8, 8, 4, 8, 2, 2, 5, 4, 2, 8, 2]


def meta(*shape):
    return torch.empty(*shape, device="meta")


@pytest.mark.parametrize("lift", [Fenchel(), Tikhonov()], ids=str)
def test_the_inner_loops_run_on_tensors_without_numbers(lift):
    """A stray `.cpu()`, `float()` or tensor of the host's would be an error."""
    problem = Problem(NETWORK, Softmax(), lift, gamma=1.0)
    W = {pair: meta(*NETWORK.shape(pair)) for pair in NETWORK.learned}
    U, V, targets = NETWORK.forward(meta(20, 8), W), meta(3, 6), meta(20, 3)
    here = forward(problem, meta(20, 8), W, {0: meta(20, 8)})
    sweep = targets_sweep(problem, V, W, here, meta(20, 3), 30.0)
    assert {n: part.shape for n, part in sweep.items()} == {n: (20, NETWORK.widths[n]) for n in NETWORK.hidden}
    group = problem.feature_groups()[0]
    model = FeatureModel(problem, group, V, W, 0.1)
    assert model.gradient(model.load(U, targets)).device.type == "meta"
    samples = object.__new__(Samples)  # whose checks read numbers
    samples.__dict__.update(X=U[0], targets=targets, weight=None)
    terms = problem.changed_rows(Blocks(U, V, W), samples, "U", NETWORK.hidden)(slice(0, 20))
    assert all(part.device.type == "meta" for part in terms.values())
    parts = layer_fit(problem, Blocks(U, V, W), samples, 3).parts(slice(0, 20), None)
    assert set(parts) == {"pull", "gram"} | ({"value"} if lift.quadratic else set())
    assert all(part.device.type == "meta" for part in parts.values())
