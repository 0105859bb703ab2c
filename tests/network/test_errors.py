"""An error of an argument names it as a field and reads as its sentence."""

import pickle

import pytest

from tikhonet.network.errors import ArgumentError


def test_an_argument_error_is_a_value_error_that_reads_as_its_message():
    with pytest.raises(ValueError, match=r"^gamma must be positive, got -1$") as caught:
        raise ArgumentError("gamma", "gamma must be positive, got -1")
    assert caught.value.argument == "gamma"


def test_an_argument_error_survives_pickling():
    error = pickle.loads(pickle.dumps(ArgumentError("gamma", "gamma must be positive, got -1")))
    assert (error.argument, str(error)) == ("gamma", "gamma must be positive, got -1")
