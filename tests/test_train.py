"""Training for real, on a tiny encoder: batches, curves, determinism, going on after an interruption."""

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


def beside(n=7):
    dialogues = [Context("more", str(i), "train", ("do you", f"is it {i}"), (f"it is {i}",)) for i in range(n)]
    return data.Beside(dialogues, [(("was it",), "it was", 4.5), (("no", "yes"), "no", 0.5)])


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


def test_a_stage_that_trains_the_head_leaves_the_encoder_alone_and_words_can_be_frozen(encoder, tmp_path):
    head_only = recipes.Recipe("head only", "maps", (recipes.Stage("classifier", ("L_cls",), 1, ("head",)),))
    words_frozen = replace(recipes.get("paper", epochs=1), batch_contexts=4, frozen_words=True)
    before, changed = SLM.untrained(encoder).encoder.state_dict(), []
    for name, recipe in (("a", head_only), ("b", words_frozen)):
        after = fit(TRAIN[:8], [], tmp_path / name, recipe, encoder=encoder, progress=False).encoder.state_dict()
        changed.append({name for name, value in before.items() if not after[name].equal(value)})
    assert not changed[0] and changed[1] and not any("word_embeddings" in name for name in changed[1])


@pytest.mark.parametrize(("name", "stops"), [("paper", (1, 3)), ("released", (3, 1)), ("context", (4,))])
def test_an_interrupted_training_goes_on_and_ends_with_the_same_curve(encoder, tmp_path, monkeypatch, name, stops):
    """Two steps per epoch: interrupted within the first, a later one, or a later stage, once or twice."""
    extra, epochs, total = beside() if name == "context" else None, 1 if name == "released" else 3, losses.total

    def learn(out):
        return fit(TRAIN[:9], DEV, tmp_path / out, recipes.get(name, epochs), 3, encoder, False, extra)

    whole = learn("whole")
    for steps in stops:
        left = iter(range(steps))
        with monkeypatch.context() as patch, pytest.raises(StopIteration):  # in the middle of a step
            patch.setattr(losses, "total", lambda terms, left=left: (next(left), total(terms))[1])
            learn("stopped")
        assert not (tmp_path / "stopped").exists() and (tmp_path / "stopped.work").exists()
    slm = learn("stopped")
    assert slm.provenance == whole.provenance and not (tmp_path / "stopped.work").exists()
    pd.testing.assert_frame_equal(slm.score(pairs(DEV)), whole.score(pairs(DEV)))


def test_every_dialogue_comes_once_before_any_comes_twice_and_the_seed_decides_which():
    rows, few = train.training_rows(TRAIN[:7], context_text), recipes.Mixture(2, 1, (1, 2))
    passes, again, other = (data.mixed(rows, beside(14), context_text, few, passes=2, seed=k) for k in (0, 0, 1))
    assert passes == again != other and passes[0] != passes[1]
    drawn = [pair for labelled in passes[1] for pair in labelled[10:12]]
    assert {response for _, _, response, _ in drawn} == {f"it is {i}" for i in range(14)}
    assert {"do you" in text for _, text, _, _ in drawn} == {True, False}  # one or two last turns are shown
    texts, index = train.pair_batch(passes[0][:2])
    assert len(texts) == len(set(texts)) and index[:, 0].unique(return_counts=True)[1].tolist() == [14, 10, 2]


def test_everything_that_decides_a_training_is_in_its_fingerprint():
    made_of = {"train": TRAIN[:3], "dev": [], "recipe": recipes.get("context"), "seed": 0, "encoder": "minilm"}
    others = {"train": TRAIN[:2], "dev": DEV, "recipe": recipes.get("context", epochs=1), "seed": 1, "encoder": "b"}
    changed = [made_of, *(made_of | {name: value} for name, value in (others | {"beside": beside()}).items())]
    assert len({data.describe(**one)["fingerprint"] for one in changed}) == 7


def test_the_command_trains_a_model_and_names_what_is_wrong(encoder, tmp_path, capsys):
    out = str(tmp_path / "a")
    command = ["slm", "train", "--train", "mini:dev", "--encoder", encoder, "--epochs", "1", "--out", out]
    for more, said in (("papre", "unknown recipe 'papre': expected one of paper,"), ("context", "to disentangle")):
        assert main([*command, "--plain", "--recipe", more]) == 2 and said in capsys.readouterr().err
    assert main([*command, "--recipe", "released", "--plain"]) == 0
    assert "14 contexts, fingerprint" in capsys.readouterr().out
    stages = [point["stage"] for point in SLM.load(out).provenance["curves"]]
    assert stages == ["contrastive"] * 2 + ["classifier"] * 2
    with pytest.raises(DreError, match=r"1 of 1 contexts lack .*mini/mini-daily-000.*one response of each kind"):
        train.training_rows([replace(TRAIN[0], adversarials=())], context_text)
