import copy
import math
import random

import pytest
import torch
from conftest import experiment, needs_data

from dre import ratings
from dre.dialogues import VERSIONS, pairs, parallel
from dre.slm import pcaf
from dre.slm.pcaf import Recipe

trainer = experiment("pcaf")
PCAF, Idea = trainer.PCAF, trainer.Idea

# Two ideas in two versions, in the plane: cosines are 1, 0 or -1, and exp(cos / 0.5) is e^2, 1 or e^-2.
EAST, NORTH, WEST = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)
V = torch.tensor([[EAST, EAST], [NORTH, WEST]]) * 3  # lengths do not matter
V_BAR = torch.tensor([[NORTH, WEST], [NORTH, NORTH]])
E2 = math.exp(2)


def test_equation_3_takes_later_ideas_only_and_wrong_with_right_but_not_right_with_wrong():
    right = 2 * (1 + 1 / E2)  # east, east with north, west
    crossed = (E2 + 1) + (1 + E2)  # wrong of the first with right of the second: north, then west
    wrong = 2 * E2 + 2 * 1  # north, west with north, north
    assert pcaf.similarity_all(V, V_BAR, 0.5).item() == pytest.approx(right + crossed + wrong, rel=1e-6)


def test_equations_6_and_8_to_10_on_two_versions_by_hand():
    s, s_bar = torch.tensor([[0.5, 1.0]]), torch.tensor([[0.5, 0.0]])
    teacher, teacher_bar = torch.tensor([[0.8, 0.4]]), torch.tensor([[0.1, 0.0]])
    assert pcaf.right_and_wrong(s, s_bar).tolist()[0] == pytest.approx([0.25 + 0.25, 0])
    soft = [0.3**2 + 0.4**2 + 0.1**2, 0.6**2 + 0 + 0.4**2]  # the teacher's mean is 0.6
    assert pcaf.distillation(s, s_bar, teacher, teacher_bar).tolist()[0] == pytest.approx(soft)
    whole = (0.2 * 0.5 + 0.8 * soft[0] + 0.2 * 0 + 0.8 * soft[1]) / 2
    assert pcaf.student(s, s_bar, teacher, teacher_bar, 0.2).tolist() == pytest.approx([whole])


def ideas(split="train", versions=("original", "es"), n=6):
    found = zip(*(parallel(split)[version][:n] for version in versions))
    return [
        Idea(tuple((one.turns, one.positives[i]) for one in each), tuple(one.adversarials[i] for one in each))
        for each in found
        for i in (0, 1)
    ]


def test_wrong_responses_are_those_of_an_idea_or_of_another_one_in_all_versions():
    own = ideas()
    assert trainer.exchanged(own, random.Random(0)) == [idea.wrong for idea in own]
    bare = [Idea(idea.versions) for idea in own]
    for idea, wrong in zip(bare, trainer.exchanged(bare, random.Random(0))):
        (other,) = [one for one in bare if tuple(r for _, r in one.versions) == wrong]
        assert other != idea


def test_two_stages_learn_and_the_student_goes_on_from_a_teacher_that_stays(encoder):
    recipe = Recipe(epochs=(6, 1), batch_ideas=4, learning_rate=1e-3)
    some, table = ideas(), pairs(parallel("test")["es"][:3])
    metric = PCAF.untrained(encoder, recipe)
    losses = trainer.train(metric, some, 0)
    assert len(losses) == 6 * 3 and sum(losses[-3:]) < sum(losses[:3])
    teacher, student = trainer.fit(some, some, recipe, 0, encoder)
    assert teacher.score(table).tolist() == pytest.approx(metric.score(table).tolist(), abs=1e-5)
    assert not (teacher.score(table) == student.score(table)).all()


def test_the_code_that_trains_is_the_one_whose_scores_are_recorded(still, monkeypatch):
    """Where these losses change, dre.slm.data.TRAINING is raised."""
    monkeypatch.setattr(trainer, "native_bf16", lambda: False)
    teacher = PCAF.untrained(still, Recipe(epochs=(1, 1), batch_ideas=4))
    assert trainer.train(teacher, ideas(), 0) == pytest.approx([6.2886963, 6.2765017, 6.1537209], rel=2e-6)
    student = copy.deepcopy(teacher)
    assert trainer.train(student, ideas(), 0, teacher) == pytest.approx([0.1830278, 0.1826551, 0.1743988], rel=2e-6)


def test_alignment_brings_versions_together_beside_the_same_training_without(encoder):
    words = [("tea", "you"), ("train", "we"), ("is", "my"), ("was", "your"), ("the", "no"), ("do", "it"), ("can", "a")]
    some = [Idea(tuple(((word,), word) for word in versions)) for versions in words]
    nearness = []
    for align in (True, False):
        metric = PCAF.untrained(encoder, Recipe(epochs=(30, 0), batch_ideas=7, learning_rate=3e-3, align=align))
        trainer.train(metric, some, 0)
        v = metric.batch(some, [("i", "i")] * 7)[0].detach()
        one, two = torch.nn.functional.normalize(v, dim=-1).unbind(dim=1)
        nearness.append((one @ two.T).argmax(dim=1).eq(torch.arange(7)).float().mean().item())
    assert nearness[0] > nearness[1] + 0.3


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
    assert (found["en"]["response"] == table["response"]).all() and (found["en"]["context"] == table["context"]).all()
    for other in (found["es"], found["zh"]):
        assert (other["pair_id"] == table["pair_id"]).all() and (other["human"] == table["human"]).all()
        assert (other["context"].map(len) == table["context"].map(len)).all()
        assert (other["response"] != table["response"]).mean() > 0.98
