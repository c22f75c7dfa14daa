"""Recipe `cross` on a tiny encoder: what it reads, what it learns from, what is saved."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from test_train import TRAIN, extra
from tiny import no_doubles

from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.slm import SLM, cross, fit, recipes
from dre.slm.encoder import load_encoder

RECIPE = recipes.get("cross", epochs=1)


@pytest.fixture(scope="module")
def slm(encoder, tmp_path_factory):
    with no_doubles():
        return fit(
            TRAIN[:16], [], tmp_path_factory.mktemp("a") / "slm", RECIPE, 0, encoder, False, extra()
        )


def test_the_score_is_the_probability_of_fitting_and_the_grade(slm):
    table = pairs(load("mini", "test")[:4])
    found, parts = slm.score(table), slm.parts(table)
    assert ((parts[["fit", "quality"]] > 0) & (parts[["fit", "quality"]] < 1)).all(axis=None)
    assert found["score_slm"].to_numpy() == pytest.approx(
        (parts["fit"] + parts["quality"]).to_numpy(), abs=1e-12
    )
    assert found["s_p"].equals(parts["fit"]) and parts[["fit", "quality"]].std().min() > 1e-4


def test_a_pair_is_read_as_alone_and_each_token_sees_those_of_the_other_text(slm):
    table = pairs(load("mini", "test")[:3])
    found = slm.parts(table)
    alone = pd.concat([slm.parts(table.iloc[[i]]) for i in range(len(table))], ignore_index=True)
    pd.testing.assert_frame_equal(found, alone, atol=1e-5)
    viewed = np.array(slm._viewed(table.iloc[[0, 1]]), dtype=object).reshape(3, -1)
    tokens, h = slm.tokens(viewed.ravel().tolist())
    c, r = tokens[0], tokens[4]
    with torch.no_grad():  # by the layers themselves, without masks or padding
        x = slm.head.joined(c, r)[None]
        for layer in slm.encoder[0].model.encoder.layer[1:]:
            x = layer(x)
        logits = slm.head(x[:, : len(c)].mean(1), x[:, len(c) :].mean(1), h.view(3, 2, -1)[:, :1])
    assert torch.sigmoid(logits)[0].tolist() == pytest.approx(
        found.loc[0, ["fit", "quality"]].tolist(), abs=1e-3
    )
    assert (
        torch.sigmoid(slm.head(c.mean(0)[None], r.mean(0)[None], h.view(3, 2, -1)[:, :1]))
        - torch.sigmoid(logits)
    ).abs().max() > 1e-4


def test_the_lower_layers_read_texts_as_the_encoder_does_and_stay_as_they_were(slm, encoder):
    base, texts = load_encoder(encoder), ["is it tea", "no train was my tea"]
    tokens, h = slm.tokens(texts)
    with torch.no_grad():
        features = base.preprocess(texts)
        read = base[0].model(**features, output_hidden_states=True).hidden_states
    for i, own in enumerate(features["attention_mask"].bool()):
        assert torch.allclose(
            tokens[i], read[1][i][own], atol=2e-3
        )  # they are kept in half precision
    assert torch.allclose(h, slm.base(texts), atol=1e-6)
    for name, value in base[0].model.state_dict().items():
        weights = slm.encoder[0].model.state_dict()
        own = (
            name
            if name in weights
            else f"{name.rpartition('.')[0]}.layer.{name.rpartition('.')[2]}"
        )
        assert weights[own].equal(value), name
    assert not any("layer.0" in name for name in slm.state()) and any(
        name.endswith(".up") for name in slm.state()
    )


def test_a_response_says_nothing_by_itself_unless_it_is_adversarial_or_a_copy(slm):
    first, second = slm.passes(TRAIN, extra(), 2, 0)
    assert first != second and len(first) == len(TRAIN)
    context_of = {one.turns: one for one in TRAIN}
    seen = Counter()
    for row, one in zip(first, TRAIN):
        own = [pair for pair in row if pair[0] == one.turns and pair[3] is None]
        assert [fits for *_, fits, _ in own].count(1.0) == 1
        words = {*" ".join(one.turns).split()}
        for _, response, fits, _ in own:
            known = response in one.adversarials or {*response.split()} <= words
            assert (response in one.positives) if fits else known
        ((_, right, *_),) = [pair for pair in own if pair[2]]
        away = [pair for pair in row if pair[1] == right and pair[2] == 0.0]
        assert all(
            right not in context_of[turns].positives for turns, *_ in away if turns in context_of
        )
        seen["away"] += bool(away)
    assert seen["away"] > 0.8 * len(TRAIN)
    grades = [pair[3] for row in first for pair in row if pair[3] is not None]
    assert grades and {*grades} <= {score for *_, score in extra().graded}


def test_both_answers_learn_from_their_own_pairs(encoder):
    torch.manual_seed(0)
    slm = cross.Cross.untrained(encoder, RECIPE)
    slm.learns(("encoder", "head"))
    (rows,) = slm.passes(TRAIN[:8], extra(), 1, 0)
    labelled = [[pair for pair in row if pair[3] is None] for row in rows]
    judged = [[pair for pair in row if pair[2] is None] for row in rows]
    assert slm.loss(rows, None).item() == pytest.approx(
        (slm.loss(labelled, None) + slm.loss(judged, None)).item(), rel=1e-4
    )
    slm.loss(labelled, None).backward()
    out = slm.head.layers[-1].weight.grad
    assert out[0].any() and not out[1].any()  # labels teach fit alone


def test_copies_are_of_the_context(slm):
    turns, draw = ("is it the tea", "no it was my train"), random.Random(0)
    found = {cross.copied(turns, draw) for _ in range(60)}
    assert {*turns} < found and all({*one.split()} <= {*" ".join(turns).split()} for one in found)


def test_it_is_saved_small_and_an_encoder_that_it_cannot_read_with_is_refused(slm, tmp_path):
    slm.save(tmp_path / "slm")
    table = pairs(load("mini", "test")[:3])
    pd.testing.assert_frame_equal(
        SLM.load(tmp_path / "slm").score(table), slm.score(table), atol=1e-6
    )
    other = load_encoder(slm.provenance["encoder"])
    other[0].model.config.model_type = "mpnet"
    with pytest.raises(DreError, match="the encoder is a mpnet: recipe cross reads with BERT"):
        cross.Cross(other, replace(RECIPE))
