"""Other judges' scores of the rated sets: joined to the right pairs, on one scale, as recorded results have them."""

import pytest
from conftest import needs_data

from dre import ratings
from dre.errors import DreError
from dre.judges import others

pytestmark = needs_data


def test_at_most_150_of_the_recorded_replies_are_unreadable():
    replies = others.gpt35()
    assert len(replies) == 86_080
    assert (replies["status"] != "ok").sum() <= 150
    assert not replies.duplicated(["pair_id", "judge", "criterion", "repeat"]).any()


@pytest.mark.parametrize("name", ratings.RATED)
def test_scores_of_every_set_are_on_one_scale(name):
    values = others.scores(name).drop(columns="pair_id")
    assert len(values) == len(ratings.rated(name)) and "claude-2026-11" in values
    assert values.min().min() >= 0 and values.max().max() <= 5


def test_a_slipped_row_is_refused():
    rated = ratings.rated("topicalchat-usr")
    records = [{"dialog_id": int(pair_id.split("/")[1]), "x": 1} for pair_id in rated["pair_id"]]
    with pytest.raises(DreError, match="are not the 360 rated ones in order"):
        others._aligned(records[1:] + records[:1], rated, "dialog_id", "x", "file")
