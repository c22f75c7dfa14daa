"""Agreement of raters: Cohen's kappa, Krippendorff's alpha, and how well one rater predicts the others."""

from itertools import combinations

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.stats.bootstrap import cluster_codes, interval, resample_weights
from dre.stats.correlation import draws_of

KAPPA_WEIGHTS = ("none", "linear", "quadratic")
ALPHA_LEVELS = ("nominal", "ordinal", "interval")


def agreement(ratings, clusters, resamples=2000, level=0.95, seed=0):
    """Table of agreement coefficients with intervals from a bootstrap over contexts.

    Parameters
    ----------
    ratings : array-like of shape (n, raters); NaN is a missing rating
    clusters : array-like of shape (n,)

    Returns
    -------
    DataFrame: ``coefficient, value, low, high, n, raters``. Kappa is the mean over all pairs of raters; where
    raters have no identity (crowd workers), their columns are interchangeable and alpha is the better number.
    """
    ratings = _ratings(ratings)
    codes, n_clusters = cluster_codes(clusters)
    if len(codes) != len(ratings):
        raise DreError(f"found {len(ratings)} rated items and {len(codes)} clusters; expected one cluster an item")
    weights = np.vstack([np.ones(n_clusters), resample_weights(n_clusters, resamples, seed)])
    draws = {f"kappa ({w})": _kappa_draws(ratings, codes, weights, w) for w in KAPPA_WEIGHTS}
    draws |= {f"alpha ({m})": _alpha_draws(ratings, codes, weights, m) for m in ALPHA_LEVELS}
    draws["one rater v. the others (spearman)"] = _ceiling_draws(ratings, codes, weights, "spearman")
    values = np.column_stack(list(draws.values()))
    low, high = interval(values[1:], level)
    if n_clusters < 2:
        low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
    table = {"coefficient": list(draws), "value": values[0], "low": low, "high": high}
    return pd.DataFrame(table).assign(n=len(ratings), raters=ratings.shape[1])


def cohen_kappa(a, b, weights="none"):
    """Cohen's kappa of two raters (Cohen 1960; weighted: Cohen 1968).

    Parameters
    ----------
    a, b : array-like of shape (n,), numbers; an item that one of them left out (NaN) is left out
    weights : "none", "linear" or "quadratic", in the values of the ratings (a step from 1 to 3 weighs as two)

    Returns
    -------
    float, at most 1; NaN without items or when both raters gave one and the same value throughout.
    """
    pair = _ratings(np.column_stack([np.asarray(a, float), np.asarray(b, float)]))
    return float(_kappa_draws(pair, np.zeros(len(pair), int), np.ones((1, 1)), weights)[0])


def krippendorff_alpha(ratings, level="ordinal"):
    """Krippendorff's alpha for any number of raters and missing ratings (Krippendorff 2011).

    Parameters
    ----------
    ratings : array-like of shape (n, raters)
        NaN is missing; an item with fewer than two ratings says nothing.
    level : "nominal", "ordinal" or "interval"

    Returns
    -------
    float, at most 1; NaN when nothing varies or no item has two ratings.
    """
    ratings = _ratings(ratings)
    return float(_alpha_draws(ratings, np.zeros(len(ratings), int), np.ones((1, 1)), level)[0])


def human_ceiling(ratings, clusters, statistic="spearman", resamples=2000, level=0.95, seed=0):
    """One rater against the mean of the others: correlation for each rater in turn, averaged over raters.

    An automatic metric that reaches this value agrees with people as well as one more person would.

    Parameters
    ----------
    ratings : array-like of shape (n, raters), at least two raters; NaN is missing
    clusters : array-like of shape (n,)

    Returns
    -------
    dict with value, low, high, n, raters
    """
    ratings = _ratings(ratings)
    codes, n_clusters = cluster_codes(clusters)
    weights = np.vstack([np.ones(n_clusters), resample_weights(n_clusters, resamples, seed)])
    draws = _ceiling_draws(ratings, codes, weights, statistic)
    low, high = interval(draws[1:, None], level) if n_clusters > 1 else ([np.nan], [np.nan])
    value, n, raters = float(draws[0]), len(ratings), ratings.shape[1]
    return {"value": value, "low": float(low[0]), "high": float(high[0]), "n": n, "raters": raters}


def _ratings(ratings):
    ratings = np.asarray(ratings, dtype=float)
    if ratings.ndim != 2 or ratings.shape[1] < 2 or len(ratings) == 0:
        raise DreError(f"ratings have shape {ratings.shape}; expected (items, raters) with at least two raters")
    return ratings


def _levels(ratings):
    """The distinct values v and a one-hot (n, raters, values) of who said what."""
    values = np.unique(ratings[~np.isnan(ratings)])
    return values, (ratings[:, :, None] == values).astype(float)


def _per_cluster(matrices, codes, n_clusters):
    """Sum (n, v, v) matrices within clusters: (G, v * v)."""
    out = np.zeros((n_clusters, matrices.shape[1] * matrices.shape[2]))
    np.add.at(out, codes, matrices.reshape(len(matrices), -1))
    return out


def _kappa_draws(ratings, codes, weights, kind):
    """Mean pairwise kappa in each resample, shape (B,)."""
    if kind not in KAPPA_WEIGHTS:
        raise DreError(f"unknown kappa weights {kind!r}; choose among {', '.join(KAPPA_WEIGHTS)}")
    values, said = _levels(ratings)
    if len(values) == 0:
        return np.full(len(weights), np.nan)
    gap = np.abs(values[:, None] - values[None, :])
    cost = {"none": (gap > 0).astype(float), "linear": gap, "quadratic": gap**2}[kind]
    kappas = []
    for a, b in combinations(range(ratings.shape[1]), 2):
        both = said[:, a, :, None] * said[:, b, None, :]
        table = (weights @ _per_cluster(both, codes, weights.shape[1])).reshape(-1, *cost.shape)
        expected = table.sum(axis=2)[:, :, None] * table.sum(axis=1)[:, None, :]
        total = table.sum(axis=(1, 2))
        kappas.append(_one_minus(total * (table * cost).sum(axis=(1, 2)), (expected * cost).sum(axis=(1, 2))))
    return np.mean(kappas, axis=0)


def _alpha_draws(ratings, codes, weights, level):
    """Krippendorff's alpha in each resample, shape (B,), from summed coincidence matrices."""
    if level not in ALPHA_LEVELS:
        raise DreError(f"unknown level {level!r}; choose among {', '.join(ALPHA_LEVELS)}")
    values, said = _levels(ratings)
    count = said.sum(axis=1)
    raters = count.sum(axis=1)
    count, codes, raters = count[raters > 1], codes[raters > 1], raters[raters > 1]
    if len(count) == 0:
        return np.full(len(weights), np.nan)
    pairs = count[:, :, None] * count[:, None, :] - np.einsum("nv,vw->nvw", count, np.eye(len(values)))
    pairs /= (raters - 1)[:, None, None]
    shape = (-1, len(values), len(values))
    coincidence = (weights @ _per_cluster(pairs, codes, weights.shape[1])).reshape(shape)
    marginal = coincidence.sum(axis=1)
    cost = _distance(values, marginal, level)
    observed = (coincidence * cost).sum(axis=(1, 2))
    expected = (marginal[:, :, None] * marginal[:, None, :] * cost).sum(axis=(1, 2))
    return _one_minus(observed * (marginal.sum(axis=1) - 1), expected)


def _distance(values, marginal, level):
    """Squared difference of two values, (1 or B, v, v); on the ordinal level it depends on the marginals."""
    if level == "nominal":
        return (values[:, None] != values[None, :]).astype(float)[None]
    if level == "interval":
        return ((values[:, None] - values[None, :]) ** 2)[None]
    # ordinal: (sum of the marginals from c to k, less half of both ends)^2, a difference of mid-ranks
    middle = np.cumsum(marginal, axis=1) - marginal / 2
    return (middle[:, :, None] - middle[:, None, :]) ** 2


def _one_minus(observed, expected):
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1 - observed / np.where(expected > 0, expected, np.nan)


def _ceiling_draws(ratings, codes, weights, statistic):
    """Mean over raters of corr(rater, mean of the others) in each resample, shape (B,)."""
    each = []
    for rater in range(ratings.shape[1]):
        others = np.delete(ratings, rater, axis=1)
        counts = (~np.isnan(others)).sum(axis=1)
        mean = np.nansum(others, axis=1) / np.where(counts > 0, counts, np.nan)
        each.append(draws_of(ratings[:, rater : rater + 1], mean, codes, weights, statistic)[:, 0])
    return np.mean(each, axis=0)
