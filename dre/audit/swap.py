"""The swap test: give a positive response to another conversation. A score that reads the context has to fall."""

import numpy as np
import pandas as pd

from dre.audit.subjects import TIE, over_seeds
from dre.errors import DreError


def exchange(pairs, swaps, seed=0):
    """Return each pair `swaps` times, each time with another context of the table.

    Parameters
    ----------
    pairs : DataFrame of pairs
        At least ``swaps + 1`` different contexts.
    swaps : int
    seed : int

    Returns
    -------
    DataFrame
        As `pairs`, ``swaps`` rows a pair, one after the other: ``context`` is the other one, ``context_id`` stays
        the pair's own, which is the unit of resampling; ``row`` is the position of the pair in `pairs`.
    """
    contexts = list(dict.fromkeys(pairs["context"]))
    if swaps < 1 or len(contexts) <= swaps:
        raise DreError(f"{swaps} swaps of {len(contexts)} contexts: expected at least 1 swap, and more contexts")
    place = {context: i for i, context in enumerate(contexts)}
    rng = np.random.default_rng(seed)
    own = pairs["context"].map(place).to_numpy()
    # others are drawn from a row that lacks the own context: whoever stands behind it moves up by one
    drawn = np.stack([rng.choice(len(contexts) - 1, swaps, replace=False) for _ in own])
    other = (drawn + (drawn >= own[:, None])).ravel()
    row = np.repeat(np.arange(len(pairs)), swaps)
    return pairs.iloc[row].assign(context=[contexts[i] for i in other], row=row).reset_index(drop=True)


def exchanged(subject, swaps, seed=0):
    """Return the positive pairs of a subject exchanged; ``row`` is their position in ``subject.pairs``."""
    positives = np.flatnonzero(subject.pairs["kind"] == "p")
    found = exchange(subject.pairs.iloc[positives], swaps, seed)
    return found.assign(row=positives[found["row"]])


def table(subjects, swaps=4, resamples=1000, seed=0):
    """Return what the swap does to each score of each subject.

    Returns
    -------
    DataFrame
        ``model, score``; ``falls``: share of (pair, swap) in percent whose score falls, ties counting half, so that a
        score that ignores the context has 50; ``fall``: mean fall in standard deviations of the score over the test
        pairs; ``own`` and ``other``: share in percent of positives accepted with their own and with the other context.
        Means over seeds with ``_low, _high, _sd``; ``n``: pairs times swaps.
    """
    rows = []
    for subject in subjects:
        swapped = exchanged(subject, swaps, seed)
        contexts, at = swapped["context_id"].to_numpy(), swapped["row"].to_numpy()
        for name, after in subject.scorer(swapped).items():
            before, sd = subject.scores[name][:, at], subject.sd(name)
            columns = {
                "falls": 100 * falling(before, after, sd),
                "fall": (before - after) / sd,
                "own": 100.0 * subject.accepts(name, before),
                "other": 100.0 * subject.accepts(name, after),
            }
            row = {"model": subject.model, "family": subject.scorer.family, "score": name}
            for column, values in columns.items():
                row |= over_seeds(column, values, contexts, resamples, seed)
            rows.append(row | {"n": len(swapped)})
    return pd.DataFrame(rows)


def falling(before, after, sd):
    """Return 1 where a score falls, 0 where it rises, 0.5 where it stays, up to rounding."""
    fall = before - after
    return np.where(np.abs(fall) <= TIE * np.nan_to_num(sd), 0.5, fall > 0)
