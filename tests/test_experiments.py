"""Scripts that run for hours find what they import; a small model is chosen, on a tiny encoder and made-up grades."""

import ast
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data

from dre.dialogues import load, pairs
from dre.slm import beside, contexts

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("choose_slm", ROOT / "experiments" / "choose_slm.py")
choose = importlib.util.module_from_spec(spec)
spec.loader.exec_module(choose)


@pytest.mark.parametrize("path", [*ROOT.glob("experiments/*.py"), *ROOT.glob("benchmarks/*.py")], ids=lambda p: p.name)
def test_what_a_script_imports_of_the_package_is_there(path):
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    for node in nodes:
        if node.module.split(".")[0] == "dre":
            exec(ast.unparse(node), {})


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

    def long(turns):
        return {"".join(filter(str.isalnum, turn.lower())) for turn in turns if len(turn.split()) > 4}

    said = set().union(*map(long, given.held_out["context"]))
    public = choose.profile("public")
    labelled, dev, _ = contexts(public.sets[0], public.rated)
    learned = beside(public, dev)
    others = [turns for _, turns, _, _ in learned.graded] + [one.turns for one in (*learned.dialogues, *labelled)]
    assert len(learned.dialogues) > 20_000 and len(labelled) > 700 and len(learned.graded) > 5000
    assert not [turns for turns in others if said & long(turns)]
