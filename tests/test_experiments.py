"""Scripts that run for hours find what they import."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "path", [*ROOT.glob("experiments/*.py"), *ROOT.glob("benchmarks/*.py")], ids=lambda p: p.name
)
def test_what_a_script_imports_of_the_package_is_there(path):
    nodes = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    for node in nodes:
        if node.module.split(".")[0] == "dre":
            exec(ast.unparse(node), {})
