"""Training for real, on a tiny encoder: batches, curves, determinism, going on after an interruption."""

import functools
import json
from dataclasses import replace

import pandas as pd
import pytest
import torch
from tiny import no_doubles
from torch.nn.utils import parameters_to_vector
from transformers import get_linear_schedule_with_warmup

from dre.classification import choose_threshold
from dre.commands.main import main
from dre.datasets.dialogues import Context, load, pairs
from dre.errors import DreError
from dre.slm import SLM, fit, losses, recipes, train
from dre.slm import provenance as data
from dre.slm.model import class_for

TRAIN, DEV = load("mini", "train"), load("mini", "dev")[:2]
GRADED = (("it was", 4.5), ("it", 3.0), ("no", 0.5))


def extra(n=7):
    dialogues = [
        Context("more", str(i), "train", ("do you", f"is it {i}"), (f"it is {i}",))
        for i in range(n)
    ]
    return data.Extra(
        dialogues, [(str(i), (f"was it {i}",), *one) for i in range(2) for one in GRADED]
    )


def weights(*parts):
    return [parameters_to_vector(part.parameters()) for part in parts]


def test_a_batch_holds_each_text_once_and_all_triplets_and_is_embedded_as_when_scoring(encoder):
    slm = SLM.untrained(encoder)
    texts, triplets = train.triplet_batch(train.training_rows(TRAIN[:3], slm.context))
    found = [tuple(texts[i] for i in row) for row in triplets.tolist()]
    all_of = [
        (slm.context(c.turns), p, a) for c in TRAIN[:3] for p in c.positives for a in c.adversarials
    ]
    assert len(texts) == len(set(texts)) == 33 and sorted(found) == sorted(all_of)
    assert torch.allclose(
        train.embed(slm.encoder, texts), slm.encode(texts)["sentence_embedding"], atol=1e-5
    )


def test_curves_show_that_it_learns_and_a_second_call_only_loads(encoder, tmp_path):
    # A tiny random encoder needs a higher rate than a trained one to learn anything in three epochs.
    recipe = replace(recipes.get("paper", epochs=3), learning_rate=3e-3)
    settings = {
        "dev": DEV,
        "out": tmp_path / "slm",
        "recipe": recipe,
        "encoder": encoder,
        "progress": False,
    }
    slm = fit(TRAIN[:24], **settings)
    curves = pd.DataFrame(slm.provenance["curves"]).set_index(["split", "epoch"])
    assert set(curves.index) == {(split, epoch) for split in ("train", "dev") for epoch in range(4)}
    before, after = curves.loc["train", 0], curves.loc["train", 3]
    assert after["classification_loss"] < 0.8 * before["classification_loss"]
    assert after["contrastive_loss"] < before["contrastive_loss"]
    again = fit(TRAIN[:24], **settings)
    assert again.provenance == slm.provenance and "threshold" in slm.provenance
    pd.testing.assert_frame_equal(again.score(pairs(DEV)), slm.score(pairs(DEV)), atol=1e-5)
    with pytest.raises(DreError, match="holds another model"):
        fit(TRAIN[:24], seed=1, **settings)


@pytest.mark.parametrize("name", ["paper", "released"])
def test_curves_have_every_term_of_the_loss_and_the_share_of_triplets_on_which_it_acts(
    encoder, tmp_path, name
):
    recipe = replace(recipes.get(name, epochs=1), batch_contexts=2)
    with no_doubles():
        slm = fit(TRAIN[:4], TRAIN[4:7], tmp_path / "slm", recipe, encoder=encoder, progress=False)
    found = {term: [] for stage in recipe.stages for term in stage.terms}
    for batch in (TRAIN[4:6], TRAIN[6:7]):
        texts, triplets = train.triplet_batch(train.training_rows(batch, slm.context))
        terms = losses.triplet_terms(slm.head, slm.encode(texts), triplets, found, recipe)
        found = {term: [*values, *terms[term].tolist()] for term, values in found.items()}
    held_out = slm.provenance["curves"][-1]
    for term, values in found.items():
        assert held_out[term] == pytest.approx(sum(values) / len(values), rel=0.02, abs=0.003)
        assert held_out[f"{term}_active"] == pytest.approx(
            sum(v > 0 for v in values) / len(values), abs=0.03
        )


def test_released_goes_from_the_encoder_to_the_projection_to_the_classifier(encoder, tmp_path):
    """What each stage changes; a shorter training stops where the longer goes on."""
    torch.manual_seed(0)  # as fit does
    before, changed = SLM.untrained(encoder, recipes.get("released")), []
    for n in (1, 2, 3):
        recipe = replace(recipes.get("released", epochs=1), warmup=0.0)
        recipe = replace(recipe, stages=recipe.stages[:n])
        after = fit(TRAIN[:8], [], tmp_path / str(n), recipe, encoder=encoder, progress=False)
        old, new = (
            weights(one.encoder, one.head.project, one.head.classifier) for one in (before, after)
        )
        changed.append([not x.equal(y) for x, y in zip(old, new)])
        before = after
    assert changed == [[True, False, False], [False, True, True], [False, False, True]]


@pytest.mark.parametrize(
    ("name", "stops"), [("paper", (1, 3)), ("released", (3, 1)), ("graded", (4,))]
)
def test_an_interrupted_training_goes_on_and_ends_with_the_same_curve(
    encoder, tmp_path, monkeypatch, name, stops
):
    """Two steps per epoch: interrupted within the first, a later one, or a later stage, once or twice."""
    more, epochs, loss = (
        extra() if name == "graded" else None,
        1 if name == "released" else 3,
        train._loss,
    )

    def learn(out):
        return fit(
            TRAIN[:9], DEV, tmp_path / out, recipes.get(name, epochs), 3, encoder, False, more
        )

    whole = learn("whole")
    for steps in stops:
        left = [True] * steps
        with monkeypatch.context() as patch, pytest.raises(IndexError):  # in the middle of a step
            patch.setattr(train, "_loss", lambda *given, left=left: (left.pop(), loss(*given))[1])
            learn("stopped")
        assert not (tmp_path / "stopped").exists() and (tmp_path / "stopped.work").exists()
    slm = learn("stopped")
    assert slm.provenance == whole.provenance and not (tmp_path / "stopped.work").exists()
    pd.testing.assert_frame_equal(slm.score(pairs(DEV)), whole.score(pairs(DEV)))


LOSSES = {  # of three steps: where they change, dre.slm.provenance.TRAINING is raised, and recorded scores are refused
    "paper": [1.7556503, 1.7123916, 1.6670914],
    "paper-robust": [1.7556503, 1.7093066, 1.6621566],
    "released": [4.3634815, 4.3628879, 4.3158321],
    "graded": [2.9185309, 2.7772791, 2.7459881],
    "ours": [2.9185309, 2.7772791, 2.7459881],
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_code_that_trains_is_the_one_whose_scores_are_recorded(still, monkeypatch, name):
    monkeypatch.setattr(train, "native_bf16", lambda: False)
    recipe = recipes.get(name)
    torch.manual_seed(0)
    slm = class_for(recipe).untrained(still, recipe)
    slm.learns(recipe.stages[0].trains)
    rows = train.training_rows(TRAIN[: 3 * recipe.batch_contexts], slm.context)
    if recipe.mixture:
        (rows,) = slm.passes(slm.examples(TRAIN[: len(rows)]), extra(), 1, 0)
    optimizer = torch.optim.AdamW(train.groups(slm))
    schedule = get_linear_schedule_with_warmup(optimizer, 0, 10)
    vectors = functools.partial(train.embed, slm.encoder)
    losses = list(train.learn(slm, rows, recipe.stages[0].terms, vectors, optimizer, schedule))
    assert losses == pytest.approx(LOSSES[name], rel=2e-6) and data.TRAINING == 1


def test_weights_decay_but_biases_and_norms_do_not(encoder):
    slm = SLM.untrained(encoder, recipes.get("paper"))
    slm.learns(("encoder", "head"))
    names = {
        id(value): name
        for part in (slm.encoder, slm.head)
        for name, value in part.named_parameters()
    }
    decay = {
        names[id(value)]: group["weight_decay"]
        for group in train.groups(slm)
        for value in group["params"]
    }
    assert decay.keys() == set(names.values()) and set(decay.values()) == {0.0, 0.01}
    assert all(
        (value == 0) == (name.endswith("bias") or "LayerNorm" in name)
        for name, value in decay.items()
    )


def test_the_range_is_of_positives_and_adversarials_and_the_threshold_of_all_kinds(
    encoder, tmp_path
):
    texts = ("is it tea", "do you"), ("yes it is my tea", "i do"), ("no train was tea", "the train")
    near = [
        Context(
            "own", str(i), "train", (turn,), (right,), (wrong,), randoms=(turn,)
        )  # as the encoder reads the turn
        for i, (turn, right, wrong) in enumerate(zip(*texts))
    ]
    recipe = recipes.get("paper", epochs=1)
    slm = fit(near, near, tmp_path / "slm", recipe, encoder=encoder, progress=False)
    distance = slm.distances(pairs(near, "pa"))["distance"]
    assert slm.provenance["d_min"] == pytest.approx(distance.min(), abs=1e-6)
    assert slm.distances(pairs(near, "r"))["distance"].min() < distance.min() - 1e-3
    table = pairs(near, "par")
    scores = slm.score(table)["score_slm"]
    own, other = (
        choose_threshold(scores[of], table["kind"][of], negatives)
        for negatives, of in (("ar", table["kind"] != ""), ("a", table["kind"] != "r"))
    )
    assert slm.provenance["threshold"] == pytest.approx(own, abs=1e-5) and abs(own - other) > 1e-3


def test_everything_that_decides_a_training_is_in_its_fingerprint():
    made_of = {
        "train": TRAIN[:3],
        "dev": [],
        "recipe": recipes.get("graded"),
        "seed": 0,
        "encoder": "minilm",
    }
    others = {
        "train": TRAIN[:2],
        "dev": DEV,
        "recipe": recipes.get("graded", epochs=1),
        "seed": 1,
        "encoder": "b",
    }
    changed = [made_of | {name: value} for name, value in (others | {"extra": extra()}).items()]
    assert len({data.describe(**one)["fingerprint"] for one in (made_of, *changed)}) == 7


def test_the_best_epoch_is_kept_also_by_a_training_that_was_interrupted(
    encoder, tmp_path, monkeypatch
):
    """By triplet accuracy on held-out contexts, here given: the second of three epochs."""
    given, measure, save = iter([0.1, 0.2, 0.9, 0.3, 0.3]), train._measure, torch.save

    def measured(slm, contexts, stage, epoch):
        accuracy = next(given)
        return [
            point | {"triplet_accuracy": accuracy} for point in measure(slm, contexts, stage, epoch)
        ]

    def trained(n, keep):
        recipe = replace(recipes.get("paper", epochs=n), keep=keep)
        return fit(TRAIN[:9], DEV, tmp_path / keep, recipe, encoder=encoder, progress=False)

    monkeypatch.setattr(train, "_measure", measured)
    monkeypatch.setattr(
        torch, "save", lambda state, file: save(state, file) or state["done"] == 3 and 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        trained(3, "best")
    monkeypatch.setattr(torch, "save", save)
    best = trained(3, "best")  # its third epoch comes again, since it was not renamed into place
    monkeypatch.setattr(train, "_measure", measure)
    assert best.provenance["kept"] == {"joint": 2} and "kept" not in trained(1, "last").provenance


def test_the_command_trains_on_a_file_by_a_recipe_without_disentanglement(
    encoder, tmp_path, capsys
):
    own, out = tmp_path / "own.jsonl", str(tmp_path / "a")
    record = {
        "context": ["is it tea", "no"],
        "positive_responses": ["yes"],
        "adversarial_negative_responses": ["tea"],
    }
    lines = [json.dumps(record | {"id": str(i)}) for i in range(2)]
    own.write_text("\n".join(lines))
    command = [
        "slm",
        "train",
        "--train",
        str(own),
        "--encoder",
        encoder,
        "--epochs",
        "1",
        "--out",
        out,
    ]
    assert (
        main([*command, "--recipe", "released", "--plain"]) == 0
        and "2 contexts, fing" in capsys.readouterr().out
    )
    stages = [point["stage"] for point in SLM.load(out).provenance["curves"]]
    assert stages == ["contrastive"] * 2 + ["classifier"] * 2
    own.write_text("\n".join([*lines, '{"id": "2", "context": []}']))
    assert main(command) == 2 and f"{own}:3: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--recipe", "graded"], "learns from dialogues and grades as well: say --extra public"),
        (["--extra", "public"], "recipe paper takes no --extra"),
        (["--recipe", "graded", "--extra", "mini"], "there are 0 dialogues and 0 graded pairs"),
        (["--epochs", "0"], "epochs are 0: expected 1 or more"),
        (["--recipe", "best"], "unknown recipe 'best'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_training(
    encoder, tmp_path, capsys, options, said
):
    command = [
        "slm",
        "train",
        "--train",
        "mini:dev",
        "--encoder",
        encoder,
        "--out",
        str(tmp_path / "a"),
        *options,
    ]
    assert main(command) == 2 and said in capsys.readouterr().err and not [*tmp_path.iterdir()]
