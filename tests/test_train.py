"""Training for real, on a tiny encoder: batches, curves, determinism, going on after an interruption."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import torch

from dre.cli import main
from dre.dialogues import Context, load, pairs
from dre.errors import DreError
from dre.slm import SLM, data, fit, losses, recipes, train
from dre.slm.model import context_text

TRAIN, DEV = load("mini", "train"), load("mini", "dev")[:2]

GRADED = (("it was", 4.5), ("it", 3.0), ("no", 0.5))


def beside(n=7):
    dialogues = [Context("more", str(i), "train", ("do you", f"is it {i}"), (f"it is {i}",)) for i in range(n)]
    return data.Beside(dialogues, [(str(i), (f"was it {i}",), *one) for i in range(2) for one in GRADED])


def test_a_batch_holds_each_text_once_and_all_triplets_and_is_embedded_as_when_scoring(encoder):
    slm = SLM.untrained(encoder)
    texts, triplets = train.triplet_batch(train.training_rows(TRAIN[:3], slm.context))
    assert len(texts) == len(set(texts)) == 33 and triplets.shape == (75, 3)
    found = {tuple(texts[i] for i in row) for row in triplets.tolist()}
    assert found == {(slm.context(c.turns), p, a) for c in TRAIN[:3] for p in c.positives for a in c.adversarials}
    expected = slm.encode(texts)["sentence_embedding"]
    assert torch.allclose(train.embed(slm.encoder, texts), expected, atol=1e-5)


def test_curves_show_that_it_learns_and_a_second_call_only_loads(encoder, tmp_path):
    # A tiny random encoder needs a higher rate than a trained one to learn anything in three epochs.
    recipe = replace(recipes.get("paper", epochs=3), learning_rate=3e-3)
    settings = {"dev": DEV, "out": tmp_path / "slm", "recipe": recipe, "encoder": encoder, "progress": False}
    slm = fit(TRAIN[:24], **settings)
    curves = pd.DataFrame(slm.provenance["curves"])
    assert list(curves["epoch"].unique()) == [0, 1, 2, 3] and set(curves["split"]) == {"train", "dev"}
    before, after = (curves[(curves["epoch"] == e) & (curves["split"] == "train")].iloc[0] for e in (0, 3))
    assert after["classification_loss"] < 0.8 * before["classification_loss"]
    assert after["contrastive_loss"] < before["contrastive_loss"]
    again = fit(TRAIN[:24], **settings)
    assert again.provenance == slm.provenance and "threshold" in slm.provenance
    pd.testing.assert_frame_equal(again.score(pairs(DEV)), slm.score(pairs(DEV)), atol=1e-6)
    with pytest.raises(DreError, match="holds another model"):
        fit(TRAIN[:24], seed=1, **settings)


@pytest.mark.parametrize("name", ["paper", "paper-robust", "released"])
def test_curves_have_every_term_of_the_loss_and_the_share_of_triplets_on_which_it_acts(encoder, tmp_path, name):
    recipe = replace(recipes.get(name, epochs=1), batch_contexts=2)
    slm = fit(TRAIN[:4], TRAIN[4:7], tmp_path / "slm", recipe, encoder=encoder, progress=False)
    *_, held_out = slm.provenance["curves"]  # three contexts: two batches
    assert held_out["split"] == "dev"
    found, cosine = {}, torch.nn.functional.cosine_similarity
    for part in (TRAIN[4:6], TRAIN[6:7]):
        texts, triplets = train.triplet_batch(train.training_rows(part, slm.context))
        h, (c, p, a) = slm.encode(texts), triplets.T
        whole, robust, rest = h["sentence_embedding"], h["robust"], h["non_robust"]
        acts = {"L_out_robust": cosine(robust[p], robust[a]) > 0.5, "L_ins_same_pos": cosine(robust[p], rest[p]) > 0.5}
        if name == "paper":
            acts["L_out"] = cosine(whole[c], whole[p]) - cosine(whole[c], whole[a]) < 0.5
        elif name == "paper-robust":
            acts["L_out"] = cosine(whole[c], robust[p]) - cosine(whole[c], robust[a]) < 0.5
        else:
            terms = losses.triplet_terms(slm.head, h, triplets, ("L_in_batch",), slm.recipe)
            acts["L_in_batch"] = terms["L_in_batch"] > 0
            found["in_batch"] = [*found.get("in_batch", []), *terms["L_in_batch"].tolist()]
        for term, active in acts.items():
            found[term] = [*found.get(term, []), *active.tolist()]
    if name == "released":
        values = found.pop("in_batch")  # one for each positive, whatever the number of adversarials
        assert held_out["L_in_batch"] == pytest.approx(sum(values) / 15, rel=0.01)
    for term, active in found.items():
        assert held_out[f"{term}_active"] == pytest.approx(sum(active) / len(active), abs=0.03)
    if name == "paper":
        assert held_out["L_out"] == pytest.approx(held_out["contrastive_loss"], rel=1e-5)
    assert {term for stage in recipe.stages for term in stage.terms} < set(held_out)


def test_released_goes_from_the_encoder_to_the_projection_to_the_classifier(encoder, tmp_path):
    """What each stage changes; a shorter one stops where the longer goes on."""
    torch.manual_seed(0)  # as fit does
    slms, parts = [SLM.untrained(encoder, recipes.get("released"))], []
    stages = recipes.get("released", epochs=1).stages
    for n in (1, 2, 3):
        recipe = replace(recipes.get("released"), stages=stages[:n], warmup=0.0)
        slms.append(fit(TRAIN[:8], [], tmp_path / str(n), recipe, encoder=encoder, progress=False))
        before, after = (
            {"encoder": one.encoder.state_dict(), "project": one.head.project.state_dict()} for one in slms[-2:]
        )
        parts.append([k for k in before if any(not v.equal(after[k][name]) for name, v in before[k].items())])
    assert parts == [["encoder"], ["project"], []]
    assert not slms[2].head.classifier.weight.equal(slms[3].head.classifier.weight)


def test_a_stage_that_trains_the_head_leaves_the_encoder_alone(encoder, tmp_path):
    head_only = recipes.Recipe("head only", "maps", (recipes.Stage("classifier", ("L_cls",), 1, ("head",)),))
    before = SLM.untrained(encoder).encoder.state_dict()
    after = fit(TRAIN[:8], [], tmp_path / "a", head_only, encoder=encoder, progress=False).encoder.state_dict()
    assert all(after[name].equal(value) for name, value in before.items())


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
    config = json.loads((still / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (still / "config.json").write_text(json.dumps(config))
    command = ["slm", "train", "--train", "mini:dev", "--encoder", str(still), "--epochs", "1", "--out"]
    assert main([*command, str(tmp_path / "one")]) == 0
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--module", "dre"]
    subprocess.run([*launch, *command, str(tmp_path / "two")], check=True, timeout=300, cwd=tmp_path)
    one, two = (SLM.load(tmp_path / name).encoder.state_dict() for name in ("one", "two"))
    start = SLM.untrained(str(still)).encoder.state_dict()
    moved = sum((one[name] - start[name]).abs().sum() for name in one)
    assert sum((one[name] - two[name]).abs().sum() for name in one) < 0.05 * moved


def test_everything_that_decides_a_training_is_in_its_fingerprint():
    made_of = {"train": TRAIN[:3], "dev": [], "recipe": recipes.get("graded"), "seed": 0, "encoder": "minilm"}
    others = {"train": TRAIN[:2], "dev": DEV, "recipe": recipes.get("graded", epochs=1), "seed": 1, "encoder": "b"}
    changed = [made_of, *(made_of | {name: value} for name, value in (others | {"beside": beside()}).items())]
    assert len({data.describe(**one)["fingerprint"] for one in changed}) == 7


def test_the_command_trains_a_model_and_names_what_is_wrong(encoder, tmp_path, capsys):
    out = str(tmp_path / "a")
    command = ["slm", "train", "--train", "mini:dev", "--encoder", encoder, "--epochs", "1", "--out", out]
    for more, said in (("papre", "unknown recipe 'papre': expected one of paper,"), ("graded", "to disentangle")):
        assert main([*command, "--plain", "--recipe", more]) == 2 and said in capsys.readouterr().err
    assert main([*command, "--recipe", "released", "--plain"]) == 0
    assert "14 contexts, fingerprint" in capsys.readouterr().out
    stages = [point["stage"] for point in SLM.load(out).provenance["curves"]]
    assert stages == ["contrastive"] * 2 + ["classifier"] * 2
    with pytest.raises(DreError, match=r"1 of 1 contexts lack .*mini/mini-daily-000.*one response of each kind"):
        train.training_rows([replace(TRAIN[0], adversarials=())], context_text)
