"""Shares of a score's variance, with intervals that hold what they are of."""

import numpy as np
import pytest

from dre.audit.measures import shares
from dre.paper.variance import parts

#: By what the scores are made of: deviations of replies, of conversations, of single cells, and
#: what a reply has in its own conversation.
KINDS_OF_SCORES = {
    "noise": (0, 0, 1, 0),
    "the reply alone": (3, 0.1, 0.3, 0),
    "some of each": (1, 0.3, 1, 0.5),
    "fit": (0.05, 0.05, 0.1, 1),
}


def made_up(kind, rng, n=24):
    """Return scores of n replies in n conversations."""
    of_reply, of_conversation, of_cell, of_fit = KINDS_OF_SCORES[kind]
    replies = of_reply * rng.normal(size=(n, 1))
    conversations = of_conversation * rng.normal(size=n)
    return replies + conversations + of_cell * rng.normal(size=(n, n)) + of_fit * np.eye(n)


@pytest.mark.parametrize("kind", KINDS_OF_SCORES)
def test_most_intervals_hold_the_mean_share_of_many_data_and_all_their_own_share(kind):
    rng = np.random.default_rng(5)
    expected = np.mean([100 * shares(made_up(kind, rng))[0, 2] for _ in range(200)])
    rows = [parts([made_up(kind, rng)]) for _ in range(100)]
    for name in ("response", "context", "interaction"):
        assert all(row[f"{name}_low"] <= row[name] <= row[f"{name}_high"] for row in rows)
    held = [row["interaction_low"] <= expected <= row["interaction_high"] for row in rows]
    assert np.mean(held) >= 0.9


def test_trainings_that_differ_widen_the_interval_around_their_mean():
    rng = np.random.default_rng(1)
    first = made_up("some of each", rng)
    second = made_up("the reply alone", rng)
    alone, other, both = parts([first]), parts([second]), parts([first, second])
    assert both["interaction"] == pytest.approx((alone["interaction"] + other["interaction"]) / 2)
    of_alone, of_both = (row["interaction_high"] - row["interaction_low"] for row in (alone, both))
    assert of_both > of_alone


def test_a_score_that_reads_the_reply_alone_has_no_interaction_at_all():
    row = parts([np.arange(5.0)[:, None] * np.ones(5)])
    assert (row["interaction"], row["interaction_low"], row["interaction_high"]) == (0, 0, 0)
