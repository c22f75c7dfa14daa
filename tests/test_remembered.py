"""A small model scores no pair twice, in whichever process."""

import json
import shutil

import pandas as pd
import pytest
from conftest import writable_copy

from dre.datasets.dialogues import load, pairs
from dre.slm import SLM
from dre.slm.model import DEFAULT
from dre.slm.remembered import package_model

PAIRS = pairs(load("mini", "test")[:2])


@pytest.fixture
def scored_pairs(monkeypatch):
    """How many pairs the model itself has scored, call by call."""
    numbers = []
    score = SLM.score

    def counted(slm, table, progress=False):
        numbers.append(len(table))
        return score(slm, table, progress)

    monkeypatch.setattr(SLM, "score", counted)
    return numbers


def test_a_second_process_uses_the_scores_of_the_first(tmp_path, scored_pairs):
    first_scores = package_model(tmp_path).score(PAIRS)
    second_scores = package_model(tmp_path).score(PAIRS)
    assert scored_pairs == [len(PAIRS)]
    pd.testing.assert_frame_equal(second_scores, first_scores)


def test_its_scores_are_those_of_the_model(tmp_path):
    expected = SLM.load(DEFAULT).score(PAIRS).drop(columns="left_out")
    pd.testing.assert_frame_equal(package_model(tmp_path).score(PAIRS), expected, atol=1e-5)


def test_new_pairs_are_added_and_a_pair_id_may_name_several_texts(tmp_path, scored_pairs):
    model = package_model(tmp_path)
    table = PAIRS[:2].assign(pair_id="same")
    scored = model.score(table)
    model.score(PAIRS[:3])
    assert scored_pairs == [2, 1]
    assert scored["pair_id"].tolist() == ["same", "same"]
    assert scored["score_slm"].nunique() == 2


def test_texts_that_are_there_twice_have_the_same_score(tmp_path):
    table = pd.concat([PAIRS[:1], PAIRS[:1].assign(pair_id="again")])
    scored = package_model(tmp_path).score(table)
    assert scored["pair_id"].tolist() == [PAIRS["pair_id"].iloc[0], "again"]
    assert scored["score_slm"].nunique() == 1


def test_a_model_with_other_weights_or_another_range_scores_the_same_pairs_again(
    tmp_path, scored_pairs
):
    model = writable_copy(DEFAULT, tmp_path / "model")
    description = json.loads((model / "slm.json").read_text(encoding="utf-8"))
    del description["sha256"]  # else the changed weights would be refused
    (model / "slm.json").write_text(json.dumps(description), encoding="utf-8")
    changed_model = shutil.copytree(model, tmp_path / "other")
    weights = bytearray((changed_model / "adapter.safetensors").read_bytes())
    weights[-1] ^= 1
    (changed_model / "adapter.safetensors").write_bytes(weights)
    package_model(tmp_path, model).score(PAIRS)
    package_model(tmp_path, changed_model).score(PAIRS)
    assert scored_pairs == [len(PAIRS)] * 2
    description["provenance"]["d_max"] += 1
    (changed_model / "slm.json").write_text(json.dumps(description), encoding="utf-8")
    package_model(tmp_path, changed_model).score(PAIRS)
    assert scored_pairs == [len(PAIRS)] * 3
