"""Eq. 12-16 as functions of tensors, one per equation, and the loss terms of a batch.

The paper's ||x - y|| "refers to the cosine distance". The equations return one value per row, :func:`total` a mean.
"""

import torch
import torch.nn.functional as F

ADVERSARIAL, POSITIVE, NON_ROBUST = 0, 1, 2  # the classes of Eq. 15


def distance(x, y):
    """Cosine distance 1 - cos(x, y) along the last axis; (..., d), (..., d) -> (...), in [0, 2]."""
    return 1 - F.cosine_similarity(x, y, dim=-1)


def contrastive(h_c, h_p, h_a, margin=0.5):
    """L_out, Eq. 12: max(delta(h_c, h_p) - delta(h_c, h_a) + margin, 0); (n, d) x 3 -> (n,)."""
    return torch.clamp(distance(h_c, h_p) - distance(h_c, h_a) + margin, min=0)


def separation(d, z=0, margin=0.5):
    """Eq. 13: z d^2 + (1 - z) max(margin - d, 0)^2; with z = 0 it pushes a pair at least ``margin`` apart."""
    return z * d**2 + (1 - z) * torch.clamp(margin - d, min=0) ** 2


def classification(logits, labels):
    """L_cls, Eq. 15, read as cross-entropy (the printed sum of y_i p_i is no loss); (n, k), (n,) -> (n,)."""
    return F.cross_entropy(logits, labels, reduction="none")


def in_batch(h_c, candidates, target, excluded, scale=20.0):
    """Softmax over cosines with in-batch negatives, the first stage of the released notebook; -> (n,).

    ``target`` (n,) says which of the ``candidates`` (k, d) is the right one for each of the contexts ``h_c`` (n, d);
    those ``excluded`` (n, k) are no negatives of it. ``scale`` is an inverse temperature.
    """
    logits = scale * F.normalize(h_c, dim=-1) @ F.normalize(candidates, dim=-1).T
    return F.cross_entropy(logits.masked_fill(excluded, float("-inf")), target, reduction="none")


def total(terms):
    """L, Eq. 16: the sum of the means of the terms; a mapping name -> tensor -> scalar tensor."""
    return torch.stack([value.mean() for value in terms.values()]).sum()


def triplet_terms(head, h, triplets, names, recipe):
    """Compute the named terms, unreduced; a row of ``triplets`` (m, 3): context, positive, adversarial among ``h``."""
    c, p, a = triplets.unbind(dim=1)
    whole, projected, robust, rest = (
        h[part] for part in ("sentence_embedding", "anchor", "robust", "non_robust")
    )
    m = recipe.margin
    compute = {
        "L_out": lambda: contrastive(*contrasted(h, triplets, recipe), m),
        "L_in_batch": lambda: _in_batch_of(whole, whole, c, p, a),
        "L_rank": lambda: _in_batch_of(projected, projected, c, p, a),
        "L_rank_robust": lambda: _in_batch_of(projected, robust, c, p, a),
        "L_ins_same_pos": lambda: separation(distance(robust[p], rest[p]), margin=m),
        "L_ins_same_neg": lambda: separation(distance(robust[a], rest[a]), margin=m),
        "L_out_robust": lambda: separation(distance(robust[p], robust[a]), margin=m),
        "L_out_non_robust": lambda: separation(distance(rest[p], rest[a]), z=1),
        "L_cls": lambda: classification(*class_logits(head, h, triplets)),
    }
    return {name: compute[name]() for name in names}


def contrasted(h, triplets, recipe):
    """What Eq. 12 takes for h_c, h_p and h_a of triplets by the recipe's reading, three (m, d)."""
    of_context, of_response = (
        ("sentence_embedding",) * 2 if recipe.contrast == "whole" else ("anchor", "robust")
    )
    c, p, a = triplets.unbind(dim=1)
    return h[of_context][c], h[of_response][p], h[of_response][a]


def class_logits(head, h, triplets):
    """Logits and labels of Eq. 15 for triplets: robust positives 1, robust adversarials 0, non-robust parts 2."""
    c, p, a = triplets.unbind(dim=1)
    parts = [(h["robust"][p], POSITIVE), (h["robust"][a], ADVERSARIAL)]
    if h["non_robust"] is not None:
        parts += [(h["non_robust"][p], NON_ROBUST), (h["non_robust"][a], NON_ROBUST)]
    h_c = h["anchor"][c]
    logits = torch.cat([head.logits(h_c, part) for part, _ in parts])
    labels = torch.cat([torch.full((len(c),), label, device=logits.device) for _, label in parts])
    return logits, labels


def _in_batch_of(h_c, h_r, c, p, a):
    """Every positive of the batch against all its responses, without other positives of the same context."""
    c, p_of_c = torch.unique(torch.stack([c, p], dim=1), dim=0).unbind(dim=1)
    candidates = torch.unique(torch.cat([p, a]))
    itself = p_of_c[:, None] == candidates
    siblings = (c[:, None] == c).float() @ itself.float() > 0
    return in_batch(h_c[c], h_r[candidates], itself.int().argmax(dim=1), siblings & ~itself)
