"""The site builds without a warning, its links lead somewhere, and every public name has its place in it."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
MADE = ("_build", "gallery", "generated", "__pycache__")
PACKAGES = ("tikhonet", "tikhonet.optim", "tikhonet.hashing", "tikhonet.data")


class Page(HTMLParser):
    """The anchors of a page, and where its links, pictures and scripts point."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


def broken_links(folder):
    """The links of pages in a folder that lead nowhere in it; those to other sites are not looked at."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            link = urlsplit(target)
            if link.scheme or link.netloc:
                continue
            place = (path.parent / unquote(link.path)).resolve() if link.path else path
            place = place / "index.html" if place.is_dir() else place
            anchors = pages[place].anchors if place in pages else {link.fragment}
            if not place.exists() or (link.fragment and unquote(link.fragment) not in anchors):
                broken.append(f"{path.relative_to(folder)}: {target}")
    return broken


def copy_of_sources(folder):
    """The documents in a folder of their own, beside all that they are made of; builds write beside the documents."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns(*MADE))
    for name in ("examples", "results", "tikhonet", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        (folder / name).symlink_to(ROOT / name)
    return folder / "docs"


def test_the_site_builds_without_a_warning_and_its_links_lead_somewhere(tmp_path):
    """The examples are not run here: each has a test of its own."""
    source, built = copy_of_sources(tmp_path), tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0", source, built]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stderr
    assert not broken_links(built)
    assert not re.search(r"<(script|link|img)[^>]+https?://", (built / "index.html").read_text()), "needs a network"


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">x</h1><a href="b.html#there"></a><a href="#top"></a>')
    (tmp_path / "b.html").write_text('<a id="here"></a><a href="c.html"></a><a href="https://example.org/"></a>')
    assert broken_links(tmp_path) == ["a.html: b.html#there", "b.html: c.html"]


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api" / "index.md").read_text()
    lists = re.findall(r"currentmodule:: (\S+)\n.*?:nosignatures:\n\n(.*?)```", text, flags=re.S)
    listed = {id(getattr(import_module(module), name)) for module, names in lists for name in names.split()}
    public = [(module, name) for module in PACKAGES for name in import_module(module).__all__]
    assert not [pair for pair in public if id(getattr(import_module(pair[0]), pair[1])) not in listed]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "results/README.md"])
def test_links_of_other_documents_lead_somewhere(name):
    """The site's own links are checked where it is built."""
    path = ROOT / name
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert not [link for link in links if not (path.parent / link).exists()]
