"""The README of the packages: every link of it is an address."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("hatchling", reason="needs the extra `release`")
sys.path.append(str(ROOT))

from hatch_build import ReadmeHook, with_addresses  # noqa: E402


def test_relative_links_and_pictures_become_addresses_and_others_stay():
    text = '[a](docs/a.md#b) [c](https://c) [d](#d) ![e](docs/e.png) <img src="f.svg">'
    assert with_addresses(text, "https://s", "1.0") == (
        "[a](https://s/blob/v1.0/docs/a.md#b) [c](https://c) [d](#d) ![e](https://s/raw/v1.0/docs/e.png) "
        '<img src="https://s/raw/v1.0/f.svg">'
    )


def test_the_readme_of_the_packages_names_files_of_this_tree_by_address():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ReadmeHook(str(ROOT), {}).update(project)
    links = re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', project["readme"]["text"])
    named = [first or second for first, second in links]
    assert named
    assert all(link.startswith(("https://", "#")) for link in named)
    for link in named:
        if link.startswith(source := f"{project['urls']['Source']}/"):
            path = link.removeprefix(source).split("/", 2)[2].partition("#")[0]
            assert (ROOT / path).exists(), link
