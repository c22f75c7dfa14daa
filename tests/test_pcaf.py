"""PCAF and the parallel corpus: what it trains on, its recorded losses, and ranks by hand."""

import copy
import random
from typing import NamedTuple

import pytest
import torch
from conftest import experiment, needs_data

from dre.datasets import ratings
from dre.datasets.dialogues import VERSIONS, pairs, parallel
from dre.errors import DreError
from dre.paper import pcaf as trained
from dre.paper import pcaf_losses
from dre.paper.pcaf_losses import PcafRecipe
from dre.paper.profile import profile

trainer = experiment("pcaf/train_pcaf")
PCAF = trained.PCAF
Idea = trained.Idea
SMALL_RECIPE = PcafRecipe(epochs=(1, 1), batch_ideas=4)


def english_and_spanish_ideas(n_contexts=6):
    """Return two ideas, a positive and an adversarial each, of each of the first contexts."""
    english_contexts = parallel("train")["original"][:n_contexts]
    spanish_contexts = parallel("train")["es"][:n_contexts]
    ideas = []
    for english, spanish in zip(english_contexts, spanish_contexts):
        for i in (0, 1):
            versions = (
                (english.turns, english.positives[i]),
                (spanish.turns, spanish.positives[i]),
            )
            wrong = (english.adversarials[i], spanish.adversarials[i])
            ideas.append(Idea(versions, wrong))
    return ideas


def test_wrong_responses_are_those_that_an_idea_has():
    ideas = english_and_spanish_ideas()
    wrong_responses = trained.wrong_responses(ideas, random.Random(0))
    assert wrong_responses == [idea.wrong for idea in ideas]


def test_an_idea_without_wrong_responses_gets_those_of_another_idea_in_all_versions():
    ideas = [Idea(idea.versions) for idea in english_and_spanish_ideas()]
    idea_by_responses = {}
    for idea in ideas:
        responses = tuple(response for _, response in idea.versions)
        assert responses not in idea_by_responses
        idea_by_responses[responses] = idea

    all_wrong_responses = trained.wrong_responses(ideas, random.Random(0))

    for idea, wrong_responses in zip(ideas, all_wrong_responses):
        assert idea_by_responses[wrong_responses] != idea


def test_an_idea_is_ranked_among_all_ideas_of_the_second_language():
    # Three ideas in two languages, as points on a circle.
    angles = torch.tensor([[0.0, 1.0, 2.0], [2.1, 0.2, 0.9]])
    features = torch.stack([angles.cos(), angles.sin()], dim=-1)

    table = trainer.neighbour_ranks(features, ["a", "b", "c"])

    assert table["rank"].tolist() == [3, 2, 2, 3, 2, 3]
    assert table["idea"].tolist() == ["a", "b", "c", "a", "b", "c"]
    assert table["language"].tolist() == ["en"] * 3 + ["es"] * 3


def test_points_on_a_line_have_one_principal_component():
    steps = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 8.0]])
    features = torch.stack([3 * steps, 4 * steps], dim=-1)

    table = trainer.principal_components(features, ["a", "b", "c"])

    assert table["idea"].tolist() == ["a", "b", "c"] * 2
    assert table["language"].tolist() == ["en"] * 3 + ["es"] * 3
    gaps = table["first"].diff().abs().dropna()
    assert gaps.tolist() == pytest.approx([5.0, 5.0, 5.0, 5.0, 20.0], rel=1e-5)
    assert table["second"].abs().max() < 1e-5
    assert table["share_first"].tolist() == pytest.approx([1.0] * 6)


class Training(NamedTuple):
    """A teacher and its student, after one epoch each, with the loss of each batch."""

    teacher: PCAF
    student: PCAF
    teacher_losses: list[float]
    student_losses: list[float]


def train_both_stages(encoder):
    ideas = english_and_spanish_ideas()
    teacher = PCAF.untrained(encoder, SMALL_RECIPE)
    teacher_losses = trained.train(teacher, ideas, 0)
    student = copy.deepcopy(teacher)
    student_losses = trained.train(student, ideas, 0, teacher)
    return Training(teacher, student, teacher_losses, student_losses)


def test_the_code_that_trains_is_the_one_whose_scores_are_recorded(still, monkeypatch):
    """Where these losses change, dre.slm.provenance.TRAINING is raised."""
    monkeypatch.setattr(trained, "native_bf16", lambda: False)

    training = train_both_stages(still)

    teacher_losses = [6.2886963, 6.2765017, 6.1537209]
    student_losses = [0.1830278, 0.1826551, 0.1743988]
    assert training.teacher_losses == pytest.approx(teacher_losses, rel=2e-6)
    assert training.student_losses == pytest.approx(student_losses, rel=2e-6)


def test_the_papers_kind_of_encoder_is_trained_as_long_and_as_slowly_as_the_paper_says():
    recipe = pcaf_losses.table7_recipe("distil", trainer.ENCODERS["full"])
    assert (recipe.epochs, recipe.batch_ideas, recipe.learning_rate) == ((10, 10), 32, 5e-6)
    assert not recipe.align and pcaf_losses.table7_recipe("align", trainer.ENCODERS["full"]).align


@pytest.mark.parametrize("variant", pcaf_losses.VARIANTS)
def test_the_recorded_scores_are_of_the_recipe_for_minilm(variant):
    folder = pcaf_losses.folder(profile("public"))
    provenance = pcaf_losses.recorded(folder, variant, 0).provenance
    assert provenance["encoder"] == trainer.ENCODERS["public"]
    assert provenance["recipe"]["align"] == pcaf_losses.VARIANTS[variant]


def test_both_stages_at_once_leave_the_teacher_what_it_was_after_the_first(still, monkeypatch):
    monkeypatch.setattr(trained, "native_bf16", lambda: False)
    ideas = english_and_spanish_ideas()
    table = pairs(parallel("test")["es"][:3])
    training = train_both_stages(still)

    teacher, student = trained.fit(ideas, ideas, SMALL_RECIPE, 0, still)

    teacher_scores = teacher.score(table)
    student_scores = student.score(table)
    expected_teacher_scores = training.teacher.score(table).tolist()
    expected_student_scores = training.student.score(table).tolist()
    assert teacher_scores.tolist() == pytest.approx(expected_teacher_scores, abs=1e-5)
    assert student_scores.tolist() == pytest.approx(expected_student_scores, abs=1e-5)
    assert abs(teacher_scores - student_scores).max() > 1e-4


def test_a_text_ends_with_the_response(encoder):
    metric = PCAF.untrained(encoder)
    separator = metric.encoder.tokenizer.sep_token
    assert metric.text(("no tea",), "is it") == f"no tea {separator} is it"


def test_a_text_that_is_too_long_loses_its_beginning(encoder):
    metric = PCAF.untrained(encoder)
    text = metric.text(("the train " * 200,), "yes")
    assert text.endswith("[SEP] yes")


def test_the_parallel_corpus_has_the_same_ids_splits_and_kinds_in_all_versions():
    corpus = parallel("test")

    assert tuple(corpus) == VERSIONS
    pair_ids = set()
    first_responses = set()
    for contexts in corpus.values():
        assert len(contexts) == 32
        table = pairs(contexts)
        pair_ids.add(tuple(table["pair_id"]))
        first_responses.add(table["response"][0])
    assert len(pair_ids) == 1
    assert len(pair_ids.pop()) == 32 * 4
    assert len(first_responses) == 4


@needs_data
def test_recorded_scores_are_of_the_texts_as_they_are_in_every_language():
    folder = pcaf_losses.folder(profile("public"))
    tested = pcaf_losses.in_all_languages(trainer.TEST_SETS)
    scores = [pcaf_losses.recorded(folder, name, 1).score(tested) for name in pcaf_losses.VARIANTS]
    scores.append(pcaf_losses.recorded_cosines(folder).score(tested))
    for table in scores:
        assert list(table) == ["pair_id", "en", "es", "zh"]
        assert table["pair_id"].tolist() == tested["pair_id"].tolist()

    # A word of the Chinese reply is another one.
    changed = tested.copy()
    changed.loc[7, "response"] += "。"
    fault = "1 of 1575 pairs .*with these texts: python experiments/pcaf/train_pcaf.py trains"
    with pytest.raises(DreError, match=fault):
        pcaf_losses.recorded(folder, "align", 1).score(changed)


@needs_data
def test_the_english_of_the_translations_is_the_rated_set():
    rated = ratings.rated("personachat-usr")
    translations = ratings.translated("personachat-usr")
    assert list(translations) == ["en", "es", "zh"]
    english = translations["en"]
    assert (english["response"] == rated["response"]).all()
    assert (english["context"] == rated["context"]).all()


@needs_data
@pytest.mark.parametrize("language", ["es", "zh"])
def test_a_translation_has_the_rows_of_the_rated_set_in_another_language(language):
    rated = ratings.rated("personachat-usr")
    translation = ratings.translated("personachat-usr")[language]
    assert (translation["pair_id"] == rated["pair_id"]).all()
    assert (translation["human"] == rated["human"]).all()
    assert (translation["context"].map(len) == rated["context"].map(len)).all()
    is_changed = translation["response"] != rated["response"]
    assert is_changed.mean() > 0.98
