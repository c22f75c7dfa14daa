"""Recipe context: what is mixed into a batch, its loss terms by hand, and a head that is not additive."""

import math

import pandas as pd
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dre.data import Context, load
from dre.errors import DreError
from dre.pipeline.profile import profile
from dre.slm import losses, mixing, recipes, runs
from dre.slm.encoder import context_text, load_encoder
from dre.slm.head import Head
from dre.slm.mixed_terms import mixture_terms, swapped
from dre.slm.training import describe, fit

NAMES = recipes.MIXTURE_TERMS
FEW = recipes.Mixture(dialogues=2, graded=1, last_turns=(1, 2))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(encoder):
    return load_encoder(encoder)


def beside(n=7):
    dialogues = [Context("more", str(i), "train", ("do you", f"is it {i}"), (f"it is {i}",)) for i in range(n)]
    graded = pd.DataFrame({"context": [("was it",), ("no", "yes")], "response": ["it was", "no"], "score": [4.5, 0.5]})
    return mixing.Beside(dialogues, graded)


def test_every_dialogue_comes_once_before_any_comes_twice_and_the_seed_decides_which(model):
    contexts = load("mini", "train")[:7]
    rows = mixing.bundles(contexts, beside(14), context_text, FEW, passes=2, seed=0)
    answers = [[pair[1] for row in rows for pair in row["dialogues"][epoch]] for epoch in (0, 1)]
    assert all(sorted(found) == sorted(f"it is {i}" for i in range(14)) for found in answers)
    assert answers[0] != answers[1]
    assert rows == mixing.bundles(contexts, beside(14), context_text, FEW, passes=2, seed=0)
    assert rows != mixing.bundles(contexts, beside(14), context_text, FEW, passes=2, seed=1)


def test_only_last_turns_of_a_dialogue_are_shown(model):
    rows = mixing.bundles(load("mini", "train")[:20], beside(), context_text, FEW, passes=1, seed=0)
    shown = {text for row in rows for text, _ in row["dialogues"][0]}
    assert all("is it" in text for text in shown)
    assert any("do you" in text for text in shown) and any("do you" not in text for text in shown)


def test_a_batch_holds_what_the_epoch_brings(model):
    rows = mixing.bundles(load("mini", "train")[:2], beside(), context_text, FEW, passes=2, seed=0)
    collate = mixing.Mixed(model.preprocess)
    labels = []
    for epoch in (0, 1):
        collate.epoch = epoch
        labels.append(collate(rows)["label"])
        kinds = labels[-1][:, 0].tolist()
        assert [kinds.count(kind) for kind in (mixing.FITS, mixing.ADVERSARIAL, mixing.GRADED)] == [14, 10, 2]
        assert set(labels[-1][labels[-1][:, 0] == mixing.GRADED][:, 3].tolist()) <= {4.5, 0.5}
    assert not labels[0].equal(labels[1])


def embeddings(*rows):
    h = torch.tensor(rows, dtype=torch.float32)
    return {"anchor": h, "robust": h}


def test_contrast_by_hand():
    """Two contexts, the first with two right responses; cosines of 1 and 0, scale 20."""
    h = embeddings([1, 0], [0, 1], [1, 0], [1, 0], [0, 1])
    label = torch.tensor([[0, 0, 2, 0], [0, 0, 3, 0], [0, 1, 4, 0]], dtype=torch.float32)
    near = math.log(1 + math.exp(-20))  # each right response against the one of the other context
    far = math.log(1 + 2 * math.exp(-20))  # the second context meets both responses of the first
    found = mixture_terms(None, h, label, ("L_fit",))["L_fit"].item()
    assert found == pytest.approx(((near + far) / 2 + (near + near) / 2) / 2, abs=1e-7)


def test_another_right_response_of_the_same_context_is_no_negative():
    h = embeddings([1, 0], [0, 1], [1, 0.1], [0.7, 0.7], [0, 1])
    label = torch.tensor([[0, 0, 2, 0], [0, 0, 3, 0], [0, 1, 4, 0]], dtype=torch.float32)
    found = mixture_terms(None, h, label, ("L_fit",))["L_fit"].item()
    cos = torch.nn.functional.cosine_similarity
    c, r = h["anchor"][:2], h["robust"][2:]
    s = 20 * torch.stack([cos(c[i : i + 1], r) for i in range(2)])
    first = [torch.logsumexp(s[0, [i, 2]], 0) - s[0, i] for i in (0, 1)]
    second = torch.logsumexp(s[1], 0) - s[1, 2]
    back = [torch.logsumexp(s[:, i], 0) - s[own, i] for i, own in ((0, 0), (1, 0), (2, 1))]
    expected = ((first[0] + first[1] + back[0] + back[1]) / 4 + (second + back[2]) / 2) / 2
    assert found == pytest.approx(expected.item(), abs=1e-5)


def test_no_property_of_the_response_alone_helps_in_the_second_direction():
    """All responses equal: given a response, every context is as near as any other."""
    h = embeddings([1, 0], [0, 1], [1, 1], [1, 1])
    label = torch.tensor([[0, 0, 2, 0], [0, 1, 3, 0]], dtype=torch.float32)
    assert mixture_terms(None, h, label, ("L_fit",))["L_fit"].item() == pytest.approx(math.log(2))


class Fixed:
    """A head that answers by place: logits (0, first entry of the response); grade 2 x second entry."""

    @staticmethod
    def logits(h_c, h_r):
        return torch.stack([torch.zeros(len(h_r)), h_r[:, 0]], dim=1)

    @staticmethod
    def grades(h_c, h_r):
        return 2 * h_r[:, 1]


def test_classification_and_grades_by_hand():
    h = embeddings([1, 0], [0, 1], [2.0, 0], [-1.0, 0], [3.0, 0.5])
    label = torch.tensor([[0, 0, 2, 0], [0, 1, 2, 0], [1, 0, 3, 0], [2, 1, 4, 5.0]], dtype=torch.float32)
    found = mixture_terms(Fixed, h, label, NAMES)
    right, wrong = math.log(1 + math.exp(-2)), math.log(1 + math.exp(-1))
    other = math.log(1 + math.exp(2))  # the same response with the other context, which this head cannot tell
    assert found["L_reads"].item() == pytest.approx(right / 2 + wrong / 4 + other / 4)
    assert found["L_grade"].item() == pytest.approx((1 - 2) ** 2)
    without = mixture_terms(Fixed, h, label[:3], ("L_grade",))
    assert without["L_grade"].item() == 0


@given(st.lists(st.integers(0, 5), min_size=2, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_swapped_response_never_keeps_a_context_of_its_own_place(owners):
    c, r = torch.tensor(owners), torch.arange(100, 100 + len(owners))
    others, same = swapped(c, r)
    if len(set(owners)) == 1:
        assert not len(others) and not len(same)
        return
    assert same.equal(r) and not (others == c).any() and set(others.tolist()) <= set(owners)


def test_the_head_is_not_additive_and_the_linear_one_is():
    """Interaction: f(c, r) - f(c', r) - f(c, r') + f(c', r'), which is 0 for any sum of two functions."""
    torch.manual_seed(0)
    c, r = torch.randn(2, 16), torch.randn(2, 16)
    for kind, additive in (("linear", True), ("interaction", False)):
        head = Head(16, "none", kind).eval()
        f = [[head.logits(c[i : i + 1], r[j : j + 1])[0, 1].item() for j in (0, 1)] for i in (0, 1)]
        assert (abs(f[0][0] - f[1][0] - f[0][1] + f[1][1]) < 1e-6) == additive
    assert 0 <= Head(16, "none", "interaction").grades(c, r).min().item() <= 2


def test_it_trains_with_and_without_anything_beside(encoder, tmp_path):
    contexts = load("mini", "train")[:16]
    recipe = recipes.get("context", epochs=2)
    for name, extra in (("with", beside()), ("without", None)):
        slm = fit(contexts, contexts[:2], tmp_path / name, recipe, 0, encoder, progress=False, beside=extra)
        assert [p["epoch"] for p in slm.provenance["curves"] if p["split"] == "dev"] == [0, 1, 2]
        words = slm.model[0].model.get_input_embeddings().weight
        assert words.cpu().equal(load_encoder(encoder)[0].model.get_input_embeddings().weight.cpu())
    assert slm.model[-1].kind == "interaction" and words.requires_grad


def test_what_is_learned_from_beside_decides_the_fingerprint_and_only_where_it_is_learned_from():
    contexts, recipe = load("mini", "train")[:4], recipes.get("context")
    prints = {
        describe(contexts, [], recipe, 0, "minilm", extra)["fingerprint"] for extra in (None, beside(), beside(8))
    }
    assert len(prints) == 3
    with pytest.raises(DreError, match="recipe paper learns from labelled contexts alone"):
        describe(contexts, [], recipes.get("paper"), 0, "minilm", beside())
    with pytest.raises(DreError, match="recipe context has nothing to disentangle"):
        recipes.get("context", disentangled=False)


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_a_recipe_survives_its_description(name):
    recipe = recipes.get(name)
    assert recipes.Recipe.from_dict(recipe.as_dict()) == recipe
    assert ("mixture" in recipe.as_dict()) == (name == "context")


def test_public_dialogues_and_grades_touch_neither_held_out_nor_rated_nor_test_dialogues(data_home):
    from dre.data import rated
    from dre.data.overlap import disjoint

    chosen = profile("public")
    _, dev, test = runs.contexts(chosen.sets[0], chosen.rated)
    extra = runs.beside(chosen, dev)
    assert len(extra.dialogues) > 30_000 and len(extra.pairs()) > 1_500
    kept = [*dev, *test, *(record for name in chosen.rated for record in rated(name))]
    assert len(disjoint(extra.dialogues, kept)) == len(extra.dialogues)
    assert not set(extra.graded["context_id"]) & {context.context_id for context in (*dev, *test)}
    assert losses.POSITIVE == 1  # the column of the head that s_p is read from
