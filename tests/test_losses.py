"""In-batch negatives, Eq. 12 as it can be read, and the released joint loss, each by hand.

Eq. 12-16 are held by the formula cells of notebook 02.
"""

import math

import pytest
import torch
from torch.nn import functional as F

from dre.slm import losses, recipes


def test_in_batch_negatives_never_include_another_positive_of_the_same_context():
    # Six texts so alike that every candidate counts.
    generator = torch.Generator().manual_seed(0)
    embeddings = 9 + torch.randn(6, 4, generator=generator)
    h = {
        "sentence_embedding": embeddings,
        "anchor": embeddings,
        "robust": embeddings,
        "non_robust": None,
    }
    triplets = torch.tensor([(0, 2, 4), (0, 3, 4), (1, 5, 4)])
    recipe = recipes.get("released")

    terms = losses.triplet_terms(None, h, triplets, ("L_in_batch",), recipe)

    candidates_by_pair = {
        (0, 2): [2, 4, 5],
        (0, 3): [3, 4, 5],
        (1, 5): [2, 3, 4, 5],
    }
    directions = F.normalize(embeddings, dim=-1)
    logits = directions @ directions.T * 20
    for loss, (pair, candidates) in zip(terms["L_in_batch"], candidates_by_pair.items()):
        context, positive = pair
        expected = torch.logsumexp(logits[context, candidates], 0) - logits[context, positive]
        assert loss.item() == pytest.approx(expected.item(), abs=1e-4)


def test_eq_13_squares_how_much_too_near_two_parts_are():
    distances = torch.tensor([0.0, 0.2, 0.5, 1.3])
    apart = losses.separation(distances, margin=0.5)
    assert apart.tolist() == pytest.approx([0.25, 0.09, 0, 0])
    together = losses.separation(distances, z=1)
    assert together.tolist() == pytest.approx([0, 0.04, 0.25, 1.69])


@pytest.mark.parametrize(("recipe_name", "loss"), [("paper", 0), ("paper-robust", 1.5)])
def test_eq_12_acts_on_whole_embeddings_as_printed_or_on_robust_parts(recipe_name, loss):
    """Whole responses have the distances 0 and 1, as they should; robust parts have 1 and 0."""
    whole = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    robust = torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    h = {"sentence_embedding": whole, "anchor": whole, "robust": robust, "non_robust": None}
    triplet = torch.tensor([[0, 1, 2]])
    recipe = recipes.get(recipe_name)

    terms = losses.triplet_terms(None, h, triplet, ("L_out",), recipe)

    assert terms["L_out"].item() == loss


def test_the_joint_loss_of_the_released_notebook_by_hand():
    """One triplet: a cosine of 1 is ranked above one of 0.

    The non-robust parts are drawn together.
    """
    whole = torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    robust = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    h = {"sentence_embedding": None, "anchor": whole, "robust": robust, "non_robust": whole}
    triplet = torch.tensor([[0, 1, 2]])
    names = ("L_rank", "L_rank_robust", "L_out_non_robust")
    recipe = recipes.get("released")

    terms = losses.triplet_terms(None, h, triplet, names, recipe)

    wrong_way_round = math.log(1 + math.exp(20))
    right_way_round = math.log(1 + math.exp(-20))
    values = [value.item() for value in terms.values()]
    assert values == pytest.approx([wrong_way_round, right_way_round, 1.0], abs=1e-6)
