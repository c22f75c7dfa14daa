"""Sentences, titles and captions conclude what their numbers carry, and nothing else."""

import json
import warnings
from types import SimpleNamespace

import pandas as pd
import pytest
from fake_numbers import Said, fixed_words, spoken
from test_paper import HERE

from dre.paper import headless, notebook, sentences, table4
from dre.paper.headless import Notebook, notebooks, source

BOOKS = notebooks(HERE)
each_notebook = pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)


# Notebooks, with effects turned round and with effects of zero


@each_notebook
def test_no_note_title_or_caption_has_a_word_that_its_number_does_not_carry(book):
    faults = {}
    for place, said in spoken(book).items():
        words = fixed_words(said)
        if words:
            faults[place] = f"{', '.join(sorted(words))}: {said[0].text}"
    assert not faults, "\n".join(f"{place}: {fault}" for place, fault in faults.items())


def book_of(tmp_path, *cells):
    """Return a notebook with these code cells."""
    content = {"cells": [], "metadata": {}}
    for number, text in enumerate(cells):
        cell = {"cell_type": "code", "id": f"c{number}", "metadata": {}, "source": text}
        content["cells"].append(cell)
    path = tmp_path / "04_x.ipynb"
    path.write_text(json.dumps(content))
    return Notebook(path)


FIXED = {
    "a note": 'book.note(f"Ex-DRE loses {-gain:.2f} against the judge.")',
    "a title": 'figure.suptitle("Multiplying helps weak judges")',
    "an axis": 'axes[0].set(title="The weaker the judge, the more it gains")',
    "a caption": 'book.figure(figure, "x", "The small model hardly agrees.")',
    "a branch": 'if book.profile.has_live_judge:\n    book.note("No fusion helps.")',
    "a loop": 'for ax in axes:\n    ax.set_title("It is worse here")',
    "another number": 'book.note("better" if len(table) > -1 else "worse")',
}
CARRIED = {
    "a sign": 'book.note(by_value(gain, "It helps.", "It harms.", "It changes nothing."))',
    "an interval": 'book.note(by_interval(row, "gain", "helps", "harms", "may do either"))',
    "a comparison": 'figure.suptitle("A is better" if a > b else "B may be as good")',
    "a count": 'book.note(f"It is better in {n} of {len(rows)} cases.")',
    "another profile": (
        'if settings.name == COMMITTED:\n    book.note("No fusion helps.")\n'
        'else:\n    book.end("of public alone")\nbook.note("No fusion helps.")'
    ),
}


@pytest.mark.parametrize("code", FIXED.values(), ids=FIXED)
def test_a_word_that_is_said_whatever_the_numbers_are_is_found(tmp_path, code):
    said = spoken(book_of(tmp_path, code), n_worlds=20)
    assert any(fixed_words(texts) for texts in said.values())


@pytest.mark.parametrize("code", CARRIED.values(), ids=CARRIED)
def test_a_word_that_follows_from_a_number_is_not_found(tmp_path, code):
    said = spoken(book_of(tmp_path, code), n_worlds=20)
    assert not any(fixed_words(texts) for texts in said.values())


def test_a_fixed_word_beside_one_that_follows_is_found():
    texts = ["It gains, but hardly helps.", "It loses, but hardly helps."]
    said = [Said("04, c", 1, False, text) for text in texts]
    assert fixed_words(said) == {"hardly", "helps"}


# The words for an effect


@pytest.mark.parametrize(
    ("value", "low", "high", "word"),
    [
        (0.2, 0.1, 0.3, "helps"),
        (-0.2, -0.3, -0.1, "harms"),
        (0.2, -0.1, 0.5, "open"),
        (0.0, 0.0, 0.0, "open"),
        (float("nan"), float("nan"), float("nan"), "open"),
        (0.2, float("nan"), float("nan"), "open"),
    ],
)
def test_the_words_of_an_effect_follow_from_its_interval_and_turn_with_it(value, low, high, word):
    row = {"gain": value, "gain_low": low, "gain_high": high}
    turned = {"gain": -value, "gain_low": -high, "gain_high": -low}
    words = ("helps", "harms", "open")
    assert sentences.by_interval(row, "gain", *words) == word
    opposite = {"helps": "harms", "harms": "helps", "open": "open"}[word]
    assert sentences.by_interval(turned, "gain", *words) == opposite


def test_an_effect_may_be_held_against_another_number_than_zero():
    row = {"falls": 60, "falls_low": 55, "falls_high": 65}
    assert sentences.by_interval(row, "falls", "read", "avoided", "open", none=50) == "read"
    assert sentences.by_interval(row, "falls", "read", "avoided", "open", none=62) == "open"


@pytest.mark.parametrize(
    ("value", "word"), [(0.006, "up"), (-0.006, "down"), (0.004, "same"), (float("nan"), "same")]
)
def test_a_number_that_is_printed_as_zero_is_said_to_be_none(value, word):
    assert sentences.by_value(value, "up", "down", "same") == word


MEANS = {
    "fusion": "Ex-DRE",
    "less": "judge",
    "judges": ["open", "middle", "strong", "all but strong", "a judge", "all"],
    "gain": [0.2, 0.1, -0.1, 0.15, 0.0, 0.1],
    "gain_low": [0.1, 0.05, -0.2, 0.1, -0.1, 0.05],
    "gain_high": [0.3, 0.2, -0.05, 0.2, 0.1, 0.2],
}


def test_whom_a_fusion_helps_and_harms_turns_with_its_gains():
    means = pd.DataFrame(MEANS)
    assert table4.gains_in_words(means, "Ex-DRE") == (
        "helps open judges and middle judges, harms the strong judge, "
        "does not clearly change a judge"
    )
    turned = means.assign(
        gain=-means["gain"], gain_low=-means["gain_high"], gain_high=-means["gain_low"]
    )
    assert table4.gains_in_words(turned, "Ex-DRE").startswith(
        "harms open judges and middle judges, helps the strong judge"
    )
    zero = means.assign(gain=0.0, gain_low=-0.1, gain_high=0.1)
    words = table4.gains_in_words(zero, "Ex-DRE")
    assert "helps" not in words and "harms" not in words


# What a run says of its method


def test_how_models_were_trained_is_said_from_their_provenance():
    recipe = {
        "name": "paper",
        "stages": [{"name": "joint", "epochs": 3}],
        "keep": "best",
        "learning_rate": 2e-5,
        "head_learning_rate": 1e-3,
        "batch_contexts": 1,
        "max_seq_length": 512,
    }
    first = {"recipe": recipe, "encoder": "/a/folder/mine", "seed": 0, "contexts": {"train": 9259}}
    second = first | {"seed": 1}
    assert sentences.training([first, second]) == (
        "Recipe `paper`, encoder `mine`, 9,259 contexts, 2 seeds: 3 epochs, of which the one with "
        "the best held-out triplets is kept; learning rates of at most 2e-05 (encoder) and 0.001 "
        "(head); 1 context in a step, with all responses; at most 512 tokens of a text."
    )
    stages = [{"name": "contrastive", "epochs": 5}, {"name": "classifier", "epochs": 30}]
    of_stages = first | {"recipe": recipe | {"stages": stages, "keep": "last"}}
    assert ": contrastive 5 epochs, classifier 30 epochs, of which the last one is kept;" in (
        sentences.training([of_stages])
    )


def test_prose_with_results_of_the_committed_profile_says_so_in_another_one():
    opening = "# A title\n\n[![Open](x)](y)\n\nIt helps."
    cells = [
        {"cell_type": "markdown", "metadata": {"tags": ["public"]}, "source": opening},
        {"cell_type": "markdown", "metadata": {}, "source": "A formula."},
    ]
    content = {"cells": cells}
    headless.mark_prose(content, "full")
    title, badge, mark, text = content["cells"][0]["source"].split("\n\n")
    assert (title, badge, text) == ("# A title", "[![Open](x)](y)", "It helps.")
    assert mark == "*Of profile `public`, and not of this run of `full`:*"
    assert content["cells"][1]["source"] == "A formula."


@each_notebook
def test_the_opening_of_a_notebook_and_what_follows_from_it_are_marked_as_results(book):
    if book.name.startswith("09"):
        pytest.skip("it gives the same results in all profiles")
    for cell in book.content["cells"]:
        text = source(cell)
        is_opening = text.startswith("# ")
        concludes = "## What follows" in text or "## The bottom line" in text
        if cell["cell_type"] == "markdown" and (is_opening or concludes):
            assert headless.OF_COMMITTED in cell["metadata"].get("tags", ()), text[:60]


def test_a_warning_in_a_notebook_has_no_path(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(notebook, "check_clone", lambda folder: None)
    settings = SimpleNamespace(has_live_judge=False)
    monkeypatch.setattr(notebook, "read_profile", lambda name: settings)
    notebook.setup("04_x", "mini")
    text = warnings.formatwarning("2 response(s) are cut", UserWarning, "/lib/model.py", 3)
    assert text == "warning: 2 response(s) are cut\n"
