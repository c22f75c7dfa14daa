"""Scripts of experiments and benchmarks: their imports exist."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [*ROOT.glob("experiments/**/*.py"), *ROOT.glob("benchmarks/*.py")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_what_a_script_imports_of_the_package_is_there(path):
    imports = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]

    for node in imports:
        if node.module.split(".")[0] == "dre":
            exec(ast.unparse(node), {})
