"""Training and test contexts, and what is kept out of training."""

import json

import pandas as pd
import pytest
from conftest import needs_data

from dre.datasets import dialogues, ratings, recordings
from dre.datasets.dialogues import Context, data_hash, load
from dre.datasets.overlap import without_overlap
from dre.datasets.registry import read_jsonl, repository_file
from dre.errors import DreError
from dre.paper import contexts as paper_contexts
from dre.paper.contexts import contexts, extra
from dre.paper.profile import Sources, TrainingSet, profile

# Contexts of each split, and how the hash of their data begins. The hashes name the training data
# of
# every recorded model: changing one makes all of them stale.
SPLITS = {
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

# What two people rated: the reserved utterances of most tests below.
RATED = pd.DataFrame(
    {
        "context": [
            ("Where did you learn to cook so well?", "At home, mostly."),
            ("Fine, thanks.",),
        ],
        "response": ["My aunt ran a small inn.", "Good to hear."],
    }
)


def daily_context(
    id,
    turn="It looks like rain.",
    positive="Take this.",
    adversarial="The park ranger retired in May.",
):
    turns = ("Shall we walk?", turn)
    return Context("dailydialog++", str(id), "test", turns, (positive,), (adversarial,))


def public_context(set_name, id, *turns, reply="So."):
    return Context(set_name, id, "train", turns, (reply,))


@pytest.mark.parametrize(
    ("name", "split"),
    [
        pytest.param(name, split, marks=needs_data if name != "mini" else ())
        for name, split in SPLITS
    ],
)
def test_every_split_is_the_one_that_models_were_trained_on(name, split):
    n_contexts, beginning_of_hash = SPLITS[name, split]

    loaded = load(name, split)

    assert len(loaded) == n_contexts
    assert data_hash(loaded).startswith(beginning_of_hash)


class TestWithoutOverlap:
    def test_compares_utterances_of_more_than_four_words_without_case_and_punctuation(self):
        clean = [daily_context(0), daily_context(1, turn="At home, mostly.")]
        repeating = [
            daily_context(2, turn="where did you learn to cook , so well ?"),
            daily_context(3, turn="My aunt ran a small inn"),
            daily_context(4, positive="My aunt ran a small INN"),
            daily_context(5, adversarial="My aunt ran a small inn."),
        ]

        assert without_overlap([*clean, *repeating], RATED) == clean

    def test_takes_whole_dialogues_and_the_turns_of_contexts_as_reserved(self):
        clean = [daily_context(0)]
        dialogue = pd.DataFrame({"turns": [("Any pets, and if so, which?", "None.")]})
        held_out = daily_context(4, turn="is there any soup left today")
        repeating = [
            daily_context(2, turn="any pets - and if so - which"),
            daily_context(3, turn="Is there any soup left today?"),
        ]

        assert without_overlap([*clean, *repeating], [RATED, dialogue, held_out]) == clean

    def test_leaves_out_the_whole_conversation(self, monkeypatch):
        # Lines 4 to 6 of ConvAI2 are one conversation, lines 7 and 8 another.
        shared = public_context(
            "convai2", "convai2-valid/5", "What do you do?", reply="My aunt ran a small inn"
        )
        later_in_it = public_context("convai2", "convai2-valid/6", "Is it hard?")
        elsewhere = public_context("convai2", "convai2-valid/8", "Is it hard?")
        chat = {
            "c1/3": "Where did you learn to cook so well?",
            "c1/4": "Hm.",
            "c2/3": "Hm.",
        }
        chat_contexts = [
            public_context("topicalchat", f"topicalchat-test_freq/{id}", turn)
            for id, turn in chat.items()
        ]
        conversation_by_id = {
            "convai2-valid/4": "one",
            "convai2-valid/5": "one",
            "convai2-valid/6": "one",
            "convai2-valid/7": "two",
            "convai2-valid/8": "two",
            "topicalchat-test_freq/c1/3": "topicalchat-test_freq/c1",
            "topicalchat-test_freq/c1/4": "topicalchat-test_freq/c1",
            "topicalchat-test_freq/c2/3": "topicalchat-test_freq/c2",
        }
        all_contexts = [shared, later_in_it, elsewhere, *chat_contexts]
        set_histories(monkeypatch, conversation_by_id, all_contexts)

        chosen = [shared, later_in_it, elsewhere, *chat_contexts]
        left = [elsewhere, chat_contexts[2]]
        assert without_overlap(chosen, RATED) == left
        # The parts that repeat something are not among the chosen contexts, but still count.
        chosen = [later_in_it, elsewhere, *chat_contexts[1:]]
        assert without_overlap(chosen, RATED) == left

    def test_knows_a_rated_context_in_edited_words(self):
        # The copy has half of the word trigrams of the rated context, and no whole utterance of it.
        # A greeting does not count.
        turns = (
            "I would like to book a quiet table by the window for tonight.",
            "Sorry, all tables there are taken.",
        )
        rated = pd.DataFrame(
            {
                "context": [turns, ("Hi! How are you?",)],
                "response": ["Then tomorrow.", "Fine."],
            }
        )
        copy = daily_context(0, turn="I would like to book a quiet table by the window for two.")
        greetings = [daily_context(i, turn="Hi! How are you? Fine?") for i in range(1, 20)]

        assert without_overlap([copy, *greetings], rated) == greetings
        assert without_overlap([copy, *greetings], rated, near=0.9) == [copy, *greetings]
        assert without_overlap([copy, *greetings], rated, None) == [copy, *greetings]


def set_histories(monkeypatch, conversation_by_id, contexts):
    """Replace the public conversations by these, with the texts of some contexts."""
    texts = {}
    for context in contexts:
        texts[context.id] = (("", "", *context.turns), context.positives[0])
    histories = {name: {} for name in dialogues.PUBLIC}
    for id, conversation in conversation_by_id.items():
        turns, reply = texts.get(id, (("Hm.",), "So."))
        name = id.partition("/")[0]
        histories[name][id] = dialogues.History(conversation, turns, reply, "")
    monkeypatch.setattr(dialogues, "histories", histories.get)
    without_cache = dialogues.public_contexts.__wrapped__
    monkeypatch.setattr(dialogues, "public_contexts", without_cache)


@needs_data
@pytest.mark.parametrize("file", ["augmented.jsonl", "augmented_more.jsonl"])
def test_responses_are_recorded_for_the_contexts_that_are_here(file):
    public = [context for name in dialogues.PUBLIC for context in dialogues.public_contexts(name)]
    public += load("dailydialog++-positives", "train")
    turns_by_id = {context.context_id: context.turns for context in public}
    for record in read_jsonl(repository_file("recorded", dialogues.RECORDING, file)):
        assert dialogues.context_sha256(turns_by_id[record["id"]]) == record["context_sha256"]
        assert record.get("request", "paper") in dialogues.REQUESTS
        assert len(record["adversarial_negative_responses"]) >= 5


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "a", "context": ["Hi."]}', "id 'a' is there before"),
        ('{"id": "b", "context": [" "]}', "context: found .* expected a list of turns"),
        ('{"id": "b", "context": ["Hi."], "positive_responses": [""]}', "expected a list of texts"),
        ('{"prompt": ["Hi."]}', "the record has prompt"),
        ('"Hi."', "found 'Hi.', expected an object with context"),
        ('{"id": "b", "context": ["Hi."], "positive_responses": {"a": 1}}', "a list of texts"),
        ('{"id": "b", "context": ["Hi."], "positive_responses": [1]}', "a list of texts"),
        ('{"id": "b", "context": ["Hi."], "response": 5}', "response: found 5"),
    ],
)
def test_a_context_of_a_user_that_cannot_be_read_is_named_by_file_and_line(tmp_path, line, reason):
    file = tmp_path / "mine.jsonl"
    good = {"id": "a", "context": ["Is it late?", "Very."], "positive_responses": ["Off to bed."]}
    file.write_text(json.dumps(good) + "\n", encoding="utf-8")
    (context,) = dialogues.read_contexts(file)
    assert context == Context("mine", "a", "train", ("Is it late?", "Very."), ("Off to bed.",))

    file.write_text(json.dumps(good) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DreError, match=f"mine.jsonl:2: .*{reason}"):
        dialogues.read_contexts(file)


@needs_data
def test_the_training_sets_have_the_sizes_that_are_said():
    """What the papers' recipes learn from, and what our recipe learns from in all."""
    public = profile("public")

    sizes = {}
    for more in (False, True):
        sizes[more] = [len(contexts(entry, public.rated, more=more)[0]) for entry in public.sets]

    assert sizes[False] == [831, 653, 558]
    assert sum(sizes[True]) == 3888


@needs_data
def test_the_papers_recipe_learns_no_model_written_reply_of_dailydialog():
    """Checked against the files: every reply is one of DailyDialog++ dev, which people wrote."""
    public = profile("public")
    [entry] = [entry for entry in public.sets if entry.key == "dailydialog"]
    written_by_people = set()
    for context in load("dailydialog++", "dev"):
        written_by_people |= {*context.positives, *context.adversarials, *context.randoms}
    by_a_model = set()
    for context in load("dailydialog++", "adversarials only"):
        by_a_model |= {*context.adversarials}

    train, _, _ = contexts(entry, public.rated)
    with_more, _, _ = contexts(entry, public.rated, more=True)

    learned = {reply for context in train for reply in context.adversarials}
    assert learned <= written_by_people
    assert not learned & by_a_model
    learned_by_ours = {reply for context in with_more for reply in context.adversarials}
    assert learned_by_ours & by_a_model


def test_no_conversation_is_on_two_sides_nor_learned_from_where_models_are_chosen_by_it(
    monkeypatch,
):
    """Of five conversations, one was rated, one is in dev, one in test, and one was graded for
    choice.
    """
    name = "topicalchat-test_freq"
    conversation_by_id = {}
    for conversation in ("rated", "dev", "test", "choice", "free"):
        for line in (3, 4):
            conversation_by_id[f"{name}/{conversation}/{line}"] = f"{name}/{conversation}"
    set_histories(monkeypatch, conversation_by_id, [])
    train = [
        public_context("topicalchat", f"{name}/{conversation}/3", "Hm.")
        for conversation in ("rated", "dev", "test", "choice", "free")
    ]
    train[0] = public_context("topicalchat", f"{name}/rated/3", "My aunt ran a small inn.")
    splits = {
        "train": train,
        "dev": [public_context("topicalchat", f"{name}/dev/4", "Hm.")],
        "test": [public_context("topicalchat", f"{name}/test/4", "Hm.")],
    }
    monkeypatch.setattr(ratings, "rated_tables", lambda _: [RATED])
    monkeypatch.setattr(recordings, "conversations_for_choice", lambda _: {f"{name}/choice"})
    monkeypatch.setattr(dialogues, "load", lambda name, split: splits[split])
    entry = TrainingSet(
        key="own", label="Own", train=("own", "train"), dev=("own", "dev"), test=("own", "test")
    )

    left, dev, test = paper_contexts.contexts.__wrapped__(entry)

    assert list(dev) == splits["dev"]
    assert list(test) == splits["test"]
    assert list(left) == train[-1:]


@pytest.mark.parametrize("reserved_as", ["dev", "tests", "rated", "choice", "nothing"])
def test_what_is_reserved_is_not_in_what_our_recipe_learns_from(monkeypatch, reserved_as):
    """The first five contexts of the embedded corpus stand for dev, a test set, a rated set, or
    grades.
    """
    corpus = load("mini", "train")
    reserved = tuple(corpus[:5])
    dev = reserved if reserved_as == "dev" else ()
    tests = (("other", "test"),) if reserved_as == "tests" else ()
    rated_names = ("usr",) if reserved_as == "rated" else ()
    grades = dialogues.pairs(reserved, "p").assign(score=3.0, for_choice=True)
    no_grades = grades[:0]
    monkeypatch.setattr(ratings, "rated_tables", lambda names: list(reserved) if names else [])
    monkeypatch.setattr(
        recordings, "graded", lambda _: grades if reserved_as == "choice" else no_grades
    )
    monkeypatch.setattr(recordings, "training_scores", lambda _: no_grades)
    monkeypatch.setattr(
        dialogues,
        "load",
        lambda name, split: list(reserved) if name == "other" else load(name, split),
    )
    sources = Sources(dialogues=("mini",), graded=("own",))

    learned_from = paper_contexts._extra.__wrapped__(sources, dev, tests, rated_names)

    left_out = set(corpus) - set(learned_from.dialogues)
    assert left_out == (set() if reserved_as == "nothing" else set(reserved))
    assert learned_from.graded == []


def long_utterances(texts):
    """Return the letters and digits of each text of more than four words."""
    return {"".join(filter(str.isalnum, text.lower())) for text in texts if len(text.split()) > 4}


@needs_data
def test_a_model_learns_from_nothing_that_is_rated_in_dev_or_test_or_graded_for_choice():
    """Checked by words, without the code that leaves them out."""
    public = profile("public")
    assert set(public.rated) == set(ratings.RATED)
    splits = [contexts(entry, public.rated, more=True) for entry in public.sets]

    # No training context repeats anything of the rated sets or of FED's dialogues.
    reserved = long_utterances(ratings.fed_dialogues()["turns"].explode())
    for name in ratings.RATED:
        rated = ratings.rated(name)
        reserved |= long_utterances(rated["context"].explode())
        reserved |= long_utterances(rated["response"])
    for train, _, _ in splits:
        for context in train:
            texts = (
                *context.turns,
                *context.positives,
                *context.adversarials,
                *context.randoms,
            )
            assert not long_utterances(texts) & reserved, context.context_id

    # Nor does what our recipe learns from besides, and it repeats nothing held out, either.
    dev = splits[0][1]
    learned_from = extra(public, dev)
    held_out = [*dev]
    for _, _, test in splits:
        held_out += test
    for context in held_out:
        reserved |= long_utterances(context.turns)
    graded = recordings.graded()
    reserved |= long_utterances(graded.loc[graded["for_choice"], "context"].explode())
    assert graded["for_choice"].sum() > 800
    assert len(learned_from.dialogues) > 20_000
    assert len(learned_from.graded) > 5_000
    for context in learned_from.dialogues:
        assert not long_utterances((*context.turns, *context.positives)) & reserved
    for _, turns, response, _ in learned_from.graded:
        assert not long_utterances((*turns, response)) & reserved
