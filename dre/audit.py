"""What does a score read? Contexts exchanged, and the parts of a score's variance."""

import numpy as np
import pandas as pd

SHARES = ("response", "context", "interaction")


def exchange(pairs, swaps, seed=0):
    """Return each pair `swaps` times, each time with another context of the table; a score that reads it has to fall.

    As `pairs`, ``swaps`` rows per pair, one after the other: ``context`` is the other one, ``pair_id`` becomes
    ``<pair_id>|<other context_id>``, ``context_id`` stays the pair's own, the unit of resampling; ``row`` is the
    position of the pair in `pairs`.
    """
    once = pairs.drop_duplicates("context")
    contexts, names, own = once["context"].tolist(), once["context_id"].tolist(), pd.factorize(pairs["context"])[0]
    # others are drawn from a row that lacks the own context: whoever stands behind it moves up by one
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.choice(len(contexts) - 1, swaps, replace=False) for _ in own])
    others, row = (drawn + (drawn >= own[:, None])).ravel(), np.repeat(np.arange(len(pairs)), swaps)
    ids = [f"{pair}|{names[i]}" for pair, i in zip(pairs["pair_id"].to_numpy()[row], others)]
    shown = [contexts[i] for i in others]
    return pairs.iloc[row].assign(pair_id=ids, context=shown, row=row).reset_index(drop=True)


def falls(before, after):
    """Return 1 where a score falls, 0 where it rises, 0.5 where it stays up to rounding (1e-5 of its sd over rows)."""
    fall = np.asarray(before, float) - np.asarray(after, float)
    return np.where(np.abs(fall) <= 1e-5 * np.asarray(before, float).std(axis=0), 0.5, fall > 0)


def shares(matrix, weights=None):
    """Return the shares of variance of a score by response, context and their interaction.

    x_rc = mean + response_r + context_c + interaction_rc; the sums of squares of the three add up to the total. There
    is one value per cell: what is no main effect is interaction, and only there can fit be.

    ``matrix`` (n, n): response i (row) was written for context i (column). ``weights`` (B, n): how often each context,
    and with it its response, is in each resample (`dre.stats.context_weights`). Returns (B, 3) in the order of
    `SHARES`, adding up to 1; NaN where nothing varies; B = 1 without weights.
    """
    x = np.asarray(matrix, float)
    x = x - x.mean()
    w = np.ones((1, len(x))) if weights is None else np.asarray(weights, float)
    n = w.sum(axis=1)
    by_response, by_context = w @ x.T / n[:, None], w @ x / n[:, None]
    mean = (w * by_response).sum(axis=1) / n
    total = np.einsum("br,rc,bc->b", w, x**2, w, optimize=True) - (n * mean) ** 2
    response, context = (n * ((w * v**2).sum(axis=1) - n * mean**2) for v in (by_response, by_context))
    parts = np.stack([response, context, total - response - context], axis=1)
    parts[parts < 1e-12 * total[:, None]] = 0  # nothing but rounding
    varies = total > 1e-12 * np.maximum(n**2 * (x**2).mean(), np.finfo(float).tiny)
    return np.where(varies[:, None], parts / np.where(varies, total, 1)[:, None], np.nan)
