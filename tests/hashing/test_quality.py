import numpy as np
import pytest
from scipy.linalg import hadamard

from tikhonet.hashing import codes as codes_module
from tikhonet.hashing.codes import code_report, pack


def test_the_columns_of_a_hadamard_matrix_are_balanced_and_uncorrelated():
    found = code_report(pack(hadamard(32)[:, 1:]), 31)
    assert (found.balance, found.least_balance, found.constant_bits) == (1, 1, 0)
    assert found.correlation == pytest.approx(0, abs=1e-12)
    assert found.distinct == 32


def test_figures_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(codes_module, "ROWS", 17)
    rng = np.random.default_rng(0)
    bits = rng.random((100, 12)) < rng.random(12)
    found = code_report(pack(bits), 12)
    correlation = np.abs(np.corrcoef(bits.T))[~np.eye(12, dtype=bool)]
    assert found.correlation == pytest.approx(correlation.mean())
    assert found.balance == pytest.approx(np.mean(1 - np.abs(2 * bits.mean(0) - 1)))
    assert found.distinct == len({tuple(row) for row in bits})


def test_a_constant_bit_has_no_balance_and_no_correlation():
    bits = np.tile([[True, False]], (6, 4))
    bits[::2, 0] = False
    found = code_report(pack(bits), 8)
    assert (found.constant_bits, found.least_balance, found.correlation, found.distinct) == (7, 0, 0, 2)
    assert found.balance == pytest.approx(1 / 8)


def test_equal_bits_have_correlation_one():
    bits = np.repeat([[True], [False], [True]], 8, axis=1)
    assert code_report(pack(bits), 8).correlation == pytest.approx(1)


def test_the_text_and_the_dict_say_the_same():
    found = code_report(pack(hadamard(8)), 8)
    assert str(found).startswith(
        "8 codes of 8 bits, 8 distinct (entropy 3.0 bits), the first 5 neighbours tied for 100.0%\n"
    )
    assert "1 constant" in str(found)
    assert found.to_dict()["constant_bits"] == 1


def test_no_codes_are_refused():
    with pytest.raises(ValueError, match="at least one code"):
        code_report(np.zeros((0, 2), np.uint8), 16)


def test_the_number_of_bits_is_a_plain_one():
    assert type(code_report(pack(hadamard(8)), np.int64(8)).n_bits) is int


@pytest.mark.parametrize("count", [1, 5, 6, 60])
def test_codes_that_are_all_equal_are_all_tied(count):
    report = code_report(pack(np.ones((count, 8))), 8)
    assert report.tied == 1
    assert "tied for 100.0%" in str(report)


def test_of_few_codes_that_differ_nobody_can_say_how_many_are_tied():
    report = code_report(pack(np.eye(8)[:5]), 8)
    assert report.tied is None
    assert report.ties == "5 distinct (entropy 2.3 bits)"
