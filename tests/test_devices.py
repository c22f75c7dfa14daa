"""Where the weights are, the inputs are too: on the device ``meta``, which computes shapes alone.

It refuses tensors of the CPU, as a GPU does, and is on every machine.
"""

import pytest
import torch
from test_train import TRAIN
from transformers import masking_utils

from dre.slm import SLM, losses, recipes, train
from dre.slm.triplets import embed, training_rows, triplet_batch

TEXTS = ["tea", "the train is my train"]


@pytest.fixture
def on_meta(encoder, monkeypatch):
    """Return a function that makes the untrained model of a recipe, on the device ``meta``."""
    # It would look whether a batch has padding, at numbers.
    monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", lambda *_, **__: False)

    def make(name):
        slm = train.class_for(recipes.get(name)).untrained(encoder, recipes.get(name))
        slm.parts.to("meta")
        return slm

    return make


@pytest.mark.parametrize("name", ["paper", "paper-robust", "released"])
def test_every_stage_of_a_training_computes_where_the_encoder_is(on_meta, name):
    slm = on_meta(name)
    assert slm.reader(TEXTS).device.type == "meta"
    texts, triplets = triplet_batch(training_rows(TRAIN[:3], slm.context))
    for stage in slm.recipe.stages:
        # The shape of a ranking depends on numbers, which ``meta`` has not.
        terms = [term for term in stage.terms if "rank" not in term and "batch" not in term]
        if terms:
            slm.learns(stage.trains)
            h = slm.head(embed(slm.encoder, texts))
            args = (slm.head, h, triplets.to("meta"), terms, slm.recipe)
            loss = losses.total(losses.triplet_terms(*args))
            loss.backward()
            assert loss.device.type == "meta"


def test_all_three_answers_are_computed_where_the_encoder_is(on_meta):
    slm = on_meta("ours")
    h = slm.reader(TEXTS * 3).view(3, len(TEXTS), -1)
    answers = [slm.head.likeness(h), slm.head.fit(h), slm.head.quality(h)]
    assert [answer.device.type for answer in answers] == ["meta"] * 3
    with pytest.raises(RuntimeError, match="device"):
        slm.head.quality(torch.zeros(h.shape))


def test_a_head_goes_to_the_device_of_its_encoder(on_meta, encoder):
    again = SLM(on_meta("paper").encoder, SLM.untrained(encoder).head, recipes.PAPER)
    assert {parameter.device.type for parameter in again.head.parameters()} == {"meta"}
