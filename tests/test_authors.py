"""Sets in the form of the papers' authors: objects one behind the other, lists cut by line."""

import json

import pandas as pd
import pytest
from conftest import needs_data

from dre.datasets import authors, dialogues, overlap
from dre.datasets.dialogues import Context
from dre.errors import DreError
from dre.paper import contexts as paper_contexts
from dre.paper.profile import TrainingSet

GOOD = [f"That boat sounds like number {n}." for n in "12345"]
BAD = [f"A boat of paper, fold {n}." for n in "12345"]


def written(n, positive=GOOD, adversarial=BAD, context="I bought a boat.\nA big one?\n"):
    """Return an object as the authors' notebook wrote it."""
    record = {
        "id": n,
        "context": f"{n}: {context}",
        "positive": [list(positive)],
        "adversarial": [list(adversarial)],
    }
    return json.dumps(record, indent=4, separators=(",", ": "), ensure_ascii=False) + "\n"


@pytest.fixture
def file(tmp_path):
    def write(*objects):
        path = tmp_path / "boats.json"
        path.write_text("".join(objects), encoding="utf-8")
        return path

    return write


def test_objects_one_behind_the_other_are_contexts_with_five_and_five(file):
    path = file(written(0), written(1))

    first, second = dialogues.load(str(path), "train")

    assert first.turns == ("0: I bought a boat.", "A big one?")
    assert (first.positives, first.adversarials) == (tuple(GOOD), tuple(BAD))
    assert (second.context_id, second.split) == ("boats-train/1", "train")
    assert authors.read(path).in_words() == "boats.json: 2 of 2 contexts can be used"


def test_numbers_blank_lines_and_a_heading_are_no_responses(file):
    numbered = [f"{n}. {text}" for n, text in enumerate(GOOD, 1)]
    late = ["", "Adversarial Negative Responses:", "", *BAD[:2]]

    reading = authors.read(file(written(0, numbered, late)))

    [entry] = reading.entries
    assert entry.positives == tuple(GOOD) and entry.adversarials == tuple(BAD[:2])
    assert reading.n_short == 1
    assert "1 of them with fewer than five responses of a kind" in reading.in_words()


SHIFTED = [*GOOD[3:], "", "Adversarial negative responses", BAD[0]]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (written(9, SHIFTED), "shifted: texts of the other kind are among them"),
        (written(9, GOOD, SHIFTED), "shifted: texts of the other kind are among them"),
        (written(9, []), "without positive responses"),
        (written(9, GOOD, ["", " "]), "without adversarial responses"),
        (written(9, GOOD, GOOD[:1]), "with a text that is both positive and adversarial"),
        ('{"id": 9, "context": "So?\\n", "positive": "yes"}\n', "without a list positive"),
        ('{"id": 9, "positive": [["Yes."]]}\n', "without a context"),
        ('{\n    "id": 9,\n    "context": "torn\n', "not JSON"),
        (written(0), "repeated"),
    ],
)
def test_what_cannot_be_used_is_counted_and_named_with_its_line(file, bad, reason):
    path = file(written(0), bad, written(1), written(2))
    line = written(0).count("\n") + 1

    reading = authors.read(path)

    assert [entry.turns[0][0] for entry in reading.entries] == ["0", "1", "2"]
    assert reading.unusable == [(line, reason)]
    assert reading.in_words().endswith(
        f"3 of 4 contexts can be used; left out: 1 {reason} (line {line})"
    )


def test_a_file_of_which_too_little_can_be_used_is_refused_with_the_reasons(file):
    path = file(written(0), written(1, []), written(2, []))
    with pytest.raises(DreError, match=r"at least 50%.*1 of 3 contexts.*2 without positive"):
        dialogues.load(str(path), "train")
    for content in ("", "<!doctype html>\n<html></html>"):
        with pytest.raises(DreError, match="0 of"):
            authors.read(file(content))


def test_a_list_of_objects_is_read_as_well(file):
    path = file(json.dumps([json.loads(written(n)) for n in range(3)]))
    assert len(authors.read(path).entries) == 3


@needs_data
def test_a_context_that_repeats_what_is_held_out_or_rated_is_not_learned(tmp_path):
    """The sets name no conversations, so they are compared by their text."""
    start = "My sister keeps eleven goats on a hill behind the old railway station.\n"
    onward = "Do they ever wander off towards the signal box in the evening?\n"
    train = [
        written(0, context=f"{start}{onward}"),
        written(1, context="I have never been to sea, what about you?\nNor have I, sadly.\n"),
        written(2, context="Do you like the quiet music of harps?\nI like it very much indeed.\n"),
    ]
    test = [written(7, context=f"{onward}{start}")]
    for name, objects in (("train", train), ("test", test)):
        (tmp_path / f"{name}.json").write_text("".join(objects), encoding="utf-8")
    entry = TrainingSet(
        key="goats",
        label="goats",
        train=(str(tmp_path / "train.json"), "train"),
        dev=(str(tmp_path / "test.json"), "test"),
        test=(str(tmp_path / "test.json"), "test"),
    )

    learned, _, held_out = paper_contexts.contexts(entry)

    assert [context.turns[0][0] for context in learned] == ["1", "2"]
    assert len(held_out) == 1
    rated = pd.DataFrame(
        {"context": [("I like it very much indeed!",)], "response": ["Good for you then."]}
    )
    left = overlap.without_overlap(learned, rated)
    assert [context.turns[0][0] for context in left] == ["1"]


def test_a_stock_phrase_does_not_make_two_contexts_of_one_conversation():
    def context(*turns):
        return Context("x", "-".join(turns[-1].split()[:2]), "train", turns)

    greeting = "Ahoy there, everybody out on deck?"
    one = context(greeting, "I am training a falcon to catch the mice in our barn at night.")
    others = [
        context(greeting, f"I {verb} in a small town near the northern coast, and you?")
        for verb in ("live", "teach", "paint", "bake")
    ]
    assert overlap.without_near([one], others) == [one]
