import copy
import random

import pytest
import torch
from conftest import experiment, needs_data

from dre.datasets import ratings
from dre.datasets.dialogues import VERSIONS, pairs, parallel
from dre.slm.pcaf import Recipe

trainer = experiment("pcaf/train_pcaf")
PCAF, Idea = trainer.PCAF, trainer.Idea


def ideas(split="train", versions=("original", "es"), n=6):
    found = zip(*(parallel(split)[version][:n] for version in versions))
    return [
        Idea(
            tuple((one.turns, one.positives[i]) for one in each),
            tuple(one.adversarials[i] for one in each),
        )
        for each in found
        for i in (0, 1)
    ]


def test_wrong_responses_are_those_of_an_idea_or_of_another_one_in_all_versions():
    own = ideas()
    assert trainer.wrong_responses(own, random.Random(0)) == [idea.wrong for idea in own]
    bare = [Idea(idea.versions) for idea in own]
    for idea, wrong in zip(bare, trainer.wrong_responses(bare, random.Random(0))):
        (other,) = [one for one in bare if tuple(r for _, r in one.versions) == wrong]
        assert other != idea


def test_ranks_are_of_the_own_idea_among_all_of_the_other_language():
    angles = torch.tensor([[0.0, 1.0, 2.0], [2.1, 0.2, 0.9]])  # two languages, three ideas
    found = trainer.neighbour_ranks(
        torch.stack([angles.cos(), angles.sin()], dim=-1), ["a", "b", "c"]
    )
    assert found["rank"].tolist() == [3, 2, 2, 3, 2, 3] and found["idea"].tolist() == [*"abcabc"]
    assert found["language"].tolist() == ["en"] * 3 + ["es"] * 3


def test_the_code_that_trains_is_the_one_whose_scores_are_recorded(still, monkeypatch):
    """Where these losses change, dre.slm.provenance.TRAINING is raised."""
    monkeypatch.setattr(trainer, "native_bf16", lambda: False)
    teacher = PCAF.untrained(still, Recipe(epochs=(1, 1), batch_ideas=4))
    assert trainer.train(teacher, ideas(), 0) == pytest.approx(
        [6.2886963, 6.2765017, 6.1537209], rel=2e-6
    )
    student = copy.deepcopy(teacher)
    assert trainer.train(student, ideas(), 0, teacher) == pytest.approx(
        [0.1830278, 0.1826551, 0.1743988], rel=2e-6
    )
    table = pairs(
        parallel("test")["es"][:3]
    )  # both stages at once, and a teacher that stays what it was
    both = trainer.fit(ideas(), ideas(), Recipe(epochs=(1, 1), batch_ideas=4), 0, still)
    for one, other in zip(both, (teacher, student)):
        assert one.score(table).tolist() == pytest.approx(other.score(table).tolist(), abs=1e-5)
    assert abs(both[0].score(table) - both[1].score(table)).max() > 1e-4


def test_a_text_ends_with_the_response(encoder):
    metric = PCAF.untrained(encoder)
    assert metric.text(("no tea",), "is it") == f"no tea {metric.encoder.tokenizer.sep_token} is it"
    assert metric.text(("the train " * 200,), "yes").endswith("[SEP] yes")


def test_the_parallel_corpus_has_the_same_ids_splits_and_kinds_in_all_versions():
    found = parallel("test")
    assert tuple(found) == VERSIONS and {len(each) for each in found.values()} == {32}
    ids = {tuple(pairs(each)["pair_id"]) for each in found.values()}
    assert len(ids) == 1 and len(ids.pop()) == 32 * 4
    assert len({pairs(each)["response"][0] for each in found.values()}) == 4


@needs_data
def test_translations_have_the_rows_of_the_rated_set():
    table, found = ratings.rated("personachat-usr"), ratings.translated("personachat-usr")
    assert list(found) == ["en", "es", "zh"]
    assert (found["en"]["response"] == table["response"]).all() and (
        found["en"]["context"] == table["context"]
    ).all()
    for other in (found["es"], found["zh"]):
        assert (other["pair_id"] == table["pair_id"]).all() and (
            other["human"] == table["human"]
        ).all()
        assert (other["context"].map(len) == table["context"].map(len)).all()
        assert (other["response"] != table["response"]).mean() > 0.98
