"""The committed notebooks: their form, their outputs, their formulas, their exercises, Table 4."""

import ast
import base64
import dataclasses
import hashlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import needs_data
from scipy.stats import spearmanr
from test_paper import HERE, SETUP

from dre.datasets import ratings
from dre.environment import ADDRESS
from dre.paper import words
from dre.paper.headless import code_cells, code_hash, manifest, notebooks, source
from dre.paper.profile import COMMITTED, profile

PUBLIC = profile(COMMITTED)
BOOKS = notebooks(HERE)
each_notebook = pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)


# The form of a notebook


@each_notebook
def test_a_notebook_begins_with_title_and_badge(book):
    title = book.content["cells"][0]
    repository = ADDRESS.removeprefix("https://github.com/")
    badge = f"https://colab.research.google.com/github/{repository}/blob/main/notebooks/"

    assert title["cell_type"] == "markdown"
    assert source(title).startswith("# ")
    assert f"{badge}{book.path.name}" in source(title)


@each_notebook
def test_parameters_and_setup_come_next_and_the_setup_is_the_same_in_all(book):
    parameters, setup = book.content["cells"][1:3]

    assert parameters["metadata"]["tags"] == ["parameters"]
    assert source(parameters).startswith("profile = ")
    assert source(setup) == SETUP.replace("03_classification", book.name)
    assert f"git clone --quiet --depth 1 {ADDRESS} " in SETUP


WITHOUT_PACKAGE = """
import importlib.util, sys
from IPython.core.interactiveshell import InteractiveShell
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "dre" else find_spec(name, *more)
shell = InteractiveShell.instance()
result = shell.run_cell("profile = 'mini'\\n" + sys.stdin.read())
print("ENDED BY", type(result.error_in_exec).__name__, result.error_in_exec)
"""


def test_a_setup_cell_that_cannot_clone_says_so(tmp_path):
    nowhere = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/nothing.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
        "IPYTHONDIR": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE],
        input=SETUP,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | nowhere,
    )
    output = result.stdout + result.stderr
    assert "nothing" in output and "does not" in output  # git's own message
    assert "ENDED BY RuntimeError git could not clone the project: its message stands" in output


def test_the_notebooks_of_profile_colab_offer_it_in_their_first_cell():
    offering = []
    for book in BOOKS:
        if '"colab"' in source(book.content["cells"][1]):
            offering.append(book.name)
    assert tuple(offering) == profile("colab").notebooks


@each_notebook
def test_lines_of_code_fit(book):
    for number, cell in enumerate(code_cells(book.content), 1):
        longest = max(map(len, source(cell).splitlines()), default=0)
        assert longest <= 100, f"cell [{number}]"


# Outputs


def outputs_of(book):
    return [output for cell in code_cells(book.content) for output in cell["outputs"]]


def is_note(output):
    """Tell whether an output is a sentence that `Book.note` shows."""
    return output.get("metadata", {}).get("dre") == "note"


def registered_files(book):
    """Return what a notebook wrote according to its manifest, as hashes by path."""
    hashes = {}
    for item in manifest(book, PUBLIC)["items"]:
        hashes.update(item["files"])
    return hashes


@each_notebook
def test_outputs_come_from_a_run_of_this_code(book):
    executed = book.content["metadata"]["dre"].get("executed")
    assert executed == {"profile": COMMITTED, "code": code_hash(book.content)}, "run make paper"


@each_notebook
def test_outputs_hold_no_error_no_message_and_no_address_of_memory(book):
    outputs = outputs_of(book)
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert " at 0x" not in str(outputs), "an address of memory is another one in every run"


@each_notebook
def test_files_in_results_and_figures_are_those_that_the_run_wrote(book):
    for name, sha256 in registered_files(book).items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == sha256, name


@each_notebook
@pytest.mark.parametrize(("form", "ending"), [("text/markdown", ".md"), ("image/png", ".png")])
def test_tables_and_figures_that_are_shown_are_those_in_files(book, form, ending):
    displayed = set()
    for output in outputs_of(book):
        if form in output.get("data", {}) and not is_note(output):
            content = "".join(output["data"][form])
            displayed.add(base64.b64decode(content) if ending == ".png" else content.encode())
    files = {(HERE / name).read_bytes() for name in registered_files(book) if name.endswith(ending)}
    drawn_by_hand = {(HERE / "docs/figure1.png").read_bytes()}
    assert displayed - drawn_by_hand == files


# Formulas


def imports(book):
    """Return the cells of a notebook that only import, after its setup, as one text."""
    texts = []
    for cell in code_cells(book.content)[2:]:
        statements = {type(node) for node in ast.parse(source(cell)).body}
        if statements <= {ast.Import, ast.ImportFrom}:
            texts.append(source(cell))
    return "\n".join(texts)


def formula_cells(book):
    return [
        cell for cell in code_cells(book.content) if "formula" in cell["metadata"].get("tags", ())
    ]


# The functions that formula cells show, and the cells with the imports of their notebooks.
FORMULAS = []
for _book in BOOKS:
    for _cell in formula_cells(_book):
        for _name in _cell["metadata"]["dre"]["shows"]:
            FORMULAS.append((_name, f"{imports(_book)}\n{source(_cell)}"))


def a_little_changed(value):
    """Return what a function gave with other numbers, or with one other truth value or text."""
    if isinstance(value, tuple | list):
        return type(value)(map(a_little_changed, value))
    if isinstance(value, pd.DataFrame):
        columns = value.select_dtypes("float").columns
        if columns.empty:
            return value.assign(response=["something else", *value["response"][1:]])
        return value.assign(**{column: value[column] * 1.01 for column in columns})
    if hasattr(value, "weight"):
        return dataclasses.replace(value, weight=value.weight + 0.01)
    if getattr(value, "dtype", None) == np.dtype(bool):
        is_first = np.arange(len(value)) == 0
        return value ^ is_first
    return value * 1.01


@pytest.mark.parametrize(("name", "code"), FORMULAS, ids=[name for name, _ in FORMULAS])
def test_a_formula_cell_runs_by_itself_and_fails_where_what_it_shows_changes(
    name, code, monkeypatch
):
    exec(code, {})

    owner = pkgutil.resolve_name(name.rpartition(".")[0])
    original = pkgutil.resolve_name(name)

    def changed(*args, **kwargs):
        return a_little_changed(original(*args, **kwargs))

    replacement = staticmethod(changed) if inspect.ismethod(original) else changed
    monkeypatch.setattr(owner, original.__name__, replacement)
    with pytest.raises(AssertionError):
        exec(code, {})


# Exercises

LESS = np.linspace(0, 1, 101)
_KINDS = pd.DataFrame({"kind": ["p"] * 50 + ["r"] * 50})
_SCORES = np.concatenate([np.linspace(1, 2, 50), np.linspace(0.6, 1.6, 50)])
_ROBUST, _NON_ROBUST = torch.randn(2, 384, generator=torch.Generator().manual_seed(0))
EXERCISES = {  # what the check of a notebook's exercise needs besides its imports and formulas
    "01_augmentation": {},
    "02_slm_training": {"np": np, "h_pr": _ROBUST, "h_pn": _NON_ROBUST},
    "03_classification": {"dev": _KINDS, "test": _KINDS, "runs": [(_SCORES, _SCORES)]},
    "08_when_a_fusion_helps": {
        "COUNTS": "few",
        "book": SimpleNamespace(needs_public=lambda why: None),
        "curves": {"few": LESS - LESS**2, "claude-2026-11": -LESS},
    },
    "11_how_a_judge_is_asked": {},
    "12_one_idea_in_other_words": {},
}


@pytest.mark.parametrize("name", EXERCISES)
def test_the_check_of_an_exercise_takes_its_answer_and_nothing_before(name, capsys):
    [book] = [book for book in BOOKS if book.name == name]
    namespace = dict(EXERCISES[name])
    exec("\n".join([imports(book), *map(source, formula_cells(book))]), namespace)
    cells = book.content["cells"]
    position = next(i for i, cell in enumerate(cells) if "<details>" in source(cell))
    answer = re.search("```python\n(.*?)```", source(cells[position]), re.DOTALL)[1]

    exec(source(cells[position + 1]), namespace)
    assert "that is it" not in capsys.readouterr().out

    exec(answer, namespace)
    assert capsys.readouterr().out.count("that is it") == len(namespace.get("curves", "1"))


# Numbers in words


@each_notebook
def test_the_kept_numbers_are_those_that_cells_name(book):
    kept = {name: text for name, text in words.said(HERE).items() if name[:2] == book.name[:2]}
    assert sorted(kept) == sorted(words.names_in(book)), "run make paper PROFILE=public"
    assert all(kept.values())


def test_every_place_for_a_number_is_filled_with_the_latest_one():
    assert words.fill(HERE, write=False) == [], "run make paper PROFILE=public"


# Table 4


@needs_data
@pytest.mark.parametrize("name", list(ratings.RATED)[:3])
def test_rows_of_table_4_are_what_plain_scipy_makes_of_the_recorded_judgements(name):
    judge = "claude-2026-11"
    folder = HERE / "data/recorded" / judge
    table4 = pd.read_csv(PUBLIC.results / "table4.csv").set_index("method")
    title = ratings.RATED[name]
    rated = ratings.rated(name).set_index("pair_id")

    judgements = pd.read_json(folder / "judgements.jsonl", lines=True).fillna({"repeat": 0})
    judgements = judgements.set_index(["prompt", "repeat", "pair_id"])["score"].sort_index()

    def judge_score(prompt, repeat=0):
        return judgements[prompt, repeat][rated.index]

    # The small model's numbers that the judge was shown, and those of another pair dealt out to it.
    as_shown = pd.read_csv(folder / "dre_inputs.csv").set_index("pair_id")
    as_printed = pd.read_csv(folder / "dre_as_printed.csv").set_index("pair_id")
    dealt_from = as_shown.loc[as_printed["shown"], ["s_d", "s_p"]]
    assert np.allclose(as_printed[["s_d", "s_p"]], dealt_from, atol=1e-6)
    s_c_shown = (1 - as_shown["s_d"] + as_shown["s_p"])[rated.index]

    # G-EVAL's criteria are rated from 1 to 3, groundedness from 0 to 1.
    criteria = pd.read_json(folder / "criteria.jsonl", lines=True)
    criteria = criteria[criteria["prompt"] == "geval"].set_index("pair_id")
    three = (criteria[["coherence", "engagingness", "naturalness"]] - 1) / 2
    geval = (three.sum(axis=1) + criteria["groundedness"]).round(6)[rated.index]

    scores_by_method = {
        f"LLM-only ({judge}), again": judge_score("llm_only", 1),
        f"In-DRE ({judge}), as shown": judge_score("dre"),
        f"DRE ({judge}), as shown": s_c_shown * judge_score("dre"),
        f"Ex-DRE ({judge}), as shown": s_c_shown * judge_score("llm_only"),
        f"In-DRE ({judge}), an earlier training of ours as shown": judge_score("dre_graded"),
        f"In-DRE ({judge}), another pair's numbers": judge_score("dre_other"),
        f"G-EVAL ({judge}), one reply": geval,
    }
    for method, scores in scores_by_method.items():
        expected = spearmanr(scores, rated["human"]).statistic
        assert table4.loc[method, title] == pytest.approx(expected, abs=1e-5), method
