"""What a W-step sees of a layer."""

import pytest
import torch

from tikhonet.network.designs import LARGE, Rows


@pytest.mark.parametrize("width", [3, LARGE, LARGE + 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_gram_matrix_made_by_parts_is_the_product(width, weighted):
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(LARGE + 1, width, generator=generator, dtype=torch.float64)
    weight = torch.rand(len(A), generator=generator, dtype=torch.float64) if weighted else None
    gram = Rows(A).gram(weight)
    torch.testing.assert_close(gram, A.T @ (A if weight is None else weight[:, None] * A), rtol=0, atol=1e-10)
