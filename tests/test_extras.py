"""The core needs five packages; any other is an extra, and one line names it where it is missing."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tikhonet.network.extras import EXTRA_OF, MissingExtraError, require

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = {"torch", "numpy", "scipy", "scikit-learn", "safetensors"}
DISTRIBUTIONS = {"PIL": "pillow", "faiss": "faiss-cpu"}


def names(requirements):
    return {requirement.partition(">")[0] for requirement in requirements}


def test_the_core_needs_five_packages():
    assert names(PROJECT["dependencies"]) == CORE


def test_every_optional_package_is_in_the_extra_that_its_error_names():
    for package, extra in EXTRA_OF.items():
        listed = names(PROJECT["optional-dependencies"][extra])
        assert DISTRIBUTIONS.get(package, package) in listed, (package, extra)


def test_all_holds_every_extra_that_the_library_can_use():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == set(EXTRA_OF.values())
    assert "tikhonet[all]" in PROJECT["optional-dependencies"]["test"]
    assert "tikhonet[test" in PROJECT["optional-dependencies"]["dev"][0]


def imported(path):
    """The packages that a file imports, but for those under TYPE_CHECKING, which no program sees."""
    tree = ast.parse(path.read_text())
    typing = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and getattr(branch.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_optional_packages_are_imported_by_the_one_helper():
    """The command line's own files may import typer: without it none of them is reached."""
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in (ROOT / "tikhonet").rglob("*.py")
        if (found := set(imported(path)) & set(EXTRA_OF) - ({"typer"} if path.parent.name == "cli" else set()))
    }
    assert not wrong


@pytest.mark.parametrize(("package", "extra"), EXTRA_OF.items())
def test_a_missing_package_is_one_line_with_its_extra(monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        require(package)
    assert str(caught.value) == f"{package} is not installed; pip install 'tikhonet[{extra}]'"


def test_a_part_that_a_package_lacks_is_another_mistake():
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        require("matplotlib.nothing")


def without(monkeypatch, package):
    """Make a package missing, whatever of it was imported before."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("package", ["typer"])
def test_the_command_without_its_packages_names_the_extra(monkeypatch, package):
    from tikhonet.cli import main

    without(monkeypatch, package)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == f"tikhonet: {package} is not installed; pip install 'tikhonet[cli]'"


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [
        ("rich", "cli", ["info"]),
        ("pooch", "data", ["data"]),
        ("PIL", "data", ["fit", "--data", "pictures", "-o", "m"]),
        ("pyarrow", "data", ["fit", "--data", "rows.parquet", "-o", "m"]),
    ],
)
def test_a_command_that_needs_a_missing_package_is_one_line(monkeypatch, tmp_path, package, extra, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIKHONET_DATA", raising=False)
    (tmp_path / "rows.parquet").touch()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").touch()
    without(monkeypatch, package)
    if package == "PIL":  # or the bar fails first, which is drawn by rich
        monkeypatch.setattr("tikhonet.cli.inputs.Bar", __import__("contextlib").nullcontext)
    ran = invoke(*words)
    assert ran.code != 0
    assert ran.err.count("\n") == 1
    assert f"{package} is not installed; pip install 'tikhonet[{extra}]'" in ran.err


def test_a_drawing_names_its_extra(monkeypatch):
    from tikhonet import Network

    without(monkeypatch, "matplotlib")
    with pytest.raises(MissingExtraError, match=r"tikhonet\[report\]"):
        Network.chain([3, 4]).draw()
