"""The small models of a profile: recorded scores answer as the model does, and for no other."""

import contextlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import tiny
from conftest import needs_data

from dre import metrics
from dre.datasets import overlap, ratings, readers
from dre.datasets.dialogues import load, pairs, parallel
from dre.errors import DreError
from dre.paper import pcaf, trainings
from dre.paper.profile import Model, Profile, profile
from dre.paper.trainings import (
    _CHOOSING,
    _recipe,
    arrays,
    folder,
    hash_of_texts,
    learned_from,
    load_or_train,
    made_of,
    package_model,
    reference_based,
    seeds,
    trained,
    untrained,
)
from dre.slm import SLM, provenance, recipes
from dre.slm.remembered import Recording, Remembered, recorded_models

NAME = "mini-paper-seed0"
ARRAYS = {"h": np.eye(3, dtype="float32"), "kind": np.array([*"cpa"])}


class Retraining(NamedTuple):
    """A retraining of profile `public`: what it scored, and what its models answered."""

    public: Profile
    table: pd.DataFrame
    #: Answers for the first 30 rows of the table, and for those from the 20th on.
    first_scores: pd.DataFrame
    last_scores: pd.DataFrame
    #: Answers of the encoder as it was before the training, for all rows.
    encoder_distances: pd.DataFrame
    recorder: Remembered
    slm: SLM


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Profile `public` in a temporary folder, with a tiny encoder, after a retraining."""
    folder = tmp_path_factory.mktemp("project")
    entry = profile("mini").sets[0]
    entry = entry.model_copy(update={"train": ("mini", "dev"), "dev_share": 0.2})
    settings = {
        "name": "public",
        "root": folder,
        "encoder": tiny.encoder(folder),
        "models": {name: Model(recipe=name, epochs=1) for name in ("paper", "released", "ours")},
        "sets": (entry,),
    }
    public = profile("mini").model_copy(update=settings)
    table = pairs(load("mini", "test")[:4], "par")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRAIN", f"{NAME},encoder-untrained,figure")
        recorder = trained(public, "mini", "paper", 0)
        first_scores = recorder.score(table[:30])
        last_scores = recorder.score(table[20:])
        encoder_distances = untrained(public).distances(table)
        slm = load_or_train(public, "mini", "paper", 0)
        recipe = recorder.provenance["recipe"]
        assert arrays(public, "figure", recipe, lambda: ARRAYS) is ARRAYS
    return Retraining(public, table, first_scores, last_scores, encoder_distances, recorder, slm)


def recorded_by(folder, slm):
    """Return a model whose scores are recorded in a folder as it gives them."""
    return Remembered(Recording(NAME, folder, slm.provenance), slm.provenance, lambda: slm)


def model_folder(public):
    """Return the one folder in which the retraining saved its model."""
    (folder,) = (public.build / "models").glob(f"{NAME}-????????????")
    return folder


def stop():
    """Stand for the computation of recorded arrays, where they must not be computed."""
    raise ZeroDivisionError


def test_a_replay_gives_to_the_last_digit_what_the_retraining_gave(recording):
    table = recording.table

    scores = trained(recording.public, "mini", "paper", 0)

    assert scores.model is None
    assert scores.memory.model == NAME
    assert scores.provenance == recording.recorder.provenance
    replayed_first = scores.score(table[:30])
    replayed_last = scores.score(table[20:])
    replayed_distances = untrained(recording.public).distances(table)
    assert_same_digits = pd.testing.assert_frame_equal
    assert_same_digits(replayed_first, recording.first_scores, check_exact=True)
    assert_same_digits(replayed_last, recording.last_scores, check_exact=True)
    assert_same_digits(replayed_distances, recording.encoder_distances, check_exact=True)


def test_a_replay_gives_what_the_models_give_but_for_rounding(recording):
    table = recording.table
    model = SLM.load(model_folder(recording.public))
    encoder = SLM.untrained(recording.public.encoder)

    replayed_scores = trained(recording.public, "mini", "paper", 0).score(table)

    pd.testing.assert_frame_equal(replayed_scores, model.score(table), rtol=1e-4, atol=1e-4)
    distances = encoder.distances(table)[["pair_id", "distance"]]
    pd.testing.assert_frame_equal(recording.encoder_distances, distances, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [None, stop])
def test_recorded_arrays_are_not_computed_again(recording, make):
    recipe = recording.recorder.provenance["recipe"]
    replayed_arrays = arrays(recording.public, "figure", recipe, make)
    assert replayed_arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(replayed_arrays[name], array)


def test_recorded_arrays_know_what_they_are_computed_from(recording):
    changed_recipe = recording.recorder.provenance["recipe"] | {"margin": 0.4}
    fault = "recorded figure is missing, or of other models .*RETRAIN=figure"
    with pytest.raises(DreError, match=fault):
        arrays(recording.public, "figure", changed_recipe, stop)


def test_scores_of_the_packages_model_are_recorded_and_then_read(recording, tmp_path, monkeypatch):
    public = recording.public.model_copy(update={"root": tmp_path})
    table = recording.table[:2]
    with pytest.raises(DreError, match="package are missing: RETRAIN=package"):
        package_model(public)
    monkeypatch.setenv("RETRAIN", "package")
    recorded = package_model(public).score(table)
    expected = SLM.load(provenance.DEFAULT).score(table)["score_slm"]
    assert recorded["score_slm"].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    monkeypatch.delenv("RETRAIN")

    assert_same = pd.testing.assert_frame_equal
    assert_same(package_model(public).score(table), recorded, check_exact=True)
    with pytest.raises(DreError, match="1 of 3 pairs .* package with these texts: RETRAIN=package"):
        package_model(public).score(recording.table[:3])
    other_model = provenance.of_package() | {"train_hash": "another"}
    monkeypatch.setattr(provenance, "of_package", lambda: other_model)
    with pytest.raises(DreError, match="of another model, with other train_hash: RETRAIN=package"):
        package_model(public)


def test_arrays_that_were_never_recorded_are_missing(recording):
    with pytest.raises(DreError, match="recorded another is missing, .*its script"):
        arrays(recording.public, "another", {})


def test_pairs_without_a_recorded_score_are_counted_and_the_retraining_is_named(recording):
    scores = trained(recording.public, "mini", "paper", 0)
    unknown_pairs = pairs(load("mini", "train")[:1])
    with pytest.raises(
        DreError, match=rf"10 of 10 pairs .*{NAME} with these texts: RETRAIN={NAME}"
    ):
        scores.score(unknown_pairs)


@pytest.mark.parametrize("changed", [{"response": "Not now."}, {"context": ("Is it late?",)}])
def test_a_changed_text_under_a_recorded_id_is_refused_and_by_a_retraining_scored_anew(
    recording, tmp_path, changed
):
    table = recording.table[:3].copy()
    pair_id = table["pair_id"].iloc[1]
    for column, text in changed.items():
        table.at[table.index[1], column] = text

    fault = rf"1 of 3 pairs \(such as {pair_id}\) have no score of {NAME} with these texts"
    with pytest.raises(DreError, match=f"{fault}: RETRAIN={NAME}"):
        trained(recording.public, "mini", "paper", 0).score(table)

    scores_folder = shutil.copytree(folder(recording.public), tmp_path / "scores")
    model = SLM.load(model_folder(recording.public))
    scores = recorded_by(scores_folder, model).score(table)
    assert scores["s_p"].tolist() == pytest.approx(model.score(table)["s_p"].tolist(), rel=1e-4)
    assert scores["s_p"].iloc[0] == recording.first_scores["s_p"].iloc[0]
    # Words count, not the spaces between them; and the old text is remembered, too.
    spaced = table.assign(response=" " + table["response"].str.replace(" ", "  "))
    recorded = Remembered.recorded(NAME, scores_folder)
    pd.testing.assert_frame_equal(recorded.score(spaced), scores)
    first = recording.first_scores[:3].reset_index(drop=True)
    pd.testing.assert_frame_equal(recorded.score(recording.table[:3]), first)


def test_a_model_without_recorded_scores_is_named_with_its_retraining(recording):
    fault = "mini-released-seed0 are missing: RETRAIN=mini-released-seed0"
    with pytest.raises(DreError, match=fault):
        trained(recording.public, "mini", "released", 0)


@contextlib.contextmanager
def changed_provenance(public, changes):
    """Let the recording say something else of what made the model."""
    file = folder(public) / "models.json"
    recorded_text = file.read_text()
    models = json.loads(recorded_text)
    models[NAME] |= changes
    file.write_text(json.dumps(models))
    try:
        yield
    finally:
        file.write_text(recorded_text)


def test_scores_of_another_model_are_refused_and_what_differs_is_named(recording, monkeypatch):
    public = recording.public
    for key in ("train_hash", "recipe", "seed", "encoder", "training"):
        fault = f"those of another model, with other {key}: RETRAIN={NAME}"
        with changed_provenance(public, {key: "another"}), pytest.raises(DreError, match=fault):
            trained(public, "mini", "paper", 0)

    larger_dev_set = public.sets[0].model_copy(update={"dev_share": 0.4})
    with pytest.raises(DreError, match="with other train_hash, dev_hash"):
        trained(public.model_copy(update={"sets": (larger_dev_set,)}), "mini", "paper", 0)

    monkeypatch.setattr(provenance, "TRAINING", provenance.TRAINING + 1)
    with pytest.raises(DreError, match="with other training"):
        trained(public, "mini", "paper", 0)


@pytest.mark.parametrize("path", _CHOOSING, ids=lambda path: path.stem)
def test_hashes_of_a_training_are_computed_again_when_code_that_chooses_contexts_changes(
    recording, tmp_path, monkeypatch, path
):
    public = recording.public
    of_this_code = made_of(public, "mini", "paper", 0)
    changed_file = tmp_path / "changed.py"
    changed_file.write_text(path.read_text() + "# changed\n")
    files = [changed_file if file == path else file for file in _CHOOSING]
    monkeypatch.setattr(trainings, "_CHOOSING", files)
    changed_hashes = {"train_hash": "changed", "dev_hash": "changed"}
    monkeypatch.setattr(provenance, "hashes", lambda *sets: changed_hashes)

    of_changed_code = made_of(public, "mini", "paper", 0)

    assert of_changed_code == of_this_code | changed_hashes


def test_the_code_that_chooses_contexts_holds_the_filter_of_leaks_and_the_readers():
    assert {Path(overlap.__file__), Path(readers.__file__)} <= {*_CHOOSING}


def test_what_depends_on_the_machine_does_not_make_another_model(recording):
    elsewhere = {"bf16": None, "versions": {}, "fingerprint": "0" * 64}
    with changed_provenance(recording.public, elsewhere):
        assert trained(recording.public, "mini", "paper", 0).provenance["versions"] == {}


def test_scores_are_recorded_with_seven_digits(tmp_path):
    """Of an encoder that is not trained: its distances alone, so nothing has to be trained here."""
    table = pairs(load("mini", "test")[:1])
    distances = table[["pair_id"]].assign(distance=0.123456789)
    slm = SimpleNamespace(provenance={}, distances=lambda pairs: distances)

    recorded_now = recorded_by(tmp_path, slm).distances(table)
    recorded_before = Remembered.recorded(NAME, tmp_path).distances(table)

    assert set(recorded_now["distance"]) == set(recorded_before["distance"]) == {0.1234568}


def test_models_that_are_recorded_at_once_do_not_lose_each_others_scores(recording, tmp_path):
    slm = recording.slm
    first = Recording("first", tmp_path, slm.provenance)
    second = Recording("second", tmp_path, slm.provenance)
    scores = slm.score(recording.table)
    second.put(recording.table, scores)
    first.put(recording.table[:5], scores[:5])
    for name, n in {"first": 5, "second": len(recording.table)}.items():
        assert len(Remembered.recorded(name, tmp_path).score(recording.table[:n])) == n
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == [
        "models.json",
        "scores.parquet",
    ]


@needs_data
def test_recorded_reference_metrics_are_accepted_until_the_metrics_or_the_texts_change(monkeypatch):
    public = profile("public")
    names = ("dailydialog-zhao", "personachat-usr", "topicalchat-usr")
    items = {name: ratings.rated(name) for name in names}

    scores = reference_based(public, items)

    assert scores.keys() == items.keys()
    assert list(scores["topicalchat-usr"].columns) == metrics.COLUMNS
    fault = "recorded reference-metrics is missing, or of other models or texts"
    for column in ("response", "reference"):
        changed = items["personachat-usr"].copy()
        changed.loc[0, column] = "Another reply."
        with pytest.raises(DreError, match=fault):
            reference_based(public, items | {"personachat-usr": changed})
    monkeypatch.setattr(metrics, "VERSION", metrics.VERSION + 1)
    with pytest.raises(DreError, match=fault):
        reference_based(public, items)


@pytest.mark.parametrize("retrain", ["", "0", "mini-paper-seed1", "released,mini-paper"])
def test_a_model_that_retrain_does_not_name_is_replayed(recording, monkeypatch, retrain):
    monkeypatch.setenv("RETRAIN", retrain)
    assert trained(recording.public, "mini", "paper", 0).model is None


@pytest.mark.parametrize("retrain", ["1", "paper", f"released,{NAME}"])
def test_a_model_that_retrain_names_is_trained_and_recorded(recording, monkeypatch, retrain):
    monkeypatch.setenv("RETRAIN", retrain)
    assert trained(recording.public, "mini", "paper", 0).model is not None


def test_a_retraining_does_not_mix_its_scores_with_those_of_another(recording, tmp_path):
    table = recording.table
    slm = recording.slm
    scores_folder = shutil.copytree(folder(recording.public), tmp_path / "scores")
    changed_provenance = recording.recorder.provenance | {"d_max": 3.0}
    retrained = SLM(slm.encoder, slm.head, slm.recipe, changed_provenance)

    recorder = recorded_by(scores_folder, retrained)

    # Its provenance is there even if it is asked for nothing but its training curves.
    assert Remembered.recorded(NAME, scores_folder).provenance == changed_provenance
    recorder.score(table[:2])
    assert len(Remembered.recorded(NAME, scores_folder).score(table[:2])) == 2
    with pytest.raises(DreError, match="1 of 1 pairs"):
        Remembered.recorded(NAME, scores_folder).score(table[2:3])


def file_contents(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_who_needs_the_model_itself_leaves_the_recording_alone(recording, monkeypatch):
    """As the experiments do, on another machine, where a training ends with another range."""
    public = recording.public
    before = file_contents(folder(public))
    model_file = model_folder(public) / "slm.json"
    model_text = model_file.read_text()
    monkeypatch.setenv("RETRAIN", "1")

    model_file.write_text(model_text.replace('"d_max": ', '"d_max": 1'))
    scores = load_or_train(public, "mini", "paper", 0).score(recording.table)
    model_file.write_text(model_text)

    assert scores["s_d"].max() < 0.2
    assert file_contents(folder(public)) == before


def test_other_profiles_have_models_and_record_nothing(recording, monkeypatch):
    """Profile `full` as its notebooks ask, with a tiny encoder on the embedded corpus."""
    settings = {"name": "full", "recipes": ("paper",), "seeds": (0, 1)}
    full = recording.public.model_copy(update=settings)
    table = recording.table
    monkeypatch.setenv("RETRAIN", "1")  # of nothing that is recorded

    # A model without its disentangling head.
    assert trained(full, "mini", "paper", 0, False).recipe.sep == "none"

    assert seeds(full, "mini", "paper") == [0, 1]
    assert isinstance(trained(full, "mini", "paper", 0), SLM)
    packaged = trained(full, "mini", "ours", 0)
    assert packaged.provenance["name"].startswith("default")
    assert len(untrained(full).distances(table)) == len(table)
    assert arrays(full, "figure", {}, lambda: ARRAYS) is ARRAYS
    assert not full.results.exists()


def test_the_committed_scores_of_the_parallel_corpus_are_those_of_the_training_as_it_is():
    versions = [pairs(contexts) for contexts in parallel("test").values()]
    texts = {"texts": hash_of_texts(pd.concat(versions))}
    recorded_arrays = arrays(profile("public"), "pcaf-parallel", pcaf.PARALLEL | texts)
    assert recorded_arrays.keys() == pcaf.PARALLEL.keys() - {"training"}


TRAININGS = [name for name in recorded_models() if "-seed" in name and "-all-" not in name]


@pytest.mark.parametrize("model_name", TRAININGS)
def test_committed_scores_are_of_the_recipes_as_they_are(model_name):
    public = profile("public")
    stem, _, seed = model_name.rpartition("-seed")
    key, _, name = stem.partition("-")
    model = public.models[name.removesuffix("-plain")]
    is_disentangled = not stem.endswith("plain")
    recipe = recipes.get(model.recipe, model.epochs, is_disentangled)
    recipe = recipes.replace(recipe, keep=model.keep)
    recorded = Remembered.recorded(model_name).provenance

    expected = provenance.decisive({}, recipe, int(seed), "minilm")

    assert {key: recorded[key] for key in expected} == expected


@needs_data
@pytest.mark.parametrize(
    ("key", "recipe"),
    [
        ("dailydialog", "paper"),
        ("personachat", "paper"),
        ("topicalchat", "paper"),
        ("all", "ours"),
    ],
)
def test_committed_scores_are_of_the_data_as_they_are(key, recipe):
    public = profile("public")
    recorded = Remembered.recorded(f"{key}-{recipe}-seed0").provenance

    sets = learned_from(public, key, _recipe(public, recipe, True))
    hashes = provenance.hashes(*sets)

    assert {field: recorded[field] for field in hashes} == hashes


@pytest.mark.parametrize("key", ["dailydialog", "personachat", "topicalchat"])
def test_every_recorded_training_of_the_papers_recipe_has_its_twin_without_disentangling(key):
    public = profile("public")
    for seed in public.seeds:
        disentangled = Remembered.recorded(f"{key}-paper-seed{seed}").provenance
        twin = Remembered.recorded(f"{key}-paper-plain-seed{seed}").provenance

        assert (disentangled["recipe"]["sep"], twin["recipe"]["sep"]) == ("maps", "none")
        for field in ("train_hash", "dev_hash", "seed", "encoder"):
            assert disentangled[field] == twin[field], field


def test_a_row_says_how_the_models_of_a_label_were_trained():
    recorded = recorded_models()
    seeds_of_paper = [recorded[f"dailydialog-paper-seed{k}"] for k in (0, 1, 2)]
    table = trainings.training_table(
        {"paper": seeds_of_paper, "ours": [recorded["all-ours-seed0"]]}
    )
    paper, ours = table.to_dict("records")
    assert (paper["contexts"], paper["seeds"], paper["epochs"]) == ("831", 3, "joint 5")
    assert (paper["epoch kept"], ours["epoch kept"]) == ("best", "last")
    assert (ours["rate of the encoder"], ours["rate of the head"]) == (0.0005, 0.01)
