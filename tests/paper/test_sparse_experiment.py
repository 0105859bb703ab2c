"""The frontier: what a trial leaves, and that the five ways are there at every density."""

import pytest

from tests.paper.tiny import SPARSE, TINY_SPARSE, few_digits
from tikhonet.paper.records import RecordError
from tikhonet.paper.runner import run


def methods(size, epochs=None):
    return {method.name: method for method in SPARSE.methods(size, few_digits(), epochs)}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return run(SPARSE, few_digits(), TINY_SPARSE, tmp_path_factory.mktemp("sparse"), trials=(0,))


@pytest.mark.parametrize("size", SPARSE.sizes, ids=lambda size: size.name)
def test_every_density_has_a_budget_and_all_prunings(size):
    found = methods(size)
    assert set(found) == {"dense", "adam"} | {f"ball-{radius:g}" for radius in size.radii} | {
        f"{way}-{share:g}" for way in ("budget", "gradual", "layered", "one-shot") for share in size.shares
    }
    assert [name for name, method in found.items() if not method.sparse] == ["dense", "adam"]


@pytest.mark.parametrize("size", SPARSE.sizes, ids=lambda size: size.name)
def test_pruned_networks_get_as_many_epochs_as_a_budget_or_more(size):
    found = methods(size)
    ours = max(method.steps for name, method in found.items() if name.startswith("budget"))
    assert all(
        method.steps >= ours for name, method in found.items() if name.startswith(("gradual", "layered", "one-shot"))
    )
    assert {method.steps for method in methods(size, epochs=3).values()} == {3}


def test_every_trial_has_exactly_the_nonzeros_of_its_name(records):
    for record in records:
        way, _, share = record.method.rpartition("-")
        if way in ("budget", "gradual", "layered", "one-shot"):
            counts = [round(record.nonzero[layer] / 100 * 64 * 64) for layer in ("W1", "W2", "W3")]
            if way in ("budget", "layered"):
                assert counts == [int(float(share) / 100 * 64 * 64)] * 3
            else:
                assert sum(counts) == int(float(share) / 100 * 3 * 64 * 64)
        assert 0 <= record.error <= 100


def test_budgets_are_certified(records):
    for record in records:
        held = [check["holds"] for check in record.checks if check["key"] in ("budget", "refit")]
        assert held == ([True, True] if record.method.startswith("budget") else [])


def test_the_ball_alone_has_zeros_of_its_own(records):
    (ball,) = (record for record in records if record.method == "ball-1")
    assert ball.nonzero["W1"] < 100


def test_unknown_names_and_other_settings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"solvers must be among dense, adam, ball-1, .*, got budget-7"):
        run(SPARSE, few_digits(), TINY_SPARSE, tmp_path, solvers=["budget-7"])
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        run(SPARSE, few_digits(), TINY_SPARSE, tmp_path, epochs=0)
    run(SPARSE, few_digits(), TINY_SPARSE, tmp_path, solvers=["ball-1"], trials=(0,))
    with pytest.raises(RecordError, match="choose another output folder"):
        run(SPARSE, few_digits(), TINY_SPARSE, tmp_path, solvers=["ball-1"], trials=(0,), epochs=1)
