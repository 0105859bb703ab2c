"""The core knows nothing of the layers above it: imports point upward in this list only."""

import ast
from pathlib import Path

import tikhonet

ORDER = ["network", "problem", "descent", "trainer", "model", "estimators", "hashing", "data", "paper", "cli"]
PACKAGE = Path(tikhonet.__file__).parent


def imported(path: Path) -> set[str]:
    """The parts of the package that a file imports when it is imported itself."""
    tree = ast.parse(path.read_text())
    top = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    return {node.module.split(".")[1] for node in top if node.module.startswith("tikhonet.")}


def test_every_module_imports_only_from_those_above_it():
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        allowed = set(ORDER[: ORDER.index(part) + 1])
        assert imported(path) <= allowed, f"{path.name} imports {imported(path) - allowed}"


def test_importing_the_core_loads_neither_matplotlib_nor_scikit_learn():
    import subprocess
    import sys

    code = "import sys, tikhonet; print(sorted({'matplotlib', 'sklearn', 'cvxpy'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
