"""The race: settings are drawn once and for all, tuned on held-out rows, and the chosen ones run to the end."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.paper.tiny import few_digits
from tikhonet.paper.experiment import find_experiment, load_records
from tikhonet.paper.page import write_report
from tikhonet.paper.records import FILE, RecordError
from tikhonet.paper.rivals_experiment import GIVEN_UP, RivalSize, words
from tikhonet.paper.rivals_findings import lowest, reached
from tikhonet.paper.rivals_results import Paired, Race, Rival, chosen, rank
from tikhonet.paper.rivals_search import CONTENDERS, DROPOUT, Split
from tikhonet.paper.runner import run

RIVALS = find_experiment("rivals")
TINY = RivalSize("tiny", lengths=(2,), tuning=3, threads=1)
FEW = ["bcd", "adamw", "schedule-free", "kfac"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rivals")
    run(RIVALS, Split(few_digits(), "digits"), TINY, folder, solvers=FEW, trials=(0, 1))
    return folder


@pytest.fixture(scope="module")
def records(folder):
    return load_records(folder)


def test_the_papers_six_and_six_of_today_are_there():
    names = [contender.name for contender in CONTENDERS]
    assert names[:7] == ["bcd", "sgd", "nesterov", "adagrad", "adadelta", "rmsprop", "adam"]
    assert names[7:] == ["adamw", "schedule-free", "locoprop", "kfac", "muon", "soap"]


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_settings_are_always_the_same_and_within_their_ranges(contender):
    settings = contender.settings(16)
    assert settings == contender.settings(16)
    assert settings[:3] == contender.settings(8)[:3]  # more trials add to those that were done
    drawn = [setting for setting in settings if setting]
    assert len(drawn) >= (6 if contender.share < 1 else 16)
    assert len({json.dumps(setting) for setting in drawn}) == len(drawn)
    for setting in drawn:
        assert setting["batch_size"] in contender.batches
        assert (setting["drop_inputs"], setting["drop_features"]) in DROPOUT


def test_ours_has_its_defaults_as_one_more_trial_and_others_have_none():
    assert [[] in [list(s) for s in contender.settings(4)] for contender in CONTENDERS] == [True] + [False] * 12


def test_tuning_never_sees_the_test_images_and_final_runs_train_on_all_rows(monkeypatch):
    images = few_digits(train=150, test=60)
    tuning, final = Split(images, "digits").parts.values()
    assert len(tuning.X) + len(tuning.X_seen) == len(final.X) == 150
    np.testing.assert_array_equal(np.concatenate([tuning.X, tuning.X_seen]), np.float32(images.X_train))
    np.testing.assert_array_equal(final.X_seen, np.float32(images.X_test))
    few = Split(images, "digits", rows=40).parts
    assert len(few["tuning"].X) == len(few["final"].X) == 40
    assert len(few["tuning"].X_seen) == 25
    monkeypatch.setattr("tikhonet.paper.rivals_search.TUNED", 50)
    many = Split(images, "digits").parts
    assert [(len(part.X), len(part.X_seen)) for part in many.values()] == [(50, 25), (125, 25), (150, 60)]
    np.testing.assert_array_equal(many["again"].X_seen, many["tuning"].X_seen)


def test_of_many_rows_the_best_settings_of_few_are_tried_again_and_the_defaults_of_ours(monkeypatch, tmp_path):
    monkeypatch.setattr("tikhonet.paper.rivals_search.TUNED", 60)
    monkeypatch.setattr("tikhonet.paper.rivals_experiment.AGAIN", 2)
    monkeypatch.setattr("tikhonet.paper.rivals_experiment.HOPELESS", 100)  # all trials end
    run(RIVALS, Split(few_digits(), "digits"), TINY, tmp_path, solvers=["bcd", "adamw"], trials=(0,))
    records = load_records(tmp_path)
    by_stage = {stage: [r for r in records if r.stage == stage] for stage in ("tuning", "again", "final")}
    for solver in ("bcd", "adamw"):
        few, many, (final,) = ([r for r in part if r.solver == solver] for part in by_stage.values())
        first, second = sorted((r for r in few if r.score is not None), key=rank)[:2]
        best = {first.number, 0 if solver == "bcd" and first.number else second.number}
        assert {r.number for r in many} == best
        assert {r.samples for r in few} == {60}
        assert min(r.samples for r in many) > 60
        assert final.number == chosen(records)[solver, 2].number == min(many, key=rank).number
    race = RIVALS.compare(records)
    assert [race.tried(row) for row in race.rows.values() if row.ours] == ["4, 2 again"]


def test_the_lowest_held_out_error_is_run_from_every_seed(records):
    best = chosen(records)
    assert set(best) == {(name, 2) for name in FEW}
    for (solver, _), trial in best.items():
        tried = [r for r in records if r.stage == "tuning" and r.solver == solver]
        assert len(tried) == (4 if solver == "bcd" else 3)
        assert trial.score == min(r.score for r in tried if r.score is not None)
        final = [r for r in records if r.stage == "final" and r.solver == solver]
        assert [r.seed for r in final] == [0, 1]
        assert {r.number for r in final} == {trial.number}
        assert {r.head for r in final} == {trial.head}
        assert all(r.settings == trial.settings for r in final)


def test_a_finished_folder_does_nothing_anew(folder, records):
    before = (folder / FILE).read_bytes()
    run(RIVALS, Split(few_digits(), "digits"), TINY, folder, solvers=FEW, trials=(0, 1))
    assert (folder / FILE).read_bytes() == before


def test_a_hopeless_trial_ends_with_a_third_of_its_epochs_done():
    method = next(m for m in RIVALS.methods(TINY, None) if m.contender.name == "adamw")
    data = Split(few_digits(), "digits")
    found = RIVALS.trial(replace(method, bound=lambda: 0.0), data, 0, lambda step: None)
    assert (found["status"], found["passes"], found["error"]) == (GIVEN_UP, 1, None)
    assert RIVALS.trial(replace(method, bound=lambda: 101.0), data, 0, lambda step: None)["passes"] == 2


def test_the_page_judges_both_goals_and_shows_every_trial(folder):
    report = write_report(folder)
    page = report.page.read_text()
    assert "times sooner" in page
    assert "the lowest error, by more than 2 standard errors" in page
    assert {path.stem for path in report.tables} >= {"tuning", "summary", "claims"}
    assert {path.stem for path in report.figures} == {"figure_ends", "figure_curves-2"}


def test_finals_of_a_setting_that_is_no_longer_the_best_do_not_count(records):
    better = next(r for r in records if r.stage == "tuning" and r.solver == "adamw" and r.number == 2)
    beaten = [replace(r, error=0.0, error_V=0.0) if r is better else r for r in records]
    number = chosen(records)["adamw", 2].number
    assert ("adamw-2" in Race.run(beaten).rows) is (number == 2)
    with pytest.raises(RecordError, match="final run"):
        Race.run([r for r in records if r.stage == "tuning"])


def with_errors(records, solver, errors):
    first = next(r for r in records if r.stage == "final" and r.solver == solver)
    return Rival(tuple(replace(first, seed=k, error=e, error_V=e) for k, e in enumerate(errors)))


def test_pairs_are_told_apart_by_scipys_tests(records):
    ours, other = [2.0, 2.1, 1.9, 2.05, 2.2], [2.3, 2.5, 2.1, 2.4, 2.35]
    paired = Paired.of(with_errors(records, "bcd", ours), with_errors(records, "adamw", other))
    assert paired.difference == pytest.approx(np.mean(ours) - np.mean(other))
    assert paired.t_test == pytest.approx(stats.ttest_rel(ours, other).pvalue)
    assert paired.wilcoxon == pytest.approx(stats.wilcoxon(ours, other).pvalue)
    assert Paired.of(with_errors(records, "bcd", ours[:1]), with_errors(records, "adamw", other)) is None


def test_time_to_an_error_is_that_of_the_classifier_which_counts(records):
    record = next(r for r in records if r.stage == "final")
    curve = {"curve_seconds": [1.0, 2.0, 3.0], "curve_error": [None, 5.0, 2.0], "curve_error_V": [6.0, 2.0, 4.0]}
    own, svm = (replace(record, head=head, head_seconds=0.5, **curve) for head in ("own", "svm"))
    assert (own.seconds_to(3.0), svm.seconds_to(3.0), svm.seconds_to(1.0)) == (2.0, 3.5, float("inf"))


def test_time_to_an_error_of_several_seeds_is_the_median_and_a_rival_that_ended_early_proves_nothing(records):
    def rival(solver, *curves):
        first = next(r for r in records if r.stage == "final" and r.solver == solver)
        seconds = [1.0, 2.0]
        made = [
            replace(
                first, seed=k, head="own", curve_seconds=seconds, curve_error=[None, None], curve_error_V=list(errors)
            )
            for k, errors in enumerate(curves)
        ]
        return Rival(tuple(made))

    ours, other = rival("bcd", (5.0, 2.0), (3.0, 2.0), (3.5, 2.0)), rival("adamw", (5.0, 4.1), (5.0, 4.2), (5.0, 3.9))
    assert (ours.seconds_to(4.0), ours.seconds_to(2.0), other.seconds_to(4.0)) == (1.0, 2.0, float("inf"))
    late = Rival(tuple(replace(record, curve_seconds=[2.0, 3.0]) for record in other.records))
    assert [reached(Race({"ours": ours, "other": rows}), 4.0).holds for rows in (other, late)] == [None, True]


def test_a_setting_without_anything_drawn_is_called_the_defaults():
    assert words({"epochs": 3}) == "defaults"
    assert words({"epochs": 3, "rate": 0.1, "decay": None}) == "rate 0.1"


@pytest.mark.parametrize(
    ("errors", "verdict"), [((2.0, 2.1, 1.9, 2.0), True), ((2.9, 2.97, 2.92), None), ((3.1, 3.2, 3.1), False)]
)
def test_two_standard_errors_over_few_seeds_prove_nothing(records, errors, verdict):
    ours, other = with_errors(records, "bcd", errors), with_errors(records, "adamw", [3.0] * len(errors))
    race = Race.run([*ours.records, *other.records, *(r for r in records if r.stage == "tuning")])
    assert lowest(race, 2).holds is verdict
