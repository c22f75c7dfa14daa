"""Eq. 12-16 as functions of tensors, one per equation.

All distances are cosine distances, delta(x, y) = 1 - cos(x, y), in [0, 2] (the paper's ||x - y|| "refers to the
cosine distance"). Functions return one value a row; the mean over rows is taken in :func:`total`.
"""

import torch
import torch.nn.functional as F

#: The classes of Eq. 15.
ADVERSARIAL, POSITIVE, NON_ROBUST = 0, 1, 2


def distance(x, y):
    """Cosine distance 1 - cos(x, y) along the last axis; (..., d), (..., d) -> (...), in [0, 2]."""
    return 1 - F.cosine_similarity(x, y, dim=-1)


def contrastive(h_c, h_p, h_a, margin=0.5):
    """L_out, Eq. 12: max(delta(h_c, h_p) - delta(h_c, h_a) + margin, 0); (n, d) x 3 -> (n,)."""
    return torch.clamp(distance(h_c, h_p) - distance(h_c, h_a) + margin, min=0)


def separation(d, z=0, margin=0.5):
    """Eq. 13: z d^2 + (1 - z) max(margin - d, 0)^2; with z = 0 it pushes a pair at least ``margin`` apart."""
    return z * d**2 + (1 - z) * torch.clamp(margin - d, min=0) ** 2


def robust_distances(h_pr, h_pn, h_ar, h_an):
    """d1, d2, d3 of Eq. 14: robust v. non-robust of positives, of adversarials, and robust v. robust."""
    return distance(h_pr, h_pn), distance(h_ar, h_an), distance(h_pr, h_ar)


def classification(logits, labels):
    """L_cls, Eq. 15, read as cross-entropy (the printed sum of y_i p_i is no loss); (n, k), (n,) -> (n,)."""
    return F.cross_entropy(logits, labels, reduction="none")


def in_batch(h_c, candidates, target, excluded, scale=20.0):
    """Softmax over cosines with in-batch negatives: the first stage of the released notebook.

    Parameters
    ----------
    h_c : (n, d) Tensor
        Contexts.
    candidates : (k, d) Tensor
        All responses of the batch.
    target : (n,) int Tensor
        Which candidate is the right one.
    excluded : (n, k) bool Tensor
        Candidates that are no negatives of that context (its other positives).
    scale : float
        Inverse temperature, the value usual in Sentence-Transformers.

    Returns
    -------
    (n,) Tensor
    """
    logits = scale * F.normalize(h_c, dim=-1) @ F.normalize(candidates, dim=-1).T
    return F.cross_entropy(logits.masked_fill(excluded, float("-inf")), target, reduction="none")


def total(terms):
    """L, Eq. 16: the sum of the means of the terms; a mapping name -> (n,) tensor -> scalar tensor."""
    return torch.stack([value.mean() for value in terms.values()]).sum()
