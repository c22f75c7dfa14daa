"""Eq. 12-16 as functions of tensors, one per equation, and the loss terms of a batch.

The paper's ||x - y|| "refers to the cosine distance". The equations return one value for each row,
:func:`total` takes means. Shapes: n rows of dimension d, m triplets.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from dre.slm.recipes import Recipe

# The classes of Eq. 15.
_ADVERSARIAL = 0
POSITIVE = 1
NON_ROBUST = 2


def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Cosine distance 1 - cos(x, y) along the last axis; (..., d), (..., d) -> (...), in [0, 2]."""
    return 1 - F.cosine_similarity(x, y, dim=-1)


def contrastive(
    h_c: torch.Tensor, h_p: torch.Tensor, h_a: torch.Tensor, margin: float = 0.5
) -> torch.Tensor:
    """L_out, Eq. 12: max(delta(h_c, h_p) - delta(h_c, h_a) + margin, 0); (n, d) x 3 -> (n,)."""
    to_positive = distance(h_c, h_p)
    to_adversarial = distance(h_c, h_a)
    return torch.clamp(to_positive - to_adversarial + margin, min=0)


def separation(d: torch.Tensor, z: int = 0, margin: float = 0.5) -> torch.Tensor:
    """Eq. 13: z d^2 + (1 - z) max(margin - d, 0)^2, of distances d of any shape.

    With z = 0 it pushes a pair at least ``margin`` apart, with z = 1 it draws it together.
    """
    attraction = z * d**2
    repulsion = (1 - z) * torch.clamp(margin - d, min=0) ** 2
    return attraction + repulsion


def classification(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """L_cls, Eq. 15, read as cross-entropy; (n, classes), (n,) -> (n,).

    The sum of y_i p_i in the paper cannot be a loss: it would reward a small probability of the
    right class.
    """
    return F.cross_entropy(logits, labels, reduction="none")


def in_batch(
    h_c: torch.Tensor,
    candidates: torch.Tensor,
    target: torch.Tensor,
    excluded: torch.Tensor,
    scale: float = 20.0,
) -> torch.Tensor:
    """Cross-entropy over cosines with in-batch negatives, the first stage of the authors' code.

    Parameters
    ----------
    h_c : (n, d), the contexts.
    candidates : (k, d), the responses of the batch.
    target : (n,), which candidate is the right one for each context.
    excluded : (n, k), which candidates are not negatives of it.
    scale : an inverse temperature.

    Returns
    -------
    (n,) tensor.
    """
    contexts = scale * F.normalize(h_c, dim=-1)
    responses = F.normalize(candidates, dim=-1)
    logits = contexts @ responses.T
    logits = logits.masked_fill(excluded, float("-inf"))
    return F.cross_entropy(logits, target, reduction="none")


def total(terms: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """L, Eq. 16: the sum of the means of the terms; a mapping name -> tensor -> scalar tensor."""
    means = [value.mean() for value in terms.values()]
    return torch.stack(means).sum()


def triplet_terms(
    head: Any,
    h: Mapping[str, torch.Tensor],
    triplets: torch.Tensor,
    names: Sequence[str],
    recipe: Recipe,
) -> dict[str, torch.Tensor]:
    """Return the named loss terms of some triplets, one value for each triplet or pair.

    Parameters
    ----------
    head : a `dre.slm.model.Head`, which classifies pairs.
    h : the parts of the embeddings (n, d) by name, as `dre.slm.model.Head` returns them.
    triplets : (m, 3) integers: context, positive and adversarial response among the n rows.
    names : which terms; those of `dre.slm.recipes.Stage`.
    recipe : its margin, and its reading of Eq. 12.
    """
    c, p, a = triplets.unbind(dim=1)
    whole = h["sentence_embedding"]
    projected = h["anchor"]
    robust = h["robust"]
    non_robust = h["non_robust"]
    margin = recipe.margin
    compute = {
        # Eq. 12
        "L_out": lambda: contrastive(*contrasted(h, triplets, recipe), margin),
        # Rankings of the authors' code: of whole embeddings, projected ones, robust parts
        "L_in_batch": lambda: _rank_in_batch(whole, whole, triplets),
        "L_rank": lambda: _rank_in_batch(projected, projected, triplets),
        "L_rank_robust": lambda: _rank_in_batch(projected, robust, triplets),
        # Eq. 13: the two parts of one response, and the robust parts of two, are pushed apart
        "L_ins_same_pos": lambda: separation(distance(robust[p], non_robust[p]), margin=margin),
        "L_ins_same_neg": lambda: separation(distance(robust[a], non_robust[a]), margin=margin),
        "L_out_robust": lambda: separation(distance(robust[p], robust[a]), margin=margin),
        # The opposite for non-robust parts, in the authors' code
        "L_out_non_robust": lambda: separation(distance(non_robust[p], non_robust[a]), z=1),
        # Eq. 15
        "L_cls": lambda: classification(*class_logits(head, h, triplets)),
    }
    return {name: compute[name]() for name in names}


def contrasted(
    h: Mapping[str, torch.Tensor], triplets: torch.Tensor, recipe: Recipe
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return h_c, h_p and h_a of Eq. 12 for triplets, as a recipe reads it; (m, d) each."""
    context_part = "anchor"
    response_part = "robust"
    if recipe.contrast == "whole":
        context_part = response_part = "sentence_embedding"
    c, p, a = triplets.unbind(dim=1)
    return h[context_part][c], h[response_part][p], h[response_part][a]


def class_logits(
    head: Any, h: Mapping[str, torch.Tensor], triplets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits (n, classes) and labels (n,) of Eq. 15 for triplets.

    Robust parts of positives are class 1, those of adversarials class 0, non-robust parts class 2.
    """
    c, p, a = triplets.unbind(dim=1)
    examples = [(h["robust"][p], POSITIVE), (h["robust"][a], _ADVERSARIAL)]
    if h["non_robust"] is not None:
        examples += [(h["non_robust"][responses], NON_ROBUST) for responses in (p, a)]
    h_c = h["anchor"][c]
    logits = torch.cat([head.logits(h_c, h_response) for h_response, _ in examples])
    labels = [torch.full((len(c),), label, device=logits.device) for _, label in examples]
    return logits, torch.cat(labels)


def _rank_in_batch(h_c, h_r, triplets):
    """Rank every positive of a batch against all its responses (`in_batch`).

    Other positives of the same context are not negatives.
    """
    c, p, a = triplets.unbind(dim=1)
    # The distinct pairs of a context and a positive, and all responses.
    contexts_with_positives = torch.stack([c, p], dim=1)
    pairs = torch.unique(contexts_with_positives, dim=0)
    context, positive = pairs.unbind(dim=1)
    responses = torch.cat([p, a])
    candidates = torch.unique(responses)

    # Which candidate is the target, and which ones are positives of the same context.
    is_target = positive[:, None] == candidates
    is_same_context = context[:, None] == context
    is_positive_of_context = is_same_context.float() @ is_target.float() > 0
    target = is_target.int().argmax(dim=1)
    excluded = is_positive_of_context & ~is_target
    return in_batch(h_c[context], h_r[candidates], target, excluded)
