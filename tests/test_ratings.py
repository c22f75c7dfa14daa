"""The rated sets are read as their authors released them, and recorded scores belong to their
texts.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data

from dre.datasets import dialogues, ratings, recordings
from dre.datasets.registry import read_jsonl, repository_file

pytestmark = needs_data

# Responses, contexts, and the Spearman correlation of the recorded judge with the mean human
# rating.
SETS = {
    "dailydialog-zhao": (900, 100, 0.788),
    "personachat-usr": (300, 60, 0.816),
    "topicalchat-usr": (360, 60, 0.864),
    "fed-turn": (375, 125, 0.591),
    "dailydialog-gupta": (500, 100, 0.867),
    "dailydialog-grade": (300, 149, 0.591),
    "empathetic-grade": (300, 147, 0.433),
}


@pytest.mark.parametrize("name", SETS)
def test_rows_have_the_ids_that_judgements_are_recorded_under(name):
    n_responses, n_contexts, expected_correlation = SETS[name]
    judgements = pd.DataFrame(
        read_jsonl(repository_file("recorded", "claude-2026-11", "judgements.jsonl"))
    )
    is_first_asking = (judgements["prompt"] == "llm_only") & (judgements["repeat"].fillna(0) == 0)
    judge_scores = judgements[is_first_asking].set_index("pair_id")["score"]

    table = ratings.rated(name)

    assert len(table) == n_responses
    assert table["pair_id"].is_unique
    sets_by_context = table.groupby("context_id")["set"].unique().map(list).tolist()
    assert sets_by_context == [[name]] * n_contexts
    # A row that slipped would lower the correlation.
    correlation = table["pair_id"].map(judge_scores).corr(table["human"], method="spearman")
    assert correlation == pytest.approx(expected_correlation, abs=5e-4)


@pytest.mark.parametrize("name", ["personachat-usr", "topicalchat-usr"])
def test_usr_has_three_raters_and_the_reference_is_a_rated_response(name):
    table = ratings.rated(name)

    assert table["ratings"].map(len).eq(3).all()
    assert np.allclose(table["human"], table["ratings"].map(np.mean))
    originals = table[table["system"] == "Original Ground Truth"]
    assert (originals["response"] == originals["reference"]).all()
    assert originals["human"].mean() > table["human"].mean() + 0.3
    assert table.groupby("context_id")["reference"].nunique().eq(1).all()
    assert table["uses_knowledge"].between(0, 1).all()
    assert table["engaging"].between(1, 3).all()


def test_fed_turns_are_taken_from_the_dialogue_they_share_an_id_with():
    turns = ratings.rated("fed-turn")
    dialogue_turns = ratings.fed_dialogues().set_index("context_id")["turns"]

    assert turns["ratings"].map(len).eq(5).all()
    for row in turns.itertuples():
        whole_dialogue = dialogue_turns[row.context_id]
        assert whole_dialogue[: len(row.context)] == row.context


def test_fed_has_125_whole_dialogues_without_the_names_of_speakers():
    table = ratings.fed_dialogues()

    assert len(table) == 125
    assert table["human"].between(0, 4).all()
    assert not table["turns"].explode().str.startswith(("User:", "System:")).any()


def test_training_keeps_away_from_feds_dialogues_as_well_as_its_turns():
    tables = ratings.rated_tables(["fed-turn", "topicalchat-usr"])

    assert [len(table) for table in tables] == [375, 360, 125]


def test_every_quality_of_fed_has_five_raters_and_the_same_mean_as_its_item():
    table = ratings.fed_qualities()
    items = pd.concat([ratings.rated("fed-turn"), ratings.fed_dialogues()]).set_index("pair_id")

    qualities_by_level = table.groupby("level")["quality"].nunique().to_dict()
    assert qualities_by_level == {"turn": 9, "dialogue": 11}
    assert len(table) == 375 * 9 + 125 * 11
    assert table["ratings"].map(len).eq(5).all()
    for quality, rows in table.groupby("quality"):
        column = "human" if quality == "Overall" else quality.lower().replace(" ", "_")
        # NaN where no rater gave a number.
        np.testing.assert_array_equal(rows["human"], items.loc[rows["item"], column])
        context_ids = items.loc[rows["item"], "context_id"].tolist()
        assert rows["context_id"].tolist() == context_ids


def test_the_recorded_judge_rated_every_quality_of_fed():
    recorded = recordings.fed_judged()

    table = recorded.merge(ratings.fed_qualities(), on=["item", "quality"])

    # Items that were shown as examples to all others are missing from what was rated with them.
    expected_rows = 375 * 2 * 9 + 366 * 4 * 9 + 125 * 2 * 11 + 122 * 2 * 11
    assert len(table) == len(recorded) == expected_rows
    overall = table[table["quality"] == "Overall"].groupby(["level", "examples"])
    correlations = {
        key: rows["score"].corr(rows["human"], method="spearman") for key, rows in overall
    }
    expected_correlations = {
        ("turn", "zero"): 0.638,
        ("turn", "random0"): 0.613,
        ("turn", "random1"): 0.645,
        ("turn", "random2"): 0.637,
        ("turn", "bm25"): 0.640,
        ("turn", "manual"): 0.624,
        ("dialogue", "zero"): 0.764,
        ("dialogue", "random0"): 0.785,
        ("dialogue", "bm25"): 0.764,
        ("dialogue", "manual"): 0.770,
    }
    assert correlations == pytest.approx(expected_correlations, abs=5e-4)


def test_graded_pairs_are_the_texts_that_were_graded_and_conversations_are_whole():
    table = recordings.graded()

    assert len(table) == 5468
    assert table["context_id"].nunique() == 696
    assert table["score"].between(0, 5).all()
    assert table["context"].map(len).max() == 17
    # No two contexts are of one conversation.
    assert table["conversation"].nunique() == 696
    mean_scores = table.groupby("kind")["score"].mean().round(2).to_dict()
    assert mean_scores == pytest.approx(MEAN_SCORES)
    persona = table[table["set"] == "convai2-valid"]
    histories = dialogues.histories("convai2-valid")
    assert all(len(histories[id].turns) == 1 for id in persona["conversation"])
    assert (persona["conversation"] != persona["context_id"]).mean() > 0.9


MEAN_SCORES = {
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


def test_the_texts_of_graded_and_scored_pairs_are_those_that_were_scored():
    for table, name in (
        (recordings.graded(), "graded.jsonl"),
        (recordings.training_scores(), "training_scores.jsonl"),
    ):
        records = read_jsonl(repository_file("recorded", recordings.NAME, name))
        assert len(records) == len(table)
        for record, turns, response in zip(records, table["context"], table["response"]):
            digests = {
                "context_sha256": dialogues.context_sha256(turns),
                "response_sha256": dialogues.context_sha256([response]),
            }
            known = {key: record[key] for key in digests if key in record}
            assert known and known == {key: digests[key] for key in known}


def test_training_scores_are_joined_with_their_texts():
    table = recordings.training_scores()

    assert len(table) == 2050
    assert table["score"].between(0, 5).all()
    assert table["context_id"].str.split("/").str[0].nunique() == 3
    for name in ratings.RATED:
        assert not set(table["context_id"]) & set(ratings.rated(name)["context_id"])
