"""Which contexts a profile trains on."""

import pytest

from dre.data import load
from dre.pipeline.profile import TrainingSet
from dre.slm import runs


@pytest.fixture(autouse=True)
def forget():
    runs._contexts.cache_clear()
    yield
    runs._contexts.cache_clear()


def test_contexts_are_read_once_and_no_caller_can_change_them_for_the_next(monkeypatch):
    read = []
    monkeypatch.setattr(runs, "load", lambda *a: read.append(a) or load(*a))
    entry = TrainingSet("mini", "Own", ("mini", "train"), ("mini", "dev"), ("mini", "test"))
    first = runs.contexts(entry)
    first[0].clear()
    again = runs.contexts(entry)
    assert again[0] == load("mini", "train") and len(read) == 3


def test_held_out_contexts_are_the_share_asked_for_and_no_training_contexts():
    entry = TrainingSet("mini", "Own", ("mini", "train"), ("mini", "train"), ("mini", "test"), held_out=0.25)
    train, dev, _ = runs.contexts(entry)
    whole = load("mini", "train")
    assert len(dev) == round(0.25 * len(whole)) and len(train) + len(dev) == len(whole)
    assert not {c.context_id for c in train} & {c.context_id for c in dev}
    assert runs.contexts(entry, seed=1)[1] != dev
