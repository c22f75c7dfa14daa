"""Damaged models and checkpoints are one sentence, and what is not a number is no score."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_score import saved_slm
from test_train import DEV, TRAIN, extra, few_contexts

from dre import DRE
from dre.commands.main import main
from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.slm import SLM, fit, recipes, train
from dre.slm.ours import FILE

CONTEXTS = [["Do you like tea?"], ["Was the train late?", "It was."]]
RESPONSES = ["Yes, with milk.", "No, it was not."]


@pytest.fixture(scope="module")
def ours(encoder, tmp_path_factory):
    """The folder of a model of recipe ours, and its scores."""
    folder = tmp_path_factory.mktemp("whole") / "slm"
    fit(TRAIN[:8], DEV, folder, "ours", 0, encoder, False, extra())
    return folder


@pytest.fixture
def folder(ours, tmp_path):
    """A copy of that folder, to be damaged."""
    return shutil.copytree(ours, tmp_path / "slm")


def describe(folder, change):
    """Change the description of a model."""
    path = folder / "slm.json"
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


def without_hashes(description):
    """Make the description one that was written without hashes of weights."""
    del description["sha256"]


def rewrite(folder, change):
    """Change the weights of a model as somebody would who does not know of hashes."""
    state = load_file(folder / FILE)
    change(state)
    save_file(state, folder / FILE)
    describe(folder, without_hashes)


def set_number(name, value):
    return lambda folder: describe(folder, lambda d: d["provenance"].update({name: value}))


def flip_bytes(folder):
    weights = bytearray((folder / FILE).read_bytes())
    weights[-2000:] = bytes(byte ^ 0xFF for byte in weights[-2000:])
    (folder / FILE).write_bytes(weights)


def make_scalar(state):
    state["0.up"] = torch.ones(1, 1).half()


def make_infinite(state):
    state["3.down"][0, 0] = torch.inf


DAMAGES = {
    "flipped bytes": (flip_bytes, f"{FILE} has sha256 .*expected"),
    "no bytes": (lambda folder: (folder / FILE).write_bytes(b""), "sha256"),
    "no file": (lambda folder: (folder / FILE).unlink(), FILE),
    "one number for all": (
        lambda folder: rewrite(folder, make_scalar),
        r"0.up has shape \(1, 1\): expected \(32, 32\)",
    ),
    "infinite weights": (
        lambda folder: rewrite(folder, make_infinite),
        "3.down are not all finite",
    ),
    "missing weights": (
        lambda folder: rewrite(folder, lambda state: state.pop("1.up")),
        "lacks or has too many weights: 1.up",
    ),
    "more weights": (
        lambda folder: rewrite(folder, lambda state: state.update(more=torch.ones(2))),
        "lacks or has too many weights: more",
    ),
    "another format": (
        lambda folder: describe(folder, lambda d: d.update(format=999)),
        "format 999: this version of dre reads format 1",
    ),
    "an empty range": (
        lambda folder: describe(
            folder, lambda d: d["provenance"].update(d_max=d["provenance"]["d_min"])
        ),
        "expected d_max above d_min",
    ),
    "no end of the range": (
        lambda folder: describe(folder, lambda d: d["provenance"].pop("d_max")),
        "expected d_max above d_min",
    ),
    "a range in words": (set_number("d_max", "0.9"), "'0.9' as d_max: expected a finite number"),
    "an infinite range": (set_number("d_min", -np.inf), "-inf as d_min: expected a finite number"),
    "a threshold in words": (
        set_number("threshold", "high"),
        "'high' as threshold: expected a finite number",
    ),
    "no scales": (
        lambda folder: describe(folder, lambda d: d["provenance"].pop("scales")),
        "scales of nothing: expected fit, quality",
    ),
    "scales without an answer": (
        set_number("scales", {"fit": [0.1, 0.2]}),
        "scales of fit: expected fit, quality",
    ),
    "half a scale": (
        set_number("scales", {"fit": [0.1], "quality": [0.1, 0.2]}),
        r"scales of fit \[0.1\]: expected a mean and a unit",
    ),
    "a scale of width 0": (
        set_number("scales", {"fit": [0.1, 0], "quality": [0.1, 0.2]}),
        "0 as the unit of fit",
    ),
    "a list of scales": (set_number("scales", [1, 2]), "expected a mean and a unit by answer"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_one_sentence_and_gives_no_score(folder, damage, capsys):
    do_damage, message = DAMAGES[damage]
    do_damage(folder)
    records = [{"context": c, "response": r} for c, r in zip(CONTEXTS, RESPONSES)]
    table = folder.with_name("in.jsonl")
    table.write_text("".join(json.dumps(record) + "\n" for record in records))
    scores = folder.with_name("out.csv")

    assert main(["score", str(table), "--slm", str(folder), "-o", str(scores)]) == 2

    error = capsys.readouterr().err
    assert re.search(rf"{re.escape(str(folder))} is not an SLM.*damaged \(.*{message}", error)
    assert error.count("\n") == 1
    assert not scores.exists()


def test_a_whole_model_that_was_saved_without_hashes_is_read(ours, folder):
    table = pairs(load("mini", "test")[:2])
    expected = SLM.load(ours).score(table)
    describe(folder, without_hashes)
    pd.testing.assert_frame_equal(SLM.load(folder).score(table), expected)


@pytest.mark.parametrize("name", ["head.safetensors", "model.safetensors"])
def test_weights_of_the_papers_recipe_are_checked_too(tmp_path, name):
    folder = saved_slm(tmp_path)
    state = load_file(folder / name)
    first = next(key for key in sorted(state) if state[key].is_floating_point())
    state[first].view(-1)[0] = torch.nan
    save_file(state, folder / name, {"format": "pt"})
    with pytest.raises(DreError, match=rf"{name} has sha256"):
        SLM.load(folder)
    describe(folder, without_hashes)
    with pytest.raises(DreError, match="not all finite numbers"):
        SLM.load(folder)


def test_a_score_that_is_not_finite_is_never_ok(tmp_path):
    """Weights may be finite, and so large that what they give is not."""
    folder = saved_slm(tmp_path, threshold=0.5)
    state = load_file(folder / "head.safetensors")
    state["robust.weight"].fill_(3e38)
    save_file(state, folder / "head.safetensors")
    describe(folder, without_hashes)
    metric = DRE.load(slm=folder)

    table = metric.score(CONTEXTS, RESPONSES)

    assert set(table["status"]) == {"error"}
    assert table["reason"].str.contains("not a finite number").all()
    assert (
        table[["score", "score_slm", "distance", "scaled_distance", "fits"]].isna().all(axis=None)
    )


def test_a_judge_is_not_asked_about_a_pair_without_a_finite_score(tmp_path):
    folder = saved_slm(tmp_path)
    state = load_file(folder / "head.safetensors")
    state["robust.weight"].fill_(3e38)
    save_file(state, folder / "head.safetensors")
    describe(folder, without_hashes)
    asked = []

    def judge(context, response):
        asked.append(response)
        return 3.0

    table = DRE.load(slm=folder, judge=judge, method="product").score(CONTEXTS, RESPONSES)

    assert not asked
    assert set(table["status"]) == {"error"}
    assert table["score"].isna().all()


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3000])


def fill_with_noise(path):
    path.write_bytes(np.random.default_rng(0).bytes(20_000))


def flip_in_the_middle(path):
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = bytes(byte ^ 0xFF for byte in content[middle:][:2000])
    path.write_bytes(content)


def forget_the_state(path):
    content = torch.load(path, weights_only=True)
    content["state"]["unknown"] = content["state"].pop("curves")
    torch.save(content, path)


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "damage", [truncate, fill_with_noise, flip_in_the_middle, forget_the_state]
)
def test_a_damaged_checkpoint_is_a_sentence_that_says_what_to_delete(
    encoder, tmp_path, capsys, monkeypatch, damage
):
    out = tmp_path / "slm"
    command = ["train", "--train", few_contexts(tmp_path), "--recipe", "paper"]
    command += ["--epochs", "1", "--encoder", encoder, "--out", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr(train, "_save", interrupt)
        assert main(command) == 130
    capsys.readouterr()
    work = tmp_path / "slm.work"
    damage(work / "epoch.pt")

    assert main(command) == 2

    error = capsys.readouterr().err
    assert "epoch.pt is damaged" in error
    assert f"delete the folder {work} and give the same command again" in error
    assert "weights_only" not in error and "Traceback" not in error
    shutil.rmtree(work)
    assert main(command) == 0


def test_the_lock_of_a_training_stays(encoder, tmp_path):
    """Else a process that waits for the old file and one that makes it anew both hold a lock."""
    out = tmp_path / "slm"
    lock = tmp_path / "slm.lock"
    recipe = recipes.get("paper", epochs=1)
    fit(TRAIN[:2], [], out, recipe, encoder=encoder, progress=False)
    first = lock.stat().st_ino
    shutil.rmtree(out)
    fit(TRAIN[:2], [], out, recipe, encoder=encoder, progress=False)
    assert lock.stat().st_ino == first
