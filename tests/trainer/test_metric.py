"""The full metric of the W-step."""

import numpy as np
import torch
from hypothesis import given, settings

from tests.strategies import seeds
from tikhonet.trainer.statistics import FullGram


@given(seeds)
@settings(max_examples=10)
def test_the_full_metric_is_the_damped_inverse_gram_matrix(seed):
    """Over two updates that forget by half, on weighted rows."""
    generator = torch.Generator().manual_seed(seed)
    A, B, R = (torch.randn(size, 5, generator=generator, dtype=torch.float64) for size in (9, 7, 3))
    weight = torch.rand(7, 1, generator=generator, dtype=torch.float64)
    gram = FullGram.empty(5, 0.3, A)
    gram.update(A, A, 9.0, 0.5)
    gram.update(B, B * weight, float(weight.sum()), 0.5)
    G = ((A.T @ A / 2 + (B * weight).T @ B) / (4.5 + float(weight.sum()))).numpy()
    damping = 0.3 * np.mean(np.diag(G))
    expected = R.numpy() @ np.linalg.inv(G + damping * np.eye(5)) * damping
    np.testing.assert_allclose(gram.precondition(R).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_inputs_that_are_all_zero_leave_the_full_metric_finite():
    zero = torch.zeros(4, 3)
    gram = FullGram.empty(3, 0.1, zero)
    gram.update(zero, zero, 4.0, 0.9)
    assert bool(gram.precondition(torch.ones(2, 3)).isfinite().all())
