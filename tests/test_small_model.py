"""The choice of the small model: its rule by hand, what it may read, and what the variants learn from."""

import functools

import numpy as np
import pytest
from conftest import experiment, needs_data
from test_train import TRAIN

from dre.datasets import overlap, ratings
from dre.paper.profile import Sources, profile
from dre.slm import graded, recipes
from dre.slm.encoder import load_encoder
from dre.slm.heads import FOOLS

small_model = experiment("small_model")
variants = experiment("small_model_variants")


def seeds(*values, least=80.0):
    return [{"value": value, "kinds": {"echo_last": least, "shuffle": 90.0}} for value in values]


@pytest.mark.parametrize(
    "found, taken",
    [
        ({"a": (seeds(80, 82), 9), "b": (seeds(80.4), 3)}, "a"),  # 81 leads by 0.6
        ({"a": (seeds(80, 82), 9), "b": (seeds(80.6), 3)}, "b"),  # by 0.4, of a cheaper one
        (
            {"a": (seeds(80, 82), 9), "b": (seeds(80.6), 9), "c": (seeds(80.9), 10)},
            "a",
        ),  # no other is cheaper
        ({"a": (seeds(99, least=74.9), 1), "b": (seeds(81), 3)}, "b"),  # too often the parrot
        (
            {"a": (seeds(81, least=70) + seeds(81, least=80), 1), "b": (seeds(80), 3)},
            "a",
        ),  # 75 in the mean
        (
            {"a": (seeds(76.9), 1), "b": (seeds(76.4), 1)},
            "default",
        ),  # leads 76 by less than one point
        ({"a": (seeds(99, least=10), 1)}, "default"),
    ],
)
def test_the_rule_by_hand(found, taken):
    assert small_model.choose(found, seeds(76, least=20)[0]) == taken


def test_of_a_larger_model_no_kind_lies_under_what_ships_has_of_it_and_under_the_floor():
    least = {"echo_last": 72.0, "shuffle": 75.0}
    for of, taken in ((71.9, "default"), (72.0, "large")):
        assert small_model.choose({"large": (seeds(90, least=of), 9)}, seeds(80)[0], least) == taken


def test_the_best_two_are_of_two_variants():
    values = {
        ("a", 0): {"a": 80, "a, fit": 81},
        ("a", 1): {"a": 80, "a, fit": 77},
        ("b", 0): {"b": 70},
    }
    values["a", 0]["a, quality"] = values["a", 1]["a, quality"] = 60
    values |= {("c", 0): {"c": 75}, ("default", 0): {"default": 99}}
    results = {
        run: {"readings": {name: {"value": value} for name, value in of.items()}}
        for run, of in values.items()
    }
    assert small_model.best_two(results) == [("a", "a"), ("c", "c")]
    found = {
        "a": {0: {"t": np.array([1.0, 2])}, 1: {"t": np.array([5.0, 5])}},
        "c": {0: {"t": np.array([0.5, 0])}},
    }
    (seed, of), *more = small_model.both(found, results)["best two"].items()
    assert seed == 0 and of["t"].tolist() == [1.5, 2] and not more


@needs_data
def test_the_rule_and_the_training_data_read_no_human_rating(monkeypatch):
    """They are made where rated sets are texts alone."""
    public, read = profile("public"), []

    def texts(own, *names):
        read.append(names)
        return own(*names).filter(["pair_id", "context_id", "context", "turns", "response"])

    for name in ("rated", "fed_dialogues"):
        monkeypatch.setattr(ratings, name, functools.partial(texts, getattr(ratings, name)))
    for name in ("translated", "fed_qualities", "fed_judged", "criteria"):
        monkeypatch.delattr(ratings, name)
    monkeypatch.setattr(overlap, "_near", lambda *_: set())  # which takes longest
    changes = {"sets": public.sets[2:], "rated": ("topicalchat-usr", "fed-turn")}
    changes["extra"] = Sources(dialogues=("topicalchat-valid_freq",), graded=public.extra.graded)
    given = small_model.data(public.model_copy(update=changes))
    tables = small_model.Rule(given).tables
    assert read and min(map(len, (given.labelled, given.held_out, *tables.values()))) > 20
    assert not any("human" in table for table in tables.values())


def test_what_was_read_once_is_not_read_again(encoder, tmp_path):
    base = load_encoder(encoder)
    first = variants.Kept(tmp_path, base)(["the tea", "a train", "the tea"])
    assert first[0].equal(first[2]) and not first[0].equal(first[1])
    again = variants.Kept(tmp_path, None)  # nothing to read with
    assert again(["a train", "the tea"]).equal(first[[1, 0]])
