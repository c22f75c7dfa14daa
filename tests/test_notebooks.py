"""The committed notebooks: their form, their outputs, their formulas, their exercises, Table 4."""

import ast
import base64
import contextlib
import dataclasses
import functools
import importlib
import inspect
import io
import pkgutil
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import HERE, needs_data
from scipy.stats import spearmanr
from test_paper import SETUP

from dre import DRE
from dre.audit import measures
from dre.datasets import dialogues, ratings
from dre.environment import ADDRESS
from dre.paper import conversation
from dre.paper.books import code_cells, notebooks, source
from dre.paper.profile import COMMITTED, profile
from dre.slm.quotes import own_words

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
    parameters, setup = code_cells(book.content)[:2]

    assert "parameters" in parameters["metadata"]["tags"]
    assert source(parameters).startswith("profile = ")
    assert source(setup) == SETUP.replace("03_classification", book.name)
    assert f"git clone --quiet --depth 1 {ADDRESS} " in SETUP


@each_notebook
def test_what_a_notebook_takes_from_the_package_is_there(book):
    tree = ast.parse("\n".join(source(cell) for cell in code_cells(book.content)[2:]))
    named = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("dre."):
            module = importlib.import_module(node.module)
            for alias in node.names:
                with contextlib.suppress(ImportError):  # no module of that name
                    importlib.import_module(f"{node.module}.{alias.name}")
                named[alias.asname or alias.name] = getattr(module, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = named.get(node.value.id)
            if inspect.ismodule(owner):
                assert hasattr(owner, node.attr), f"{node.value.id}.{node.attr}"
    assert named


def test_the_notebooks_of_profile_colab_offer_it_in_their_first_cell():
    offering = []
    for book in BOOKS:
        if '"colab"' in source(code_cells(book.content)[0]):
            offering.append(book.name)
    assert tuple(offering) == profile("colab").notebooks


def test_table_4_begins_after_one_conversation_and_few_words():
    """In the book, at 1280 px, it begins within 1,500 px."""
    [book] = [book for book in BOOKS if book.name == "04_correlation"]
    cells = book.content["cells"]
    first = next(i for i, cell in enumerate(cells) if '"table4_main"' in source(cell))
    before = cells[: first + 1]
    words_before = 0
    pictures = []
    for cell in before:
        if cell["cell_type"] == "markdown":
            words_before += len(source(cell).split())
            continue
        pictures += [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
    assert words_before < 170 and len(pictures) == 1 and len(before) <= 9


# Outputs


def outputs_of(book):
    return [output for cell in code_cells(book.content) for output in cell["outputs"]]


@each_notebook
def test_outputs_come_from_a_run_of_this_code(book):
    executed = book.content["metadata"]["dre"].get("executed")
    assert executed == {"profile": COMMITTED, "code": book.code_hash}, "run make paper"


@each_notebook
def test_outputs_hold_no_error_no_message_and_no_address_of_memory(book):
    outputs = outputs_of(book)
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert " at 0x" not in str(outputs), "an address of memory is another one in every run"


@each_notebook
def test_figures_that_are_shown_are_those_in_files(book):
    pictures = set()
    for output in outputs_of(book):
        if "image/png" in output.get("data", {}):
            pictures.add(base64.b64decode(output["data"]["image/png"]))
    index = pd.read_csv(PUBLIC.results / "index.csv").query("notebook == @book.name")
    names = [name for name in index["file"] if name.endswith(".png")]
    parts = ("training", "evaluation")
    drawn_by_hand = {(HERE / f"docs/figure1_{part}.png").read_bytes() for part in parts}
    assert pictures - drawn_by_hand == {(HERE / name).read_bytes() for name in names}


@each_notebook
def test_prose_about_results_is_a_cell_of_its_own_without_a_heading(book):
    """Other profiles leave these cells out, and need the headings."""
    for cell in book.content["cells"]:
        if COMMITTED in cell["metadata"].get("tags", ()):
            assert cell["cell_type"] == "markdown"
            assert not re.search("^#+ ", source(cell), re.MULTILINE), source(cell)[:60]


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


def corpus_of_swaps():
    """Return what notebook 06 swaps and squares, of the embedded corpus."""
    test = dialogues.pairs(dialogues.load("mini", "test"), "par")
    positives = test[test["kind"] == "p"].reset_index(drop=True)
    cells = measures.grid(test, 60, 0)
    return {
        "positives": positives,
        "swapped": measures.exchange(positives, 4, 0),
        "cells": cells,
        "side": cells["owner"].nunique(),
    }


def gains_of_a_weight(weight, judge_name):
    """Return what notebook 04's weight gains over a judge that it harms from 0.4 on."""
    return -(weight**2) / 33 if 0 <= weight <= 1 else np.nan


def needs(**values):
    return lambda: values


EXERCISES = {  # by the cell of its check, what an exercise needs besides imports and formulas
    "00 exercise": needs(pd=pd, published=pd.read_csv(HERE / "data/paper/dre_table2.csv")),
    "01 exercise01": needs(),
    "02 c30": needs(np=np, h_pr=_ROBUST, h_pn=_NON_ROBUST),
    "03 c34": needs(np=np, dev=_KINDS, test=_KINDS, runs=[(_SCORES, _SCORES)]),
    "04 cell-23": needs(
        np=np, OURS="ours", items={}, plain={}, slms={}, main_judge=SimpleNamespace(name="m")
    ),
    "06 exercise": lambda: corpus_of_swaps() | {"settings": SimpleNamespace(seed=0)},
    "07 check08": needs(
        COUNTS="few",
        book=SimpleNamespace(needs_public=lambda why: None),
        curves={"few": LESS - 1.5 * LESS**2, "claude-2026-11": -LESS},
    ),
    "08 e73f852a": lambda: {
        "pd": pd,
        "load": dialogues.load,
        "own_words": own_words,
        "conversation": conversation,
        "ours": default_model(),
    },
    "09 cell-23": lambda: {"dialogues": dialogues, "metric": DRE.load()},
    "10 exercise-check": needs(),
    "11 exercise": needs(),
}


@functools.cache
def default_model():
    return DRE.load().slm


_DONE = "that is it"
each_exercise = pytest.mark.parametrize("name", EXERCISES)


class Exercise:
    """An exercise of a notebook, with the names that its check finds there."""

    def __init__(self, name):
        number, cell_id = name.split()
        [book] = [book for book in BOOKS if book.name.startswith(number)]
        cells = book.content["cells"]
        place = next(i for i, cell in enumerate(cells) if cell["id"] == cell_id)
        self.code = source(cells[place])
        self.answer = re.search("```python\n(.*?)```", source(cells[place - 1]), re.DOTALL)[1]
        self.names = EXERCISES[name]()
        if number == "00":
            columns = ["set", "split", "contexts", "positives", "adversarials"]
            self.names["published"] = self.names["published"].set_axis(columns, axis=1)
        self.run("\n".join([imports(book), *map(source, formula_cells(book))]))

    def run(self, code):
        """Run code where the exercise stands; return what it prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self.names)
        return out.getvalue()

    def begin(self):
        """Run the cell of the exercise, and keep what it prints."""
        self.printed = self.run(self.code)
        if "gain_at" in self.names:
            self.names["gain_at"] = gains_of_a_weight
            self.printed = self.run(self.code[self.code.index("def check") :])


@functools.cache
def begun(name):
    """Return an exercise whose cell was run: attempts that change no name can share it."""
    exercise = Exercise(name)
    exercise.begin()
    return exercise


def test_every_exercise_is_tried_here():
    n_exercises = 0
    for book in BOOKS:
        texts = [source(c) for c in book.content["cells"] if c["cell_type"] == "markdown"]
        n_exercises += sum("xercise" in text and "<details>" in text for text in texts)
    assert n_exercises == len(EXERCISES)


@each_exercise
def test_the_check_of_an_exercise_takes_its_answer_and_nothing_before(name):
    exercise = begun(name)
    assert _DONE not in exercise.printed
    expected = len(exercise.names["curves"]) if name == "07 check08" else 1
    names_before = dict(exercise.names)
    assert exercise.run(exercise.answer).count(_DONE) == expected
    # Others try the exercise as it was before the answer.
    exercise.names.clear()
    exercise.names.update(names_before)


TRIVIAL = {  # what somebody may try who does not want to think, and slips that are easily made
    "00 exercise": [
        "check(lambda rows: rows.head(0))",
        "check(lambda rows: rows.head(7))",
        "check(lambda rows: rows.tail(7))",
        "check(lambda rows: rows.iloc[[-1] * 7])",
        "check(lambda rows: None)",
        "check(lambda rows: rows['contexts'] > 0)",
        "check(lambda rows: rows.assign(contexts=0, positives=0, adversarials=0).head(7))",
    ],
    "01 exercise01": [
        "check(adversarial='', fitting='')",
        "check(adversarial='Me too.', fitting='Me too.')",
        "check(adversarial='My brother lives in Lisbon.', fitting='cat tuna half left')",
        "check(adversarial='My brother lives in Lisbon.', fitting=turns[-1])",
        "check(adversarial='My brother lives in Lisbon.', fitting=turns[0])",
        "check(adversarial='My brother lives in Lisbon.', fitting='the tuna of the cat and half')",
        "check(adversarial='the of and', fitting='The cat left the tuna? Half of it is mine.')",
        "check(adversarial='?', fitting='The cat left the tuna? Then half of it is mine.')",
        "check(adversarial=turns[-1], fitting='The cat left the tuna? Then half of it is mine.')",
    ],
    "02 c30": [f"check({margin})" for margin in ("0", "-1", "2", "99", "np.nan", "np.inf", "1")],
    "03 c34": [
        f"check(lambda scores, kinds: {threshold})"
        for threshold in ("0", "99", "np.nan", "None", "scores", "scores.mean()", "scores.max()")
    ],
    "04 cell-23": [f"check({weight}, 'm')" for weight in ("0", "0.001", "1", "-1", "np.nan", "99")],
    "06 exercise": [
        "check(lambda pairs: np.zeros(len(pairs)))",
        "check(lambda pairs: [0.5] * len(pairs))",
        "check(lambda pairs: np.arange(len(pairs)))",
        "check(lambda pairs: np.random.default_rng(0).random(len(pairs)))",
        "check(lambda pairs: np.random.random(len(pairs)))",
        "check(lambda pairs: [hash(pair) % 997 for pair in zip(pairs.context, pairs.response)])",
        "check(lambda pairs: pairs['response'].str.len())",
        "check(lambda pairs: np.full(len(pairs), np.nan))",
    ],
    "07 check08": [
        "\n".join(f"check({judge}, {w})" for judge in ("COUNTS",))
        for w in ("0", "1", "-1", "0.5", "np.nan", "99")
    ],
    "08 e73f852a": [
        "check('')",
        "check('.')",
        "check('I see.')",
        "check('That is interesting. Tell me more about it!')",
        "check(good)",
        "check(good + ' Thanks!')",
        "check(dialogue.positives[1])",
        "check('hospital bus stop church walk roadworks drop minute')",
        "check(' '.join(dialogue.turns))",
    ],
    "09 cell-23": [
        f"compare_with_good_replies(lambda turns: {reply})"
        for reply in ("''", "None", "turns[-1]", "turns[0]", "' '.join(turns)", "'Tell me more.'")
    ],
    "10 exercise-check": [
        f"check(lambda p: {formula})"
        for formula in ("14 / 6", "None", "np.nan", "rating(p)", "max(p)", "np.mean(list(p))")
    ],
    "11 exercise": [
        f"check(lambda v, v_bar: {loss})"
        for loss in (
            "0",
            "None or 1",
            "torch.rand(())",
            "v_bar.sum()",
            "-align(v, v_bar)",
            "2 * align(v, v_bar) + 1",
            "torch.cosine_similarity(v, v_bar, dim=-1).sum()",
        )
    ],
}


@pytest.mark.parametrize(
    ("name", "attempt"),
    [(name, attempt) for name, attempts in TRIVIAL.items() for attempt in attempts],
)
def test_no_trivial_answer_passes_or_ends_in_an_error(name, attempt):
    exercise = begun(name)
    assert _DONE not in exercise.run(attempt)


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
