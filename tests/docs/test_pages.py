"""The code of the pages runs as it is written: each page by itself, from the top to the end, in an empty folder."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import invoke

DOCS = Path(__file__).parents[2] / "docs"
SOLVERS = DOCS / "guide" / "solvers.md"
PAGES = [
    DOCS / "start.md",
    DOCS / "index.md",
    DOCS / "faq.md",
    *sorted(set(DOCS.glob("guide/*.md")) - {SOLVERS}),
    *sorted(DOCS.glob("mathematics/*.md")),
]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", flags=re.S | re.M)


def run_page(path, folder):
    """Run the blocks of a page in their order; commands other than `tikhonet` are left out."""
    names = {}
    for count, (language, text) in enumerate(BLOCK.findall(path.read_text(encoding="utf-8"))):
        if language == "python":
            script = folder / f"block_{count}.py"
            script.write_text(text, encoding="utf-8")
            names = {**names, **runpy.run_path(str(script), names, "__main__")}
        else:
            for line in text.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == "tikhonet":
                    found = invoke(*words[1:])
                    assert found.code == 0, found.err


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_the_code_of_a_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(path, tmp_path)


def test_the_page_of_solvers_shows_a_certificate_and_a_schedule_that_ran_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(SOLVERS, tmp_path)
    printed = capsys.readouterr().out
    assert "Certificate" in printed
    assert "Status.SCHEDULE_EXHAUSTED" in printed
