import json
import math
from collections import Counter

import pandas as pd
import pytest

from dre import data
from dre.data import augmented, human, mini, public, recorded, sets
from dre.data.overlap import disjoint
from dre.data.records import Context, Rated
from dre.errors import DreError

SIZES = {
    ("dailydialog++", "dev"): (1028, 5, 5, 5),
    ("dailydialog++", "test"): (1142, 5, 5, 5),
    ("dailydialog++-positives", "train"): (7641, 5, 0, 0),
    ("convai2-augmented", "train"): (150, 5, 5, 0),
    ("convai2-augmented", "test"): (50, 5, 5, 0),
    ("topicalchat-augmented", "train"): (150, 5, 5, 0),
    ("topicalchat-augmented", "test"): (50, 5, 5, 0),
}
MINI_SIZES = {"train": 74, "dev": 14, "test": 32}


def all_mini():
    return [context for split in sets.splits("mini") for context in data.load("mini", split)]


@pytest.mark.parametrize(("name", "split"), SIZES)
def test_sizes(data_home, name, split):
    contexts = data.load(name, split)
    n, *each = SIZES[name, split]
    assert len(contexts) == n == len({context.context_id for context in contexts})
    assert {context.split for context in contexts} == {split}
    assert all([len(context.responses(kind)) for kind in "par"] == each for context in contexts)
    assert data.pairs(contexts, "par").pair_id.is_unique
    assert all(text.strip() for context in contexts for text in (*context.turns, *context.positives))


def test_no_context_of_positives_is_in_dev_or_test(data_home):
    held_out = {c.turns for split in ("dev", "test") for c in data.load("dailydialog++", split)}
    assert not held_out & {c.turns for c in data.load("dailydialog++-positives", "train")}


def test_unknown_names():
    with pytest.raises(DreError, match="unknown data set 'nothing': use one of mini"):
        data.load("nothing", "test")
    with pytest.raises(DreError, match="convai2-augmented has no split 'dev': use one of train, test"):
        data.load("convai2-augmented", "dev")
    with pytest.raises(DreError, match="unknown rated data set 'mini'"):
        data.rated("mini")
    with pytest.raises(DreError, match="unknown contexts 'convai2'"):
        data.contexts("convai2")


@pytest.mark.parametrize(
    ("name", "responses", "contexts"),
    [
        ("personachat-usr", 300, 60),
        ("topicalchat-usr", 360, 60),
        ("dailydialog-zhao", 900, 100),
        ("fed-turn", 375, 125),
    ],
)
def test_rated_sizes(data_home, name, responses, contexts):
    table = data.rated_table(data.rated(name))
    assert len(table) == responses and table.pair_id.is_unique
    assert table.context_id.nunique() == contexts
    assert table.human.between(0, 5).all()
    assert (table.response.str.strip() != "").all()
    assert table.reference.notna().all() == (name != "fed-turn")


def test_usr_reference_is_the_rated_original_reply(data_home):
    table = data.rated_table(data.rated("personachat-usr"))
    original = table[table.system == "Original Ground Truth"]
    assert len(original) == 60 and (original.response == original.reference).all()


def test_zhao_reference_is_the_turn_that_really_followed(data_home):
    """Wherever DailyDialog++ contexts hold the end of a rated context and the next turn, that is response 0 of 9."""
    contexts = data.load("dailydialog++", "dev") + data.load("dailydialog++", "test")
    contexts += data.load("dailydialog++-positives", "train")
    followed = {(key(a), key(b)) for context in contexts for a, b in zip(context.turns, context.turns[1:])}
    rated = data.rated("dailydialog-zhao")
    real = Counter(i % 9 for i, r in enumerate(rated) if (key(r.turns[-1]), key(r.response)) in followed)
    assert real == {0: 35}
    assert all(r.reference == rated[i - i % 9].response for i, r in enumerate(rated))


def key(text):
    return "".join(filter(str.isalnum, text.lower()))


def test_overlap_ignores_spelling_and_short_turns():
    ours = [
        Context("mini", "a", "train", ("It ' s raining , take the umbrella .",)),
        Context("mini", "b", "train", ("Yes, please.", "Here is your umbrella, madam.")),
        Context("mini", "c", "train", ("Did the parcel come on Tuesday?",)),
    ]
    ratings = {"overall": (1.0,)}
    turns, response = ("It's raining, take the umbrella.", "Yes, please."), "did the parcel come on tuesday"
    rated = [Rated("s", "s/0", "s/0", turns, response, "", None, "", ratings)]
    assert [context.id for context in disjoint(ours, rated)] == ["b"]
    assert [context.id for context in disjoint(ours, ours[:1])] == ["b", "c"]
    assert [context.id for context in disjoint(ours, rated, words=1)] == []


def test_some_training_contexts_are_dialogues_of_a_rated_set(data_home):
    """Whoever trains on these and tests on those must leave them out: `disjoint` does."""
    rated = data.rated("dailydialog-zhao")
    for name, split, shared in (("dailydialog++", "dev", 11), ("dailydialog++-positives", "train", 157)):
        contexts = data.load(name, split)
        assert len(contexts) - len(disjoint(contexts, rated)) == shared


def test_augmented_contexts_share_no_turn_with_the_usr_sets(data_home):
    usr = data.rated("personachat-usr") + data.rated("topicalchat-usr")
    turns = [Context("usr", record.pair_id, "test", record.turns) for record in usr]
    for name in ("convai2-augmented", "topicalchat-augmented"):
        for split in sets.splits(name):
            contexts = data.load(name, split)
            assert disjoint(contexts, turns) == contexts


def test_fed_means_agree_with_an_independent_copy(data_home):
    """xDial-Eval publishes the mean overall of the same 375 turns, in the same order, as text in a CSV."""
    from dre.data.fetch import local
    from dre.data.registry import find

    theirs = pd.read_csv(local(find("xdial-eval", "fed-turn.csv"))).ratings
    ours = data.rated_table(data.rated("fed-turn")).human
    assert (ours - theirs).abs().max() < 1e-9


def test_persona_usr_agrees_with_an_independent_copy(data_home):
    from dre.data.fetch import local
    from dre.data.registry import find

    theirs = pd.read_csv(local(find("xdial-eval", "persona-usr.csv")))
    mine = data.rated_table(data.rated("personachat-usr"))
    mine["english_ctx"] = mine.context.map("\n".join)
    theirs["english_ctx"] = theirs.english_ctx.str.strip()
    theirs["response"] = theirs.english_res.str.strip()
    key = ["english_ctx", "response"]
    joined = mine.merge(theirs.drop_duplicates(key), on=key)
    assert len(joined) == 300
    assert (joined.maintains_context - joined.ratings).abs().max() < 1e-9


def test_fed_text_instead_of_a_number_is_counted(data_home):
    rated = data.rated("fed-turn")
    assert human.non_numeric(rated) == {
        "correct": 6,
        "relevant": 1,
        "fluent": 1,
        "specific": 3,
        "understandable": 1,
    }
    assert all(len(values) == 5 for record in rated for values in record.ratings.values())


def test_fed_skips_dialogues_and_groups_turns(tmp_path):
    turn = {"context": "User: Hi.", "response": "System: Yo.", "system": "Bot"}
    later = {"context": "User: Hi.\nSystem: Yo.\nUser: So?", "response": "System: So.", "system": "Bot"}
    whole = {"context": later["context"] + "\nSystem: So.", "system": "Bot", "annotations": {"Overall": [4]}}
    other = {"context": "User: Oh.", "system": "Bot", "annotations": {"Overall": [4]}}
    scores = {"Overall": [2, 3], "Semantically appropriate": [1, "N/A (who knows)"]}
    path = tmp_path / "fed.json"
    path.write_text(json.dumps([turn | {"annotations": scores}, later | {"annotations": scores}, whole, other]))
    first, second = human.read_fed(path)
    assert (first.pair_id, second.pair_id) == ("fed-turn/0", "fed-turn/1")
    assert first.context_id == second.context_id == "fed-turn/dialogue-2"
    assert second.turns == ("Hi.", "Yo.", "So?") and second.response == "So."
    assert first.ratings["overall"] == (2.0, 3.0)
    assert first.mean("semantically_appropriate") == 1.0
    assert math.isnan(first.ratings["semantically_appropriate"][1])
    path.write_text(json.dumps([turn | {"annotations": scores}, other]))
    with pytest.raises(DreError, match="not taken from it"):
        human.read_fed(path)
    path.write_text(json.dumps([turn | {"annotations": scores}]))
    with pytest.raises(DreError, match="belong to no dialogue"):
        human.read_fed(path)


def test_usr_file_with_a_missing_rating(tmp_path):
    response = {field: [1, 2, 3] for field in human.USR_CRITERIA.values()} | {
        "model": "Bot",
        "response": "Yo.\n",
    }
    record = {"context": "Hi.\n\n Hello. \n", "fact": "I wave.\n", "responses": [response]}
    path = tmp_path / "usr.json"
    path.write_text(json.dumps([record]))
    (rated,) = human.read_usr(path, "s")
    assert (rated.pair_id, rated.context_id, rated.turns) == ("s/0/0", "s/0", ("Hi.", "Hello."))
    assert rated.reference is None and rated.facts == "I wave." and rated.mean("overall") == 2.0
    del response["Overall"]
    path.write_text(json.dumps([record], indent=1))
    with pytest.raises(DreError, match=r"usr.json:2: field 'Overall' is missing"):
        human.read_usr(path, "s")


# the embedded corpus


def test_mini_sizes_and_domains():
    assert Counter(context.split for context in all_mini()) == MINI_SIZES
    assert Counter(context.domain for context in all_mini()) == {"daily": 48, "persona": 36, "topical": 36}


def test_mini_randoms_come_from_other_contexts_of_split_and_domain():
    contexts = all_mini()
    owners = {(text, c.split, c.domain): c.id for c in contexts for text in c.positives}
    for context in contexts:
        assert len(set(context.randoms)) == 5
        for text in context.randoms:
            assert text not in context.positives + context.adversarials
            assert owners[text, context.split, context.domain] != context.id


def test_mini_randoms_do_not_depend_on_order_and_do_on_seed():
    contexts = all_mini()
    backwards = mini.draw_randoms(contexts[::-1])[::-1]
    assert backwards == contexts
    other = mini.draw_randoms(contexts, seed=1)
    assert sum(a.randoms != b.randoms for a, b in zip(contexts, other)) > 100


def test_mini_data_hash_is_what_results_were_computed_on():
    """Models name their data by this hash: corpus and draw must not change unnoticed."""
    assert data.data_hash(all_mini()) == "6dbd6921189128980e988e691aba4187217f606ad4e7f39c4b120868f068092c"


def test_mini_needs_enough_other_contexts():
    lone = Context("mini", "a", "test", ("Hi.",), ("Yo.",))
    with pytest.raises(DreError, match="only 0 responses of other contexts for mini/a, 5 are needed"):
        mini.draw_randoms([lone])


# public dialogues and the augmented sets


def test_convai2_contexts(tmp_path):
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("i sail\ti sing\tahoy !\ni sail\ti sing\twhere to ?\ni knit\thello .\ni knit\ta scarf ?\n")
    target.write_text("hi sailor .\nto the sea .\nhi .\nno , socks .\n")
    first, second = public.read_convai2(source, target)
    assert first.id == "convai2-valid/1" and first.context_id == "convai2-valid/1"
    assert first.turns == ("ahoy !", "hi sailor .", "where to ?")
    assert first.positives == ("to the sea .",) and first.facts == "i sail\ni sing"
    assert second.id == "convai2-valid/3" and second.turns == ("hello .", "hi .", "a scarf ?")
    target.write_text("hi sailor .\n")
    with pytest.raises(DreError, match="has 4 lines and .* 1"):
        public.read_convai2(source, target)


def test_topical_chat_contexts(tmp_path):
    path = tmp_path / "chat.json"
    messages = [{"message": text} for text in ("One.", "Two.", "Three. ", "Four.", "Five.")]
    path.write_text(json.dumps({"t_1": {"content": messages}, "t_2": {"content": messages[:3]}}))
    first, second = public.read_topical_chat(path, "topicalchat-valid_freq")
    assert first.id == "topicalchat-valid_freq/t_1/3"
    assert first.turns == ("One.", "Two.", "Three.") and first.positives == ("Four.",)
    assert second.id == "topicalchat-valid_freq/t_1/4" and second.positives == ("Five.",)


def augmented_record(turns):
    return {
        "id": "convai2-valid/1",
        "split": "test",
        "context_sha256": augmented.context_sha256(turns),
        "positive_responses": ["Yes."],
        "adversarial_negative_responses": ["No."],
    }


def test_augmented_join_verifies_the_context(tmp_path):
    context = Context(
        "convai2", "convai2-valid/1", "train", ("Hi.", " So? "), ("Well.",), domain="persona", facts="I nod."
    )
    path = tmp_path / "augmented.jsonl"
    path.write_text(json.dumps(augmented_record(("Hi.", "So?"))) + "\n")
    (joined,) = augmented.join(path, {context.id: context}, "convai2-augmented")
    assert joined.turns == context.turns and joined.facts == "I nod." and joined.domain == "persona"
    assert joined.positives == ("Yes.",) and joined.split == "test"
    path.write_text(json.dumps(augmented_record(("Hi.", "No?"))) + "\n")
    with pytest.raises(DreError, match=r"augmented.jsonl:1: context convai2-valid/1 has sha256 .*, expected"):
        augmented.join(path, {context.id: context}, "convai2-augmented")
    with pytest.raises(DreError, match=r"augmented.jsonl:1: no public context has the id"):
        augmented.join(path, {}, "convai2-augmented")


# joins with the recorded judgements


def test_recorded_judgements_of_mini_lose_nothing():
    judged = recorded.judgements()
    judged = judged[judged.pair_id.str.startswith("mini/")]
    joined = data.pairs(all_mini()).merge(judged, on="pair_id")
    assert joined.groupby("prompt").size().to_dict() == {"classify": 1200, "llm_only": 320}
    labelled = joined[joined.prompt == "classify"]
    assert labelled.pair_id.nunique() == 1200
    assert ((labelled.label == "Positive") == (labelled.kind == "p")).all()


def test_recorded_labels_of_dailydialog_lose_nothing(data_home):
    pairs = data.pairs(data.load("dailydialog++", "test"), "par")
    joined = pairs.merge(recorded.judgements(), on="pair_id")
    assert joined.groupby("kind").size().to_dict() == {"p": 300, "a": 300, "r": 100}
    right = (joined.label == "Positive") == (joined.kind == "p")
    assert (100 * right.groupby(joined.kind).mean()).round(1).to_dict() == {"p": 97.0, "a": 99.0, "r": 91.0}


@pytest.mark.parametrize(
    ("name", "n", "spearman", "pearson"),
    [
        ("topicalchat-usr", 360, 0.864, 0.870),
        ("personachat-usr", 300, 0.816, 0.824),
        ("dailydialog-zhao", 900, 0.788, 0.785),
    ],
)
def test_recorded_scores_correlate_with_people_as_published(data_home, name, n, spearman, pearson):
    judged = recorded.judgements()
    judged = judged[judged.prompt == "llm_only"]
    joined = data.rated_table(data.rated(name)).merge(judged, on="pair_id")
    assert len(joined) == n
    assert joined.human.corr(joined.score, "spearman") == pytest.approx(spearman, abs=1e-3)
    assert joined.human.corr(joined.score, "pearson") == pytest.approx(pearson, abs=1e-3)


def test_every_recorded_judgement_belongs_to_a_pair(data_home):
    known = set(data.pairs(all_mini() + data.load("dailydialog++", "test"), "par").pair_id)
    for name in ("topicalchat-usr", "personachat-usr", "dailydialog-zhao"):
        known |= {record.pair_id for record in data.rated(name)}
    judged = recorded.judgements()
    assert len(judged) == 3780 and set(judged.pair_id) <= known
    assert not judged.duplicated(["pair_id", "prompt"]).any()


def test_training_scores_join_with_verified_texts(data_home):
    table = recorded.training_scores()
    assert len(table) == 2050 and table.pair_id.is_unique
    assert table.set.value_counts().to_dict() == {"dailydialog++": 1250, "convai2": 400, "topicalchat": 400}
    assert table.score.between(0, 5).all()
    means = table.groupby(table.response_id.str.extract(r"dev/\d+([par])\d$")[0]).score.mean()
    assert means["p"] > means["a"] > 0  # people wrote the first to fit, the second not to


def test_training_scores_refuse_another_text(data_home, monkeypatch, tmp_path):
    lines = (recorded.RECORDED / "claude-2026-11" / "training_scores.jsonl").read_text().splitlines()
    (tmp_path / "ours").mkdir()
    monkeypatch.setattr(recorded, "RECORDED", tmp_path)
    for name in ("context_sha256", "response_sha256"):
        changed = json.dumps(json.loads(lines[1]) | {name: "0" * 64})
        (tmp_path / "ours" / "training_scores.jsonl").write_text(f"{lines[0]}\n{changed}\n")
        with pytest.raises(DreError, match=rf"training_scores.jsonl:2: the text has sha256 .*, but {name} is 0000"):
            recorded.training_scores("ours")


def test_recorded_name_that_is_not_there():
    with pytest.raises(DreError, match="recorded with this file are claude-2026-11"):
        recorded.judgements("nothing")
