"""Packed matrices unpack to what went in, in no more bytes than promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikhonet.model.export.packing import pack, quantise, sparse


def unpacked(packed):
    """The matrix that the C code multiplies by."""
    rows, columns = packed.shape
    matrix = np.zeros((columns, rows))
    if packed.count is None:
        matrix[:] = packed.value.reshape(columns, rows)
    else:
        column = np.repeat(np.arange(columns), packed.count)
        total = np.cumsum(packed.step, dtype=np.int64)
        before = np.concatenate([[0], total])[np.cumsum(packed.count, dtype=np.int64) - packed.count]
        matrix[column, total - np.repeat(before, packed.count)] = packed.value
    if packed.scale is not None:
        matrix *= packed.unit * packed.scale[:, None].astype(np.float64)
    return matrix.T


def random_matrix(rows, columns, nonzero, seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, columns)) < nonzero, rng.normal(size=(rows, columns)), 0).astype(np.float32)


matrices = st.builds(
    random_matrix,
    st.integers(1, 700),
    st.integers(1, 12),
    st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0]),
    st.integers(0, 1000),
)


@given(matrices)
def test_float_matrices_come_back_exactly(matrix):
    packed = pack("W", matrix, int8=False)
    if packed is None:
        assert not matrix.any()
    else:
        assert np.array_equal(unpacked(packed), matrix)
        assert packed.nbytes <= matrix.nbytes


@given(matrices)
def test_int8_is_off_by_at_most_half_a_step_of_its_column(matrix):
    packed = pack("W", matrix, int8=True)
    if packed is None:
        return
    step = packed.unit * packed.scale.astype(float)
    assert (np.abs(unpacked(packed) - matrix) <= 0.5 * step * (1 + 1e-5)).all()
    # A column's step is what its largest entry needs, up to one unit of the 8-bit scale.
    assert (step <= np.abs(matrix).max(0) / 127 + packed.unit * 1.01).all()
    assert packed.nbytes <= matrix.size + matrix.shape[1]


@given(matrices, st.sampled_from([np.uint8, np.uint16]))
def test_gaps_of_any_width_are_crossed(matrix, kind):
    assert np.array_equal(unpacked(sparse(matrix, kind, None, 1.0)), matrix)


@pytest.mark.parametrize("row", [0, 1, 254, 255, 256, 509, 510, 511, 766])
def test_a_single_entry_at_every_border_of_a_byte(row):
    matrix = np.zeros((767, 3), np.float32)
    matrix[row, 1] = 2.5
    packed = sparse(matrix, np.uint8, None, 1.0)
    assert np.array_equal(unpacked(packed), matrix)
    assert len(packed.step) == 1 + max(row - 1, 0) // 255


def test_two_percent_take_two_bytes_an_entry():
    matrix = random_matrix(784, 784, 0.02, 0)
    packed = pack("W", matrix, int8=True)
    entries = np.count_nonzero(matrix)
    assert packed.nbytes < 2.04 * entries + 2 * 784
    assert packed.step.dtype == packed.count.dtype == np.uint8


def test_a_full_matrix_is_stored_dense():
    packed = pack("W", random_matrix(30, 20, 1.0, 0), int8=True)
    assert packed.count is None
    assert packed.nbytes == 30 * 20 + 20


def test_a_column_of_small_weights_keeps_its_own_precision():
    matrix = np.array([[1.0, 0.01], [-0.5, 0.003]], np.float32)
    value, scale, unit = quantise(matrix)
    assert np.abs(value).max(0).tolist() == [127, pytest.approx(127, abs=50)]
    assert abs(value[1, 1] * scale[1] * unit - 0.003) < 1e-4


def test_weights_too_small_for_a_float32_unit_are_refused():
    with pytest.raises(ValueError, match="weights must not all be below"):
        pack("W", np.full((2, 2), 1e-37), int8=True)
