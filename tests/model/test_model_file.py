"""Networks in the headers of model files, and weights by name."""

import numpy as np
import pytest
import torch

from tests.model.export.models import CLIPPED, SKIPS, random_model, rows
from tikhonet import BIAS, Network
from tikhonet.model.model_file import (
    MAX_EDGES,
    model_from_tensors,
    model_tensors,
    network_from_header,
    network_header,
    weight_name,
    weights_from_tensors,
)
from tikhonet.model.storage import ModelFormatError


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "two lists"),
        ({"widths": [1, 1]}, "two lists"),
        ({"widths": [1, 1], "edges": [[1, 0, "learned"]], "extra": 1}, "nothing else"),
        ({"widths": [1, True], "edges": [[1, 0, "learned"]]}, "widths must be integers"),
        ({"widths": [1, 1], "edges": [[1, 0, "learned"], [1, 0, "identity"]]}, "each edge once"),
        ({"widths": [1, 1], "edges": [[1, False, "learned"]]}, "edges must be lists"),
        ({"widths": [1, 1], "edges": [[1, 0]]}, "edges must be lists"),
        ({"widths": [1, 1], "edges": [[1, 0, "pickled"]]}, "must be one of 'dense', .*got 'pickled'"),
        ({"widths": [1, 1], "edges": [[1, 0, "dense", {"size": 3}]]}, "unexpected keyword argument 'size'"),
        ({"widths": [1, 1], "edges": [[1, 0, "dense", 3]]}, "not valid"),
        ({"widths": [1, 1], "edges": [[1, 0, "dense"]], "activation": {"name": "tanh"}}, "got 'tanh'"),
        ({"widths": [1, 1], "edges": [[1, 0, "dense"]], "activation": {}}, "not valid"),
        ({"widths": [1, 1], "edges": [[1, 0, "dense"]], "activation": {"name": "relu", "cap": 6}}, "not valid"),
        ({"widths": [1, 1], "edges": [[1, 0, "dense"]], "activation": {"name": "clipped_relu", "cap": -1}}, "positive"),
        ({"widths": [1, 1], "edges": [[1, 5, "learned"]]}, "names an unknown layer"),
        ({"widths": [1, 0], "edges": [[1, 0, "learned"]]}, "width of layer 1"),
        ({"widths": [1, 1, 1], "edges": [[1, 2, "learned"], [2, 1, "learned"]]}, "cycle"),
        ({"widths": [1] * 10**5, "edges": []}, f"at most {MAX_EDGES} edges and layers"),
    ],
)
def test_a_header_without_a_valid_network_is_refused(header, reason):
    with pytest.raises(ModelFormatError, match=reason):
        network_from_header(header)


def test_a_network_too_large_to_be_loaded_is_not_saved():
    with pytest.raises(ModelFormatError, match=f"at most {MAX_EDGES} edges"):
        network_header(Network.chain([1] * (MAX_EDGES // 2 + 2), bias=True))


def test_weights_are_named_after_their_edges():
    names = {(2, 1): "W.2.1", (1, BIAS): "W.1.bias", (10, 0): "W.10.0"}
    for edge, name in names.items():
        assert weight_name(edge) == name


@pytest.mark.parametrize("name", ["W.0.0", "W.2", "W.2.-1", "W.02.1", "W.2.1.0", "W.2.1\n", "W.²." + "9" * 99])
def test_other_names_are_not_weights(name):
    whole = {"W.1.0": torch.ones(3, 2), "W.1.bias": torch.ones(3, 1)}
    weights_from_tensors(Network.chain([2, 3], bias=True), whole | {"V": torch.ones(1)})
    with pytest.raises(ModelFormatError, match=r"must hold the learned edges \['W.1.bias', 'W.1.0'\], got"):
        weights_from_tensors(Network.chain([2, 3], bias=True), whole | {name: torch.ones(1)})


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"W.1.0": torch.ones(3, 2)}, "must hold the learned edges"),
        ({"W.1.0": torch.ones(3, 3), "W.1.bias": torch.ones(3, 1)}, "must have shape"),
        ({"W.1.0": torch.ones(3, 2).long(), "W.1.bias": torch.ones(3, 1).long()}, "one floating-point dtype"),
        ({"W.1.0": torch.ones(3, 2), "W.1.bias": torch.ones(3, 1).double()}, "one floating-point dtype"),
    ],
)
def test_weights_that_do_not_fit_the_network_are_refused(tensors, reason):
    with pytest.raises(ModelFormatError, match=reason):
        weights_from_tensors(Network.chain([2, 3], bias=True), tensors)


def test_edges_and_activation_are_kept_by_name():
    header = network_header(CLIPPED)
    assert header["activation"] == {"name": "clipped_relu", "cap": 1.5}
    assert [1, -1, "bias"] in header["edges"]
    assert [3, 0, "identity"] in header["edges"]
    assert network_from_header(header) == CLIPPED
    assert network_from_header(network_header(SKIPS)) == SKIPS


@pytest.mark.parametrize("head", [True, False])
def test_a_model_is_taken_apart_and_put_together(head):
    model = random_model(CLIPPED, head=head)
    again = model_from_tensors(network_from_header(network_header(model.network)), model_tensors(model))
    X = rows(model).astype(float)
    assert (again.head is None) == (not head)
    np.testing.assert_array_equal(again.scores(X), model.scores(X))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shift": None}, "must hold shift, scale, low, high"),
        ({"intercept": None}, "coef with intercept"),
        ({"scale": torch.ones(4)}, r"scale must have shape \(5,\), got \(4,\)"),
        ({"coef": torch.ones(3, 4)}, r"coef must have shape \(3, 5\)"),
        ({"coef": torch.ones(())}, "do not fit"),
        ({"V": torch.ones(3, 4)}, "V must have 5 columns"),
    ],
)
def test_tensors_that_are_no_model_are_refused(change, reason):
    tensors = model_tensors(random_model(SKIPS)) | change
    with pytest.raises(ModelFormatError, match=reason):
        model_from_tensors(SKIPS, {name: tensor for name, tensor in tensors.items() if tensor is not None})
