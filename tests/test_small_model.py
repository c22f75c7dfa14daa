"""How trainings of the package's model are measured: values by hand, and what may be read."""

import functools

import numpy as np
import pandas as pd
import pytest
from conftest import experiment, needs_data

from dre.datasets import overlap, ratings
from dre.paper.profile import Sources, profile

measure = experiment("small_model/measure")


def test_right_first_is_the_share_of_pairs_in_the_right_order_by_context():
    table = pd.DataFrame(
        {
            "context_id": ["a", "a", "a", "b", "b", "c"],
            "kind": ["p", "a", "a", "p", "a", "p"],
        }
    )
    scores = np.array([2.0, 1.0, 3.0, 5.0, 5.0, 0.0])
    # In context a one of two pairs is right, in b there is a tie, and c has nothing to compare.
    assert measure.right_first(table, scores, "a") == pytest.approx(50)


def test_new_rows_of_a_model_replace_its_old_ones_and_no_others(tmp_path):
    file = tmp_path / "measures.csv"
    measure.add_rows(file, pd.DataFrame({"model": ["a", "b"], "value": [1.0, 2.0]}))
    measure.add_rows(file, pd.DataFrame({"model": ["a"], "value": [3.0]}))
    table = pd.read_csv(file).sort_values("model")
    assert table.to_dict("list") == {"model": ["a", "b"], "value": [3.0, 2.0]}


class FakeSLM:
    """Its three answers are the numbers that a response begins with."""

    def readable(self, pairs):
        return pairs

    def answers(self, pairs):
        numbers = [[float(word) for word in text.split()[:3]] for text in pairs["response"]]
        return pd.DataFrame(numbers, columns=["likeness", "fit", "quality"])


def test_readings_count_likeness_as_often_as_they_say_and_leave_quotes_out():
    graded = pd.DataFrame({"response": ["0 0 0", "2 4 6"]})
    mean = np.array([1, 2, 3])
    sd = np.array([2**0.5, 8**0.5, 18**0.5])
    scorer = measure.Scorer(FakeSLM(), graded)
    pairs = pd.DataFrame({"context": [("9 9 9 9",)], "response": ["9 9 9 9 3 4 7"]})

    scores = scorer.scores(pairs)

    likeness, fit, quality = (np.array([3, 4, 7]) - mean) / sd
    assert scores["likeness twice"].item() == pytest.approx(2 * likeness + fit + quality)
    assert scores["likeness once"].item() == pytest.approx(likeness + fit + quality)
    likeness, fit, quality = (np.array([9, 9, 9]) - mean) / sd
    with_quotes = scores["likeness twice, quotes read"].item()
    assert with_quotes == pytest.approx(2 * likeness + fit + quality)


@needs_data
def test_the_measures_and_the_training_data_read_no_human_rating(monkeypatch):
    """They are made although loaders of rated sets return nothing but texts."""
    public = profile("public")
    loaded = []

    def only_texts(load, *names):
        loaded.append(names)
        texts = ["pair_id", "context_id", "context", "turns", "response"]
        return load(*names).filter(texts)

    for name in ("rated", "fed_dialogues"):
        loader = functools.partial(only_texts, getattr(ratings, name))
        monkeypatch.setattr(ratings, name, loader)
    for name in ("translated", "fed_qualities", "fed_judged", "criteria"):
        monkeypatch.delattr(ratings, name)
    # The search for near copies takes longest, and reads texts alone.
    monkeypatch.setattr(overlap, "_near", lambda *_: set())
    sources = Sources(dialogues=("topicalchat-valid_freq",), graded=public.extra.graded)
    changes = {
        "sets": public.sets[2:],
        "rated": ("topicalchat-usr", "fed-turn"),
        "extra": sources,
    }

    data = measure.load_data(public.model_copy(update=changes))
    tables = measure.Measures(data).tables
    assert loaded
    assert min(map(len, (data.labelled, data.held_out, *tables.values()))) > 20
    assert not any("human" in table for table in tables.values())
