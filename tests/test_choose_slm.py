"""The choice of a small model, on a tiny encoder and grades made of the embedded corpus: split, draws, replay."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import needs_data

from dre.dialogues import load, pairs
from dre.slm import beside, contexts

FILE = Path(__file__).parents[1] / "experiments" / "choose_slm.py"
spec = importlib.util.spec_from_file_location("choose_slm", FILE)
choose = importlib.util.module_from_spec(spec)
spec.loader.exec_module(choose)


def table(contexts):
    found = pairs(contexts)
    return found.assign(score=np.where(found["kind"] == "p", 4.5, 0.5) + found["response"].str.len() / 1000)


@pytest.fixture
def given():
    train, dev = load("mini", "train"), load("mini", "dev")
    labelled = table(dev[:6])
    random = labelled.assign(kind=labelled["kind"].replace("a", "r"))
    held_out = labelled.replace({"kind": {"p": "reference"}})
    return choose.Data(table(train[:20]), table(train[20:24]), held_out, table(dev[6:]), pd.concat([labelled, random]))


def test_the_loss_and_the_shares_by_hand():
    found, score, context = (torch.tensor(x) for x in ([0.0, 1.0, 5.0], [5.0, 0.0, 5.0], [0, 0, 1]))
    p = torch.sigmoid(found)
    error = ((p - score / 5) ** 2).mean()
    assert torch.isclose(choose.grade_loss(found, score, context, 0), error)
    # One ordered pair, 0 before 1, found in the wrong order by 1.
    assert torch.isclose(
        choose.grade_loss(found, score, context, 2.0), error + 2 * torch.log1p(torch.exp(torch.tensor(1.0)))
    )
    graded = pd.DataFrame({"context_id": ["a", "a", "a", "b", "b"], "score": [3.0, 2, 1, 2, 2.4]})
    assert choose.ordered([3.0, 1, 1, 0, 9], graded) == pytest.approx((1 + 1 + 0.5) / 3)


def test_balanced_draws_leave_no_correlation_of_length_and_grade():
    draw = np.random.default_rng(0)
    words = draw.integers(1, 40, 4000)
    graded = pd.DataFrame({"response": ["a " * n for n in words], "score": words / 25 + draw.normal(0, 1, 4000)})
    drawn = graded.iloc[draw.choice(4000, 20_000, p=choose.balanced(graded))]
    before, after = (choose.spearman(one["response"].str.len(), one["score"]) for one in (graded, drawn))
    assert before > 0.35 and abs(after) < 0.1
    assert choose.bare("Is it?! ...") == "Is it" and choose.bare("...") == "..."


def test_a_head_learns_grades_and_what_is_done_is_not_done_again(encoder, given, tmp_path, monkeypatch):
    out, ranked = tmp_path / "slm.csv", choose.Variant("ranked, masked", rank=1.0, masked=True, epochs=600)
    variants = (choose.Variant("cosines", head=False), ranked)
    found = choose.run(variants, replace(given, held_out=given.graded), out, tmp_path, (0, 1), encoder)
    assert list(found["reading"]) == ["likeness", *["likeness", "quality", "likeness + quality"] * 2]
    learned = found[found["reading"] == "quality"]
    assert learned["graded_pairs"].min() > 0.75  # of what it has seen: it learns at all
    cosine = found.set_index("reading")["graded_pairs"][["likeness"]].max()
    assert cosine < 0.5 and found["seed"].tolist() == [0] * 4 + [1] * 3
    monkeypatch.setattr(choose, "train_head", None)
    pd.testing.assert_frame_equal(choose.run(variants, given, out, tmp_path, (0, 1), encoder), found)


@needs_data
def test_no_held_out_conversation_is_trained_on():
    given = choose.data()
    n, held = len(given.graded) + len(given.held_out), set(given.held_out["conversation"])
    assert n > 4500 and 0.15 < len(given.held_out) / n < 0.25
    assert not held & set(given.graded["conversation"])
    said = {
        "".join(filter(str.isalnum, t.lower()))
        for turns in given.held_out["context"]
        for t in turns
        if len(t.split()) > 4
    }
    public = choose.profile("public")
    labelled, dev, _ = contexts(public.sets[0], public.rated)
    learned = beside(public, dev)
    others = [turns for _, turns, _, _ in learned.graded] + [one.turns for one in (*learned.dialogues, *labelled)]
    shared = [turns for turns in others if said & {"".join(filter(str.isalnum, turn.lower())) for turn in turns}]
    assert len(learned.dialogues) > 20_000 and len(labelled) > 700 and len(learned.graded) > 5000 and shared == []
