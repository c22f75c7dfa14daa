"""Training for real, on a tiny encoder: batches, curves, determinism, going on after an interruption."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from dre.cli import main
from dre.dialogues import Context, load, pairs
from dre.errors import DreError
from dre.slm import SLM, data, fit, losses, recipes, train

TRAIN, DEV = load("mini", "train"), load("mini", "dev")[:2]
GRADED = (("it was", 4.5), ("it", 3.0), ("no", 0.5))


def beside(n=7):
    dialogues = [Context("more", str(i), "train", ("do you", f"is it {i}"), (f"it is {i}",)) for i in range(n)]
    return data.Beside(dialogues, [(str(i), (f"was it {i}",), *one) for i in range(2) for one in GRADED])


def weights(*parts):
    return [parameters_to_vector(part.parameters()) for part in parts]


def test_a_batch_holds_each_text_once_and_all_triplets_and_is_embedded_as_when_scoring(encoder):
    slm = SLM.untrained(encoder)
    texts, triplets = train.triplet_batch(train.training_rows(TRAIN[:3], slm.context))
    found = [tuple(texts[i] for i in row) for row in triplets.tolist()]
    all_of = [(slm.context(c.turns), p, a) for c in TRAIN[:3] for p in c.positives for a in c.adversarials]
    assert len(texts) == len(set(texts)) == 33 and sorted(found) == sorted(all_of)
    assert torch.allclose(train.embed(slm.encoder, texts), slm.encode(texts)["sentence_embedding"], atol=1e-5)


def test_curves_show_that_it_learns_and_a_second_call_only_loads(encoder, tmp_path):
    # A tiny random encoder needs a higher rate than a trained one to learn anything in three epochs.
    recipe = replace(recipes.get("paper", epochs=3), learning_rate=3e-3)
    settings = {"dev": DEV, "out": tmp_path / "slm", "recipe": recipe, "encoder": encoder, "progress": False}
    slm = fit(TRAIN[:24], **settings)
    curves = pd.DataFrame(slm.provenance["curves"]).set_index(["split", "epoch"])
    assert set(curves.index) == {(split, epoch) for split in ("train", "dev") for epoch in range(4)}
    before, after = curves.loc["train", 0], curves.loc["train", 3]
    assert after["classification_loss"] < 0.8 * before["classification_loss"]
    assert after["contrastive_loss"] < before["contrastive_loss"]
    again = fit(TRAIN[:24], **settings)
    assert again.provenance == slm.provenance and "threshold" in slm.provenance
    pd.testing.assert_frame_equal(again.score(pairs(DEV)), slm.score(pairs(DEV)), atol=1e-6)
    with pytest.raises(DreError, match="holds another model"):
        fit(TRAIN[:24], seed=1, **settings)


@pytest.mark.parametrize("name", ["paper", "released"])
def test_curves_have_every_term_of_the_loss_and_the_share_of_triplets_on_which_it_acts(encoder, tmp_path, name):
    recipe = replace(recipes.get(name, epochs=1), batch_contexts=2)
    slm = fit(TRAIN[:4], TRAIN[4:7], tmp_path / "slm", recipe, encoder=encoder, progress=False)
    found = {term: [] for stage in recipe.stages for term in stage.terms}
    for batch in (TRAIN[4:6], TRAIN[6:7]):
        texts, triplets = train.triplet_batch(train.training_rows(batch, slm.context))
        terms = losses.triplet_terms(slm.head, slm.encode(texts), triplets, found, recipe)
        found = {term: [*values, *terms[term].tolist()] for term, values in found.items()}
    held_out = slm.provenance["curves"][-1]
    for term, values in found.items():
        assert held_out[term] == pytest.approx(sum(values) / len(values), rel=0.02, abs=0.003)
        assert held_out[f"{term}_active"] == pytest.approx(sum(v > 0 for v in values) / len(values), abs=0.03)


def test_released_goes_from_the_encoder_to_the_projection_to_the_classifier(encoder, tmp_path):
    """What each stage changes; a shorter training stops where the longer goes on."""
    torch.manual_seed(0)  # as fit does
    before, changed = SLM.untrained(encoder, recipes.get("released")), []
    for n in (1, 2, 3):
        recipe = replace(recipes.get("released", epochs=1), warmup=0.0)
        recipe = replace(recipe, stages=recipe.stages[:n])
        after = fit(TRAIN[:8], [], tmp_path / str(n), recipe, encoder=encoder, progress=False)
        old, new = (weights(one.encoder, one.head.project, one.head.classifier) for one in (before, after))
        changed.append([not x.equal(y) for x, y in zip(old, new)])
        before = after
    assert changed == [[True, False, False], [False, True, True], [False, False, True]]


@pytest.mark.parametrize(("name", "stops"), [("paper", (1, 3)), ("released", (3, 1)), ("graded", (4,))])
def test_an_interrupted_training_goes_on_and_ends_with_the_same_curve(encoder, tmp_path, monkeypatch, name, stops):
    """Two steps per epoch: interrupted within the first, a later one, or a later stage, once or twice."""
    extra, epochs, loss = beside() if name == "graded" else None, 1 if name == "released" else 3, train._loss

    def learn(out):
        return fit(TRAIN[:9], DEV, tmp_path / out, recipes.get(name, epochs), 3, encoder, False, extra)

    whole = learn("whole")
    for steps in stops:
        left = iter(range(steps))
        with monkeypatch.context() as patch, pytest.raises(StopIteration):  # in the middle of a step
            patch.setattr(train, "_loss", lambda *given, left=left: (next(left), loss(*given))[1])
            learn("stopped")
        assert not (tmp_path / "stopped").exists() and (tmp_path / "stopped.work").exists()
    slm = learn("stopped")
    assert slm.provenance == whole.provenance and not (tmp_path / "stopped.work").exists()
    pd.testing.assert_frame_equal(slm.score(pairs(DEV)), whole.score(pairs(DEV)))


def test_several_processes_train_what_one_does(encoder, tmp_path):
    """Without dropout and in-batch negatives two halves of a step make the same mean gradient."""
    shutil.copytree(encoder, still := tmp_path / "still")
    config = (still / "config.json").read_text()
    (still / "config.json").write_text(re.sub(r'(dropout_prob": )0.1', r"\1 0", config))
    command = ["slm", "train", "--train", "mini:dev", "--encoder", str(still), "--epochs", "1", "--out"]
    assert main([*command, str(tmp_path / "one")]) == 0
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "dre"]
    done = subprocess.run(
        [*launch, *command, tmp_path / "two"], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.count("14 contexts, fingerprint") == 1
    models = [SLM.untrained(str(still)), SLM.load(tmp_path / "one"), SLM.load(tmp_path / "two")]
    start, one, two = weights(*(slm.encoder for slm in models))
    assert (one - two).abs().sum() < 0.05 * (one - start).abs().sum()


def test_everything_that_decides_a_training_is_in_its_fingerprint():
    made_of = {"train": TRAIN[:3], "dev": [], "recipe": recipes.get("graded"), "seed": 0, "encoder": "minilm"}
    others = {"train": TRAIN[:2], "dev": DEV, "recipe": recipes.get("graded", epochs=1), "seed": 1, "encoder": "b"}
    changed = [made_of | {name: value} for name, value in (others | {"beside": beside()}).items()]
    assert len({data.describe(**one)["fingerprint"] for one in (made_of, *changed)}) == 7


def test_the_command_trains_by_a_recipe_and_without_disentanglement(encoder, tmp_path):
    out = str(tmp_path / "a")
    command = ["slm", "train", "--train", "mini:dev", "--encoder", encoder, "--epochs", "1", "--out", out, "--plain"]
    assert main([*command, "--recipe", "released"]) == 0
    stages = [point["stage"] for point in SLM.load(out).provenance["curves"]]
    assert stages == ["contrastive"] * 2 + ["classifier"] * 2


def test_the_best_epoch_is_kept_also_by_a_training_that_was_interrupted(encoder, tmp_path, monkeypatch):
    """By triplet accuracy on held-out contexts, here given: the second of four epochs."""
    given, measure = iter([0.1, 0.2, 0.9, 0.3, 0.3, 0.4, 0.1, 0.2, 0.9, 0.3, 0.4]), train._measure

    def measured(slm, contexts, stage, epoch):
        accuracy = next(given)
        return [point | {"triplet_accuracy": accuracy} for point in measure(slm, contexts, stage, epoch)]

    def trained(out, keep):
        recipe = replace(recipes.get("paper", epochs=4), keep=keep)
        return fit(TRAIN[:9], DEV, tmp_path / out, recipe, encoder=encoder, progress=False)

    monkeypatch.setattr(train, "_measure", measured)
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda state, file: save(state, file) or state["done"] == 3 and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trained("best", "best")
    monkeypatch.setattr(torch, "save", save)
    best = trained("best", "best")  # its third epoch comes again, since it was not renamed into place
    assert best.provenance["kept"] == {"joint": 2}
    last = trained("last", "last")
    assert "kept" not in last.provenance
    assert not torch.equal(*weights(best.encoder, last.encoder))
