"""In-batch negatives and the readings of Eq. 12 by hand; Eq. 12-16 are held by notebook 02's formula cells."""

import math

import pytest
import torch
from torch.nn import functional as F

from dre.slm import losses, recipes


def test_in_batch_negatives_never_include_another_positive_of_the_same_context():
    h = 9 + torch.randn(
        6, 4, generator=torch.Generator().manual_seed(0)
    )  # so alike that every candidate counts
    parts = {"sentence_embedding": h, "anchor": h, "robust": h, "non_robust": None}
    triplets = torch.tensor([(0, 2, 4), (0, 3, 4), (1, 5, 4)])
    got = losses.triplet_terms(None, parts, triplets, ("L_in_batch",), recipes.get("released"))
    cos = F.normalize(h, dim=-1) @ F.normalize(h, dim=-1).T * 20
    allowed = {(0, 2): [2, 4, 5], (0, 3): [3, 4, 5], (1, 5): [2, 3, 4, 5]}
    for value, ((c, p), candidates) in zip(got["L_in_batch"], allowed.items()):
        expected = torch.logsumexp(cos[c, candidates], 0) - cos[c, p]
        assert value.item() == pytest.approx(expected.item(), abs=1e-4)


def test_eq_12_acts_on_whole_embeddings_as_printed_or_on_robust_parts():
    """Whole embeddings: distances 0 and 1, nothing to do; robust parts of the responses: 1 and 0."""
    whole = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    h = {
        "sentence_embedding": whole,
        "anchor": whole,
        "robust": whole[[0, 2, 1]],
        "non_robust": None,
    }
    one = torch.tensor([[0, 1, 2]])
    found = [
        losses.triplet_terms(None, h, one, ("L_out",), recipes.get(name))
        for name in ("paper", "paper-robust")
    ]
    assert [terms["L_out"].item() for terms in found] == [0, 1.5]


def test_the_joint_loss_of_the_released_notebook_by_hand():
    """One triplet: a cosine of 1 is ranked above one of 0, and the non-robust parts are drawn together."""
    whole = torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    h = {
        "sentence_embedding": None,
        "anchor": whole,
        "robust": whole[[0, 2, 1]],
        "non_robust": whole,
    }
    names = ("L_rank", "L_rank_robust", "L_out_non_robust")
    found = losses.triplet_terms(None, h, torch.tensor([[0, 1, 2]]), names, recipes.get("released"))
    high, low = math.log(1 + math.exp(20)), math.log(1 + math.exp(-20))
    assert [value.item() for value in found.values()] == pytest.approx([high, low, 1.0], abs=1e-6)
