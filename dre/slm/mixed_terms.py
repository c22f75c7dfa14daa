"""The loss terms of recipe ``context`` over one batch of its mixture."""

import torch
import torch.nn.functional as F

from dre.slm import losses
from dre.slm.mixing import ADVERSARIAL, FITS, GRADED


def mixture_terms(head, h, label, names):
    """Compute the terms by name; each a mean, so a scalar.

    ``L_fit``    contrast of right pairs with all others of the batch, in both directions (InfoNCE on cosines): a
                 response is to be nearer to its context than the responses to other contexts, and nearer to its
                 context than to other contexts. The second cannot be met by any property of the response alone.
    ``L_reads``  classification of right pairs against two kinds of wrong ones of equal weight: adversarial
                 responses, and right responses to another context of the batch.
    ``L_grade``  squared error against a judge's score, on the scale of Eq. 19 (0 to 2).

    Parameters
    ----------
    head : dre.slm.head.Head
        With interaction.
    h : dict of str to (n, d) Tensor
        ``anchor`` and ``robust``, of all texts of the batch.
    label : (m, 4) Tensor
        Of :class:`dre.slm.mixing.Mixed`.
    names : sequence of str
        Which of :data:`dre.slm.recipes.MIXTURE_TERMS`. ``L_grade`` is 0 in a batch without graded pairs.
    """
    kind, c, r = label[:, 0], label[:, 1].long(), label[:, 2].long()
    right, wrong, graded = (kind == each for each in (FITS, ADVERSARIAL, GRADED))
    compute = {
        "L_fit": lambda: _fit(h, c[right], r[right]),
        "L_reads": lambda: _reads(head, h, (c[right], r[right]), (c[wrong], r[wrong])),
        "L_grade": lambda: _grade(head, h, c[graded], r[graded], label[graded, 3]),
    }
    return {name: compute[name]() for name in names}


def _fit(h, c, r):
    """InfoNCE in both directions; every context counts alike, however many right responses it has."""
    contexts, owner, counts = c.unique(return_inverse=True, return_counts=True)
    share = 1 / (counts[owner] * len(contexts))
    others = owner[:, None] == owner[None, :]  # another right response of the same context is no negative
    others.fill_diagonal_(False)
    h_c, h_r = h["anchor"][contexts], h["robust"][r]
    one = losses.in_batch(h_c[owner], h_r, torch.arange(len(r), device=r.device), others)
    two = losses.in_batch(h_r, h_c, owner, torch.zeros(len(r), len(contexts), dtype=torch.bool, device=r.device))
    return ((one + two) / 2 * share).sum()


def _reads(head, h, right, wrong):
    parts = [
        (right, losses.POSITIVE, 0.5),
        (wrong, losses.ADVERSARIAL, 0.25),
        (swapped(*right), losses.ADVERSARIAL, 0.25),
    ]
    loss = h["anchor"].new_zeros(())
    for (c, r), target, weight in parts:
        if len(c):
            logits = head.logits(h["anchor"][c], h["robust"][r])
            loss = loss + weight * F.cross_entropy(logits, torch.full_like(c, target))
    return loss


def swapped(c, r):
    """Return every right response with another context of the batch: the i-th with the i-th after its own, in turn.

    Nothing is drawn, so that processes which share out a step agree. With one context there is no other: no pairs.
    """
    contexts, owner = c.unique(return_inverse=True)
    n = len(contexts)
    if n < 2:
        return c[:0], r[:0]
    step = 1 + torch.arange(len(c), device=c.device) % (n - 1)
    return contexts[(owner + step) % n], r


def _grade(head, h, c, r, score):
    if not len(c):
        return h["anchor"].new_zeros(())
    return F.mse_loss(head.grades(h["anchor"][c], h["robust"][r]), score / 5 * 2)
