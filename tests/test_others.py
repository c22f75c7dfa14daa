"""Other judges' scores of the rated sets: joined to the right pairs, on one scale, as recorded results have them."""

import pytest
from conftest import needs_data

from dre import ratings
from dre.errors import DreError
from dre.judges import others

pytestmark = needs_data
# Spearman with people on TopicalChat-USR, of the results before the parser was written anew
KNOWN = {"claude-2026-11": 0.863986, "Claude-3-haiku": 0.494278, "Llama2-13B": 0.349961, "Qwen-14B": 0.238366}
KNOWN |= {"Vicuna-13B": 0.384912, "Baichuan2-13B": 0.310375, "ChatGLM3-6B": 0.256013, "GPT-3.5-0613 G-Eval": 0.546637}
KNOWN |= {"GPT-3.5-0613 analyse-rate": 0.656708, "GPT-3.5-0613 rate-explain": 0.627726}


def test_agreement_with_people_is_what_it_was():
    table, rated = others.scores("topicalchat-usr"), ratings.rated("topicalchat-usr")
    assert table["pair_id"].tolist() == rated["pair_id"].tolist()
    found = table.drop(columns="pair_id").corrwith(rated["human"], method="spearman")
    assert found.to_dict() == pytest.approx(KNOWN, abs=1e-3)


def test_at_most_150_of_the_recorded_replies_are_unreadable():
    replies = others.gpt35()
    assert len(replies) == 86_080
    assert (replies["status"] != "ok").sum() <= 150
    assert not replies.duplicated(["pair_id", "judge", "criterion", "repeat"]).any()


@pytest.mark.parametrize("name", ratings.RATED)
def test_scores_of_every_set_are_on_one_scale_and_said_how(name):
    table, how = others.scores(name), others.how(name)
    values = table.drop(columns="pair_id")
    assert how["judge"].tolist() == list(values) and "claude-2026-11" in values
    assert values.min().min() >= 0 and values.max().max() <= 5
    lost = values.columns[values.isna().any()]
    assert (how.set_index("judge").loc[lost, "unreadable"] > 0).all() and how["replies"].min() >= len(table)


def test_a_slipped_row_is_refused():
    rated = ratings.rated("topicalchat-usr")
    records = [{"dialog_id": int(pair_id.split("/")[1]), "x": 1} for pair_id in rated["pair_id"]]
    with pytest.raises(DreError, match="are not the 360 rated ones in order"):
        others._aligned(records[1:] + records[:1], rated, "dialog_id", "x", "file")
