"""Scripts of experiments and benchmarks: what they import is there, and nothing runs yet."""

import os
from pathlib import Path

import pytest
from conftest import experiment

ROOT = Path(__file__).parents[1]
SCRIPTS = [*ROOT.glob("experiments/**/*.py"), *ROOT.glob("benchmarks/*.py")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_imported(path):
    assert experiment(os.path.relpath(path.with_suffix(""), ROOT / "experiments"))
