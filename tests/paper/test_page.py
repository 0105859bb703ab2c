"""The page and the files beside it, from a tiny real run."""

import csv
import re
from dataclasses import replace

import pytest

from tikhonet.paper.experiment import load_records
from tikhonet.paper.page import save_table, write_report
from tikhonet.paper.records import RecordError, append_record


@pytest.fixture(scope="session")
def html(report):
    return report.page.read_text()


def test_the_page_needs_no_network(html):
    addresses = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)|url\(([^)]*)""", html)
    named = {first or second for first, second in addresses}
    assert all(re.match(r"#\w+$|data:|figures/|tables/", address) for address in named)
    assert "@import" not in html
    assert "fetch(" not in html


def test_the_page_is_below_five_megabytes(report):
    assert report.page.stat().st_size < 5e6


def test_the_page_shows_every_part_of_the_report(html):
    parts = re.findall(r'<section id="(\w+)"', html)
    assert parts == ["claims", "figures", "results", "added", "certificates", "weights", "sparsity", "mistakes", "redo"]
    assert re.findall(r'<figure id="figure-(\w+)"', html) == ["a1", "a2", "b", "c", "d", "e", "f", "confusion"]
    assert "tikhonet reproduce mnist --quick" in html


def test_the_contents_name_every_section_in_its_order(html):
    nav = html.partition('<nav id="contents"')[2].partition("</nav>")[0]
    sections = re.findall(r'<section id="(\w+)">\s*<h2>(.*?)</h2>', html)
    assert re.findall(r'<a href="#(\w+)">(.*?)</a>', nav) == sections
    assert len(sections) == html.count("<section")


def test_the_page_opens_with_a_count_of_its_verdicts(html):
    top = html.partition('<dl aria-label="Verdicts"')[2].partition("</dl>")[0]
    counted = sum(map(int, re.findall(r'<span class="verdict \w+">(\d+) ', top)))
    assert counted == html.count('<span class="said">')


def test_every_run_has_its_certificate_on_the_page(html, output):
    records = [record for record in load_records(output) if record.checks]
    for record in records:
        assert f"{record.title}, trial {record.trial}" in html
    assert html.count('<div class="run">') >= len(records)


def test_every_file_that_the_page_names_is_there(html, output, report):
    named = set(re.findall(r'href="((?:figures|tables)/[^"]+)"', html))
    assert named == {path.relative_to(output).as_posix() for path in (*report.figures, *report.tables)}
    assert all((output / name).stat().st_size > 100 for name in named)


def test_figures_come_as_png_and_pdf(report):
    openings = {".png": b"\x89PNG", ".pdf": b"%PDF"}
    assert {path.stem for path in report.figures} == {
        f"figure_{name}" for name in ("a1", "a2", "b", "c", "d", "e", "f")
    }
    assert all(path.read_bytes().startswith(openings[path.suffix]) for path in report.figures)


def test_tables_come_as_csv_with_one_width(report):
    for path in report.tables:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1


def test_trials_in_csv_are_those_of_the_records(output, report):
    with (output / "tables" / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    errors = {(row["method"], int(row["trial"])): float(row["error"]) for row in rows}
    for record in load_records(output):
        assert errors[record.title, record.trial] == pytest.approx(record.error, rel=1e-5)


def test_equal_records_give_an_equal_page(output, report, html):
    write_report(output, command="tikhonet reproduce mnist --quick")
    assert report.page.read_text() == html


def test_a_report_of_some_solvers_says_what_was_not_run(output, tmp_path):
    for record in load_records(output):
        if record.method == "adam":
            append_record(tmp_path, record)
    page = write_report(tmp_path).page.read_text()
    assert "alg1 or alg1-s was not run." in page


def test_records_of_two_data_sets_are_refused(output, tmp_path):
    first, second, *_ = load_records(output)
    append_record(tmp_path, first)
    append_record(tmp_path, replace(second, data=second.data | {"sha256": "other"}))
    with pytest.raises(RecordError, match="records of one report must share their data"):
        write_report(tmp_path)


def test_a_text_that_a_spreadsheet_would_compute_stays_text(tmp_path):
    path = save_table([["name"], ["=1+1"], ["a = b"]], tmp_path / "table.csv")
    assert path.read_text() == "name\n'=1+1\na = b\n"
