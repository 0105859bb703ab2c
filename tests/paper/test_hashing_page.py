"""The hashing page from a tiny real run: its parts, its verdicts, and that wrong neighbours are marked."""

import csv
import re
from dataclasses import replace

import pytest

from tests.paper.tiny import HASHING
from tikhonet.paper.experiment import load_records
from tikhonet.paper.page import write_report
from tikhonet.paper.records import RecordError, append_record


@pytest.fixture(scope="module")
def html(hashing_report):
    return hashing_report.page.read_text()


@pytest.fixture(scope="module")
def records(hashing_output):
    return load_records(hashing_output)


def with_score(record, value, seconds=None):
    tied = {"expected": value, "lower": value - 0.01, "upper": value + 0.01}
    retrieval = record.retrieval | {"mean_average_precision": tied, "precision_within": value, "recall_within": value}
    return replace(record, retrieval=retrieval, seconds=record.seconds if seconds is None else seconds)


def judged(records, words, seconds=None, **scores):
    """The finding on the claim with these words, after some ways were given other figures."""
    seconds = seconds or {}

    def changed(record):
        way = record.way
        return with_score(record, scores[way], seconds.get(way)) if way in scores else record

    kept = [record for record in records if record.way != "penalty" or "penalty" in scores]
    found = HASHING.findings(HASHING.compare([changed(record) for record in kept]))
    return next(claim.findings[0] for claim in found if words in claim.words)


def test_the_page_shows_every_part_and_needs_no_network(html):
    assert re.findall(r'<section id="(\w+)"', html) == ["claims", "figures", "results", "retrieved", "redo"]
    assert {"map", "pr", "seconds"} <= set(re.findall(r'<figure id="figure-([\w-]+)"', html))
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", html)
    assert all(re.match(r"#\w+$|data:|figures/|tables/", address) for address in addresses)
    assert "tikhonet reproduce hashing --quick" in html


def test_every_file_that_the_page_names_is_there(html, hashing_output, hashing_report):
    named = set(re.findall(r'href="((?:figures|tables)/[^"]+)"', html))
    assert named == {
        path.relative_to(hashing_output).as_posix() for p in [hashing_report] for path in p.figures + p.tables
    }
    assert all((hashing_output / name).stat().st_size > 100 for name in named)


def test_equal_records_give_an_equal_page(hashing_output, hashing_report, html):
    write_report(hashing_output, command="tikhonet reproduce hashing --quick")
    assert hashing_report.page.read_text() == html


def test_wrong_neighbours_are_marked_by_text_and_right_ones_are_not(hashing_output, html):
    wrong = 0
    for name in ("mixed-16-0", "bcd-16-0"):
        record = next(r for r in load_records(hashing_output) if r.name == name)
        wrong += int((record.picture("found_labels") != record.picture("query_labels")[:, None]).sum())
    assert html.count("✗ wrong") == html.count('<figure class="wrong">') == wrong > 0


def test_the_table_shows_the_mean_with_its_bounds_by_ties(records, html, hashing_output):
    own = [r.retrieval["mean_average_precision"] for r in records if r.method == "admm-8"]
    low, middle, high = (sum(part[name] for part in own) / len(own) for name in ("lower", "expected", "upper"))
    assert f"{middle:.4f}<small>{low:.3f}–{high:.3f}</small>" in html  # noqa: RUF001
    with (hashing_output / "tables" / "summary.csv").open(newline="") as file:
        row = next(row for row in csv.DictReader(file) if (row["method"], row["bits"]) == ("ADMM", "8"))
    assert float(row["mAP"]) == pytest.approx(middle, rel=1e-5)
    assert float(row["highest by ties"]) == pytest.approx(high, rel=1e-5)


def test_the_claims_against_admm_follow_the_figures(records):
    for words in ("mAP is slightly better", "Precision is", "Recall is"):
        assert judged(records, words, bcd=0.95, admm=0.6).holds is True
        assert judged(records, words, bcd=0.6, admm=0.95).holds is False
        assert judged(records, words, bcd=0.90, admm=0.89).holds is None


def test_the_better_one_of_admm_and_its_penalties_alone_is_compared_with(records):
    found = judged(records, "mAP is slightly better", bcd=0.6, admm=0.4, penalty=0.95)
    assert found.holds is False
    assert "against Quadratic penalty" in found.text
    assert "against ADMM" in judged(records, "mAP is slightly better", bcd=0.6, admm=0.95, penalty=0.5).text


def test_nine_times_faster_counts_only_at_no_lower_precision(records):
    quick, slow = {"bcd": 1.0, "admm": 9.5}, {"bcd": 1.0, "admm": 8.5}
    assert judged(records, "ADMM takes 9", quick, bcd=0.9, fewer=0.5, admm=0.9).holds is True
    assert judged(records, "ADMM takes 9", slow, bcd=0.9, fewer=0.5, admm=0.9).holds is False
    assert judged(records, "ADMM takes 9", quick, bcd=0.5, fewer=0.5, admm=0.9).holds is False


def test_times_are_those_of_the_fewest_passes_that_are_as_good(records):
    seconds = {"fewer": 1.0, "bcd": 5.0, "admm": 9.5}
    found = judged(records, "ADMM takes 9", seconds, bcd=0.95, fewer=0.9, admm=0.9)
    assert found.holds is True
    assert found.text.startswith("BCD, fewer passes: 1 s against 9.5 s")
    found = judged(records, "ADMM takes 9", seconds, bcd=0.95, fewer=0.5, admm=0.9)
    assert found.holds is False
    assert found.text.startswith("BCD, learned codes: 5 s against 9.5 s, a ratio of 1.9")


def test_a_trial_on_a_shared_core_does_not_count_for_times(records):
    quick = [record for record in records if record.way in ("bcd", "admm")]
    slow = [replace(record, trial=record.trial + 1, seconds=100 * record.seconds) for record in quick]
    alone, both = (HASHING.compare(part) for part in (quick, quick + slow))
    for way in alone.rows:
        for bits in alone.lengths:
            assert both.rows[way].at(bits).seconds == alone.rows[way].at(bits).seconds


def test_one_method_that_is_better_anywhere_fails_above_all_and_is_named(records):
    ways = {record.way for record in records} - {"bcd", "fewer", "words", "penalty"}
    assert judged(records, "every other method", bcd=0.99, **dict.fromkeys(ways, 0.5)).holds is True
    finding = judged(records, "every other method", bcd=0.99, **dict.fromkeys(ways, 0.5) | {"sdh": 0.995})
    assert finding.holds is False
    assert "SDH at 8 (0.9950), 16 (0.9950)" in finding.text


def test_the_goal_of_mnist_is_asked_of_mnist_only(records):
    assert not any("MNIST" in claim.words for claim in HASHING.findings(HASHING.compare(records)))
    mnist = [replace(r, data=r.data | {"name": "mnist"}, bits=48 if r.bits == 16 else 8) for r in records]
    assert judged(mnist, "on MNIST", bcd=0.976).holds is True
    assert judged(mnist, "on MNIST", bcd=0.974).holds is False


def test_what_was_not_run_or_diverged_cannot_be_told(records):
    some = [record for record in records if record.way != "admm"]
    assert judged(some, "mAP is slightly better").holds is None
    lost = [replace(record, retrieval={}, codes={}) if record.way == "admm" else record for record in records]
    assert judged(lost, "ADMM takes 9").holds is None


def written(records, folder):
    """The page of these records, in a folder of their own."""
    for record in records:
        append_record(folder, record)
    return write_report(folder).page.read_text()


def test_a_diverged_method_is_shown_as_such(records, tmp_path):
    lost = [replace(record, retrieval={}, codes={}) if record.way == "adam" else record for record in records]
    assert written(lost, tmp_path).count('<td class="n">diverged</td>') == 2


def test_records_of_two_databases_are_refused(records, tmp_path):
    first, *others = records
    with pytest.raises(RecordError, match="records of one report must share their data"):
        written([replace(first, data=first.data | {"sha256": "other"}), *others], tmp_path)


def test_the_table_says_how_many_trials_its_means_have(html, records, tmp_path):
    assert "Means over 2 trials. " in html
    page = written([record for record in records if record.name != "itq-8-1"], tmp_path)
    assert "Means over 1, 2 trials, by the method. " in page


@pytest.fixture
def unseen(records):
    """The same records as if three classes had been unseen, and `mixed` codes open to new classes."""

    def changed(record):
        way = {"mixed": "open"}.get(record.way, record.way)
        retrieval = record.retrieval | {"queries": 30 + record.trial} if "queries" in record.retrieval else {}
        own = {
            "way": way,
            "method": f"{way}-{record.bits}",
            "samples": 90,
            "data": record.data | {"name": "digits-unseen"},
        }
        return replace(record, **own, retrieval=retrieval or record.retrieval)

    return [changed(record) for record in records]


def test_a_page_of_unseen_classes_says_so_and_has_the_sizes_of_its_trials(unseen, tmp_path):
    page = written(unseen, tmp_path)
    eyebrow = page[page.index('class="eyebrow"') : page.index("<h1>")]
    assert "90 images to learn from" in eyebrow
    assert "30 to 31 queries a trial" in eyebrow
    assert "kept from the training" in page
    assert "open to new classes" in page[page.index('class="who"') :]


def test_differences_are_as_sure_as_the_queries_of_a_trial_allow(records, unseen):
    assert HASHING.compare(records).tests == records[0].data["queries"]
    found = HASHING.compare(unseen)
    assert found.tests == 30
    assert found.noise(0.5) == pytest.approx(0.5 / 30**0.5)


def test_open_codes_are_judged_against_every_rival_over_the_draws(unseen):
    rivals = {record.way for record in unseen} - {"open", "bcd", "fewer", "words"}

    def holds(**scores):
        def changed(record):
            return with_score(record, scores[record.way] + 0.1 * record.trial) if record.way in scores else record

        claims = HASHING.findings(HASHING.compare([changed(record) for record in unseen]))
        return next(claim.findings[0] for claim in claims if "above every rival" in claim.words)

    ahead = holds(open=0.8, **dict.fromkeys(rivals, 0.7))
    assert ahead.holds is True
    assert "(2 draws)" in ahead.text
    behind = holds(open=0.8, **dict.fromkeys(rivals, 0.7) | {"itq": 0.85})
    assert behind.holds is False
    assert behind.text.startswith("Open codes less the nearest rivals: ITQ at")
