"""The page of the sparse experiment, and its verdicts."""

import csv
import re
from dataclasses import replace

import pytest

from tests.paper.tiny import SPARSE, TINY_SPARSE, few_digits
from tikhonet.paper.experiment import load_records
from tikhonet.paper.page import write_report
from tikhonet.paper.runner import run
from tikhonet.paper.sparse_findings import against, cost, emergent, exact, faster, frontier


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frontier")
    run(SPARSE, few_digits(), TINY_SPARSE, folder, trials=(0, 1))
    return folder


@pytest.fixture(scope="module")
def report(output):
    return write_report(output, command="tikhonet reproduce sparse --quick")


@pytest.fixture(scope="module")
def summary(output):
    return SPARSE.compare(load_records(output))


def changed(summary, **values):
    """The same with other values in the records of some methods, given as name=(field, value)."""
    names = {name.replace("_", "-").replace("2-42", "2.42"): change for name, change in values.items()}
    records = [
        replace(record, **{names[row.name][0]: names[row.name][1]}) if row.name in names else record
        for row in summary.rows.values()
        for record in row.records
    ]
    return SPARSE.compare(records)


def test_the_page_shows_every_part_and_needs_no_network(report):
    html = report.page.read_text()
    assert re.findall(r'<section id="(\w+)"', html) == ["figures", "claims", "results", "sparsity", "redo"]
    assert "tikhonet reproduce sparse --quick" in html
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)""", html)
    assert all(re.match(r"#\w+$|data:|figures/|tables/", address) for address in addresses)


def test_the_figure_comes_as_png_and_pdf_and_all_tables_as_csv(report):
    assert [path.name for path in report.figures] == ["figure_frontier.png", "figure_frontier.pdf"]
    assert all(path.stat().st_size > 1000 for path in report.figures)
    names = {path.stem for path in report.tables}
    assert names == {"frontier", "claims", "summary", "trials", "curves", "certificates", "settings"}


def test_the_table_holds_the_points_of_the_figure(report, summary):
    path = next(path for path in report.tables if path.stem == "frontier")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = frontier(summary).lines
    drawn = [(line.label, point) for line in lines for point in line.points]
    assert len(rows) == len(drawn) == 3 + 1 + 3 + 2 + 3 + 1
    for row, (label, point) in zip(rows, drawn, strict=True):
        assert row["line"] == label
        assert float(row["exactly nonzero weights of the three W, %"]) == pytest.approx(point.x, rel=1e-5)
        assert float(row["test error, %"]) == pytest.approx(point.y, rel=1e-5)


def test_the_curves_run_from_dense_to_sparse_and_the_papers_point_is_beside_them(summary):
    *curves, paper = frontier(summary).lines
    assert curves[0].label == "Budget (ours)"
    for curve in curves:
        densities = [point.x for point in curve.points]
        assert densities == sorted(densities, reverse=True)
    (point,) = paper.points
    assert (point.x, point.y) == (2.42, summary.rows["dense"].score + 1.34)
    drawing = frontier(summary).svg()
    assert ">the paper's BCD-S</text>" in drawing
    assert drawing.count("<title>") == 13


def test_the_verdict_of_a_cost_follows_its_points(summary):
    made = changed(summary, dense=("error", 1.3), budget_2_42=("error", 1.5))
    assert cost(made, 2.42, 0.25).holds is True
    assert cost(made, 2.42, 0.1).holds is False
    assert "+0.20 points" in cost(made, 2.42, 0.25).text
    assert cost(made, 1.0, 0.4).holds is None


def test_a_budget_must_beat_the_better_pruning(summary):
    values = {"budget_2_42": ("error", 2.0), "gradual_2_42": ("error", 3.0), "one_shot_2_42": ("error", 1.9)}
    assert against(changed(summary, **values)).holds is False
    values["one_shot_2_42"] = ("error", 2.1)
    finding = against(changed(summary, **values))
    assert finding.holds is True
    assert "2.42%: 2.00 against 2.10 (pruned at once" in finding.text


def test_other_verdicts_follow_their_figures(summary):
    few = {"W1": 2.0, "W2": 2.0, "W3": 2.0, "V": 100.0}
    assert emergent(changed(summary, ball_1=("nonzero", few))).holds is True
    assert emergent(summary).holds is False
    assert exact(summary).holds is True
    slow = {name.replace("-", "_").replace(".", "_"): ("seconds", 9.0) for name in summary.rows if "budget" in name}
    assert faster(changed(summary, **slow)).holds is False


def test_a_report_of_some_methods_says_what_was_not_run(summary):
    only = SPARSE.compare(list(summary.rows["dense"].records))
    assert against(only).holds is None
    assert emergent(only).text == "The ball was not run."
    assert exact(only).holds is None
    assert faster(only).holds is None
