"""The README of the packages: no link of it needs a file beside it."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("hatchling", reason="needs the extra `release`")
sys.path.append(str(ROOT))

from hatch_build import ReadmeHook, with_addresses  # noqa: E402

TEXT = "[a](docs/a.md#b) [c](https://c) [d](#d) ![e](docs/e.png)"


def test_relative_links_and_pictures_become_addresses_and_others_stay():
    expected = "[a](https://s/blob/v1.0/docs/a.md#b) [c](https://c) [d](#d) ![e](https://s/raw/v1.0/docs/e.png)"
    assert with_addresses(TEXT, "https://s", "1.0") == expected


def test_without_a_public_source_words_stay_and_links_go():
    assert with_addresses(TEXT, None, "1.0") == "a [c](https://c) [d](#d) "


@pytest.mark.parametrize("urls", [{}, {"Source": "https://example.org/tikhonet"}])
def test_the_readme_of_the_packages_links_to_addresses_of_files_that_exist(urls):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"] | {"urls": urls}
    ReadmeHook(str(ROOT), {}).update(project)
    named = re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', project["readme"]["text"])
    links = [first or second for first, second in named]
    assert all(link.startswith(("https://", "#")) for link in links)
    here = [link for link in links if urls and link.startswith(urls["Source"])]
    assert bool(here) == bool(urls)
    for link in here:
        path = link.removeprefix(urls["Source"]).split("/", 3)[3].partition("#")[0]
        assert (ROOT / path).exists(), link
