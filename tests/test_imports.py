"""The shape of the package: the order of its layers, the names and sizes of its files, what an import loads.

Imports are read from the source, so those inside functions and under TYPE_CHECKING count like all others.
"""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tikhonet

ORDER = ["network", "problem", "descent", "trainer", "optim", "model", "estimators", "hashing", "data", "paper", "cli"]
ROOT = Path(tikhonet.__file__).parent
BOUNDARIES = {
    "tikhonet.network.drawing": "a picture, apart from the graph",
    "tikhonet.problem.meeting": "how ranks find each other, apart from the sums that they make",
    "tikhonet.descent.block_steps": "the algorithm, apart from the loop that watches it",
    "tikhonet.trainer.kept_memory": "what the C library is told, apart from the training",
    "tikhonet.trainer.turning": "one departure from the plain step, with its reason",
    "tikhonet.model.column_kinds": "kinds of columns, apart from the table that has them",
    "tikhonet.model.logistic": "one kind of head's numerics, as the SVM's are apart",
    "tikhonet.model.torch_building": "from a network to a module, apart from the way back",
    "tikhonet.model.torch_rules": "each layer of torch by itself, apart from the graph of their calls",
    "tikhonet.model.torch_tracing": "one pass over a traced module with all that it remembers",
    "tikhonet.model.predictor": "the choice of the fastest kernel, apart from the estimators",
    "tikhonet.estimators.rank_states": "where the rows of a state are, apart from the files that hold it",
    "tikhonet.estimators.labels": "several labels a row, beside one class",
    "tikhonet.estimators.importances": "a definition of what matters, apart from the estimators that show it",
    "tikhonet.hashing.experts": "coordinates of each class, beside those of all rows",
    "tikhonet.hashing.code_targets": "what codes are learned from, beside the targets of the other estimators",
    "tikhonet.estimators.loader_fit": "the one fit whose rows come anew at every epoch",
    "tikhonet.estimators.large_fit": "fits of rows on disk, apart from the estimators",
    "tikhonet.paper.unseen_findings": "the claims about classes never seen, apart from those of the paper",
    "tikhonet.hashing.asymmetric": "distances by scores, apart from the index that uses them",
    "tikhonet.data.gist": "descriptors for users, of which the hashing experiment is one",
    "tikhonet.data.large_tables": "files by pieces, apart from files that are read whole",
    "tikhonet.cli.parameter_options": "parameters as options, apart from the command that has them",
    "tikhonet.paper.old_records": "files of version 0.1, apart from the present ones",
    "tikhonet.paper.mnist_figures": "figures of one experiment",
    "tikhonet.paper.sparse_findings": "findings of one experiment",
    "tikhonet.paper.literal_findings": "findings and figures of one experiment",
    "tikhonet.paper.hash_coders": "methods of the hashing experiment",
    "tikhonet.paper.ablated_steps": "the trainer with one ingredient exchanged",
    "tikhonet.paper.ablation_findings": "findings and figures of one experiment",
    "tikhonet.paper.rivals_findings": "findings and figures of one experiment",
    "tikhonet.paper.rivals_search": "the contenders of one experiment",
    "tikhonet.paper.baselines.discrete_hash": "a baseline",
    "tikhonet.paper.baselines.layer_rules": "rules that see layers, apart from those that see gradients alone",
    "tikhonet.cli.code_page": "what a hasher's page shows, apart from its measures",
    "tikhonet.cli.code_evaluation": "what is measured of codes, apart from the command",
}
"""Modules that one other module alone imports, and why they are files of their own."""


OWN = ("__version__", "load")
"""Names that the top level defines itself."""


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def resolve(name, part=None):
    """The module of this package that an import of `name` (and `part` out of it) loads; None for other packages."""
    if name.split(".")[0] != "tikhonet":
        return None
    if part and f"{name}.{part}" in PATHS:
        return f"{name}.{part}"
    return name


def targets(node):
    match node:
        case ast.Import():
            return [resolve(alias.name) for alias in node.names]
        case ast.ImportFrom(level=0, module=str(module)):
            return [resolve(module, alias.name) for alias in node.names]
        case ast.Call(
            func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[ast.Constant(), *_]
        ):
            return [resolve(str(node.args[0].value))]
    return []


@cache
def imports(module):
    """The modules of this package that a module imports anywhere in its source."""
    found = {target for node in ast.walk(tree(module)) for target in targets(node)}
    return found - {None, module}


@cache
def tree(module):
    return ast.parse(PATHS[module].read_text())


def package_of(module):
    """The part of the order that a module belongs to; none for the top level."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else None


def modules_of(package):
    return [module for module in PATHS if package_of(module) == package]


def test_every_package_has_its_place_in_the_order():
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == set(ORDER)


@pytest.mark.parametrize("package", ORDER)
def test_imports_point_upward_in_the_order_of_packages(package):
    allowed = set(ORDER[: ORDER.index(package) + 1])
    wrong = [
        f"{module} imports {target}"
        for module in modules_of(package)
        for target in imports(module)
        if target != "tikhonet" and package_of(target) not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize("package", ORDER)
def test_names_are_imported_from_the_modules_that_define_them(package):
    """`from tikhonet import Network` is for users: in the package it would hide an import from the order."""
    wrong = [
        f"{module}: from tikhonet import {alias.name}"
        for module in modules_of(package)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and node.module == "tikhonet"
        for alias in node.names
        if f"tikhonet.{alias.name}" not in PATHS and alias.name not in OWN
    ]
    wrong += [
        f"{module}: a relative import"
        for module in modules_of(package)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not wrong


@pytest.mark.parametrize("package", ORDER)
def test_modules_of_a_package_have_an_order_too(package):
    own = modules_of(package)
    try:
        TopologicalSorter({module: imports(module) & set(own) for module in own}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_two_files_share_a_name():
    names = Counter(path.name for path in PATHS.values() if not path.name.startswith("__"))
    assert not [name for name, count in names.items() if count > 1]


def docstring_lines(node):
    """The lines of a docstring: parameters and examples of a public name make no code longer."""
    if ast.get_docstring(node, clean=False) is None:
        return 0
    text = node.body[0]
    return text.end_lineno - text.lineno + 1


def documented_nodes(node):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return (part for part in ast.walk(node) if isinstance(part, kinds))


@pytest.mark.parametrize("package", ORDER)
def test_no_file_is_longer_than_300_lines_without_its_docstrings(package):
    lengths = {
        module: len(PATHS[module].read_text().splitlines()) - sum(map(docstring_lines, documented_nodes(tree(module))))
        for module in modules_of(package)
    }
    assert not {module: length for module, length in lengths.items() if length > 300}


def is_command(module, function):
    """Whether the options of a command make it as long as it is."""
    return package_of(module) == "cli" and module.split(".")[-1] == function


@pytest.mark.parametrize("package", ORDER)
def test_no_function_is_longer_than_50_lines_without_its_docstring(package):
    wrong = [
        f"{module}.{node.name}: {length} lines"
        for module in modules_of(package)
        for node in ast.walk(tree(module))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (length := node.end_lineno - node.lineno + 1 - docstring_lines(node)) > 50
        and not is_command(module, node.name)
    ]
    assert not wrong


def importers():
    found = defaultdict(set)
    for module in PATHS:
        for target in imports(module):
            found[target].add(module)
    return found


@pytest.mark.parametrize("package", ORDER)
def test_a_module_with_one_importer_is_a_boundary_on_purpose(package):
    """Names that a package exports are imported by its `__init__`, which is reason enough for a file."""
    found = importers()
    alone = {
        module: next(iter(found[module]))
        for module in modules_of(package)
        if PATHS[module].name != "__init__.py"
        and len(found[module]) == 1
        and PATHS[next(iter(found[module]))].name != "__init__.py"
    }
    assert not {module: importer for module, importer in alone.items() if module not in BOUNDARIES}


def test_boundaries_are_modules_with_one_importer():
    found = importers()
    assert not [module for module in BOUNDARIES if module not in PATHS or len(found[module]) != 1]


def loaded_by(code):
    """The third-party packages that a fresh interpreter has loaded after it."""
    known = {"torch", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "rich", "typer", "cvxpy", "PIL", "jinja2"}
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*({known} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_else():
    assert loaded_by("import tikhonet") == set()


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_the_version_and_the_help_load_the_command_line_alone(word):
    """0.5 s of CPU is enough for them where neither torch nor scikit-learn is loaded."""
    assert loaded_by(f"sys.argv[1:] = ['{word}']; from tikhonet.cli import main; main()") <= {"typer"}


def test_a_network_is_made_without_what_only_estimators_and_figures_need():
    loaded = loaded_by("from tikhonet import BlockDescent, Network, Problem, Stochastic")
    assert not loaded & {"matplotlib", "sklearn", "pandas", "rich", "typer", "cvxpy", "PIL", "jinja2"}


def test_type_checkers_see_the_names_that_are_imported_lazily():
    block = next(node for node in tree("tikhonet").body if isinstance(node, ast.If))
    typed = {(node.module, alias.asname) for node in block.body for alias in node.names if alias.asname == alias.name}
    assert typed == {(module, name) for name, module in tikhonet._MODULE_OF.items()}


@pytest.mark.parametrize("name", tikhonet.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(tikhonet, name) is not None
    assert name in dir(tikhonet)


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tikhonet' has no attribute 'Netwrk'"):
        tikhonet.Netwrk  # noqa: B018
