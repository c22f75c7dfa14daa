"""Other judges' scores of the rated sets: readable, and on one scale."""

import gzip
import importlib.util
import json
from pathlib import Path

import pytest
from conftest import needs_data

from dre.datasets import ratings
from dre.datasets import recordings as recording
from dre.datasets import released as others
from dre.errors import DreError

pytestmark = needs_data


def test_of_the_released_replies_99_8_percent_are_read():
    replies = others.gpt35()
    assert len(replies) == 86_080
    assert (replies["status"] == "ok").mean() >= 0.998


@pytest.mark.parametrize("name", ratings.RATED)
def test_scores_of_every_set_are_on_one_scale(name):
    values = others.scores(name).drop(columns="pair_id")
    assert len(values) == len(ratings.rated(name)) and "claude-2026-11" in values
    assert values.min().min() >= 0 and values.max().max() <= 5


def test_hashes_say_of_every_recorded_pair_and_prompt_what_was_shown():
    path = Path(__file__).parents[1] / "experiments" / "hash_recording.py"
    spec = importlib.util.spec_from_file_location("hash_recording", path)
    spec.loader.exec_module(script := importlib.util.module_from_spec(spec))
    folder = recording.folder(ratings.NAME)
    committed = json.loads(gzip.decompress((folder / recording.FILE).read_bytes()))
    assert (
        script.hashes(folder) == committed
        and {"dre_other", "mini/mini-daily-036/p0", "fed-dialog/3"} <= committed.keys()
    )


def test_files_beside_the_judgements_are_held_to_their_texts_too(monkeypatch):
    assert len(ratings.criteria()) == 3120 and len(ratings.fed_judged()) > 17_000
    monkeypatch.setattr(recording, "hash_of", lambda shown: "another")
    for read in (ratings.criteria, ratings.fed_judged):
        with pytest.raises(DreError, match="has other texts here"):
            read()
