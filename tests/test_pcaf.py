"""PCAF's equations by hand, the memory of a step, and the recorded scores."""

import copy
import random
from dataclasses import asdict, replace

import pytest
import torch
from conftest import experiment, needs_data

from dre.datasets import ratings
from dre.datasets.dialogues import pairs, parallel
from dre.errors import DreError
from dre.paper import pcaf
from dre.paper.pcaf import PCAF, RECORDED, Idea, Recipe
from dre.slm.provenance import TRAINING
from dre.slm.remembered import Remembered, recorded_models

SMALL = Recipe(epochs=(1, 1), batch_ideas=4)


def english_and_spanish_ideas(n_contexts=6):
    """Return two ideas, a positive and an adversarial each, of each of the first contexts."""
    ideas = []
    for contexts in zip(parallel("train")["original"][:n_contexts], parallel("train")["es"]):
        for i in (0, 1):
            versions = tuple((context.turns, context.positives[i]) for context in contexts)
            ideas.append(Idea(versions, tuple(context.adversarials[i] for context in contexts)))
    return ideas


def test_an_idea_without_wrong_responses_gets_those_of_another_idea_in_all_versions():
    ideas = english_and_spanish_ideas()
    assert pcaf.wrong_responses(ideas, random.Random(0)) == [idea.wrong for idea in ideas]

    without = [Idea(idea.versions) for idea in ideas]
    responses = [tuple(response for _, response in idea.versions) for idea in without]
    for own, wrong in zip(responses, pcaf.wrong_responses(without, random.Random(0))):
        assert wrong in responses and wrong != own


def test_the_code_that_trains_is_the_one_whose_scores_are_recorded(still, monkeypatch):
    """Where these losses change, dre.slm.provenance.TRAINING is raised."""
    monkeypatch.setattr(pcaf, "native_bf16", lambda: False)
    ideas = english_and_spanish_ideas()
    teacher = PCAF(still, SMALL)
    losses = pcaf.train(teacher, ideas, 0)
    student = copy.deepcopy(teacher)
    student_losses = pcaf.train(student, ideas, 0, teacher)

    assert losses == pytest.approx([6.2886963, 6.2765017, 6.1537209], rel=2e-6)
    assert student_losses == pytest.approx([0.1830278, 0.1826551, 0.1743988], rel=2e-6)
    # Both stages at once give the same two models.
    table = pairs(parallel("test")["es"][:3])
    for one, other in zip(pcaf.fit(ideas, ideas, SMALL, 0, still), (teacher, student)):
        assert one.score(table) == pytest.approx(other.score(table), abs=1e-5)
    assert abs(teacher.score(table) - student.score(table)).max() > 1e-4


@pytest.fixture
def metric(encoder, monkeypatch):
    """A metric with dropout that reads two texts at once."""
    monkeypatch.setattr(pcaf, "_CHUNK", {"cpu": 2, "gpu": 2})
    metric = PCAF(encoder, SMALL).train()
    assert any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in metric.modules())
    return metric


def gradients_and_kept_bytes(metric, ideas):
    """Return the gradients of a step of both losses, and the bytes that it keeps for them."""
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    metric.zero_grad()
    torch.manual_seed(0)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        v, v_bar, s, s_bar = metric(ideas, [idea.wrong for idea in ideas])
        embedded = sum(kept.values())
    loss = pcaf.alignment(v, v_bar) + pcaf.right_and_wrong(s, s_bar).sum()
    loss.backward()
    named = metric.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}, embedded


def plainly(function, *arguments, use_reentrant):
    return function(*arguments)


def test_gradients_are_those_of_a_step_that_keeps_everything(metric, monkeypatch):
    ideas = english_and_spanish_ideas(3)
    gradients, _ = gradients_and_kept_bytes(metric, ideas)
    monkeypatch.setattr(pcaf, "checkpoint", plainly)
    expected, _ = gradients_and_kept_bytes(metric, ideas)

    assert gradients.keys() == expected.keys()
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.1
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], msg=name)


def test_the_encoder_keeps_no_activations_however_many_texts_a_step_has(metric, monkeypatch):
    few, many = english_and_spanish_ideas(1), english_and_spanish_ideas(6)
    kept = [gradients_and_kept_bytes(metric, ideas)[1] for ideas in (few, many)]
    monkeypatch.setattr(pcaf, "checkpoint", plainly)
    plain = [gradients_and_kept_bytes(metric, ideas)[1] for ideas in (few, many)]

    assert kept[1] - kept[0] < 0.05 * (plain[1] - plain[0])


def test_a_text_that_is_too_long_loses_its_beginning(encoder):
    metric = PCAF(encoder, Recipe())
    assert metric.text(("no tea",), "is it") == "no tea [SEP] is it"
    assert metric.text(("the train " * 200,), "yes").endswith("[SEP] yes")


def test_the_recorded_scores_are_of_the_training_as_it_is():
    trainer = experiment("pcaf/train_pcaf")
    models = recorded_models(RECORDED)
    for align, names in trainer.NAMES.items():
        recipe = asdict(replace(pcaf.ON_PUBLIC_SETS, align=align))
        recipe["epochs"] = list(recipe["epochs"])
        for name, seed in ((name, seed) for name in names for seed in range(3)):
            origin = models[f"{name}-seed{seed}"]
            expected = {"recipe": recipe, "seed": seed, "encoder": "minilm", "training": TRAINING}
            assert {key: origin[key] for key in expected} == expected


@needs_data
def test_recorded_scores_are_of_the_texts_as_they_are_in_every_language():
    tested = pcaf.in_all_languages(experiment("pcaf/train_pcaf").TEST_SETS)
    for name in recorded_models(RECORDED):
        table = Remembered.recorded(name, RECORDED).score(tested)
        assert list(table) == ["pair_id", "en", "es", "zh"]
        assert table["pair_id"].tolist() == tested["pair_id"].tolist()

    changed = tested.copy()
    changed.loc[7, "response"] += "。"  # a sign of the Chinese reply
    with pytest.raises(DreError, match="1 of 1575 pairs"):
        Remembered.recorded("align-seed1", RECORDED).score(changed)


@needs_data
@pytest.mark.parametrize("language", ["en", "es", "zh"])
def test_a_translation_has_the_rows_of_the_rated_set(language):
    rated = ratings.rated("personachat-usr")
    translation = ratings.translated("personachat-usr")[language]
    for column in ("pair_id", "human"):
        assert (translation[column] == rated[column]).all()
    assert (translation["context"].map(len) == rated["context"].map(len)).all()
    is_same = translation["response"] == rated["response"]
    assert is_same.all() if language == "en" else is_same.mean() < 0.02
