"""Every parameter of every estimator, and of the other public callables that take data, with wrong values."""

import inspect
import warnings

import numpy as np
import pytest
import torch

from tikhonet import (
    BCDClassifier,
    BCDFeatures,
    BCDHasher,
    BCDRegressor,
    Fenchel,
    HammingIndex,
    Network,
    Problem,
    Stochastic,
    compact,
)
from tikhonet.hashing import code_report, evaluate, pack

WRONG = ["a", -1.5, float("nan"), [None], Fenchel]
RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(24, 3)), np.arange(24) % 2
ESTIMATORS = {
    BCDClassifier: LABELS,
    BCDRegressor: X[:, 0],
    BCDFeatures: LABELS,
    BCDHasher: LABELS,
}
PARAMETERS = [(kind, name) for kind in ESTIMATORS for name in kind().get_params(deep=False) if name != "callbacks"]


@pytest.mark.parametrize(("kind", "name"), PARAMETERS, ids=lambda part: getattr(part, "__name__", part))
def test_a_wrong_parameter_is_named_in_the_error(kind, name):
    unnamed = []
    for value in WRONG:
        model = kind(**{"hidden_layer_sizes": (4,), "max_iter": 1} | {name: value})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.fit(X, ESTIMATORS[kind])
            except (ValueError, TypeError) as error:
                if name not in str(error):
                    unnamed.append(f"{value!r}: {type(error).__name__}: {error}")
    assert not unnamed


NETWORK = Network.chain([3, 4])
PROBLEM = Problem(NETWORK)
W, V = NETWORK.random_weights(0), torch.zeros(2, 4)
CODES = pack(RNG.choice([-1.0, 1.0], size=(24, 16)))
CALLS = {
    Stochastic(epochs=1).run: {"problem": PROBLEM, "X": X, "targets": X},
    BCDClassifier(max_iter=1).fit: {"X": X, "y": LABELS},
    compact: {"network": NETWORK, "W": W, "V": V},
    HammingIndex: {"n_bits": 16},
    HammingIndex(16).add: {"codes": CODES},
    pack: {"bits": X},
    code_report: {"codes": CODES, "n_bits": 16},
    evaluate: {"query_codes": CODES, "query_labels": LABELS, "base_codes": CODES, "base_labels": LABELS},
}
ARGUMENTS = [
    (call, name) for call in CALLS for name in inspect.signature(call).parameters if name not in ("self", "settings")
]


@pytest.mark.parametrize(("call", "name"), ARGUMENTS, ids=lambda part: getattr(part, "__qualname__", part))
def test_a_wrong_argument_gives_an_error_of_the_library(call, name):
    leaked = []
    for value in (None, *WRONG):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call(**CALLS[call] | {name: value})
            except (ValueError, TypeError):
                pass
            except Exception as error:
                leaked.append(f"{value!r}: {type(error).__name__}: {error}")
    assert not leaked
