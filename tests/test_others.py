"""Other judges' scores of the rated sets: readable, and on one scale."""

import pytest
from conftest import needs_data

from dre import ratings
from dre.judges import others

pytestmark = needs_data


def test_of_the_released_replies_at_most_150_are_unreadable():
    replies = others.gpt35()
    assert len(replies) == 86_080 and (replies["status"] != "ok").sum() <= 150


@pytest.mark.parametrize("name", ratings.RATED)
def test_scores_of_every_set_are_on_one_scale(name):
    values = others.scores(name).drop(columns="pair_id")
    assert len(values) == len(ratings.rated(name)) and "claude-2026-11" in values
    assert values.min().min() >= 0 and values.max().max() <= 5
