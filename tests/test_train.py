"""Training on a tiny encoder: batches, curves, the weights, and what happens on interruptions."""

import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import tiny
import torch
from conftest import start_copy
from filelock import FileLock
from safetensors.torch import load_file, save_file
from torch.nn.utils import parameters_to_vector

from dre import progress
from dre.classification import choose_threshold
from dre.commands.main import main
from dre.datasets.dialogues import FIELDS, Context, load, pairs
from dre.errors import DreError
from dre.slm import SLM, curves, fit, losses, measured, recipes, train
from dre.slm import provenance as data
from dre.slm.triplets import embed, training_rows, triplet_batch

TRAIN = load("mini", "train")
DEV = load("mini", "dev")[:2]
GRADED_REPLIES = [("it was", 4.5), ("it", 3.0), ("no", 0.5)]


def extra(n=7):
    """Further data that our own recipes learn from: n dialogues and six graded replies."""
    dialogues = []
    for i in range(n):
        turns = ("do you", f"is it {i}")
        dialogues.append(Context("more", str(i), "train", turns, (f"it is {i}",)))
    graded = []
    for i in range(2):
        for response, grade in GRADED_REPLIES:
            graded.append((str(i), (f"was it {i}",), response, grade))
    return data.Extra(dialogues, graded)


def extra_for(recipe):
    return extra() if recipe.mixture else None


def few_contexts(folder, n=3):
    """Write a file with contexts of the embedded corpus, and return its path."""
    lines = []
    for context in load("mini", "dev")[:n]:
        record = {"id": context.id, "context": context.turns}
        record |= {field: getattr(context, name) for name, field in FIELDS.items()}
        lines.append(json.dumps(record) + "\n")
    file = folder / "few.jsonl"
    file.write_text("".join(lines))
    return str(file)


def weights(*modules):
    return [parameters_to_vector(module.parameters()) for module in modules]


# Batches and curves


def test_a_batch_holds_each_text_once_and_all_triplets(encoder):
    slm = SLM.untrained(encoder)
    rows = training_rows(TRAIN[:3], slm.context)
    texts, triplets = triplet_batch(rows)
    expected = []
    for context in TRAIN[:3]:
        for positive in context.positives:
            for adversarial in context.adversarials:
                expected.append((slm.context(context.turns), positive, adversarial))
    assert len(texts) == len(set(texts)) == 33
    assert sorted(tuple(texts[i] for i in row) for row in triplets.tolist()) == sorted(expected)


def test_a_text_is_embedded_in_training_as_when_scoring(encoder):
    slm = SLM.untrained(encoder)
    texts, _ = triplet_batch(training_rows(TRAIN[:3], slm.context))
    when_scoring = slm.encode(texts)["sentence_embedding"]
    assert torch.allclose(embed(slm.encoder, texts), when_scoring, atol=1e-5)


def test_curves_show_that_it_learns_and_a_second_call_only_loads(encoder, tmp_path):
    # A tiny random encoder needs a higher rate than a trained one to learn in three epochs.
    settings = {
        "dev": DEV,
        "out": tmp_path / "slm",
        "recipe": replace(recipes.get("paper", epochs=3), learning_rate=3e-3),
        "encoder": encoder,
        "progress": False,
    }
    slm = fit(TRAIN[:24], **settings)
    points = pd.DataFrame(slm.provenance["curves"]).set_index(["split", "epoch"])
    before = points.loc["train", 0]
    after = points.loc["train", 3]
    assert set(points.index) == {(split, n) for split in ("train", "dev") for n in range(4)}
    assert after["classification_loss"] < 0.8 * before["classification_loss"]
    assert after["contrastive_loss"] < before["contrastive_loss"]

    again = fit(TRAIN[:24], **settings)
    assert again.provenance == slm.provenance
    assert "threshold" in slm.provenance
    pd.testing.assert_frame_equal(again.score(pairs(DEV)), slm.score(pairs(DEV)), atol=1e-5)
    with pytest.raises(DreError, match="holds another model"):
        fit(TRAIN[:24], seed=1, **settings)


@pytest.mark.parametrize("name", ["paper", "released"])
def test_curves_have_every_term_of_the_loss_and_the_share_of_triplets_on_which_it_acts(
    encoder, tmp_path, name
):
    recipe = replace(recipes.get(name, epochs=1), batch_contexts=2)
    held_out = TRAIN[4:7]
    with tiny.no_doubles():
        slm = fit(TRAIN[:4], held_out, tmp_path / "slm", recipe, encoder=encoder, progress=False)

    names = [term for stage in recipe.stages for term in stage.terms]
    expected = defaultdict(list)
    for batch in (held_out[:2], held_out[2:]):
        texts, triplets = triplet_batch(training_rows(batch, slm.context))
        h = slm.encode(texts)
        triplets = triplets.to(slm.encoder.device)
        terms = losses.triplet_terms(slm.head, h, triplets, names, recipe)
        for term, values in terms.items():
            expected[term] += values.tolist()
    last_point = slm.provenance["curves"][-1]
    assert set(expected) == set(names)
    for term, values in expected.items():
        mean = sum(values) / len(values)
        share_above_zero = sum(value > 0 for value in values) / len(values)
        assert last_point[term] == pytest.approx(mean, rel=0.02, abs=0.003)
        assert last_point[f"{term}_active"] == pytest.approx(share_above_zero, abs=0.03)


# What comes out


#: of which a copied turn is a right response
REPEATS_ITSELF = Context(
    "own",
    "1",
    "train",
    turns=("is it tea", "do you"),
    positives=("yes", "is it tea", "do you"),
    adversarials=("no", "the train"),
    randoms=("it was",),
)
# Scores (score_slm) of the first four pairs of DEV by a whole training of each recipe. Where they
# change, dre.slm.provenance.TRAINING is raised by hand, and recorded scores are refused.
SCORES = {
    "paper": [1.28618, 1.24127, 1.25566, 1.28734],
    "paper-robust": [1.29049, 1.24844, 1.26394, 1.29037],
    "released": [0.55159, 0.67139, 0.63799, 0.62824],
    "ours": [1.35794, 1.08891, 1.13797, 1.15265],
}


@pytest.mark.filterwarnings("ignore:.*more than 128 tokens")
@pytest.mark.parametrize("name", recipes.RECIPES)
def test_the_code_that_trains_is_the_one_whose_scores_are_recorded(
    still, tmp_path, monkeypatch, on_cpu, name
):
    """From the first step to the threshold, on a CPU, without dropout in the encoder, in float32.

    Two threads instead of one change these scores by less than 0.00001.
    """
    for module in (train, curves):
        monkeypatch.setattr(module, "native_bf16", lambda: False)
    recipe = recipes.get(name)
    contexts = [*TRAIN[:8], REPEATS_ITSELF]
    slm = fit(contexts, DEV, tmp_path / "slm", recipe, 0, still, False, extra_for(recipe))
    scores = slm.score(pairs(DEV))["score_slm"][:4]
    assert scores.tolist() == pytest.approx(SCORES[name], abs=5e-5)
    assert data.TRAINING == 1


def test_released_goes_from_the_encoder_to_the_projection_to_the_classifier(encoder, tmp_path):
    """What each stage changes; a shorter training stops where the longer one goes on."""
    released = replace(recipes.get("released", epochs=1), warmup=0.0)
    torch.manual_seed(0)  # as fit does
    before = SLM.untrained(encoder, released)
    changes = []
    for n in (1, 2, 3):
        recipe = replace(released, stages=released.stages[:n])
        after = fit(TRAIN[:3], [], tmp_path / str(n), recipe, encoder=encoder, progress=False)
        old = weights(before.encoder, before.head.project, before.head.classifier)
        new = weights(after.encoder, after.head.project, after.head.classifier)
        changes.append([not x.equal(y) for x, y in zip(old, new)])
        before = after
    assert changes == [[True, False, False], [False, True, True], [False, False, True]]


def test_weights_decay_but_biases_and_norms_do_not(encoder):
    slm = SLM.untrained(encoder, recipes.get("paper"))
    slm.learns(("encoder", "head"))
    decay_of = {}
    for group in train.parameter_groups(slm):
        for parameter in group["params"]:
            decay_of[id(parameter)] = group["weight_decay"]
    names = [*slm.encoder.named_parameters(), *slm.head.named_parameters()]
    assert len(decay_of) == len(names)
    for name, parameter in names:
        is_exempt = name.endswith("bias") or "LayerNorm" in name
        assert decay_of[id(parameter)] == (0.0 if is_exempt else 0.01)


def test_the_range_is_of_positives_and_adversarials_and_the_threshold_of_all_kinds(
    encoder, tmp_path
):
    """Random responses count for the threshold also if only some contexts have them."""
    contexts = [
        Context("own", "0", "train", ("is it tea",), ("yes it is my tea",), ("no train was tea",)),
        Context("own", "1", "train", ("do you",), ("i do",), ("the train",), randoms=("do you",)),
    ]
    recipe = recipes.get("paper", epochs=1)
    slm = fit(contexts, contexts, tmp_path / "slm", recipe, encoder=encoder, progress=False)

    distances = slm.distances(pairs(contexts, "pa"))["distance"]
    assert slm.provenance["d_min"] == pytest.approx(distances.min(), abs=1e-6)
    nearest_random = slm.distances(pairs(contexts, "r"))["distance"].min()
    assert nearest_random < distances.min() - 1e-3

    table = pairs(contexts, "par")
    scores = slm.score(table)["score_slm"]
    with_randoms = choose_threshold(scores, table["kind"], "ar")
    is_labelled = table["kind"] != "r"
    without_randoms = choose_threshold(scores[is_labelled], table["kind"][is_labelled], "a")
    assert slm.provenance["threshold"] == pytest.approx(with_randoms, abs=1e-5)
    assert abs(with_randoms - without_randoms) > 1e-3


# Interruptions


def stop_after(monkeypatch, n_steps):
    """Let training stop in the middle of a step, after so many steps."""
    batch_loss = train.batch_loss
    steps_left = [True] * n_steps

    def stopping(*given):
        steps_left.pop()  # IndexError if there is none left
        return batch_loss(*given)

    monkeypatch.setattr(train, "batch_loss", stopping)


def kill_after(n_steps):
    """Let this process be killed in the middle of a step, after so many steps."""
    batch_loss = train.batch_loss
    steps = itertools.count()

    def learn_or_die(*given):
        if next(steps) == n_steps:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch_loss(*given)

    train.batch_loss = learn_or_die


def learn_until_killed(n_steps, seconds_between_checkpoints, settings):
    train.SECONDS_BETWEEN_CHECKPOINTS = seconds_between_checkpoints
    kill_after(n_steps)
    fit(**settings)


EVERY_STEP = 0
EVERY_EPOCH = 3600


@pytest.mark.skipif(torch.cuda.is_available(), reason="a copy of a process cannot use its GPU")
@pytest.mark.filterwarnings("ignore:.*more than 128 tokens")
@pytest.mark.parametrize(
    ("recipe", "kills", "goes_on"),
    [
        # An epoch has three steps. The first process does two of them, and the second one ends the
        # epoch and does a step of the next, which is lost.
        (
            recipes.get("ours", epochs=2),
            [(2, EVERY_STEP), (2, EVERY_EPOCH)],
            ("contrast, epoch 2 of 2", 0, 3),
        ),
        # In the first stage, in the second epoch of the second, in the first epoch of the third.
        (
            replace(recipes.get("released", epochs=2), keep="best"),
            [(1, EVERY_STEP), (10, EVERY_STEP), (2, EVERY_STEP)],
            ("classifier, epoch 1 of 2", 1, 5),
        ),
        (
            recipes.get("paper", epochs=1),
            [(2, EVERY_STEP)],
            ("joint, epoch 1 of 1", 2, 1),
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_killed_training_goes_on_within_its_epoch_and_ends_with_the_same_weights(
    encoder, tmp_path, monkeypatch, capsys, recipe, kills, goes_on
):
    if recipe.name == "paper":
        # As on a GPU with float16. So large a scale is lowered in the first steps.
        monkeypatch.setattr(train, "_precision", lambda device: torch.float16)
        scaler = partial(torch.amp.GradScaler, "cpu", init_scale=2.0**30)
        monkeypatch.setattr(train, "_gradient_scaler", lambda device: scaler())
    settings = {"train": TRAIN[:5], "dev": DEV, "seed": 3, "encoder": encoder}
    settings["recipe"] = replace(recipe, batch_contexts=2)
    settings["extra"] = extra_for(recipe)
    whole = fit(out=tmp_path / "whole", progress=False, **settings)

    settings["out"] = tmp_path / "killed"
    for n_steps, interval in kills:
        process = start_copy(learn_until_killed, n_steps, interval, settings)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert not (tmp_path / "killed").exists()
    capsys.readouterr()
    title, steps_before, steps_left = goes_on
    stop_after(monkeypatch, steps_left)
    slm = fit(**settings)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("training")]
    assert lines == [f"training {recipe.name}: goes on in {title}, after {steps_before} of 3 steps"]
    for module, same in ((slm.encoder, whole.encoder), (slm.head, whole.head)):
        for name, values in module.state_dict().items():
            assert values.equal(same.state_dict()[name]), name
    # What it took is measured, and as long as nobody kills a process, each time another number.
    of_killed = slm.provenance.pop("measured")
    of_whole = whole.provenance.pop("measured")
    assert slm.provenance == whole.provenance
    for values in (of_killed, of_whole):
        assert values["training"]["seconds"] > 0
        assert values["training"]["gpu_gib"] is None or torch.cuda.is_available()
        assert values["scoring"]["seconds"] > 0
    assert of_killed["scoring"]["pairs"] == of_whole["scoring"]["pairs"] > 0
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"whole", "killed"}


def test_a_training_that_began_on_a_cpu_goes_on_with_float16(encoder, tmp_path, monkeypatch):
    settings = {"train": TRAIN[:5], "dev": DEV, "encoder": encoder, "out": tmp_path / "stopped"}
    settings["recipe"] = replace(recipes.get("paper", epochs=1), batch_contexts=2)
    with monkeypatch.context() as patches, pytest.raises(IndexError):
        patches.setattr(
            train, "_gradient_scaler", lambda device: torch.amp.GradScaler("cpu", enabled=False)
        )
        patches.setattr(train, "SECONDS_BETWEEN_CHECKPOINTS", EVERY_STEP)
        stop_after(patches, 2)
        fit(**settings)
    monkeypatch.setattr(train, "_precision", lambda device: torch.float16)
    monkeypatch.setattr(train, "_gradient_scaler", lambda device: torch.amp.GradScaler("cpu"))
    stop_after(monkeypatch, 1)
    fit(**settings)


def test_the_best_epoch_is_kept_and_of_equally_good_ones_the_last(encoder, tmp_path, monkeypatch):
    """By triplet accuracy on held-out contexts, which is given here."""
    accuracies = iter([0.1, 0.9, 0.9, 0.3])
    measure = curves.measure

    def measure_with_given_accuracy(*given):
        accuracy = next(accuracies)
        return [point | {"triplet_accuracy": accuracy} for point in measure(*given)]

    def learn(recipe, out):
        return fit(TRAIN[:3], DEV, tmp_path / out, recipe, encoder=encoder, progress=False)

    recipe = replace(recipes.get("paper", epochs=3), keep="best")
    with monkeypatch.context() as patch:
        patch.setattr(curves, "measure", measure_with_given_accuracy)
        best = learn(recipe, "best")
    assert best.provenance["kept"] == {"joint": 2}
    assert "kept" not in learn(recipes.get("paper", epochs=1), "last").provenance


@contextlib.contextmanager
def full_disk(room):
    """Refuse to write a file of more bytes than that."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("name", ["paper", "ours"])
def test_a_model_that_cannot_be_written_is_one_sentence_and_loses_no_epoch(
    encoder, tmp_path, monkeypatch, name
):
    recipe = recipes.get(name, epochs=1)
    out = tmp_path / "slm"
    save = SLM.save

    def save_on_a_full_disk(slm, path):
        with full_disk(20_000):
            save(slm, path)

    def learn():
        return fit(TRAIN[:3], DEV[:1], out, recipe, 0, encoder, False, extra_for(recipe))

    with monkeypatch.context() as patch:
        patch.setattr(SLM, "save", save_on_a_full_disk)
        with pytest.raises(DreError, match=r"slm cannot be written \(.*give the same command"):
            learn()
    assert {path.name for path in tmp_path.iterdir()} == {"slm.work", "slm.lock"}
    stop_after(monkeypatch, 0)
    learn()
    assert {path.name for path in tmp_path.iterdir()} == {"slm", "slm.lock"}


def test_a_checkpoint_that_cannot_be_written_is_one_sentence(encoder, tmp_path):
    recipe = recipes.get("paper", epochs=1)
    with full_disk(20_000), pytest.raises(DreError, match="the checkpoint .* cannot be written"):
        fit(TRAIN[:3], [], tmp_path / "slm", recipe, encoder=encoder, progress=False)
    assert not [*(tmp_path / "slm.work").iterdir()]


def test_a_second_training_into_one_folder_is_refused_while_the_first_runs(
    encoder, tmp_path, capsys
):
    out = str(tmp_path / "slm")
    file = few_contexts(tmp_path)
    command = ["train", "--train", file, "--epochs", "1", "--encoder", encoder]
    command += ["--recipe", "paper"]
    command += ["--out", out]
    with FileLock(f"{out}.lock"):  # as the first holds it
        assert main(command) == 2
    assert f"another process is training into {out}: wait" in capsys.readouterr().err
    assert main(command) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"few.jsonl", "slm", "slm.lock"}


# What identifies a training


def test_everything_that_decides_a_training_is_in_its_fingerprint(encoder, tmp_path):
    copy = shutil.copytree(encoder, tmp_path / "copy")
    described = {
        "train": TRAIN[:3],
        "dev": [],
        "recipe": recipes.get("paper"),
        "seed": 0,
        "encoder": encoder,
    }
    changes = {
        "train": TRAIN[:2],
        "dev": DEV,
        "recipe": recipes.get("paper", epochs=1),
        "seed": 1,
        "encoder": str(copy),
        "extra": extra(),
    }
    fingerprints = {data.describe(**described)["fingerprint"]}
    for name, value in changes.items():
        fingerprints.add(data.describe(**described | {name: value})["fingerprint"])
    assert len(fingerprints) == 1 + len(changes)


def test_an_encoder_with_other_weights_under_the_same_name_is_another_training(encoder, tmp_path):
    folder = shutil.copytree(encoder, tmp_path / "encoder")
    settings = {"recipe": recipes.get("paper", epochs=1), "encoder": str(folder)}
    fit(TRAIN[:3], [], tmp_path / "slm", progress=False, **settings)
    (file,) = folder.rglob("*.safetensors")
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("query.weight"))
    save_file(tensors | {name: 2 * tensors[name]}, file, metadata={"format": "pt"})
    with pytest.raises(DreError, match="holds another model"):
        fit(TRAIN[:3], [], tmp_path / "slm", progress=False, **settings)


# How far it has come


def test_without_a_terminal_a_line_now_and_then_says_how_far_it_has_come(
    encoder, tmp_path, monkeypatch, capsys
):
    recipe = replace(recipes.get("paper", epochs=2), batch_contexts=2)
    settings = {"recipe": recipe, "encoder": encoder}
    fit(TRAIN[:3], [], tmp_path / "quick", **settings)
    assert "training paper" not in capsys.readouterr().err  # it took no half a minute

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    fit(TRAIN[:3], [], tmp_path / "slow", **settings)
    lines = [line for line in capsys.readouterr().err.splitlines() if "training paper" in line]
    assert len(lines) == 5  # two steps in each epoch, and the end
    assert lines[2].startswith("training paper: joint, epoch 2 of 2, step 1 of 2, loss ")
    assert lines[2].endswith("s left")

    fit(TRAIN[:3], [], tmp_path / "silent", progress=False, **settings)
    assert "training paper" not in capsys.readouterr().err


# The command


def test_the_command_trains_on_a_file_by_a_recipe_without_disentanglement(
    encoder, tmp_path, capsys
):
    file = tmp_path / "own.jsonl"
    out = tmp_path / "slm"
    record = {
        "context": ["is it tea", "no"],
        "positive_responses": ["yes"],
        "adversarial_negative_responses": ["tea"],
    }
    lines = [json.dumps(record | {"id": str(i)}) for i in range(2)]
    file.write_text("\n".join(lines))
    command = ["train", "--train", str(file), "--epochs", "1", "--encoder", encoder]
    command += ["--out", str(out)]

    assert main([*command, "--recipe", "released", "--plain"]) == 0
    assert "2 contexts, fing" in capsys.readouterr().out
    stages = [point["stage"] for point in SLM.load(out).provenance["curves"]]
    assert stages == ["contrastive"] * 2 + ["classifier"] * 2

    file.write_text("\n".join([*lines, '{"id": "2", "context": []}']))
    assert main(command) == 2
    assert f"{file}:3: " in capsys.readouterr().err


def test_a_training_ends_with_what_the_model_is_worth_beside_that_of_the_package(
    encoder, tmp_path, capsys
):
    file = few_contexts(tmp_path, 8)
    command = ["train", "--train", file, "--dev", file, "--epochs", "1"]
    command += ["--recipe", "paper", "--encoder", encoder, "--out", str(tmp_path / "slm")]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"**Accuracy on {file} (%)**" in printed
    rows = [line for line in printed.splitlines() if line.startswith("| ")]
    names = [row.split("|")[1].strip() for row in rows]
    assert names[2:] == ["this model", "model of the package"]
    overall = [float(row.split("|")[-2].split()[0]) for row in rows[2:]]
    assert overall[1] > 50
    assert ("model of the package is better here" in printed) == (overall[0] < overall[1])
    threshold = float(rows[2].split("|")[3])
    stored = SLM.load(tmp_path / "slm").provenance["threshold"]
    assert abs(threshold - stored) < 1e-3


def test_a_training_without_dev_says_that_nothing_is_known_of_it(encoder, tmp_path, capsys):
    file = few_contexts(tmp_path)
    command = ["train", "--train", file, "--epochs", "1", "--recipe", "paper"]
    assert main([*command, "--encoder", encoder, "--out", str(tmp_path / "slm")]) == 0
    assert "what it is worth is not known: give --dev" in capsys.readouterr().out


def test_our_recipe_takes_the_public_dialogues_and_grades_and_says_so_before(
    encoder, tmp_path, capsys, monkeypatch
):
    """What shares an utterance with --dev is left out of them: `test_public_data` holds that."""
    asked = []

    def public_extra(settings, dev):
        asked.append((settings.name, dev))
        assert capsys.readouterr().out.startswith("recipe ours learns from English dialogues")
        return extra()

    monkeypatch.setattr("dre.paper.contexts.extra", public_extra)
    monkeypatch.setattr("dre.datasets.registry.absent", lambda: ["one"])
    file = few_contexts(tmp_path)
    command = ["train", "--train", file, "--dev", "mini:dev", "--encoder", encoder]
    assert main([*command, "--out", str(tmp_path / "slm")]) == 0
    assert asked == [("public", load("mini", "dev"))]
    assert SLM.load(tmp_path / "slm").recipe.name == "ours"


def own_contexts(folder, **responses):
    """Write a file with one context, and return its path."""
    path = Path(folder) / "own.jsonl"
    path.write_text(json.dumps({"id": "1", "context": ["is it tea"]} | responses))
    return str(path)


def test_contexts_whose_responses_have_other_names_are_refused_with_the_names_they_need(
    encoder, tmp_path, capsys
):
    file = own_contexts(tmp_path, positives=["yes"], adversarials=["tea"])
    out = tmp_path / "slm"
    command = ["train", "--train", file, "--encoder", encoder, "--out", str(out)]
    command += ["--recipe", "paper"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "positive_responses" in error
    assert "adversarial_negative_responses" in error
    assert {path.name for path in tmp_path.iterdir()} == {"own.jsonl", "slm.lock"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plain"], "recipe ours has nothing to disentangle: ask for it without --plain"),
        (["--epochs", "0"], "epochs are 0: expected 1 or more"),
        (["--recipe", "best"], "unknown recipe 'best'"),
        (["--recipe", "paper", "--encoder", "nowhere"], "encoder 'nowhere' cannot be read"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_training(
    encoder, tmp_path, capsys, options, message
):
    out = str(tmp_path / "slm")
    command = ["train", "--train", "mini:dev", "--encoder", encoder, "--out", out]
    assert main([*command, *options]) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_numbers_of_sixteen_bits_are_those_that_the_hardware_multiplies(monkeypatch):
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    monkeypatch.setattr(train, "native_bf16", lambda: False)
    assert train._precision(gpu) is torch.float16
    assert train._precision(cpu) is None
    monkeypatch.setattr(train, "native_bf16", lambda: True)
    assert train._precision(gpu) is torch.bfloat16


def test_what_a_training_took_is_measured_over_its_interruptions(encoder, tmp_path, monkeypatch):
    """A kill loses the seconds since the last checkpoint, and none of those before it."""
    settings = {"train": TRAIN[:6], "dev": DEV, "encoder": encoder, "out": tmp_path / "slm"}
    settings["recipe"] = replace(recipes.get("paper", epochs=2), batch_contexts=2)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(measured, "time", SimpleNamespace(monotonic=lambda: clock.now))
    plain_epoch = train.learn_epoch

    def slow_epoch(*arguments):
        for loss in plain_epoch(*arguments):
            clock.now += 10.0
            yield loss

    monkeypatch.setattr(train, "learn_epoch", slow_epoch)
    with monkeypatch.context() as interrupted:
        stop_after(interrupted, 4)
        with pytest.raises(IndexError):
            fit(progress=False, **settings)
    clock.now += 3600.0  # nobody trains
    slm = fit(progress=False, **settings)
    training = SLM.load(tmp_path / "slm").provenance["measured"]["training"]
    assert training == slm.provenance["measured"]["training"]
    assert training["seconds"] == pytest.approx(60.0)  # three steps of two epochs
    is_on_cpu = training["device"] == "cpu"
    assert (training["gpu_gib"] is None) == is_on_cpu


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_memory_of_a_gpu_is_measured(encoder, tmp_path):
    slm = fit(TRAIN[:4], DEV, tmp_path / "slm", encoder=encoder, progress=False)
    assert 0 < slm.provenance["measured"]["training"]["gpu_gib"] < 80
    assert 0 < slm.provenance["measured"]["scoring"]["gpu_gib"] < 80


def test_without_held_out_contexts_no_scoring_is_measured(encoder, tmp_path):
    settings = {"recipe": recipes.get("paper", epochs=1), "encoder": encoder}
    slm = fit(TRAIN[:4], [], tmp_path / "slm", progress=False, **settings)
    assert slm.provenance["measured"]["scoring"] is None
