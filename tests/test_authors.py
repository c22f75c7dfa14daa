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


def test_numbers_and_blank_lines_are_no_responses(file):
    numbered = ["", *(f"{n}. {text}" for n, text in enumerate(GOOD, 1))]
    dashed = [f"- {text}" for text in (*BAD[:2], BAD[0])]
    [entry] = authors.read(file(written(0, numbered, dashed))).entries
    assert entry.positives == tuple(GOOD) and entry.adversarials == tuple(BAD[:2])


def test_marks_of_speakers_are_no_words_of_a_turn(file):
    [entry] = authors.read(file(written(0, context="So?\nSS: A big one?\nFS: Yes.\n"))).entries
    assert entry.turns == ("0: So?", "A big one?", "Yes.")


SHIFTED = [*GOOD[3:], "", "Adversarial negative responses", BAD[0]]


@pytest.mark.parametrize(
    "bad",
    [
        written(9, SHIFTED),
        written(9, GOOD, SHIFTED),
        written(9, [*GOOD[:2], "Adversarial negative responses"]),
        written(9, []),
        written(9, GOOD, ["", " "]),
        written(9, GOOD, GOOD[:1]),
        written(0),
    ],
)
def test_what_cannot_be_used_is_counted(file, bad):
    reading = authors.read(file(written(0), bad, written(1)))
    assert [entry.turns[0][0] for entry in reading.entries] == ["0", "1"]
    assert reading.in_words() == "boats.json: 2 of 3 contexts can be used"


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([written(0), written(1, []), written(2, [])], "too little of it.*1 of 3 contexts"),
        (["<!doctype html>\n<html></html>"], "0 of 0"),
        ([written(0), '{"id": 9, "positive": [["Yes."]]}\n'], "context 2 is of another form"),
        ([written(0), '{"id": 9, "context": "So?\\n", "positive": [3]}\n'], "context 2 is of"),
        ([written(0), '{\n    "id": 9,\n    "context": "torn\n'], "context 1 is of another form"),
    ],
)
def test_a_file_of_another_form_or_of_which_too_little_can_be_used_is_refused(
    file, objects, message
):
    with pytest.raises(DreError, match=message):
        dialogues.load(str(file(*objects)), "train")


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
    assert overlap.without_overlap([one], others, utterances=False) == [one]
