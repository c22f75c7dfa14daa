"""The loss terms of a triplet, each by hand, with vectors that no exchange leaves the same.

Eq. 12-16 are also held by the formula cells of notebook 02.
"""

import math

import pytest
import torch
from torch.nn import functional as F

from dre.slm import losses, recipes


def term(name, whole, robust, non_robust=None, triplets=((0, 1, 2),), recipe="released"):
    """Return a term's values for triplets of rows, whose parts are those given."""
    parts = {"anchor": whole, "robust": robust, "non_robust": non_robust}
    h = {"sentence_embedding": whole, **parts}
    triplets = torch.tensor(triplets)
    return losses.triplet_terms(None, h, triplets, (name,), recipes.get(recipe))[name].tolist()


def at(*cosines):
    """Return unit vectors, (n, 2), by their cosine with the first axis."""
    return torch.tensor([(cosine, math.sqrt(1 - cosine**2)) for cosine in cosines])


def test_in_batch_negatives_never_include_another_positive_of_the_same_context():
    # Six texts so alike that every candidate counts.
    h = 9 + torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    values = term("L_in_batch", h, h, triplets=[(0, 2, 4), (0, 3, 4), (1, 5, 4)])

    candidates_by_pair = {(0, 2): [2, 4, 5], (0, 3): [3, 4, 5], (1, 5): [2, 3, 4, 5]}
    directions = F.normalize(h, dim=-1)
    logits = directions @ directions.T * 20
    for loss, ((context, positive), candidates) in zip(values, candidates_by_pair.items()):
        expected = torch.logsumexp(logits[context, candidates], 0) - logits[context, positive]
        assert loss == pytest.approx(expected.item(), abs=1e-4)


def test_eq_13_squares_how_much_too_near_two_parts_are():
    distances = torch.tensor([0.0, 0.2, 0.5, 1.3])
    apart = losses.separation(distances, margin=0.5)
    assert apart.tolist() == pytest.approx([0.25, 0.09, 0, 0])
    together = losses.separation(distances, z=1)
    assert together.tolist() == pytest.approx([0, 0.04, 0.25, 1.69])


# The angles of the parts of context, positive and adversarial, in cosines with the first axis. All
# distances that a term could take by mistake are different.
#   distance = 1 - cosine:  robust p to non-robust p 0.2, robust a to non-robust a 0.4,
#                           robust p to robust a 0.04 (by hand: cos 0.8 * 0.6 + 0.6 * 0.8 = 0.96)
ROBUST = torch.tensor([[0.0, 1.0], [0.8, 0.6], [0.6, 0.8]])
NON_ROBUST = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("L_ins_same_pos", 0.3**2),  # 1 - 0.8 = 0.2 of 0.5
        ("L_ins_same_neg", 0.1**2),  # 1 - 0.6 = 0.4 of 0.5
        ("L_out_robust", 0.46**2),  # 1 - 0.96 = 0.04 of 0.5
        ("L_out_non_robust", 0.0),  # equal parts, which are drawn together
    ],
)
def test_each_term_of_eq_13_and_14_pushes_its_own_two_parts_apart(name, loss):
    whole = torch.tensor([[1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])
    for recipe in ("paper", "released"):
        assert term(name, whole, ROBUST, NON_ROBUST, recipe=recipe) == pytest.approx([loss])


@pytest.mark.parametrize(("recipe", "loss"), [("paper", 0), ("paper-robust", 1.5)])
def test_eq_12_acts_on_whole_embeddings_as_printed_or_on_robust_parts(recipe, loss):
    """Whole responses have the distances 0 and 1, as they should; robust parts have 1 and 0."""
    assert term("L_out", at(1, 1, 0), at(1, 0, 1), recipe=recipe) == [loss]


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("L_rank", math.log(1 + math.exp(20))),  # the wrong way round
        ("L_rank_robust", math.log(1 + math.exp(-20))),
        ("L_out_non_robust", 1.0),
    ],
)
def test_the_joint_loss_of_the_released_notebook_by_hand(name, loss):
    """One triplet: a cosine of 1 is ranked above one of 0. Non-robust parts are drawn together."""
    whole = at(1, 0, 1)
    assert term(name, whole, at(1, 1, 0), whole) == pytest.approx([loss], abs=1e-6)
