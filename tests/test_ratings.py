import numpy as np
import pandas as pd
import pytest
from conftest import needs_data

from dre.datasets import dialogues, ratings
from dre.datasets.registry import read_jsonl, repository_file
from dre.errors import DreError

pytestmark = needs_data
SETS = {  # responses, contexts, Spearman of the recorded judge with the mean human rating (data/recorded)
    "dailydialog-zhao": (900, 100, 0.788),
    "personachat-usr": (300, 60, 0.816),
    "topicalchat-usr": (360, 60, 0.864),
    "fed-turn": (375, 125, 0.591),
    "dailydialog-gupta": (500, 100, 0.867),
    "dailydialog-grade": (300, 149, 0.591),
    "empathetic-grade": (300, 147, 0.433),
}


@pytest.mark.parametrize("name", SETS)
def test_rows_carry_the_ids_that_judgements_are_recorded_under(name):
    table, (n, contexts, spearman) = ratings.rated(name), SETS[name]
    assert (len(table), table["context_id"].nunique()) == (n, contexts)
    assert table["pair_id"].is_unique
    assert table.groupby("context_id")["set"].unique().map(list).tolist() == [[name]] * contexts
    judged = pd.DataFrame(
        read_jsonl(repository_file("recorded", "claude-2026-11", "judgements.jsonl"))
    )
    judged = judged[(judged["prompt"] == "llm_only") & (judged["repeat"].fillna(0) == 0)].set_index(
        "pair_id"
    )["score"]
    scores = table["pair_id"].map(judged)  # a slipped row would lower the correlation
    assert scores.corr(table["human"], method="spearman") == pytest.approx(spearman, abs=5e-4)


def test_usr_has_three_raters_and_the_reference_is_a_rated_response():
    for name in ("personachat-usr", "topicalchat-usr"):
        table = ratings.rated(name)
        assert table["ratings"].map(len).eq(3).all()
        assert np.allclose(table["human"], table["ratings"].map(np.mean))
        own = table[table["system"] == "Original Ground Truth"]
        assert (own["response"] == own["reference"]).all()
        assert table.groupby("context_id")["reference"].nunique().eq(1).all()
        assert own["human"].mean() > table["human"].mean() + 0.3
        assert table["uses_knowledge"].between(0, 1).all() and table["engaging"].between(1, 3).all()


def test_fed_turns_are_taken_from_the_dialogue_they_share_an_id_with():
    turns, dialogues = ratings.rated("fed-turn"), ratings.fed_dialogues().set_index("context_id")
    assert len(dialogues) == 125 and dialogues["human"].between(0, 4).all()
    for one in turns.itertuples():
        said = (*one.context, one.response)
        assert dialogues.loc[one.context_id, "turns"][: len(said) - 1] == said[:-1]
    assert not any(
        turn.startswith(("User:", "System:")) for said in dialogues["turns"] for turn in said
    )
    assert turns["ratings"].map(len).eq(5).all()
    assert [len(table) for table in ratings.rated_tables(["fed-turn", "topicalchat-usr"])] == [
        375,
        360,
        125,
    ]


def test_every_quality_of_fed_has_its_five_raters_and_the_recorded_judge_its_ratings():
    table, said = ratings.fed_qualities(), ratings.fed_judged()
    assert table.groupby("level")["quality"].nunique().to_dict() == {"turn": 9, "dialogue": 11}
    assert len(table) == 375 * 9 + 125 * 11 and table["ratings"].map(len).eq(5).all()
    means = pd.concat([ratings.rated("fed-turn"), ratings.fed_dialogues()]).set_index("pair_id")
    for quality, part in table.groupby("quality"):
        column = "human" if quality == "Overall" else quality.lower().replace(" ", "_")
        known = means.loc[part["item"], [column, "context_id"]]
        np.testing.assert_array_equal(
            part["human"], known[column]
        )  # NaN where no rater gave a number
        assert (part["context_id"].to_numpy() == known["context_id"]).all()
    both = said.merge(table, on=["item", "quality"])
    assert len(both) == len(said) == 375 * 2 * 9 + 366 * 3 * 9 + 125 * 2 * 11 + 122 * 11
    overall = both[both["quality"] == "Overall"].groupby(["level", "examples"])
    found = {key: part["score"].corr(part["human"], method="spearman") for key, part in overall}
    assert found == pytest.approx(
        {
            ("turn", "zero"): 0.638,
            ("turn", "random0"): 0.613,
            ("turn", "random1"): 0.645,
            ("turn", "random2"): 0.637,
            ("turn", "bm25"): 0.640,
            ("dialogue", "zero"): 0.764,
            ("dialogue", "random0"): 0.785,
            ("dialogue", "bm25"): 0.764,
        },
        abs=5e-4,
    )


def test_graded_pairs_are_the_texts_that_were_graded_and_conversations_are_whole():
    table = ratings.graded()  # which checks each hash
    assert (
        len(table) == 5468
        and table["context_id"].nunique() == 696
        and table["score"].between(0, 5).all()
    )
    assert table.groupby("kind")["score"].mean().round(2).to_dict() == pytest.approx(
        {
            "good": 4.53,
            "bland": 3.46,
            "reference": 3.44,
            "retrieved": 1.95,
            "truncated": 1.63,
            "off": 1.58,
            "random": 1.42,
            "contradicts": 1.29,
            "echo": 0.97,
            "garbled": 0.55,
        }
    )
    assert table["context"].map(len).max() == 17
    assert table["conversation"].nunique() == 696  # no two contexts of one conversation
    persona = table[table["set"] == "convai2-valid"]
    first = dialogues.histories("convai2-valid")
    assert all(len(first[conversation][1]) == 1 for conversation in persona["conversation"])
    assert (persona["conversation"] != persona["context_id"]).mean() > 0.9


def test_graded_pairs_of_other_texts_are_refused(monkeypatch):
    known, replies = ratings._training_texts()
    changed = {
        id: (one, (*turns[:-1], "Something else."), *of) for id, (one, turns, *of) in known.items()
    }
    with (
        monkeypatch.context() as patch,
        pytest.raises(DreError, match="not the texts that were graded"),
    ):
        patch.setattr(ratings, "_training_texts", lambda: (changed, replies))
        ratings.graded()
    with (
        monkeypatch.context() as patch,
        pytest.raises(DreError, match="not the texts that were graded"),
    ):
        patch.setattr(
            ratings, "_training_texts", lambda: (known, dict.fromkeys(replies, "Something else."))
        )
        ratings.graded()


def test_training_scores_are_joined_with_their_texts():
    table = ratings.training_scores()  # which checks each hash
    assert len(table) == 2050 and table["score"].between(0, 5).all()
    assert table["context_id"].str.split("/").str[0].nunique() == 3
    assert not set(table["context_id"]) & {
        i for name in ratings.RATED for i in ratings.rated(name)["context_id"]
    }
