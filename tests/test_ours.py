"""Recipe `ours`, that of the package's model, on a tiny encoder.

What it learns from, how its answers count, and what it leaves out.
"""

import json
from dataclasses import replace

import pandas as pd
import pytest
from test_train import DEV, TRAIN, extra

from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.slm import SLM, fit, ours, recipes
from dre.slm.heads import FOOLS
from dre.slm.model import DEFAULT, class_for
from dre.slm.quotes import EMPTY


@pytest.fixture(scope="module")
def slm(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    return fit(TRAIN[:8], DEV, folder / "slm", "ours", 0, encoder, False, extra())


def one_pair(context, response):
    return pd.DataFrame({"pair_id": ["1"], "context": [context], "response": [response]})


def test_likeness_counts_twice_in_standard_deviations_over_the_graded_pairs(slm):
    graded_answers = slm.answers(ours.graded_table(extra().graded))
    table = pairs(load("mini", "test")[:3])
    z = (slm.answers(table) - graded_answers.mean()) / graded_answers.std()

    expected = 1 + (2 * z["likeness"] + z["fit"] + z["quality"]) / 12
    assert slm.score(table)["score_slm"].to_numpy() == pytest.approx(expected, abs=1e-6)


def test_the_distance_of_an_ordinary_pair_is_one_half(slm):
    d_min = slm.provenance["d_min"]
    d_max = slm.provenance["d_max"]

    answers = slm.answers(ours.graded_table(extra().graded))

    s_d = (1 - answers["likeness"] - d_min) / (d_max - d_min)
    assert s_d.mean() == pytest.approx(0.5, abs=1e-6)
    assert s_d.std() == pytest.approx(2 / 12, rel=1e-4)


def test_a_quote_is_left_out_before_the_score_and_the_table_says_so(slm):
    context = ("is it tea", "do you like my train at all")
    quoting = slm.score(one_pair(context, "do you like my train at all? no it was"))
    alone = slm.score(one_pair(context, "no it was"))

    assert quoting["left_out"].item() == "do you like my train at all?"
    assert alone["left_out"].item() == ""
    assert quoting["score_slm"].item() == pytest.approx(alone["score_slm"].item(), abs=1e-6)


def test_an_echo_scores_as_an_empty_reply(slm):
    context = ("is it tea", "do you like my train at all")
    echo = slm.score(one_pair(context, context[-1]))
    empty = slm.score(one_pair(context, EMPTY))
    assert echo["score_slm"].item() == pytest.approx(empty["score_slm"].item(), abs=1e-6)


def test_it_learns_that_copies_of_the_context_are_wrong(slm):
    examples = slm.examples(TRAIN[:4])
    passes = ours.passes(examples, [], lambda turns: turns, slm.recipe.mixture, 1, 0)
    adversarials = {
        (context, response)
        for row in passes[0]
        for kind, context, _, response in row
        if kind == FOOLS
    }
    for context in TRAIN[:4]:
        context_words = set(" ".join(context.turns).split())
        for copied in ours.copies(context):
            assert set(copied.split()) <= context_words
            assert (context.turns, copied) in adversarials

    labelled = slm.fitting(examples, [], 0)
    wrong = labelled[labelled["fits"] == 0]
    assert adversarials <= set(zip(wrong["context"], wrong["response"]))


def test_a_right_response_is_never_learned_as_a_copy():
    echo = replace(TRAIN[0], positives=TRAIN[0].turns)
    (example,) = ours.with_copies([echo])
    assert not set(example.adversarials) & set(echo.positives)


def test_nothing_but_copies_is_added_to_the_wrong_responses():
    for context, example in zip(TRAIN[:6], ours.with_copies(TRAIN[:6])):
        n_labelled = len(context.adversarials)
        assert example.adversarials[:n_labelled] == context.adversarials
        added = example.adversarials[n_labelled:]
        assert added
        assert set(added) <= set(ours.copies(context))
        assert replace(example, adversarials=context.adversarials) == context


def test_every_training_has_the_same_copies():
    assert ours.with_copies(TRAIN[:6]) == ours.with_copies(TRAIN[:6])


def test_a_model_is_saved_and_loaded_with_its_class_and_scores_the_same(slm, tmp_path):
    table = pairs(load("mini", "test")[:3])

    slm.save(tmp_path / "slm")
    loaded = SLM.load(tmp_path / "slm")

    assert type(loaded) is ours.Ours
    pd.testing.assert_frame_equal(loaded.score(table), slm.score(table), atol=1e-6)


def test_a_model_of_a_recipe_that_is_gone_is_refused_since_its_score_would_be_another(
    slm, tmp_path
):
    slm.save(tmp_path / "slm")
    file = tmp_path / "slm" / "slm.json"
    description = json.loads(file.read_text())
    description["recipe"]["name"] = "graded"
    file.write_text(json.dumps(description))
    with pytest.raises(DreError, match="recipe 'graded' is none of paper, .* train it again"):
        SLM.load(tmp_path / "slm")


def test_each_recipe_has_its_class():
    classes = {name: class_for(recipe).__name__ for name, recipe in recipes.RECIPES.items()}
    assert classes.pop("ours") == "Ours"
    assert set(classes.values()) == {"SLM"}


def test_the_model_of_the_package_is_small():
    files = [path for path in DEFAULT.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"README.md", "adapter.safetensors", "slm.json"}
    assert sum(path.stat().st_size for path in files) <= 4_500_000
    description = json.loads((DEFAULT / "slm.json").read_text(encoding="utf-8"))
    assert description["recipe"]["name"] == "ours"
