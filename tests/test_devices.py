"""Where the weights are, the inputs are too: on the device ``meta``, which computes shapes alone.

It refuses tensors of the CPU, as a GPU does, and is on every machine.
"""

from functools import partial

import pytest
import torch
from test_train import TRAIN
from transformers import masking_utils

from dre.slm import SLM, losses, recipes, train
from dre.slm.encoder import Reader
from dre.slm.triplets import embed, training_rows, triplet_batch

TEXTS = ["tea", "the train is my train"]
#: Terms whose shape depends on numbers, which ``meta`` has not.
RANKINGS = {"L_in_batch", "L_rank", "L_rank_robust"}


@pytest.fixture
def on_meta(encoder, monkeypatch):
    """Return a function that makes the untrained model of a recipe, on the device ``meta``."""
    # It would look whether a batch has padding, at numbers.
    monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", lambda *_, **__: False)

    def make(name):
        recipe = recipes.get(name)
        slm = train.class_for(recipe).untrained(encoder, recipe)
        slm.encoder.to("meta")
        slm.head.to("meta")
        return slm

    return make


def test_texts_are_read_where_the_encoder_is(on_meta):
    slm = on_meta("paper")
    assert Reader(slm.encoder)(TEXTS).device.type == "meta"
    assert embed(slm.encoder, TEXTS).device.type == "meta"


def test_inputs_that_stay_elsewhere_than_the_weights_are_noticed(on_meta):
    slm = on_meta("paper")
    features = slm.reader.tokens.features(TEXTS)
    with pytest.raises(RuntimeError, match="cpu.*meta"):
        slm.encoder(features)


@pytest.mark.parametrize("name", ["paper", "paper-robust", "released"])
def test_every_stage_of_a_training_computes_where_the_encoder_is(on_meta, name):
    slm = on_meta(name)
    rows = training_rows(TRAIN[:3], slm.context)
    texts, triplets = triplet_batch(rows)
    for stage in slm.recipe.stages:
        terms = [term for term in stage.terms if term not in RANKINGS]
        if not terms:
            continue
        slm.learns(stage.trains)
        h = slm.head(embed(slm.encoder, texts))
        compute = partial(losses.triplet_terms, slm.head, h, names=terms, recipe=slm.recipe)
        loss = losses.total(compute(triplets.to("meta")))
        loss.backward()
        assert loss.device.type == "meta"


@pytest.mark.parametrize("name", ["ours"])
def test_all_three_answers_are_computed_where_the_encoder_is(on_meta, name):
    slm = on_meta(name)
    h = slm.reader(TEXTS * 3).view(3, len(TEXTS), -1)
    answers = [slm.head.likeness(h), slm.head.fit(h), slm.head.quality(h)]
    assert [answer.device.type for answer in answers] == ["meta"] * 3
    with pytest.raises(RuntimeError, match="device"):
        slm.head.quality(torch.zeros(h.shape))


def test_a_head_goes_to_the_device_of_its_encoder(encoder):
    slm = SLM.untrained(encoder)
    slm.encoder.to("meta")
    again = SLM(slm.encoder, slm.head, slm.recipe)
    assert {parameter.device.type for parameter in again.head.parameters()} == {"meta"}
