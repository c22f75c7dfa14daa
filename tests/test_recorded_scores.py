"""Recorded SLM scores: they answer as the model does, and never for another model."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny
from conftest import needs_data

from dre import metrics
from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.paper import state
from dre.paper.profile import Model, profile, root
from dre.slm import (
    SLM,
    arrays,
    load_or_train,
    pcaf,
    recipes,
    reference_based,
    seeds,
    trained,
    untrained,
)
from dre.slm import provenance as data
from dre.slm.recorded_scores import Recorder, Scores, _split

NAME = "mini-paper-seed0"
ARRAYS = {"h": np.eye(3, dtype="float32"), "kind": np.array([*"cpa"])}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Profile `public` in a folder of its own, with a tiny encoder, and what the models of a retraining answered."""
    folder = tmp_path_factory.mktemp("project")
    entry = profile("mini").sets[0].model_copy(update={"train": ("mini", "dev"), "dev_share": 0.2})
    own = {
        "name": "public",
        "root": folder,
        "encoder": tiny.encoder(folder),
        "models": {name: Model(recipe=name, epochs=1) for name in ("paper", "released", "graded")},
    }
    public = profile("mini").model_copy(update=own | {"sets": (entry,)})
    table = pairs(load("mini", "test")[:4], "par")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRAIN", f"{NAME},encoder-untrained,figure")
        model = trained(public, "mini", "paper", 0)
        parts = [
            model.score(table[:30]),
            model.score(table[20:]),
            untrained(public).distances(table),
        ]
        assert arrays(public, "figure", model.provenance["recipe"], lambda: ARRAYS) is ARRAYS
    return public, table, parts, model


def test_a_replay_gives_to_the_last_digit_what_the_retraining_gave(recorded):
    public, table, (first, second, cosines), model = recorded
    scores = trained(public, "mini", "paper", 0)
    assert type(scores) is Scores and scores.name == NAME and scores.provenance == model.provenance
    pd.testing.assert_frame_equal(scores.score(table[:30]), first, check_exact=True)
    pd.testing.assert_frame_equal(scores.score(table[20:]), second, check_exact=True)
    pd.testing.assert_frame_equal(untrained(public).distances(table), cosines, check_exact=True)
    (folder,) = (public.build / "models").glob(f"{NAME}-????????????")
    pd.testing.assert_frame_equal(
        scores.score(table), SLM.load(folder).score(table), rtol=1e-4, atol=1e-4
    )
    encoder = SLM.untrained(public.encoder).distances(table)[["pair_id", "distance"]]
    pd.testing.assert_frame_equal(cosines, encoder, rtol=1e-4, atol=1e-4)


def test_recorded_arrays_know_what_they_are_made_of(recorded):
    public, *_, model = recorded
    for make in (None, lambda: 1 / 0):
        found = arrays(public, "figure", model.provenance["recipe"], make)
        assert found.keys() == ARRAYS.keys() and all(
            np.array_equal(found[name], ARRAYS[name]) for name in found
        )
    with pytest.raises(
        DreError, match="recorded figure is missing or of other models .*RETRAIN=figure"
    ):
        arrays(public, "figure", model.provenance["recipe"] | {"margin": 0.4}, lambda: 1 / 0)
    with pytest.raises(DreError, match="recorded another is missing .*its script"):
        arrays(public, "another", {})


def test_unknown_pairs_and_scores_of_another_model_are_named_with_what_to_do(recorded, monkeypatch):
    public, *_ = recorded
    with pytest.raises(DreError, match=rf"10 of 10 pairs .*{NAME}: RETRAIN={NAME}"):
        trained(public, "mini", "paper", 0).score(pairs(load("mini", "train")[:1]))
    with pytest.raises(
        DreError, match="mini-released-seed0 are missing: RETRAIN=mini-released-seed0"
    ):
        trained(public, "mini", "released", 0)
    file = public.results / "scores" / f"{NAME}.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps(about | {"bf16": None, "versions": {}, "fingerprint": "0" * 64}))
    assert (
        trained(public, "mini", "paper", 0).provenance["versions"] == {}
    )  # what the machine decides is not asked
    for key in ("train_hash", "recipe", "seed", "encoder", "training"):
        file.write_text(json.dumps(about | {key: "another"}))
        with pytest.raises(
            DreError, match=f"those of another model, with other {key}: RETRAIN={NAME}"
        ):
            trained(public, "mini", "paper", 0)
    file.write_text(json.dumps(about))
    more = public.sets[0].model_copy(update={"dev_share": 0.4})
    with pytest.raises(DreError, match="with other train_hash, dev_hash"):
        trained(public.model_copy(update={"sets": (more,)}), "mini", "paper", 0)
    monkeypatch.setattr(data, "TRAINING", data.TRAINING + 1)
    with pytest.raises(DreError, match="with other training"):
        trained(public, "mini", "paper", 0)


def test_scores_are_recorded_with_five_digits(tmp_path):
    """Of an encoder that is not trained: its distances alone, so nothing has to be trained here."""
    table = pairs(load("mini", "test")[:1])
    distances = table[["pair_id"]].assign(distance=0.123456789)
    slm = SimpleNamespace(provenance={}, distances=lambda pairs: distances)
    recorded_now = Recorder(tmp_path / "encoder.csv.gz", slm).distances(table)
    recorded_before = Scores(tmp_path / "encoder.csv.gz").distances(table)
    assert set(recorded_now["distance"]) == {0.12346} == set(recorded_before["distance"])


def test_recorded_reference_metrics_are_accepted_until_the_metrics_change(monkeypatch):
    """No data are needed: what is asked for is checked by the names of the rated sets."""
    public = profile("public")
    items = dict.fromkeys(("dailydialog-zhao", "personachat-usr", "topicalchat-usr"))
    scores = reference_based(public, items)
    assert scores.keys() == items.keys()
    assert list(scores["topicalchat-usr"].columns) == metrics.COLUMNS
    monkeypatch.setattr(metrics, "VERSION", metrics.VERSION + 1)
    with pytest.raises(DreError, match="recorded reference-metrics is missing or of other models"):
        reference_based(public, items)


LOAD_THE_MODEL = """
import sys
from pathlib import Path
from dre.paper import state

project = Path(sys.argv[1])
state.watch(project / "state", project)
from dre.slm import SLM
SLM.load(project / "model")
"""


def test_the_weights_of_a_model_are_among_what_a_notebook_has_read(tmp_path):
    """So a notebook that loads it is stale after they change. A process of its own: nothing can unwatch this one."""
    shutil.copytree(data.DEFAULT, tmp_path / "model")
    environment = os.environ | {"PYTHONPATH": str(root())}
    subprocess.run(
        [sys.executable, "-c", LOAD_THE_MODEL, str(tmp_path)], check=True, env=environment
    )
    read = state.load(tmp_path / "state")["read"]
    weights = sorted((tmp_path / "model").rglob("*.safetensors"))
    assert weights
    for path in weights:
        assert read[path.relative_to(tmp_path).as_posix()] == state.digest(path)
        path.write_bytes(path.read_bytes()[:-4] + b"\x00\x01\x02\x03")
        assert read[path.relative_to(tmp_path).as_posix()] != state.digest(path)


def test_retrain_trains_what_it_names_and_nothing_else(recorded, monkeypatch):
    public, *_ = recorded
    for other in ("", "0", "mini-paper-seed1", "released,mini-paper"):
        monkeypatch.setenv("RETRAIN", other)
        assert type(trained(public, "mini", "paper", 0)) is Scores
    for own in ("1", "paper", f"released,{NAME}"):
        monkeypatch.setenv("RETRAIN", own)
        assert type(trained(public, "mini", "paper", 0)) is Recorder


def test_a_retraining_does_not_mix_its_scores_with_those_of_another(recorded, tmp_path):
    public, table, *_, model = recorded
    copy = shutil.copytree(public.results / "scores", tmp_path / "scores") / f"{NAME}.csv.gz"
    other = SLM(
        model.slm.encoder, model.slm.head, model.slm.recipe, model.provenance | {"d_max": 3.0}
    )
    asked = Recorder(copy, other)
    assert (
        Scores(copy).provenance == other.provenance
    )  # also where it is asked for nothing but its curves
    asked.score(table[:2])
    assert len(Scores(copy).score(table[:2])) == 2
    with pytest.raises(DreError, match="1 of 1 pairs"):
        Scores(copy).score(table[2:3])


def test_who_needs_the_model_itself_leaves_the_recording_alone(recorded, monkeypatch):
    """As the experiments do, on another machine, where a training ends with another range."""
    public, table, *_ = recorded
    before = {path.name: path.read_bytes() for path in (public.results / "scores").iterdir()}
    (folder,) = (public.build / "models").glob(f"{NAME}-????????????")
    about = (folder / "slm.json").read_text()
    (folder / "slm.json").write_text(about.replace('"d_max": ', '"d_max": 1'))
    monkeypatch.setenv("RETRAIN", "1")
    assert load_or_train(public, "mini", "paper", 0).score(table)["s_d"].max() < 0.2
    (folder / "slm.json").write_text(about)
    assert before == {
        path.name: path.read_bytes() for path in (public.results / "scores").iterdir()
    }


def test_other_profiles_have_models_and_record_nothing(recorded, monkeypatch):
    """Profile `full` as its notebooks ask, with a tiny encoder on the embedded corpus."""
    own = {"name": "full", "recipes": ("paper",), "seeds": (0, 1)}
    other = recorded[0].model_copy(update=own)
    monkeypatch.setenv("RETRAIN", "1")  # of nothing that is recorded
    both = trained(other, "mini+mini", "paper", 0, False)
    assert both.provenance["sets"] == {"mini dev": 22} and both.recipe.sep == "none"
    assert seeds(other, "mini", "paper") == [0, 1] and isinstance(
        trained(other, "mini", "paper", 0), SLM
    )
    assert trained(other, "mini", "graded", 0).provenance["name"].startswith("default")
    assert len(untrained(other).distances(recorded[1])) == len(recorded[1])
    assert arrays(other, "figure", {}, lambda: ARRAYS) is ARRAYS
    assert arrays(
        profile("public"), "pcaf-parallel", pcaf.PARALLEL
    ).keys() == pcaf.PARALLEL.keys() - {"training", "of"}
    assert not other.results.exists()


FILES = sorted((root() / "results" / "public" / "scores").glob("*-seed?.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_committed_scores_are_of_the_recipes_as_they_are(file):
    public, (model, _, seed) = profile("public"), file.stem.rpartition("-seed")
    key, _, name = model.partition("-")
    if key == "pcaf":
        assert len(pcaf.recorded(file.parent, name, int(seed))[0]) == 1575
        return
    name = name.removesuffix("-plain")
    made = public.models[name]
    recipe = recipes.replace(
        recipes.get(made.recipe, made.epochs, not model.endswith("plain")), keep=made.keep
    )
    asked = data.decisive({}, recipe, int(seed), "minilm")
    assert {part: Scores(file.with_suffix(".csv.gz")).provenance[part] for part in asked} == asked


@needs_data
def test_committed_scores_are_of_the_data_as_they_are():
    public = profile("public")
    made = (
        ("dailydialog", "graded-2026-11"),
        ("personachat", "paper"),
        ("topicalchat", "paper"),
        ("all", "ours"),
    )
    for key, recipe in made:
        train, dev = _split(public, key, version := public.models[recipe].data)
        extra = data.extra(public, dev, version) if recipe in ("graded-2026-11", "ours") else None
        found = data.hashes(train, dev, extra)
        about = Scores(public.results / "scores" / f"{key}-{recipe}-seed0.csv.gz").provenance
        assert {part: about[part] for part in found} == found
