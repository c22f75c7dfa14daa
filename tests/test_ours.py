"""Recipe `ours`, the model of the package, on a tiny encoder: what it learns, counts and leaves out."""

import json

import pandas as pd
import pytest
from test_train import DEV, TRAIN, extra

from dre.datasets.dialogues import load, pairs
from dre.slm import SLM, fit, graded, ours, recipes
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
    learned = slm.parts(graded.graded_table(extra().graded))
    table = pairs(load("mini", "test")[:3])
    z = (slm.parts(table) - learned.mean()) / learned.std()

    expected = 1 + (2 * z["likeness"] + z["fit"] + z["quality"]) / 12
    assert slm.score(table)["score_slm"].to_numpy() == pytest.approx(expected, abs=1e-6)


def test_an_ordinary_pair_has_one_half_of_both_numbers(slm):
    table = graded.graded_table(extra().graded)
    parts = slm.parts(table)
    slm_range = slm.provenance["d_max"] - slm.provenance["d_min"]
    s_d = (1 - parts["likeness"] - slm.provenance["d_min"]) / slm_range
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


def test_it_learns_that_copies_and_quotes_of_the_context_are_wrong(slm):
    examples = slm.examples(TRAIN[:4])
    passes = graded.passes(examples, [], lambda turns: turns, slm.recipe.mixture, 1, 0)
    adversarials = {
        (context, response)
        for row in passes[0]
        for kind, context, _, response in row
        if kind == FOOLS
    }
    for context in TRAIN[:4]:
        for copied in ours.copies(context):
            assert set(copied.split()) <= set(" ".join(context.turns).split())
            assert (context.turns, copied) in adversarials
        before, after = ours.quoted(context, TRAIN[:4])
        assert before.startswith(context.turns) and after.endswith(context.turns)
        assert {(context.turns, before), (context.turns, after)} <= adversarials

    labelled = slm.fitting(examples, [], 0)
    wrong = labelled[labelled["fits"] == 0]
    assert adversarials <= set(zip(wrong["context"], wrong["response"]))


def test_a_right_response_is_never_learned_as_a_copy():
    context = TRAIN[0]
    echo = context.__class__(**{**vars(context), "positives": context.turns})
    (example,) = ours.with_copies([echo])
    assert not set(example.adversarials) & set(echo.positives)


def test_quotes_come_with_replies_that_are_wrong_here():
    for context in TRAIN[:6]:
        for quote in ours.quoted(context, TRAIN[:6]):
            assert not any(quote.endswith(right) for right in context.positives)
            assert not any(quote.startswith(right) for right in context.positives)


def test_every_training_has_the_same_copies():
    assert ours.with_copies(TRAIN[:6]) == ours.with_copies(TRAIN[:6])


def test_a_saved_model_is_read_as_what_it_was(slm, tmp_path):
    slm.save(tmp_path / "slm")
    table = pairs(load("mini", "test")[:3])

    again = SLM.load(tmp_path / "slm")
    assert type(again) is ours.Ours
    pd.testing.assert_frame_equal(again.score(table), slm.score(table), atol=1e-6)


def test_each_recipe_has_its_class():
    classes = {name: class_for(recipe).__name__ for name, recipe in recipes.RECIPES.items()}
    assert classes.pop("graded") == "Graded" and classes.pop("ours") == "Ours"
    assert set(classes.values()) == {"SLM"}


def test_the_model_of_the_package_is_small():
    files = [path for path in DEFAULT.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"README.md", "adapter.safetensors", "slm.json"}
    assert sum(path.stat().st_size for path in files) <= 4_500_000
    about = json.loads((DEFAULT / "slm.json").read_text(encoding="utf-8"))
    assert about["recipe"]["name"] == "ours"
