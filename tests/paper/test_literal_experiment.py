"""Alg. 1 to the letter: a run in legs is a whole run, readings differ in one thing each, the page judges them."""

from dataclasses import replace

import pytest
import torch

from tests.paper.tiny import few_digits
from tikhonet import BlockDescent, Network, Power, Problem
from tikhonet.paper.experiment import find_experiment, load_records
from tikhonet.paper.literal_experiment import QUICK, Followed, readings
from tikhonet.paper.page import write_report
from tikhonet.paper.runner import run

LITERAL = find_experiment("literal")
TINY = replace(QUICK, name="tiny", dense=4, sparse=3, rows=100, readings=3, layers=3, width=8, deep=2)
TINY = replace(TINY, trainer={"epochs": 2, "batch_size": 50})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("literal")
    run(LITERAL, few_digits(), TINY, folder, trials=(0,))
    return folder


def test_a_run_in_legs_is_the_whole_run():
    X = torch.rand(60, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem, solver = Problem(Network.paper(6), ridge_V=0.1), BlockDescent(Power(2), 6, inner_tol=1e-9, check_every=6)
    method = Followed("legs", "legs", problem=problem, solver=solver, marks=(1, 3, 9))
    legs = list(method.legs(X, X[:, :2], 0, lambda step: None))
    whole = solver.run(problem, X, X[:, :2], seed=0)
    assert [leg.history.iterations for leg in legs] == [1, 3, 6]
    assert legs[-1].history.objective == pytest.approx(whole.history.objective, rel=1e-6)
    assert sorted(legs[-1].history.stationarity) == [0, 1, 3, 6]
    assert legs[-1].schedule == solver.schedule


def test_a_trial_that_was_stopped_goes_on_in_its_second_leg_to_the_same_numbers(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tikhonet.paper.literal_experiment.KEPT_EVERY", 0.0)
    heard = []

    def stop_once(report):
        heard.append(report.step)
        if heard.count(3) == 1 and report.step == 3:
            raise OSError("the machine goes down")

    asked = {"solvers": ["alg1"], "trials": (0,), "progress": stop_once}
    with pytest.raises(OSError, match="goes down"):
        run(LITERAL, few_digits(), TINY, tmp_path, **asked)
    assert (tmp_path / "unfinished" / "alg1-0").is_dir()
    (found,) = run(LITERAL, few_digits(), TINY, tmp_path, **asked)
    assert heard == [0, 1, 2, 3, 0, 3, 4]
    assert not (tmp_path / "unfinished").exists()
    whole = next(record for record in load_records(folder) if record.name == found.name)
    assert (found.objective, found.error, found.residual) == (whole.objective, whole.error, whole.residual)
    assert [part["objective"] for part in found.course] == [part["objective"] for part in whole.course]


def test_states_of_other_settings_are_not_gone_on_from(tmp_path):
    X = torch.rand(30, 6, generator=torch.Generator().manual_seed(0))
    problem, solver = Problem(Network.paper(6), ridge_V=0.1), BlockDescent(Power(2), 3)
    method = Followed("m", "m", problem=problem, solver=solver).kept_in(tmp_path)
    method.train(X, X[:, :2], 0, lambda step: None)
    with pytest.raises(ValueError, match="seed=0, got seed=1; go on with those, or begin anew in another folder"):
        method.train(X, X[:, :2], 1, lambda step: None)


def test_every_reading_differs_from_the_printed_recipe_in_one_thing():
    eq4 = Problem(Network.paper(64), gamma=0.1)
    (_, _, *printed), *others = readings(eq4, QUICK, None)
    for name, _, problem, solver in others[:-1]:
        changed = [key for key in vars(problem) if getattr(problem, key) != getattr(printed[0], key)]
        changed += [key for key in vars(solver) if getattr(solver, key) != getattr(printed[1], key)]
        assert len(changed) == 1, name


def test_a_record_tells_where_its_run_stood_after_the_first_iteration(folder):
    found = {record.method: record for record in load_records(folder)}
    course = found["alg1"].course
    assert [part["iteration"] for part in course] == [1, 4]
    assert course[-1]["error"] == found["alg1"].error
    assert course[-1]["gradient"] == pytest.approx(found["alg1"].residual)
    assert course[0]["objective"] > course[-1]["objective"]
    assert found["printed"].samples == 100
    assert found["pixels"].course == []


def test_the_page_has_a_verdict_on_every_claim_and_every_reading_in_the_picture(folder):
    page = write_report(folder).page.read_text()
    results = LITERAL.compare(load_records(folder))
    assert len(LITERAL.findings(results)) == 8
    (figure,) = LITERAL.figures(results)
    assert {line.label for line in figure.lines} >= {row.label for row in results.followed if row.name != "deep"}
    assert "Alg. 1 to the letter" in page


def test_a_part_of_the_runs_makes_a_page_too(tmp_path):
    run(LITERAL, few_digits(), TINY, tmp_path, trials=(0,), solvers=["untrained", "weight"])
    assert write_report(tmp_path).page.exists()
