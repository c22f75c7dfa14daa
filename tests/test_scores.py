"""Recorded SLM scores: they answer as the model does, and never for another model."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import tiny

from dre.dialogues import load, pairs
from dre.errors import DreError
from dre.profile import profile
from dre.slm import SLM, Scores, trained, untrained
from dre.slm.scores import kept

NAME = "mini-paper-seed0"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Profile `public` in a folder of its own, with a tiny encoder, and what the models of a retraining answered."""
    folder = tmp_path_factory.mktemp("project")
    entry = profile("mini").sets[0].model_copy(update={"train": ("mini", "dev"), "held_out": 0.2})
    own = {"name": "public", "root": folder, "encoder": tiny.encoder(folder), "epochs": {"paper": 1, "released": 1}}
    public = profile("mini").model_copy(update=own | {"sets": (entry,)})
    table = pairs(load("mini", "test")[:4], "par")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRAIN", "1")
        model = trained(public, "mini", "paper", 0)
        parts = [model.score(table[:30]), model.score(table[20:]), untrained(public).distances(table)]
        arrays = kept(public, "arrays", lambda: {"h": np.eye(3, dtype="float32"), "kind": np.array([*"cpa"])})
    return public, table, parts, arrays, model


def test_a_replay_gives_to_the_last_digit_what_the_retraining_gave(recorded):
    public, table, (first, second, cosines), arrays, model = recorded
    scores = trained(public, "mini", "paper", 0)
    assert scores.slm is None and scores.name == NAME and scores.provenance == model.provenance
    pd.testing.assert_frame_equal(scores.score(table[:30]), first, check_exact=True)
    pd.testing.assert_frame_equal(scores.score(table[20:]), second, check_exact=True)
    pd.testing.assert_frame_equal(untrained(public).distances(table), cosines, check_exact=True)
    replayed = kept(public, "arrays", None)
    assert set(replayed) == set(arrays) and all(np.array_equal(replayed[name], arrays[name]) for name in arrays)
    (folder,) = (public.build / "models").glob(f"{NAME}-????????????")
    pd.testing.assert_frame_equal(scores.score(table), SLM.load(folder).score(table), rtol=1e-4, atol=1e-4)
    encoder = SLM.untrained(public.encoder).distances(table)[["pair_id", "distance"]]
    pd.testing.assert_frame_equal(cosines, encoder, rtol=1e-4, atol=1e-4)


def test_unknown_pairs_and_scores_of_another_model_are_named_with_what_to_do(recorded):
    public, *_ = recorded
    with pytest.raises(DreError, match=rf"10 of 10 pairs .*{NAME}: RETRAIN=1"):
        trained(public, "mini", "paper", 0).score(pairs(load("mini", "train")[:1]))
    with pytest.raises(DreError, match="scores of mini-released-seed0 are missing: RETRAIN=1"):
        trained(public, "mini", "released", 0)
    file = public.results / "scores" / f"{NAME}.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps(about | {"bf16": None, "versions": {}, "fingerprint": "0" * 64}))
    assert trained(public, "mini", "paper", 0).provenance["versions"] == {}  # what the machine decides is not asked
    for key in ("train_hash", "recipe", "seed", "encoder"):
        file.write_text(json.dumps(about | {key: "another"}))
        with pytest.raises(DreError, match=f"those of another model, with other {key}: RETRAIN=1"):
            trained(public, "mini", "paper", 0)
    file.write_text(json.dumps(about))


def test_a_retraining_does_not_mix_its_scores_with_those_of_another(recorded, tmp_path):
    public, table, *_, model = recorded
    copy = shutil.copytree(public.results / "scores", tmp_path / "scores") / f"{NAME}.csv.gz"
    other = SLM(model.slm.encoder, model.slm.head, model.slm.recipe, model.provenance | {"d_max": 3.0})
    asked = Scores(copy, other)
    assert Scores(copy).provenance == other.provenance  # also where it is asked for nothing but its curves
    asked.score(table[:2])
    assert len(Scores(copy).score(table[:2])) == 2
    with pytest.raises(DreError, match="1 of 1 pairs"):
        Scores(copy).score(table[2:3])


def test_other_profiles_have_models_and_record_nothing(recorded):
    mini = recorded[0].model_copy(update={"name": "mini"})
    both = trained(mini, "mini+mini", "paper", 0, False)
    assert both.provenance["sets"] == {"mini dev": 22} and both.recipe.sep == "none" and not mini.results.exists()
