"""The steps of a program, run one after another, are the forward pass; layers never stand on what is still needed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.model.export.models import largest_error, oracle, random_forward, rows
from tests.strategies import networks, seeds
from tikhonet.model.export.buffers import assign
from tikhonet.model.export.program import OUTPUT, Add, AddVector, Copy, Load, Product, Relu, Start, compile_forward


def interpret(forward, X):
    """Each step as its docstring says, on one block."""
    program = compile_forward(forward)
    block, output = np.full((program.length, len(X)), np.nan), np.full((forward.outputs, len(X)), np.nan)

    def at(place, length):
        return output if place == OUTPUT else block[place : place + length]

    for step in program.steps:
        match step:
            case Load():
                clipped = np.clip(X.astype(np.float64), forward.low, forward.high)
                at(step.to, step.length)[:] = ((clipped - forward.shift) / forward.scale).T
            case Start():
                at(step.to, step.length)[:] = 0 if step.values is None else step.values[:, None]
            case AddVector():
                at(step.to, step.length)[:] += step.values[:, None]
            case Copy():
                at(step.to, step.length)[:] = at(step.source, step.length)
            case Add():
                at(step.to, step.length)[:] += at(step.source, step.length)
            case Product():
                source = at(step.source, step.matrix.shape[1])
                if step.of_input:
                    source = source - forward.origin[:, None]
                at(step.to, len(step.matrix))[:] += step.matrix @ source
            case Relu():
                at(step.to, step.length)[:] = np.maximum(at(step.to, step.length), 0)
    return output.T


@given(networks(max_depth=5), seeds, st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_the_steps_are_the_forward_pass(network, seed, nonzero, head):
    forward = random_forward(network, seed, nonzero=nonzero, head=head)
    X = rows(forward, 7, seed)
    assert largest_error(interpret(forward, X), oracle(forward, X)) <= 1e-9


@given(networks(max_depth=6))
def test_layers_never_take_more_room_than_all_of_them_together(network):
    buffers = assign(network)
    assert buffers.length <= sum(network.widths)
    for n, offset in buffers.offset.items():
        assert 0 <= offset <= buffers.length - network.widths[n]
