import json

import pandas as pd
import pytest
from conftest import needs_data

from dre.datasets import dialogues, ratings
from dre.datasets.dialogues import Context, data_hash, load
from dre.datasets.overlap import without_overlap
from dre.errors import DreError
from dre.paper.profile import Sources, TrainingSet, profile
from dre.slm import contexts, extra
from dre.slm import provenance as data

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
    ("dailydialog++", "adversarials only"): (800, ""),
    ("convai2-augmented", "train+paper"): (780, ""),
    ("convai2-augmented", "balanced"): (630, ""),
    ("topicalchat-augmented", "paper"): (540, ""),
    ("topicalchat-augmented", "balanced"): (630, ""),
}


@pytest.mark.parametrize(
    ("name", "split"),
    [pytest.param(*k, marks=needs_data if k[0] != "mini" else ()) for k in HASHES],
)
def test_every_split_is_the_one_that_models_were_trained_on(name, split):
    found, (n, start) = load(name, split), HASHES[name, split]
    assert len(found) == n and data_hash(found).startswith(start)


RATED = pd.DataFrame(
    {
        "context": [
            ("Where did you learn to cook so well?", "At home, mostly."),
            ("Fine, thanks.",),
        ],
        "response": ["My aunt ran a small inn.", "Good to hear."],
    }
)


def daily(
    id,
    turn="It looks like rain.",
    positive="Take this.",
    adversarial="The park ranger retired in May.",
):
    return Context(
        "dailydialog++", str(id), "test", ("Shall we walk?", turn), (positive,), (adversarial,)
    )


def public(set, id, *turns, reply="So."):
    return Context(set, id, "train", turns, (reply,))


def test_without_overlap_compares_utterances_of_more_than_four_words_without_case_and_punctuation():
    clean = [daily(0), daily(1, turn="At home, mostly.")]
    shared = [
        daily(2, turn="where did you learn to cook , so well ?"),
        daily(3, turn="My aunt ran a small inn"),
    ]
    shared += [
        daily(4, positive="My aunt ran a small INN"),
        daily(5, adversarial="My aunt ran a small inn."),
    ]
    assert without_overlap([*clean, *shared], RATED) == clean
    # Held out may be whole dialogues, too (FED), and contexts, whose turns count and not their responses.
    dialogue = pd.DataFrame({"turns": [("Any pets, and if so, which?", "None.")]})
    shared = [
        daily(2, turn="any pets - and if so - which"),
        daily(3, turn="Is there any soup left today?"),
    ]
    assert (
        without_overlap(
            [*clean, *shared], [RATED, dialogue, daily(4, turn="is there any soup left today")]
        )
        == clean
    )


def test_without_overlap_leaves_out_the_whole_conversation(monkeypatch):
    """Also where only another part of it was chosen."""
    shared = public(
        "convai2", "convai2-valid/5", "What do you do?", reply="My aunt ran a small inn"
    )
    later, other = (public("convai2", f"convai2-valid/{line}", "Is it hard?") for line in (6, 8))
    said = {"c1/3": "Where did you learn to cook so well?", "c1/4": "Hm.", "c2/3": "Hm."}
    chat = [public("topicalchat", f"topicalchat-test_freq/{id}", turn) for id, turn in said.items()]
    whole = {f"convai2-valid/{i}": "one" for i in (4, 5, 6)} | {
        f"convai2-valid/{i}": "two" for i in (7, 8)
    }
    whole |= {one.id: one.id.rpartition("/")[0] for one in chat}
    turns = {
        one.id: (("", "", *one.turns), *one.positives, "") for one in (shared, later, other, *chat)
    }
    histories = {
        id: (conversation, *turns.get(id, (("Hm.",), "So.", "")))
        for id, conversation in whole.items()
    }
    named = {
        name: {id: one for id, one in histories.items() if id.startswith(name)}
        for name in dialogues.PUBLIC
    }
    monkeypatch.setattr(dialogues, "histories", named.get)
    assert without_overlap([shared, later, other, *chat], RATED) == [other, chat[2]]
    assert without_overlap([later, other, *chat[1:]], RATED) == [other, chat[2]]


def test_without_overlap_knows_a_rated_context_in_edited_words():
    """Half of its word trigrams are in the copy, of which no utterance is the same; a greeting is no sign of anything."""
    turns = (
        "I would like to book a quiet table by the window for tonight.",
        "Sorry, all tables there are taken.",
    )
    rated = pd.DataFrame(
        {"context": [turns, ("Hi! How are you?",)], "response": ["Then tomorrow.", "Fine."]}
    )
    copy = daily(0, turn="I would like to book a quiet table by the window for two.")
    others = [daily(i, turn="Hi! How are you? Fine?") for i in range(1, 20)]
    assert without_overlap([copy, *others], rated) == others
    assert (
        without_overlap([copy, *others], rated, near=0.9)
        == without_overlap([copy, *others], rated, near=None)
        == [copy, *others]
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"request": "best"}, "request 'best', expected one of paper, balanced"),
        ({"context_sha256": "0"}, "is another context here"),
        ({"adversarial_negative_responses": ["No."] * 4}, "fewer than five"),
    ],
)
def test_a_record_that_does_not_fit_is_named_by_file_and_line(
    tmp_path, monkeypatch, change, reason
):
    own = public("convai2", "convai2-valid/5", "What do you do?")
    good = {
        "id": own.id,
        "split": "train",
        "request": "paper",
        "context_sha256": dialogues.context_sha256(own.turns),
    }
    good |= {"positive_responses": ["I bake."] * 5, "adversarial_negative_responses": ["No."] * 5}
    file = tmp_path / "more.jsonl"
    monkeypatch.setattr(dialogues, "repository_file", lambda *names: file)
    monkeypatch.setattr(dialogues, "public_contexts", lambda name: [own])
    file.write_text(json.dumps(good) + "\n", encoding="utf-8")
    assert load("convai2-augmented", "paper")[0].adversarials == ("No.",) * 5
    file.write_text(json.dumps(good) + "\n" + json.dumps(good | change) + "\n", encoding="utf-8")
    with pytest.raises(DreError, match=f"more.jsonl:2: .*{reason}"):
        load("convai2-augmented", "paper")


@needs_data
def test_the_larger_training_sets_have_the_sizes_that_are_said():
    public = profile("public")
    assert [len(contexts(one, public.rated, version=2)[0]) for one in public.sets] == [
        1626,
        653,
        558,
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_no_conversation_is_on_two_sides_nor_learned_from_where_models_are_chosen_by_it(
    monkeypatch, version
):
    """Of five conversations one was rated, one is dev's, one test's, one of the grades that models are chosen by."""
    name = "topicalchat-test_freq"
    ids = {
        f"{name}/{c}/{k}": f"{name}/{c}"
        for c in ("rated", "dev", "test", "choice", "free")
        for k in (3, 4)
    }
    splits = {"train": [public("topicalchat", id, "Hm.") for id in ids if id.endswith("3")]}
    splits["train"][0] = public("topicalchat", f"{name}/rated/3", "My aunt ran a small inn.")
    monkeypatch.setattr(ratings, "rated_tables", lambda _: [RATED])
    splits |= {part: [public("topicalchat", f"{name}/{part}/4", "Hm.")] for part in ("dev", "test")}
    monkeypatch.setattr(dialogues, "load", lambda name, split: splits[split])
    monkeypatch.setattr(
        dialogues, "histories", lambda _: {id: (of, ("Hm.",), "So.", "") for id, of in ids.items()}
    )
    monkeypatch.setattr(ratings, "conversations_for_choice", lambda: {f"{name}/choice"})
    entry = {part: ("own", part) for part in splits} | {"key": "own", "label": "Own"}
    train, dev, test = data.contexts.__wrapped__(TrainingSet(**entry), version=version)
    assert (list(dev), list(test)) == (splits["dev"], splits["test"])
    assert list(train) == splits["train"][-1 if version == 2 else 1 :]


@pytest.mark.parametrize("where", ["dev", "tests", "rated", "choice", "nothing"])
def test_what_is_reserved_is_not_in_what_recipe_graded_learns_from(monkeypatch, where):
    """The embedded corpus's first five contexts stand for dev, a test set, a rated set, or grades for choice."""
    names, some = Sources(dialogues=("mini",), graded=("own",)), tuple(load("mini", "train")[:5])
    grades = dialogues.pairs(some, "p").assign(score=3.0, for_choice=True)
    given = {"dev": (), "tests": (), "rated": ()}
    given |= {where: {"dev": some, "tests": (("other", "test"),), "rated": ("usr",)}.get(where)}
    monkeypatch.setattr(ratings, "rated_tables", lambda names: list(some) if names else [])
    monkeypatch.setattr(ratings, "graded", lambda _: grades if where == "choice" else grades[:0])
    monkeypatch.setattr(ratings, "training_scores", lambda _: grades[:0])
    monkeypatch.setattr(
        dialogues, "load", lambda name, split: list(some) if name == "other" else load(name, split)
    )
    found = data._extra.__wrapped__(names, given["dev"], given["tests"], given["rated"])
    assert {*load("mini", "train")} - {*found.dialogues} == (
        {*some} if where != "nothing" else set()
    )
    assert found.graded == []


@needs_data
def test_nothing_rated_nothing_of_dev_and_test_and_no_grades_for_choice_are_in_what_a_model_learns_from():
    """By words, without the code that leaves it out: all seven sets, and the dialogues of FED; dev and test sets."""

    def words(texts):
        return {
            "".join(filter(str.isalnum, text.lower())) for text in texts if len(text.split()) > 4
        }

    public = profile("public")
    assert set(public.rated) == set(ratings.RATED)
    reserved = set()
    for table in (
        *map(ratings.rated, ratings.RATED),
        ratings.fed_dialogues().rename(columns={"turns": "context"}),
    ):
        reserved |= words(
            [turn for turns in table["context"] for turn in turns] + list(table.get("response", ()))
        )
    splits = [
        contexts(entry, public.rated, version=public.models["paper"].data) for entry in public.sets
    ]
    for one in (one for train, _, _ in splits for one in train):
        assert (
            not words((*one.turns, *one.positives, *one.adversarials, *one.randoms)) & reserved
        ), one.context_id
    more, (_, dev, _) = extra(public, splits[0][1]), splits[0]
    reserved |= words(
        turn for part in (dev, *(test for *_, test in splits)) for one in part for turn in one.turns
    )
    graded = ratings.graded()
    reserved |= words(graded.loc[graded["for_choice"], "context"].explode())
    assert (
        len(more.dialogues) > 20_000
        and len(more.graded) > 5_000
        and graded["for_choice"].sum() > 800
    )
    assert (
        not words([text for one in more.dialogues for text in (*one.turns, *one.positives)])
        & reserved
    )
    assert (
        not words([text for _, turns, response, _ in more.graded for text in (*turns, response)])
        & reserved
    )
