"""A small model scores no pair twice, in whichever process."""

import json

import pandas as pd
import pytest
from conftest import writable_copy

from dre.datasets.dialogues import load, pairs
from dre.slm import SLM
from dre.slm.provenance import DEFAULT
from dre.slm.remembered import package_model

PAIRS = pairs(load("mini", "test")[:2])


@pytest.fixture
def scored_pairs(monkeypatch):
    """How many pairs the model itself has scored, call by call."""
    numbers = []
    score = SLM.score
    monkeypatch.setattr(SLM, "score", lambda slm, x: (numbers.append(len(x)), score(slm, x))[1])
    return numbers


def test_a_second_process_uses_the_scores_of_the_first_which_are_those_of_the_model(
    tmp_path, scored_pairs
):
    first_scores = package_model(tmp_path).score(PAIRS)
    pd.testing.assert_frame_equal(package_model(tmp_path).score(PAIRS), first_scores)
    assert scored_pairs == [len(PAIRS)]
    expected = SLM.load(DEFAULT).score(PAIRS).drop(columns="left_out")
    pd.testing.assert_frame_equal(first_scores, expected, atol=1e-5)


def test_new_pairs_are_added_in_blocks_and_a_pair_id_may_name_several_texts(tmp_path, scored_pairs):
    model = package_model(tmp_path)
    scored = model.score(PAIRS[:2].assign(pair_id="same"))
    assert scored["pair_id"].tolist() == ["same", "same"]
    assert scored["score_slm"].nunique() == 2
    model.score(PAIRS[:7], block=3)
    assert scored_pairs == [2, 3, 2]
    twice = model.score(pd.concat([PAIRS[:1], PAIRS[:1].assign(pair_id="again")]))
    assert twice["pair_id"].tolist() == [PAIRS["pair_id"].iloc[0], "again"]
    assert twice["score_slm"].nunique() == 1 and len(scored_pairs) == 3


@pytest.mark.parametrize("name", ["d_max", "name"])
def test_a_model_of_another_description_scores_the_same_pairs_again(tmp_path, scored_pairs, name):
    """The description has the range, and the hash of the weights."""
    model = writable_copy(DEFAULT, tmp_path / "model")
    description = json.loads((model / "slm.json").read_text(encoding="utf-8"))
    description["provenance"][name] *= 2
    (model / "slm.json").write_text(json.dumps(description), encoding="utf-8")
    package_model(tmp_path).score(PAIRS)
    package_model(tmp_path, model).score(PAIRS)
    assert scored_pairs == [len(PAIRS)] * 2
