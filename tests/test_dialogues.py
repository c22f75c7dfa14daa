from dataclasses import replace

import pandas as pd
import pytest
from conftest import needs_data

from dre import dialogues, ratings
from dre.dialogues import Context, apart, data_hash, load
from dre.errors import DreError
from dre.profile import profile
from dre.slm import beside, contexts

FITS, NOT = ("Then let us take umbrellas.", "A little rain never hurt."), ("The park ranger retired in May.",)
TURNS = ("Shall we walk to the park?", "It looks like rain.")
PARK = Context("dailydialog++", "7", "test", TURNS, FITS, NOT, ("My cousin sells cheese.",))
# The hashes name the training data of every recorded model: changing one makes all of them stale.
HASHES = {
    ("mini", "train"): (74, "b3e14f0a6047dcb0"),
    ("mini", "dev"): (14, "059793e2bc0d431a"),
    ("mini", "test"): (32, "a087332abd03d4ee"),
    ("dailydialog++", "dev"): (1028, "e87ccd87616809b4"),
    ("dailydialog++", "test"): (1142, "efd9d6d8584b868d"),
    ("dailydialog++-positives", "train"): (7641, "d3eccea2e6ddb33f"),
    ("convai2-augmented", "train"): (150, "b979cf5fc0f4fb4c"),
    ("convai2-augmented", "test"): (50, "3b526dee3cc16a77"),
    ("topicalchat-augmented", "train"): (150, "8d51d9ae440686714f"),
    ("topicalchat-augmented", "test"): (50, "9b4bb8c65387fe0d"),
}


def test_ids_are_those_of_the_recorded_judgements():
    for set, id, pair in (
        ("dailydialog++", "7", "dailydialog++-test/7p0"),
        ("dailydialog++-positives", "7", "dailydialog++-positives/7p0"),
        ("mini", "mini-daily-000", "mini/mini-daily-000/p0"),
        ("convai2", "convai2-valid/12", "convai2-valid/12/p0"),
    ):
        assert replace(PARK, set=set, id=id).pair_id("p", 0) == pair


@pytest.mark.parametrize(
    ("name", "split"), [pytest.param(*k, marks=needs_data if k[0] != "mini" else ()) for k in HASHES]
)
def test_every_split_is_the_one_that_models_were_trained_on(name, split):
    found, (n, start) = load(name, split), HASHES[name, split]
    assert len(found) == n
    assert data_hash(found).startswith(start)
    assert {context.split for context in found} == {split}


def test_an_unknown_split_is_answered_with_the_known_ones():
    for name, split in (("movies", "test"), ("convai2-augmented", "dev")):
        with pytest.raises(DreError, match=f"no split '{split}' of a data set '{name}': use one of .*'mini'"):
            load(name, split)


RATED = pd.DataFrame(
    {
        "context": [("Where did you learn to cook so well?", "At home, mostly."), ("Fine, thanks.",)],
        "response": ["My aunt ran a small inn.", "Good to hear."],
    }
)


def _persona(line, turns, reply):
    return Context("convai2", f"convai2-valid/{line}", "train", turns, (reply,), domain="persona", facts="I cook.")


def test_apart_compares_utterances_of_more_than_four_words_without_case_and_punctuation():
    same_turn = replace(PARK, turns=("where did you learn to cook , so well ?",))
    same_response = replace(PARK, turns=("My aunt ran a small inn",))
    short = replace(PARK, turns=("At home, mostly.", "Fine, thanks."))
    same_reply = replace(PARK, positives=("My aunt ran a small inn.",))
    chosen = [replace(one, id=str(i)) for i, one in enumerate((PARK, same_turn, same_response, short, same_reply))]
    assert apart(chosen, RATED) == [chosen[0], chosen[3]]
    assert apart([chosen[0], chosen[3]], [PARK, RATED]) == [chosen[3]]


def test_apart_compares_replies_and_leaves_out_the_whole_conversation(monkeypatch):
    shared = _persona(5, ("Hello there.", "Hi!", "What do you do?"), "My aunt ran a small INN")
    later = _persona(6, ("What do you do?", "Cooking.", "Is it hard?"), "Not at all.")
    next_conversation = _persona(8, ("Hi.", "Hey.", "Any pets?"), "None.")
    chat = [
        Context("topicalchat", f"topicalchat-test_freq/c{i}/{k}", "train", (turn, "Yes.", "Why?"), ("So.",))
        for i, k, turn in ((1, 3, "Where did you learn to cook so well?"), (1, 4, "Hm."), (2, 3, "Hm."))
    ]
    daily = [replace(PARK, id=str(i), adversarials=text) for i, text in ((1, ("My aunt ran a small inn.",)), (2, ()))]
    chosen = [shared, later, next_conversation, *chat, *daily]
    public = {"convai2-valid": [shared, later, next_conversation], "topicalchat-test_freq": chat}
    monkeypatch.setattr(dialogues, "contexts", public.get)
    assert apart(chosen, RATED) == [next_conversation, chat[2], daily[1]]
    # The conversation counts as a whole, also where only another part of it was chosen.
    assert apart([later, next_conversation], RATED) == [next_conversation]
    # Whole dialogues (FED) come as tables with the column turns.
    dialogue = pd.DataFrame({"turns": [("Any pets, and if so, which?", "None.")]})
    asked = replace(PARK, id="8", turns=("any pets - and if so - which",))
    assert apart([asked, PARK], [RATED, dialogue]) == [PARK]


@needs_data
def test_nothing_that_people_rated_is_in_what_a_model_learns_from():
    """By words, without the code that leaves it out: all seven sets, and the dialogues of FED."""

    def words(texts):
        return {"".join(filter(str.isalnum, text.lower())) for text in texts if len(text.split()) > 4}

    public = profile("public")
    assert set(public.rated) == set(ratings.RATED)
    rated = set()
    for table in (*map(ratings.rated, ratings.RATED), ratings.fed_dialogues().rename(columns={"turns": "context"})):
        rated |= words([turn for turns in table["context"] for turn in turns] + list(table.get("response", ())))
    for entry in public.sets:
        train, dev, _ = contexts(entry, public.rated)
        for one in train:
            assert not words((*one.turns, *one.positives, *one.adversarials, *one.randoms)) & rated, one.context_id
    more = beside(public, dev)
    assert len(more.dialogues) > 20_000 and len(more.graded) > 1_500
    assert not words([text for one in more.dialogues for text in (*one.turns, *one.positives)]) & rated
    assert not words([text for _, turns, response, _ in more.graded for text in (*turns, response)]) & rated
