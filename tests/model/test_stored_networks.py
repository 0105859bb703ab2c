"""Networks in the headers of model files, and weights by name."""

import pytest
import torch

from tikhonet import BIAS, Network
from tikhonet.model.storage import (
    MAX_EDGES,
    ModelFormatError,
    network_from_header,
    network_header,
    parse_weight_name,
    weight_name,
    weights_from_tensors,
)


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
        ({"widths": [1, 1], "edges": [[1, 0, "pickled"]]}, "must be 'learned' or 'identity'"),
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
        assert parse_weight_name(name) == edge


@pytest.mark.parametrize("name", ["W.0.0", "W.2", "W.2.-1", "W.02.1", "W.2.1.0", "V", "W.2.1\n", "W.²." + "9" * 99])
def test_other_names_are_not_weights(name):
    with pytest.raises(ModelFormatError, match=r"must be named like 'W.2.1' or 'W.2.bias'"):
        parse_weight_name(name)


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
