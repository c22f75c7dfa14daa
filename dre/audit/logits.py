"""The logits of Eq. 15 are a sum, W_c h_c + W_r h_res + b: their interaction is zero, and here it is measured."""

import copy

import numpy as np
import pandas as pd

from dre.audit.variance import ROUNDING, grid, shares

#: how a share is written that is rounding only
NONE = f"< {ROUNDING:.0e}"
NOT_ADDITIVE = "its head is not the Linear(concat(h_c, h_res)) of Eq. 15"


def additive(slm):
    """Return whether an SLM's classifier is linear in concat(h_c, h_res), as Eq. 15 has it."""
    from torch import nn

    classifier = getattr(slm.head, "classifier", None)
    return isinstance(classifier, nn.Linear) and classifier.in_features == 2 * slm.head.dimension


def table(subjects, size=60, seed=0):
    """Measure the interaction of response and context in the logits of Eq. 15, in double precision.

    Returns
    -------
    DataFrame
        ``model``; ``interaction``: the largest share of variance over classes and seeds, as text;
        ``probability``: the share in s_p = softmax of these logits, in percent, mean over seeds; ``reason``: why they
        are empty.
    """
    rows = []
    for subject in subjects:
        slms = subject.scorer.slms
        if not slms:
            continue
        if not all(map(additive, slms)):
            rows.append({"model": subject.model, "interaction": "", "probability": np.nan, "reason": NOT_ADDITIVE})
            continue
        found = [_logit_shares(slm, grid(subject.pairs, size, seed)) for slm in slms]
        worst, probability = max(one[0] for one in found), 100 * np.mean([one[1] for one in found])
        rows.append(
            {
                "model": subject.model,
                "interaction": NONE if worst < ROUNDING else f"{worst:.1e}",
                "probability": probability,
                "reason": "",
            }
        )
    return pd.DataFrame(rows, columns=["model", "interaction", "probability", "reason"])


def _logit_shares(slm, cells):
    """The largest share of interaction in the logits of any class, and that in s_p."""
    import torch

    from dre.slm.losses import POSITIVE

    contexts, responses = slm.texts(cells)
    n, k = round(len(cells) ** 0.5), len(cells)
    h = slm.encode(contexts + responses)
    head = copy.deepcopy(slm.head).double()  # in single precision the rounding would show
    with torch.no_grad():
        z = head.logits(h["anchor"][:k].double(), h["robust"][k:].double())
    s_p = torch.softmax(z, dim=-1)[:, POSITIVE].cpu().numpy().reshape(n, n)
    of_logits = [abs(shares(z[:, j].cpu().numpy().reshape(n, n))[0, 2]) for j in range(z.shape[1])]
    return max(of_logits), shares(s_p)[0, 2]
