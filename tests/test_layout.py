"""Imports of the package point one way; only commands know about command lines, and only they and
`dre.paper` about profiles.
"""

import ast
import functools
import graphlib
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Each row may import from itself and from the rows below it. Modules that are in no row belong to
#: the last.
LAYERS = [
    ("dre.commands",),
    ("dre.paper",),
    ("dre.score", "dre.audit", "dre.augment"),
    ("dre.judges", "dre.slm"),
    ("dre.datasets",),
    ("dre",),
]
PATHS = {}
for path in (ROOT / "dre").rglob("*.py"):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    PATHS[name] = path


@functools.cache
def imports_by_module():
    """Return the modules that each module of the package imports."""
    imports = {}
    for name, path in PATHS.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports[name] = set(imports_of(tree))
    return imports


def imports_of(tree):
    """Yield the modules that a module imports, also in functions, but not for type checks."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names)
    if isinstance(tree, ast.ImportFrom):
        for alias in tree.names:
            submodule = f"{tree.module}.{alias.name}"
            yield submodule if submodule in PATHS else tree.module
    for node in ast.iter_child_nodes(tree):
        yield from imports_of(node)


def layer_of(module):
    for layer, packages in enumerate(LAYERS):
        if any(f"{module}.".startswith(f"{package}.") for package in packages):
            return layer


def imports_within_the_package():
    for name, imports in imports_by_module().items():
        for imported in sorted(imports & PATHS.keys() - {name}):
            yield name, imported


def test_no_module_imports_from_a_layer_above_it():
    upward = [
        f"{name} imports {imported}"
        for name, imported in imports_within_the_package()
        if layer_of(imported) < layer_of(name) and name != "dre.__main__"
    ]
    assert upward == []


def test_packages_of_one_layer_do_not_import_from_each_other():
    across = [
        f"{name} imports {imported}"
        for name, imported in imports_within_the_package()
        if layer_of(imported) == layer_of(name) < len(LAYERS) - 1
        and imported.split(".")[1] != name.split(".")[1]
    ]
    assert across == []


def test_no_import_leads_back_to_where_it_began():
    imported_by = {}
    for name, imported in imports_within_the_package():
        imported_by.setdefault(name, set()).add(imported)
    graphlib.TopologicalSorter(imported_by).prepare()  # a CycleError names the modules


def test_only_commands_know_about_command_lines():
    parsers = [
        name
        for name, imports in imports_by_module().items()
        if "argparse" in imports and layer_of(name) > 0
    ]
    assert parsers == ["dre.paper.run"]  # the command `python -m dre.paper`


def parameters_of(path):
    """Yield the name and the annotation of each parameter in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg):
            yield node.arg, ast.unparse(node.annotation) if node.annotation else ""


def test_what_is_outside_of_the_paper_and_the_commands_knows_no_profile():
    knowing = [
        f"{name}: {parameter} {annotation}"
        for name, path in PATHS.items()
        if layer_of(name) > 1
        for parameter, annotation in parameters_of(path)
        if parameter in ("profile", "settings") or "Profile" in annotation
    ]
    assert knowing == []
    # The same look finds the profiles of the layer that has them.
    assert ("settings", "Profile") in parameters_of(PATHS["dre.paper.plan"])
