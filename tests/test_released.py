"""Scores of the rated sets that others released: readable, on one scale, and about the same
texts.
"""

import gzip
import json

import pytest
from conftest import experiment, needs_data

from dre.datasets import ratings, recordings
from dre.errors import DreError
from dre.judges import released
from dre.paper import judgements
from dre.paper.profile import profile

pytestmark = needs_data


def test_of_the_released_replies_99_8_percent_are_read():
    replies = released.gpt35()

    assert len(replies) == 86_080
    assert (replies["status"] == "ok").mean() >= 0.998


@pytest.mark.parametrize("name", ratings.RATED)
def test_scores_of_every_set_are_on_one_scale(name):
    scores = released.scores(name).drop(columns="pair_id")

    assert len(scores) == len(ratings.rated(name))
    assert "claude-2026-11" in scores
    assert scores.min().min() >= 0
    assert scores.max().max() <= 5


@pytest.mark.parametrize("name", recordings.names())
def test_hashes_say_of_every_recorded_pair_and_prompt_what_was_shown(name):
    folder = recordings.folder(name)
    committed = json.loads(gzip.decompress((folder / recordings.FILE).read_bytes()))

    assert experiment("recordings/hash_recording").hashes(folder) == committed
    assert len(committed) > 800


def test_files_beside_the_judgements_have_a_row_for_each_pair():
    assert len(recordings.criteria()) == 4680
    assert len(recordings.fed_judged()) > 17_000


@pytest.mark.parametrize(
    "load",
    [
        recordings.criteria,
        recordings.fed_judged,
        lambda: judgements.panel(profile("public"))[0].scores(
            ratings.rated("personachat-usr"), "geval"
        ),
    ],
    ids=["criteria", "fed_judged", "panel"],
)
def test_other_files_of_a_recording_are_checked_by_the_hashes_of_their_texts(monkeypatch, load):
    monkeypatch.setattr(recordings, "hash_of", lambda prompt_or_row: "another")

    with pytest.raises(DreError, match="has other texts here"):
        load()
