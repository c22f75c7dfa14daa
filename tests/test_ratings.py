import json

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data

from dre import ratings
from dre.dialogues import context_sha256
from dre.fetch import read_jsonl, repository_file
from dre.judges import qualities

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
    judged = pd.DataFrame(read_jsonl(repository_file("recorded", "claude-2026-11", "judgements.jsonl")))
    judged = judged[(judged["prompt"] == "llm_only") & (judged["repeat"].fillna(0) == 0)].set_index("pair_id")["score"]
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
    assert not any(turn.startswith(("User:", "System:")) for said in dialogues["turns"] for turn in said)
    assert turns["ratings"].map(len).eq(5).all()
    assert [len(table) for table in ratings.held_out(["fed-turn", "topicalchat-usr"])] == [375, 360, 125]


def test_every_quality_of_fed_has_its_five_raters_and_the_recorded_judge_its_ratings():
    table, said = ratings.fed_qualities(), qualities.said()
    assert table.groupby("level")["quality"].nunique().to_dict() == {"turn": 9, "dialogue": 11}
    assert len(table) == 375 * 9 + 125 * 11 and table["ratings"].map(len).eq(5).all()
    means = pd.concat([ratings.rated("fed-turn"), ratings.fed_dialogues()]).set_index("pair_id")
    for quality, part in table.groupby("quality"):
        column = "human" if quality == "Overall" else quality.lower().replace(" ", "_")
        known = means.loc[part["item"], [column, "context_id"]]
        np.testing.assert_array_equal(part["human"], known[column])  # NaN where no rater gave a number
        assert (part["context_id"].to_numpy() == known["context_id"]).all()
    both = said.merge(table, on=["item", "quality"])
    assert len(both) == len(said) == 375 * 2 * 9 + 366 * 3 * 9 + 125 * 2 * 11 + 122 * 11
    overall = both[both["quality"] == "Overall"].groupby(["level", "examples"])
    found = {key: part["score"].corr(part["human"], method="spearman") for key, part in overall}
    assert found == pytest.approx({("turn", "zero"): 0.638, ("turn", "random0"): 0.613, ("turn", "random1"): 0.645,
                                   ("turn", "random2"): 0.637, ("turn", "bm25"): 0.640, ("dialogue", "zero"): 0.764,
                                   ("dialogue", "random0"): 0.785, ("dialogue", "bm25"): 0.764}, abs=5e-4)  # fmt: skip


def test_no_shown_example_is_of_the_rated_dialogue_nor_rated_beside_it():
    dialogue = ratings.fed_qualities().drop_duplicates("item").set_index("item")["context_id"]
    said, near = qualities.said().groupby("examples")["item"].agg(set), 0
    path = repository_file("recorded", "claude-2026-11", "fed_examples.json")
    for key, shown in json.loads(path.read_text(encoding="utf-8")).items():
        level, _, examples = key.partition("_")
        source = {"turn": "fed-turn", "dial": "fed-dialog"}[level]
        if isinstance(shown, dict):  # the nearest of each item
            near += sum(map(len, shown.values()))
            for item, indices in shown.items():
                assert dialogue[f"{source}/{item}"] not in {dialogue[f"{source}/{index}"] for index in indices}
        else:  # a random draw, for all items
            assert not said[examples] & {f"{source}/{index}" for index in shown}
    assert near == 500 * 3


def test_training_scores_are_joined_with_their_texts():
    table = ratings.training_scores()
    assert len(table) == 2050 and table["score"].between(0, 5).all()
    assert table["context_id"].str.split("/").str[0].nunique() == 3
    assert not set(table["context_id"]) & {i for name in ratings.RATED for i in ratings.rated(name)["context_id"]}
    recorded = read_jsonl(repository_file("recorded", ratings.NAME, "training_scores.jsonl"))
    for record, row in zip(recorded, table.itertuples()):
        hashes = context_sha256(row.context), context_sha256([row.response])
        assert hashes == (record["context_sha256"], record["response_sha256"])
