"""The metrics of the W-step."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.strategies import seeds
from tikhonet.trainer.batches import Batch
from tikhonet.trainer.statistics import FullGram, LeadingGram


@pytest.mark.parametrize("metric", [FullGram, LeadingGram])
@given(seed=seeds)
@settings(max_examples=10)
def test_a_metric_of_full_rank_is_the_damped_inverse_gram_matrix(metric, seed):
    """Over two updates that forget by half, on weighted rows."""
    generator = torch.Generator().manual_seed(seed)
    A, B, R = (torch.randn(size, 5, generator=generator, dtype=torch.float64) for size in (9, 7, 3))
    weight = torch.rand(7, generator=generator, dtype=torch.float64)
    gram = metric.empty(5, 5, 0.3, generator, A)
    gram = gram.update(Batch(A, A), 9.0, beta=0.5)
    gram = gram.update(Batch(B, B, weight), float(weight.sum()), beta=0.5)
    G = ((A.T @ A / 2 + (B * weight[:, None]).T @ B) / (4.5 + float(weight.sum()))).numpy()
    damping = 0.3 * np.mean(np.diag(G))
    expected = R.numpy() @ np.linalg.inv(G + damping * np.eye(5)) * damping
    np.testing.assert_allclose(gram.precondition(R).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_a_metric_of_lower_rank_sees_the_leading_eigenpairs_only():
    spectrum = torch.tensor([9.0, 4.0, 1e-6, 1e-7], dtype=torch.float64)
    A, like = spectrum.sqrt().diag(), torch.zeros(1, dtype=torch.float64)
    gram = LeadingGram.empty(4, 2, 0.5, torch.Generator().manual_seed(0), like).update(Batch(A, A), 1.0, beta=0.9)
    expected = torch.diag(gram.damping / (spectrum + gram.damping))
    torch.testing.assert_close(gram.precondition(torch.eye(4, dtype=torch.float64)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("metric", [FullGram, LeadingGram])
def test_inputs_that_are_all_zero_leave_a_metric_finite(metric):
    zero = torch.zeros(4, 3)
    gram = metric.empty(3, 2, 0.1, torch.Generator().manual_seed(0), zero).update(Batch(zero, zero), 4.0, beta=0.9)
    assert bool(gram.precondition(torch.ones(2, 3)).isfinite().all())
