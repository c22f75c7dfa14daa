"""Scripts of experiments and benchmarks: their imports exist, and their docstrings say enough."""

import ast
import re
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


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_docstring_says_which_files_a_script_makes_and_how_long_it_takes(path):
    tree = ast.parse(path.read_text())
    docstring = ast.get_docstring(tree)
    assert docstring

    is_run = any(isinstance(node, ast.If) for node in tree.body)
    if is_run:
        assert re.search(r"results/|data/recorded/|dre/slm/default|no\s+committed file", docstring)
        assert re.search("seconds?|minutes?|hours?", docstring)
