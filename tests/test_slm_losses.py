"""Eq. 12-16 against values worked out by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from dre.slm import losses

# Unit vectors in the plane, so cosine distances are 1 - cos(angle).
EAST, NORTH, WEST = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]), torch.tensor([[-3.0, 0.0]])
NORTH_EAST = torch.tensor([[1.0, 1.0]])


def test_distance_is_one_minus_cosine_whatever_the_lengths():
    assert losses.distance(EAST, EAST).item() == pytest.approx(0)
    assert losses.distance(EAST, NORTH).item() == pytest.approx(1)
    assert losses.distance(EAST, WEST).item() == pytest.approx(2)
    assert losses.distance(EAST, NORTH_EAST).item() == pytest.approx(1 - math.sqrt(0.5))


def test_contrastive_eq_12():
    # d(c, p) = 1, d(c, a) = 1 - sqrt(1/2): 1 - 0.2929 + 0.5
    assert losses.contrastive(EAST, NORTH, NORTH_EAST, 0.5).item() == pytest.approx(0.5 + math.sqrt(0.5))
    # The positive is nearer by more than the margin: nothing to learn.
    assert losses.contrastive(EAST, NORTH_EAST, WEST, 0.5).item() == 0


def test_separation_eq_13():
    d = torch.tensor([0.0, 0.2, 0.5, 1.5])
    assert losses.separation(d, z=0, margin=0.5).tolist() == pytest.approx([0.25, 0.09, 0, 0])
    assert losses.separation(d, z=1, margin=0.5).tolist() == pytest.approx([0, 0.04, 0.25, 2.25])


def test_robust_distances_eq_14():
    d1, d2, d3 = losses.robust_distances(EAST, NORTH, WEST, NORTH_EAST)
    assert [d1.item(), d2.item(), d3.item()] == pytest.approx([1, 1 + math.sqrt(0.5), 2])


def test_classification_eq_15_is_cross_entropy():
    logits = torch.tensor([[0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0]])
    value = losses.classification(logits, torch.tensor([1, 0]))
    assert value.tolist() == pytest.approx([math.log(3), math.log(2)])


def test_total_eq_16_adds_the_means():
    terms = {"a": torch.tensor([1.0, 3.0]), "b": torch.tensor([0.5])}
    assert losses.total(terms).item() == pytest.approx(2.5)


def test_in_batch_leaves_out_the_other_positives_of_a_context():
    h_c = F.normalize(torch.tensor([[1.0, 0.0]]), dim=-1)
    candidates = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # own positive, its sibling, an adversarial
    excluded = torch.tensor([[False, True, False]])
    value = losses.in_batch(h_c, candidates, torch.tensor([0]), excluded, scale=1.0)
    assert value.item() == pytest.approx(-math.log(math.e / (math.e + 1)))


vector = st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3).filter(lambda v: sum(x * x for x in v) > 1e-2)


@settings(max_examples=50, deadline=None)
@given(vector, vector, vector, st.floats(0, 1))
def test_ranges_and_scale_invariance(c, p, a, margin):
    c, p, a = (torch.tensor([v], dtype=torch.float64) for v in (c, p, a))
    assert -1e-9 <= losses.distance(c, p).item() <= 2 + 1e-9
    value = losses.contrastive(c, p, a, margin).item()
    assert 0 <= value <= 2 + margin + 1e-9
    assert losses.contrastive(3 * c, 0.5 * p, 2 * a, margin).item() == pytest.approx(value, abs=1e-9)
