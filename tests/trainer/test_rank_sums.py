"""Sums of several ranks: what is folded for the way is there again at its end."""

import pytest
import torch

from tikhonet.trainer.rank_sums import folded, unfolded


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9])
def test_a_symmetric_matrix_travels_as_half_of_it_and_comes_back_to_the_bit(width):
    M = torch.randn(width, width, generator=torch.Generator().manual_seed(width))
    M = M + M.T
    half = folded(M)
    assert len(half) == width * (width + 1) // 2
    assert torch.equal(unfolded(half, width), M)
