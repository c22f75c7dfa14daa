"""Reading notebooks, ordering them, and finding what they import."""

import json

import pytest

from dre.errors import DreError
from dre.pipeline.fingerprint import Modules
from dre.pipeline.graph import discover, read


def notebook(folder, name, needs=(), code="x = 1", **metadata):
    cells = [
        {
            "cell_type": "code",
            "id": "a",
            "metadata": metadata,
            "source": code,
            "outputs": [],
            "execution_count": 1,
        }
    ]
    raw = {"cells": cells, "metadata": {"dre": {"needs": list(needs)}}, "nbformat": 4, "nbformat_minor": 5}
    path = folder / f"{name}.ipynb"
    path.write_text(json.dumps(raw))
    return path


def test_notebooks_come_after_what_they_need_whatever_their_numbers(tmp_path):
    for name, needs in (("01_a", ["03_c"]), ("02_b", []), ("03_c", ["02_b"])):
        notebook(tmp_path, name, needs)
    notebook(tmp_path, "scratch", ["nowhere"])  # only NN_name.ipynb belongs to the paper
    assert [book.name for book in discover(tmp_path)] == ["02_b", "03_c", "01_a"]


@pytest.mark.parametrize(
    "needs, message",
    [
        ({"01_a": ["02_b"], "02_b": ["01_a"]}, "circle"),
        ({"01_a": ["07_none"]}, "needs '07_none', which is not there"),
    ],
)
def test_impossible_needs_are_errors(tmp_path, needs, message):
    for name, wanted in needs.items():
        notebook(tmp_path, name, wanted)
    with pytest.raises(DreError, match=message):
        discover(tmp_path)


def test_no_notebooks_is_an_error(tmp_path):
    with pytest.raises(DreError, match="no notebooks"):
        discover(tmp_path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "is not a notebook file"),
        ('{"cells": [{}]}', "is not a notebook file"),
        ('{"cells": [], "metadata": {}}', "declares what it needs"),
        ('{"cells": [], "metadata": {"dre": {"outputs": []}}}', "declares what it needs"),
    ],
)
def test_files_that_are_no_notebook_of_ours_are_errors(tmp_path, text, message):
    path = tmp_path / "01_a.ipynb"
    path.write_text(text)
    with pytest.raises(DreError, match=message):
        read(path)


def test_parameters_are_the_names_assigned_in_the_tagged_cell(tmp_path):
    book = read(
        notebook(tmp_path, "01_a", code='%config x\nif 1:\n    !ls\nprofile = "mini"\nn: int = 3', tags=["parameters"])
    )
    assert book.parameters == {"profile", "n"}
    assert read(notebook(tmp_path, "02_b", code="x = 1")).parameters == set()


def test_a_cell_that_is_no_python_is_named(tmp_path):
    book = read(notebook(tmp_path, "01_a", code="x = = 1", tags=["parameters"]))
    with pytest.raises(DreError, match="01_a.ipynb, cell 1, line 1: not valid Python"):
        _ = book.parameters


@pytest.fixture
def package(tmp_path):
    for name, text in {
        "__init__": "",
        "errors": "",
        "one/__init__": "from dre.one.inner import f",
        "one/inner": "from ..errors import DreError\nimport numpy",
        "one/unused": "",
        "two": "import dre.one.inner as inner",
        "lazy": 'import importlib\nROOMS = ("dre.three",)',
        "three": "",
    }.items():
        path = tmp_path / "dre" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "code, expected",
    [
        ("import numpy", []),
        ("from dre import two", ["dre", "dre.errors", "dre.one", "dre.one.inner", "dre.two"]),
        ("import dre.one.inner", ["dre", "dre.errors", "dre.one", "dre.one.inner"]),
        ("from dre.one import unused", ["dre", "dre.errors", "dre.one", "dre.one.inner", "dre.one.unused"]),
        ("if x:\n    from dre import lazy", ["dre", "dre.lazy", "dre.three"]),
    ],
)
def test_the_closure_of_imports_is_found_without_importing(package, code, expected):
    assert Modules(package).closure(read(notebook(package, "01_a", code=code))) == expected


def test_data_files_of_a_room_count_for_the_room_and_not_for_its_neighbours(package):
    (package / "dre/one/prompts").mkdir()
    (package / "dre/one/prompts/a.txt").write_text("a")
    (package / "dre/sources.yaml").write_text("a")
    (package / "data/paper").mkdir(parents=True)
    (package / "data/paper/t.csv").write_text("1")
    modules = Modules(package)
    names = [str(p.relative_to(package)) for p in modules.files(["dre.one.inner"])]
    assert names == ["dre/one/inner.py", "dre/one/prompts/a.txt"]
    assert package / "dre/one/prompts/a.txt" not in modules.files(["dre", "dre.two"])
    assert package / "dre/sources.yaml" in modules.files(["dre.two"])
    (package / "dre/published.py").write_text("")
    assert package / "data/paper/t.csv" in Modules(package).files(["dre.published"])
