"""Every parameter of the callables that make problems and solvers, with values of wrong types and sizes."""

import inspect

import pytest
import torch

import tikhonet
from tikhonet import (
    BlockDescent,
    Blocks,
    Box,
    Budget,
    ClippedReLU,
    Constant,
    Custom,
    Fenchel,
    FrobeniusBall,
    Huber,
    Network,
    Power,
    Problem,
    Proximal,
    RowL1Ball,
    RowL2Ball,
    Samples,
    Squared,
    Stochastic,
    certify,
    initial_blocks,
)
from tikhonet.network.arguments import COUNT, POSITIVE, SHARE, check_choice, check_type
from tikhonet.network.errors import ArgumentError

NETWORK = Network.chain([2, 2])
PROBLEM = Problem(NETWORK)
X = torch.ones(3, 2)
SAMPLES = Samples(X, X)
WRONG = [None, "a", 1.5, -1, 0, float("nan"), float("inf"), [], ["a"], [1.5], {}, {"a": 1}, Fenchel, Fenchel(), True]

CALLABLES = {
    Network: {"widths": [2, 2], "edges": {(1, 0): "dense"}},
    Network.chain: {"widths": [2, 2]},
    Network.paper: {},
    Problem: {"network": NETWORK},
    BlockDescent: {},
    BlockDescent(max_iter=1).run: {"problem": PROBLEM, "X": X, "targets": X},
    Stochastic: {},
    Samples: {"X": X, "targets": X},
    initial_blocks: {"problem": PROBLEM, "samples": SAMPLES},
    certify: {"result": None},
    Power: {},
    Constant: {},
    Proximal: {},
    Custom: {"steps": [0.5]},
    Box: {},
    FrobeniusBall: {},
    RowL1Ball: {},
    RowL2Ball: {},
    Huber: {},
    ClippedReLU: {},
    Budget: {"share": 0.5},
}
CASES = [(call, name) for call in CALLABLES for name in inspect.signature(call).parameters]


@pytest.mark.parametrize(("call", "name"), CASES, ids=lambda part: getattr(part, "__qualname__", part))
def test_a_wrong_argument_is_named_in_the_error(call, name):
    messages = {}
    for value in WRONG:
        try:
            call(**CALLABLES[call] | {name: value})
        except (ValueError, TypeError) as error:
            messages[repr(value)] = str(error)
    assert not {value: message for value, message in messages.items() if name not in message}


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (Problem, {"network": None}),
        (Problem, {"network": NETWORK, "lift": Fenchel}),
        (Problem, {"network": NETWORK, "loss": "cubic"}),
        (Problem, {"network": NETWORK, "gamma": "a"}),
        (Problem, {"network": NETWORK, "W_set": None}),
        (Problem, {"network": NETWORK, "W_set": {(1, 0): RowL1Ball}}),
        (BlockDescent, {"max_iter": 1.5}),
        (BlockDescent, {"schedule": Proximal}),
        (BlockDescent, {"extrapolate": "no"}),
        (Stochastic, {"epochs": 1.5}),
        (Stochastic, {"budget": 0.5}),
        (Stochastic, {"polish": BlockDescent}),
        (Network, {"widths": 3, "edges": {}}),
        (Network, {"widths": [2, 2], "edges": None}),
        (Network.chain, {"widths": [2, 2.0]}),
        (Network.chain, {"widths": [2, 2], "activation": tikhonet.ReLU}),
    ],
)
def test_what_version_0_1_accepted_or_broke_on_is_refused(call, arguments):
    name = list(arguments)[-1] if call is not Network or arguments["widths"] != 3 else "widths"
    with pytest.raises(ValueError, match=name):
        call(**arguments)


def test_losses_and_lifts_may_be_given_by_name():
    assert Problem(NETWORK, loss="squared", lift="fenchel") == Problem(NETWORK, Squared(), Fenchel())


def test_an_error_tells_what_is_allowed_what_arrived_and_what_to_do():
    with pytest.raises(
        ArgumentError, match=r"^lift must be of type Lift, got the class Fenchel; pass an instance, Fen"
    ):
        Problem(NETWORK, lift=Fenchel)
    with pytest.raises(ArgumentError, match=r"^rows must be an integer and be at least 1, got 1\.5$"):
        COUNT.check("rows", 1.5)
    with pytest.raises(ArgumentError, match=r"^rows must be at least 1, got 0$"):
        COUNT.check("rows", 0)
    with pytest.raises(ArgumentError, match=r"^word must be 'a' or 'b', got \['a'\]$"):
        check_choice("word", ["a"], "a", "b")
    with pytest.raises(ArgumentError, match=r"^blocks must be of type Blocks or None, got 3$") as caught:
        check_type("blocks", 3, Blocks, type(None))
    assert caught.value.argument == "blocks"


@pytest.mark.parametrize("value", [0, float("nan"), float("inf"), -1.0, True, "1", None, 1j])
def test_only_positive_finite_numbers_are_positive(value):
    with pytest.raises(ArgumentError, match="rate"):
        POSITIVE.check("rate", value)


def test_numbers_of_numpy_are_numbers():
    import numpy as np

    COUNT.check("rows", np.int64(3))
    POSITIVE.check("rate", np.float32(0.5))
    SHARE.check("tol", np.float64(0.5))
