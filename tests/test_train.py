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

import pandas as pd
import pytest
import tiny
import torch
from conftest import start_copy
from safetensors.torch import load_file, save_file
from torch.nn.utils import parameters_to_vector

from dre import progress
from dre.classification import choose_threshold
from dre.commands.main import main
from dre.datasets.dialogues import FIELDS, Context, load, pairs
from dre.errors import DreError
from dre.slm import SLM, curves, fit, losses, recipes, train
from dre.slm import provenance as data
from dre.slm.triplets import training_rows, triplet_batch

TRAIN = load("mini", "train")
DEV = load("mini", "dev")[:2]


def extra(n=7):
    """Further data that our own recipes learn from: n dialogues and six graded replies."""
    dialogues = [
        Context("more", str(i), "train", ("do you", f"is it {i}"), (f"it is {i}",))
        for i in range(n)
    ]
    graded = [
        (str(i), (f"was it {i}",), response, grade)
        for i in range(2)
        for response, grade in [("it was", 4.5), ("it", 3.0), ("no", 0.5)]
    ]
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


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def test_a_batch_holds_each_text_once_and_all_triplets(encoder):
    slm = SLM.untrained(encoder)
    texts, triplets = triplet_batch(training_rows(TRAIN[:3], slm.context))
    expected = [
        (slm.context(context.turns), positive, adversarial)
        for context in TRAIN[:3]
        for positive, adversarial in itertools.product(context.positives, context.adversarials)
    ]
    assert len(texts) == len(set(texts)) == 33
    assert sorted(tuple(texts[i] for i in row) for row in triplets.tolist()) == sorted(expected)


def test_curves_show_that_it_learns_and_a_second_call_only_loads(encoder, tmp_path):
    # A tiny random encoder needs a higher rate than a trained one to learn in three epochs.
    recipe = replace(recipes.get("paper", epochs=3), learning_rate=3e-3)
    settings = {"dev": DEV, "out": tmp_path / "slm", "recipe": recipe, "encoder": encoder}
    slm = fit(TRAIN[:24], progress=False, **settings)
    points = pd.DataFrame(slm.provenance["curves"]).set_index(["split", "epoch"])
    before, after = points.loc["train", 0], points.loc["train", 3]
    assert set(points.index) == {(split, n) for split in ("train", "dev") for n in range(4)}
    assert after["classification_loss"] < 0.8 * before["classification_loss"]
    assert after["contrastive_loss"] < before["contrastive_loss"]

    again = fit(TRAIN[:24], **settings)
    assert again.provenance == slm.provenance
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
        triplets = triplets.to(slm.encoder.device)
        terms = losses.triplet_terms(slm.head, slm.encode(texts), triplets, names, recipe)
        for term, values in terms.items():
            expected[term] += values.tolist()
    last_point = slm.provenance["curves"][-1]
    assert set(expected) == set(names)
    for term, values in expected.items():
        share_above_zero = sum(value > 0 for value in values) / len(values)
        assert last_point[term] == pytest.approx(sum(values) / len(values), rel=0.02, abs=0.003)
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
    slm = SLM.untrained(encoder, released)
    changes = []
    for n in (1, 2, 3):
        old = [slm.encoder, slm.head.project, slm.head.classifier]
        recipe = replace(released, stages=released.stages[:n])
        slm = fit(TRAIN[:3], [], tmp_path / str(n), recipe, encoder=encoder, progress=False)
        new = [slm.encoder, slm.head.project, slm.head.classifier]
        old, new = ([parameters_to_vector(x.parameters()) for x in parts] for parts in (old, new))
        changes.append([not x.equal(y) for x, y in zip(old, new)])
    assert changes == [[True, False, False], [False, True, True], [False, False, True]]
    assert slm.provenance["measured"]["scoring"] is None  # nothing is held out


def test_weights_decay_but_biases_and_norms_do_not(encoder):
    slm = SLM.untrained(encoder, recipes.get("paper"))
    slm.learns(("encoder", "head"))
    decay_of = {}
    for group in train.parameter_groups(slm):
        decay_of |= {id(parameter): group["weight_decay"] for parameter in group["params"]}
    parameters = dict(slm.parts.named_parameters())
    assert len(decay_of) == len(parameters)
    for name, parameter in parameters.items():
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

    table = pairs(contexts, "par")
    distances = slm.distances(table)["distance"]
    is_labelled = table["kind"] != "r"
    assert slm.provenance["d_min"] == pytest.approx(distances[is_labelled].min(), abs=1e-6)
    assert distances[~is_labelled].min() < distances[is_labelled].min() - 1e-3

    scores = slm.score(table)["score_slm"]
    with_randoms = choose_threshold(scores, table["kind"], "ar")
    without_randoms = choose_threshold(scores[is_labelled], table["kind"][is_labelled], "a")
    assert slm.provenance["threshold"] == pytest.approx(with_randoms, abs=1e-5)
    assert abs(with_randoms - without_randoms) > 1e-3


def test_the_best_epoch_is_kept_and_of_equally_good_ones_the_last(encoder, tmp_path, monkeypatch):
    """By triplet accuracy on held-out contexts, which is given here."""
    accuracies = iter([0.1, 0.9, 0.9, 0.3])
    measure = curves.measure

    def measure_with_given_accuracy(*given):
        accuracy = next(accuracies)
        return [point | {"triplet_accuracy": accuracy} for point in measure(*given)]

    monkeypatch.setattr(curves, "measure", measure_with_given_accuracy)
    recipe = replace(recipes.get("paper", epochs=3), keep="best")
    slm = fit(TRAIN[:3], DEV, tmp_path / "slm", recipe, encoder=encoder, progress=False)
    assert slm.provenance["kept"] == {"joint": 2}


# Interruptions


def stop_after(n_steps, stop, patch=pytest.MonkeyPatch):
    """Let training call a function in the middle of a step, after so many steps."""
    batch_loss = train.batch_loss
    steps = itertools.count()

    def stopping(*given):
        if next(steps) == n_steps:
            stop()
        return batch_loss(*given)

    patch.setattr(train, "batch_loss", stopping)


def learn_until_killed(n_steps, settings):
    stop_after(n_steps, lambda: os.kill(os.getpid(), signal.SIGKILL), pytest.MonkeyPatch())
    fit(**settings)


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.skipif(torch.cuda.is_available(), reason="a copy of a process cannot use its GPU")
@pytest.mark.parametrize(
    ("recipe", "kills", "goes_on"),
    [
        # An epoch has three steps; those of an epoch that was not finished are done again. The
        # second process ends the first stage, and is killed in the second epoch of the next.
        (recipes.get("ours", epochs=2), [5], "contrast, epoch 2 of 2"),
        (
            replace(recipes.get("released", epochs=2), keep="best"),
            [4, 7, 3],
            "classifier, epoch 1 of 2",
        ),
    ],
    ids=["ours", "released"],
)
def test_a_killed_training_goes_on_after_its_last_epoch_and_ends_with_the_same_weights(
    encoder, tmp_path, capsys, recipe, kills, goes_on
):
    settings = {"train": TRAIN[:5], "dev": DEV, "seed": 3, "encoder": encoder}
    settings |= {"recipe": replace(recipe, batch_contexts=2), "extra": extra_for(recipe)}
    whole = fit(out=tmp_path / "whole", progress=False, **settings)

    settings["out"] = tmp_path / "killed"
    for n_steps in kills:
        process = start_copy(learn_until_killed, n_steps, settings)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert names_in(tmp_path) == {"whole", "killed.checkpoint"}
    capsys.readouterr()
    content = torch.load(tmp_path / "killed.checkpoint", weights_only=True)
    content["state"]["seconds"] += 1000  # as if it had taken so long until then
    torch.save(content, tmp_path / "killed.checkpoint")
    slm = fit(**settings)

    assert f"training {recipe.name}: goes on in {goes_on}\n" in capsys.readouterr().err
    assert names_in(tmp_path) == {"whole", "killed"}
    for name, values in slm.parts.state_dict().items():
        assert values.equal(whole.parts.state_dict()[name]), name
    measured = slm.provenance.pop("measured")
    assert 1000 > whole.provenance.pop("measured")["training"]["seconds"] > 0
    assert slm.provenance == whole.provenance
    assert measured["training"].keys() == {"seconds", "gpu_gib", "device"}
    assert 1000 < measured["training"]["seconds"] < 2000
    assert measured["scoring"]["pairs"] == len(pairs(DEV, "par"))
    assert 0 < measured["scoring"]["seconds"] < 1000


@contextlib.contextmanager
def full_disk(room=20_000):
    """Refuse to write a file of more bytes than that."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("name", ["paper", "ours"])
def test_a_full_disk_is_one_sentence_and_loses_no_epoch(encoder, tmp_path, monkeypatch, name):
    recipe = recipes.get(name, epochs=1)
    save = SLM.save

    def save_on_a_full_disk(slm, path):
        with full_disk():
            save(slm, path)

    def learn():
        fit(TRAIN[:3], [], tmp_path / "slm", recipe, 0, encoder, False, extra_for(recipe))

    with full_disk(), pytest.raises(DreError, match="slm.checkpoint: cannot be written"):
        learn()
    assert not names_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(SLM, "save", save_on_a_full_disk)
        with pytest.raises(DreError, match=r"slm cannot be written \(.*give the same command"):
            learn()
    assert names_in(tmp_path) == {"slm.checkpoint"}
    stop_after(0, interrupt, monkeypatch)  # there is nothing left to learn
    learn()
    assert names_in(tmp_path) == {"slm"}


def test_two_processes_may_train_the_same_model_at_once(encoder, tmp_path, monkeypatch):
    recipe = recipes.get("paper", epochs=2)
    settings = {"train": TRAIN[:3], "dev": DEV, "recipe": recipe, "encoder": encoder}
    if not torch.cuda.is_available():
        first, second = (
            start_copy(lambda: fit(out=tmp_path / "both", **settings)) for _ in range(2)
        )
        first.join(), second.join()
        assert first.exitcode == second.exitcode == 0
        assert SLM.load(tmp_path / "both").provenance["recipe"]["name"] == "paper"
        assert names_in(tmp_path) <= {"both", "both.checkpoint"}

    save = SLM.save
    monkeypatch.setattr(SLM, "save", lambda slm, path: [save(slm, path) for _ in range(2)])
    slm = fit(out=tmp_path / "slower", **settings)  # the second time the folder is there
    assert slm.signature == SLM.load(tmp_path / "slower").signature


# What identifies a training


def test_everything_that_decides_a_training_is_in_its_fingerprint(encoder, tmp_path):
    described = {"train": TRAIN[:3], "dev": [], "recipe": recipes.get("paper"), "seed": 0}
    described["encoder"] = encoder
    changes = {
        "train": TRAIN[:2],
        "dev": DEV,
        "recipe": recipes.get("paper", epochs=1),
        "seed": 1,
        "encoder": shutil.copytree(encoder, tmp_path / "copy"),
        "extra": extra(),
    }
    changes["encoder"] = str(changes["encoder"])
    fingerprints = {data.describe(**described)["fingerprint"]}
    for name, value in changes.items():
        fingerprints.add(data.describe(**described | {name: value})["fingerprint"])
    assert len(fingerprints) == 1 + len(changes)

    (file,) = (tmp_path / "copy").rglob("*.safetensors")
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("query.weight"))
    save_file(tensors | {name: 2 * tensors[name]}, file, metadata={"format": "pt"})
    changed = data.describe(**described | {"encoder": changes["encoder"]})
    assert changed["fingerprint"] not in fingerprints


# The command


def test_without_a_terminal_a_line_now_and_then_says_how_far_it_has_come(
    encoder, tmp_path, monkeypatch, capsys
):
    recipe = replace(recipes.get("paper", epochs=2), batch_contexts=2)
    settings = {"recipe": recipe, "encoder": encoder}
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    fit(TRAIN[:3], [], tmp_path / "slow", **settings)
    fit(TRAIN[:3], [], tmp_path / "silent", progress=False, **settings)
    lines = [line for line in capsys.readouterr().err.splitlines() if "training paper" in line]
    assert len(lines) == 4  # two steps in each epoch
    assert lines[2].startswith("training paper: joint, epoch 2 of 2, loss ")
    assert lines[2].endswith("s left")


def command(encoder, out, file, *options):
    """Return the command that trains the papers' recipe on a file."""
    start = ["train", "--train", str(file), "--epochs", "1", "--recipe", "paper"]
    return [*start, "--encoder", encoder, "--out", str(out), *options]


def test_the_command_trains_by_a_recipe_without_disentanglement_and_names_a_wrong_line(
    encoder, tmp_path, capsys
):
    file = tmp_path / "few.jsonl"
    few_contexts(tmp_path)
    options = command(encoder, tmp_path / "slm", file, "--recipe", "released", "--plain")
    assert main(options) == 0
    printed = capsys.readouterr().out
    assert "3 contexts, fing" in printed
    assert "what it is worth is not known: give --dev" in printed
    stages = [point["stage"] for point in SLM.load(tmp_path / "slm").provenance["curves"]]
    assert stages == ["contrastive"] * 2 + ["classifier"] * 2

    file.write_text(file.read_text() + '{"id": "2", "context": []}')
    assert main(options) == 2
    assert f"{file}:4: " in capsys.readouterr().err


def test_a_training_ends_with_what_the_model_is_worth_beside_that_of_the_package(
    encoder, tmp_path, capsys
):
    file = few_contexts(tmp_path, 8)
    assert main(command(encoder, tmp_path / "slm", file, "--dev", file)) == 0
    printed = capsys.readouterr().out
    assert f"**Accuracy on {file} (%)**" in printed
    rows = [line.split("|") for line in printed.splitlines() if line.startswith("| ")]
    assert [row[1].strip() for row in rows[2:]] == ["this model", "model of the package"]
    overall = [float(row[-2].split()[0]) for row in rows[2:]]
    assert overall[1] > 50
    assert ("model of the package is better here" in printed) == (overall[0] < overall[1])
    stored = SLM.load(tmp_path / "slm").provenance["threshold"]
    assert float(rows[2][3]) == pytest.approx(stored, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipe", "ours", "--plain"], "recipe ours has nothing to disentangle"),
        (["--epochs", "0"], "epochs are 0: expected a number above 0"),
        (["--recipe", "best"], "unknown recipe 'best'"),
        (["--encoder", "nowhere"], "encoder 'nowhere' cannot be read"),
        (["--train", "unlabelled"], "positive_responses and adversarial_negative_responses"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_training(
    encoder, tmp_path, capsys, options, message
):
    unlabelled = tmp_path / "own.jsonl"
    unlabelled.write_text('{"id": "1", "context": ["is it tea"], "positives": ["yes"]}')
    options = [str(unlabelled) if option == "unlabelled" else option for option in options]
    assert main(command(encoder, tmp_path / "slm", "mini:dev", *options)) == 2
    assert message in capsys.readouterr().err
    assert names_in(tmp_path) == {"own.jsonl"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_memory_of_a_gpu_is_measured(encoder, tmp_path):
    slm = fit(TRAIN[:4], DEV, tmp_path / "slm", encoder=encoder, progress=False)
    for values in slm.provenance["measured"].values():
        assert 0 < values["gpu_gib"] < 80


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
