"""Two-way analysis of variance of a score on a grid of responses and contexts; only the interaction can be fit."""

import numpy as np
import pandas as pd

from dre.audit.subjects import sample
from dre.errors import DreError
from dre.stats.bootstrap import interval, jackknife_weights, resample_weights

SHARES = ("response", "context", "interaction")
#: a variance, or an interaction as its share, below this is rounding
ROUNDING = 1e-12


def grid(pairs, size, seed=0):
    """Return every pair of `size` contexts and as many responses, one of each context: half positive, half adversarial.

    Parameters
    ----------
    pairs : DataFrame of pairs with ``kind``
    size : int
        Contexts; all there are where there are fewer.

    Returns
    -------
    DataFrame
        ``pair_id, context, response, kind`` (of the response), ``owner`` (the context it was written for); size x size
        rows, response by response, contexts in one and the same order.
    """
    contexts = pairs.drop_duplicates("context_id").set_index("context_id")["context"]
    owners = sample(list(contexts.index), size, seed)
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(["p", "a"] * ((len(owners) + 1) // 2))[: len(owners)]
    rows = []
    for owner, kind in zip(owners, kinds):
        own = pairs[(pairs["context_id"] == owner) & (pairs["kind"] == kind)]
        if own.empty:
            raise DreError(f"context {owner} has no response of kind {kind}: the grid needs one of each context")
        response = own.iloc[rng.integers(len(own))]
        rows += [
            (f"{response['pair_id']}|{other}", contexts[other], response["response"], kind, owner) for other in owners
        ]
    return pd.DataFrame(rows, columns=["pair_id", "context", "response", "kind", "owner"])


def shares(matrix, weights=None):
    """Return the shares of variance of a (responses, contexts) matrix by response, context and their interaction.

    x_rc = mean + response_r + context_c + interaction_rc; the sums of squares of the three add up to the total. One
    value a cell: what is no main effect is interaction.

    Parameters
    ----------
    matrix : (n, n) array
        Response i was written for context i.
    weights : (B, n) array, optional
        How often each context, and with it its response, is in each resample; all once by default.

    Returns
    -------
    (B, 3) array in the order of `SHARES`; NaN where nothing varies.
    """
    x = np.asarray(matrix, float)
    if x.ndim != 2 or x.shape[0] != x.shape[1] or len(x) < 2 or not np.isfinite(x).all():
        raise DreError(f"a matrix of shape {x.shape}: expected finite scores of n responses with their n contexts")
    x = x - x.mean()
    w = np.ones((1, len(x))) if weights is None else np.asarray(weights, float)
    n = w.sum(axis=1)
    by_response, by_context = w @ x.T / n[:, None], w @ x / n[:, None]
    mean = (w * by_response).sum(axis=1) / n
    total = np.einsum("br,rc,bc->b", w, x**2, w, optimize=True) - (n * mean) ** 2
    response = n * ((w * by_response**2).sum(axis=1) - n * mean**2)
    context = n * ((w * by_context**2).sum(axis=1) - n * mean**2)
    parts = np.stack([response, context, total - response - context], axis=1).clip(0)  # rounding can fall below
    varies = total > ROUNDING * np.maximum((n**2) * (x**2).mean(), np.finfo(float).tiny)
    return np.where(varies[:, None], parts / np.where(varies, total, 1)[:, None], np.nan)


def table(subjects, size=60, resamples=1000, seed=0):
    """Return the shares of variance, in percent, of each score of each subject on one grid.

    Returns
    -------
    DataFrame
        ``model, family, score, response, context, interaction`` with ``_low, _high`` (BCa bootstrap over contexts,
        each with its response) and ``_sd`` over seeds; ``contexts``: rows and columns of the grid.
    """
    rows = []
    for subject in subjects:
        cells = grid(subject.pairs, size, seed)
        n = round(len(cells) ** 0.5)
        for name, scores in subject.scorer(cells).items():
            row = {"model": subject.model, "family": subject.scorer.family, "score": name}
            rows.append(row | _over_seeds(scores.reshape(len(scores), n, n), resamples, seed) | {"contexts": n})
    return pd.DataFrame(rows)


def _over_seeds(matrices, resamples, seed):
    single = np.concatenate([shares(matrix) for matrix in matrices])
    n = matrices.shape[1]
    weights = np.vstack([jackknife_weights(n), resample_weights(n, resamples, seed)])
    # A resample repeats contexts, which makes the main effects look larger than they are: BCa corrects for it.
    draws = np.mean([shares(matrix, weights) for matrix in matrices], axis=0).round(12)
    low, high = interval(draws[n:], method="bca", estimate=single.mean(axis=0).round(12), jackknife=draws[:n])
    sd = single.std(axis=0, ddof=1) if len(single) > 1 else np.full(3, np.nan)
    row = {}
    for i, name in enumerate(SHARES):
        row |= {name: single[:, i].mean(), f"{name}_low": low[i], f"{name}_high": high[i], f"{name}_sd": sd[i]}
    return {key: round(100 * value, 9) for key, value in row.items()}  # the digits after those are rounding
