"""The steps of a program, run one after another, are the forward pass; layers never stand on what is still needed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.model.export.models import largest_error, oracle, random_model, rows
from tests.strategies import networks, seeds
from tikhonet.model.export.program import OUTPUT, Add, Clip, Load, Multiply, Put, Vector, assign, compile_model, origin
from tikhonet.network.activation import ClippedReLU


def interpret(model, X):
    """Each step as its docstring says, on one block."""
    program = compile_model(model)
    block, output = np.full((program.length, len(X)), np.nan), np.full((model.outputs, len(X)), np.nan)

    def at(place, length):
        return output if place == OUTPUT else block[place : place + length]

    def read(source, length):
        return source.values[:, None] if isinstance(source, Vector) else at(source, length)

    for step in program.steps:
        match step:
            case Load():
                at(step.to, step.length)[:] = model.scaling(X.astype(np.float64)).T
            case Put():
                at(step.to, step.length)[:] = 0 if step.source is None else read(step.source, step.length)
            case Add():
                at(step.to, step.length)[:] += read(step.source, step.length)
            case Multiply():
                source = at(step.source, step.matrix.shape[1])
                if step.of_input:
                    source = source - origin(model)[:, None]
                at(step.to, len(step.matrix))[:] += step.matrix @ source
            case Clip():
                at(step.to, step.length)[:] = np.clip(at(step.to, step.length), step.lower, step.upper)
    return output.T


@given(networks(max_depth=5), seeds, st.sampled_from([0.0, 0.3, 1.0]), st.booleans(), st.booleans())
def test_the_steps_are_the_forward_pass(network, seed, nonzero, head, clipped):
    network = network.with_activation(ClippedReLU(0.5)) if clipped else network
    forward = random_model(network, seed, nonzero=nonzero, head=head)
    X = rows(forward, 7, seed)
    assert largest_error(interpret(forward, X), oracle(forward, X)) <= 1e-9


@given(networks(max_depth=6))
def test_layers_never_take_more_room_than_all_of_them_together(network):
    offsets, length = assign(random_model(network))
    assert length <= sum(network.widths)
    for n, offset in offsets.items():
        assert 0 <= offset <= length - network.widths[n]
