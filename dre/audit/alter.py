"""Contexts in disorder: how much does a score mind turns or words in another order, or all but the last turn gone?"""

import random

import numpy as np
import pandas as pd

from dre.audit.blind import decisions
from dre.audit.subjects import over_seeds
from dre.audit.swap import exchange
from dre.classification import accuracy_row
from dre.errors import DreError

TRIES = 20


def turns(context, rng):
    """Return the turns in another order (the same where all turns are equal)."""
    return _other_order(context, rng)


def last(context, rng):
    """Return the last turn only."""
    return context[-1:]


def words(context, rng):
    """Return the words of the whole context in another order, in turns as long as before."""
    mixed = iter(_other_order([word for turn in context for word in turn.split()], rng))
    return tuple(" ".join(next(mixed) for _ in turn.split()) for turn in context)


def _other_order(parts, rng):
    mixed = list(parts)
    for _ in range(TRIES):
        rng.shuffle(mixed)
        if mixed != list(parts):
            break
    return tuple(mixed)


#: what is shown in place of the context
ALTERED = {"turns in another order": turns, "words in another order": words, "the last turn only": last}
OWN, OTHER = "the context itself", "another context"


def alter(pairs, how, seed=0):
    """Return the pairs with their contexts altered, all pairs of one context alike.

    Parameters
    ----------
    pairs : DataFrame of pairs
    how : str
        A key of `ALTERED`.
    """
    if how not in ALTERED:
        raise DreError(f"unknown alteration {how!r}: expected one of {', '.join(ALTERED)}")
    made = {
        context: ALTERED[how](tuple(context), random.Random(f"{seed}/{how}/{i}"))
        for i, context in enumerate(dict.fromkeys(pairs["context"]))
    }
    return pairs.assign(context=[made[context] for context in pairs["context"]])


def table(subjects, resamples=1000, seed=0):
    """Return what altered contexts do to each subject's main score.

    Returns
    -------
    DataFrame
        ``model, family, shown`` (`OWN`, a key of `ALTERED`, or `OTHER`, the yardstick); ``change``: mean absolute
        change of the score in its standard deviations, over pairs whose context was changed; then the accuracies in
        percent at the thresholds from dev, by the labels of the true contexts. Means over seeds with ``_low, _high,
        _sd``; ``changed``: contexts that the alteration changed.
    """
    rows = []
    for subject in subjects:
        pairs = subject.pairs
        shown = {OWN: pairs} | {how: alter(pairs, how, seed) for how in ALTERED}
        shown[OTHER] = exchange(pairs, 1, seed)
        for how, altered in shown.items():
            scores = subject.scorer(altered)[subject.main]
            differs = (altered["context"] != pairs["context"]).to_numpy()
            change = np.where(differs, np.abs(scores - subject.scores[subject.main]) / subject.sd(subject.main), np.nan)
            row = {"model": subject.model, "family": subject.scorer.family, "shown": how}
            row |= over_seeds("change", change, pairs["context_id"], resamples, seed)
            right = accuracy_row(subject.model, "ours", pairs, decisions(subject, scores), resamples, seed)
            row |= {key: value for key, value in right.items() if key not in ("model", "source", "signature", "seeds")}
            rows.append(row | {"changed": pairs["context_id"][differs].nunique()})
    return pd.DataFrame(rows)
