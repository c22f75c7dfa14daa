"""Training for real, on a tiny encoder: curves, determinism, resume after kill -9, faults of the disk."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import tiny

from dre.data import load, pairs
from dre.errors import DreError
from dre.slm import recipes
from dre.slm.model import SLM
from dre.slm.stages import last_checkpoint
from dre.slm.training import describe, fit

FIT = """
import sys
from dre.data import load
from dre.slm.training import fit
fit(load("mini", "train")[:32], load("mini", "dev")[:2], sys.argv[1], recipe=sys.argv[2], encoder=sys.argv[3], epochs=int(sys.argv[4]), progress=False)
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.encoder(tmp_path_factory.mktemp("tiny"))


def train(out, encoder, seed=0):
    """A tiny random encoder needs a higher rate than a trained one to learn anything in three epochs."""
    recipe = replace(recipes.get("paper", epochs=3), learning_rate=3e-3)
    return fit(load("mini", "train"), load("mini", "dev")[:4], out, recipe, seed, encoder, progress=False)


@pytest.fixture(scope="module")
def trained(encoder, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "slm"
    return out, train(out, encoder)


def test_curves_have_a_point_an_epoch_and_the_classifier_learns(trained):
    curves = pd.DataFrame(trained[1].provenance["curves"])
    assert list(curves["epoch"].unique()) == [0, 1, 2, 3]
    assert set(curves["split"]) == {"train", "dev"}
    before, after = (curves[(curves["epoch"] == e) & (curves["split"] == "train")].iloc[0] for e in (0, 3))
    assert after["classification_loss"] < 0.7 * before["classification_loss"]
    assert 0 <= curves["classification_accuracy"].min() <= curves["classification_accuracy"].max() <= 1


def test_minilm_learns_to_bring_positives_nearer_than_adversarials(tmp_path):
    slm = fit(load("mini", "train")[:24], [], tmp_path / "slm", epochs=2, progress=False)
    before, after = (next(p for p in slm.provenance["curves"] if p["epoch"] == epoch) for epoch in (0, 2))
    assert after["contrastive_loss"] < before["contrastive_loss"] - 0.1
    assert after["triplet_accuracy"] > before["triplet_accuracy"] + 0.1


def test_provenance_says_what_made_the_model(trained):
    about = json.loads((trained[0] / "slm.json").read_text())["provenance"]
    assert {"train_hash", "dev_hash", "seed", "encoder", "fingerprint", "versions", "d_min", "d_max"} <= set(about)
    assert about["contexts"] == {"train": 74, "dev": 4}
    assert about["d_min"] < about["d_max"]


def test_no_work_folder_is_left_and_a_second_call_only_loads(trained, encoder):
    out, slm = trained
    assert not Path(f"{out}.work").exists()
    stamp = (out / "slm.json").stat().st_mtime_ns
    again = train(out, encoder)
    assert (out / "slm.json").stat().st_mtime_ns == stamp
    table = pairs(load("mini", "test")[:3])
    pd.testing.assert_frame_equal(again.score(table), slm.score(table), atol=1e-6)


def test_another_seed_does_not_overwrite(trained, encoder):
    with pytest.raises(DreError, match="holds another model"):
        train(trained[0], encoder, seed=1)


def test_the_same_seed_gives_the_same_model(trained, encoder, tmp_path):
    again = train(tmp_path / "b", encoder)
    assert again.provenance["curves"] == trained[1].provenance["curves"]
    table = pairs(load("mini", "test")[:3])
    pd.testing.assert_frame_equal(again.score(table), trained[1].score(table))


@pytest.mark.parametrize("disentangled", [True, False])
def test_the_released_recipe_runs_its_stages_in_turn(encoder, tmp_path, disentangled):
    slm = fit(load("mini", "train")[:16], [], tmp_path / "slm", "released", 0, encoder, 1, disentangled, progress=False)
    stages = [row["stage"] for row in slm.provenance["curves"]]
    expected = ["contrastive", "disentangle", "classifier"] if disentangled else ["contrastive", "classifier"]
    assert list(dict.fromkeys(stages)) == expected
    losses = {row["stage"]: row["classification_loss"] for row in slm.provenance["curves"] if row["epoch"] == 1}
    assert losses["classifier"] < losses["contrastive"]


def test_a_stage_that_trains_the_head_leaves_the_encoder_alone(encoder, tmp_path):
    stage = recipes.Stage("classifier", ("L_cls",), 1, ("head",))
    recipe = recipes.Recipe("head only", sep="maps", pairs="zip", stages=(stage,))
    slm = fit(load("mini", "train")[:8], [], tmp_path / "slm", recipe, encoder=encoder, progress=False)
    from dre.slm.encoder import load_encoder

    before = load_encoder(encoder).state_dict()
    after = {name: value for name, value in slm.model.state_dict().items() if name in before}
    assert after and all(value.cpu().equal(before[name].cpu()) for name, value in after.items())


def child(out, recipe, encoder, epochs):
    env = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen([sys.executable, "-c", FIT, str(out), recipe, encoder, str(epochs)], env=env)


@pytest.mark.parametrize(("recipe", "at"), [("paper", 2), ("released", 3), ("context", 2)])
def test_a_killed_training_resumes_and_ends_with_the_same_curve(encoder, tmp_path, recipe, at):
    """kill -9 once `at` epochs (over all stages) are checkpointed; then the same call again."""
    epochs = 2 if recipe == "released" else 5
    out = tmp_path / "killed"
    process = child(out, recipe, encoder, epochs)
    finished = set()
    while len(finished) < at and process.poll() is None:
        finished |= set(Path(f"{out}.work").glob("*/checkpoint-*/trainer_state.json"))
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"
    assert not out.exists()
    assert child(out, recipe, encoder, epochs).wait() == 0
    whole = tmp_path / "whole"
    assert child(whole, recipe, encoder, epochs).wait() == 0
    resumed, uninterrupted = SLM.load(out), SLM.load(whole)
    assert resumed.provenance["curves"] == uninterrupted.provenance["curves"]
    table = pairs(load("mini", "test")[:3])
    pd.testing.assert_frame_equal(resumed.score(table), uninterrupted.score(table))


def test_a_checkpoint_cut_short_is_not_resumed_from(tmp_path):
    for step, state in ((10, '{"epoch": 1}'), (20, '{"epo')):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    (tmp_path / "checkpoint-30").mkdir()
    assert last_checkpoint(tmp_path).name == "checkpoint-10"
    assert not (tmp_path / "checkpoint-20").exists()
    assert last_checkpoint(tmp_path / "none") is None


def test_unknown_recipe_and_epochs_are_named(tmp_path):
    with pytest.raises(DreError, match="unknown recipe 'papre': expected one of paper, released, context"):
        fit([], [], tmp_path / "x", recipe="papre")
    with pytest.raises(DreError, match="epochs is 0"):
        recipes.get("paper", epochs=0)


def test_contexts_without_negatives_cannot_be_trained_on(encoder, tmp_path):
    bad = replace(load("mini", "train")[0], adversarials=())
    with pytest.raises(DreError, match="mini-daily-000 has 5 positive and 0 adversarial"):
        fit([bad], [], tmp_path / "x", encoder=encoder)


def test_a_folder_that_cannot_be_written_is_named(encoder, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DreError, match="cannot write the model to"):
        fit(load("mini", "train")[:4], [], tmp_path / "file" / "slm", encoder=encoder, epochs=1, progress=False)


def test_a_full_disk_is_named_and_leaves_no_half_model(encoder, tmp_path):
    """A file-size limit makes the system refuse writes as a full disk does."""
    lines = FIT.strip().splitlines()
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))"
    code = "\n".join([*lines[:-1], limit, lines[-1]])
    env = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    out = tmp_path / "slm"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out), "paper", encoder, "1"], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "DreError: cannot write the model to" in done.stderr
    assert not out.exists()


def test_models_that_read_the_beginning_of_long_contexts_are_not_taken_for_ours():
    contexts = load("mini", "train")[:3]
    for name, expected in (("paper", "end kept"), ("released", "end kept"), ("context", None)):
        assert describe(contexts, [], recipes.get(name), 0, "minilm").get("long_contexts") == expected
