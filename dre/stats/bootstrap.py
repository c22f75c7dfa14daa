"""Cluster bootstrap: resample contexts, never single pairs.

Several responses share one context, so their errors are not independent; a bootstrap over pairs would
give intervals that are too short. A resample draws G contexts with replacement out of G; it is held as one
row of a (resamples, G) matrix of counts, so that a statistic is a few matrix products, with no loop.
"""

import numpy as np
import pandas as pd
from scipy.stats import norm

from dre.errors import DreError

#: a percentile interval needs at least this share of resamples in which the statistic is defined
MIN_DEFINED = 0.5


def cluster_codes(clusters):
    """Number the clusters 0..G-1 in order of first appearance.

    Parameters
    ----------
    clusters : array-like of shape (n,)
        One label an item, e.g. ``context_id``. A missing label is an error: it belongs to no context.

    Returns
    -------
    codes : ndarray of int, shape (n,)
    n_clusters : int
    """
    codes, labels = pd.factorize(pd.Series(clusters).reset_index(drop=True))
    if (codes < 0).any():
        where = int(np.flatnonzero(codes < 0)[0])
        raise DreError(f"cluster label of item {where} is missing; give every item the id of its context")
    return codes, len(labels)


def resample_weights(n_clusters, resamples, seed=0):
    """How often each cluster is drawn in each resample.

    The same (n_clusters, resamples, seed) always gives the same counts, so methods scored on the same
    contexts are compared on the same resamples.

    Returns
    -------
    ndarray of float64, shape (resamples, n_clusters); every row sums to ``n_clusters``.
    """
    if n_clusters < 1 or resamples < 1:
        raise DreError(f"found {n_clusters} clusters and {resamples} resamples; both must be at least 1")
    rng = np.random.default_rng(seed)
    return rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size=resamples).astype(float)


def jackknife_weights(n_clusters):
    """Leave-one-cluster-out counts, shape (G, G): ones with a zero diagonal."""
    return 1.0 - np.eye(n_clusters)


def interval(draws, level=0.95, method="percentile", estimate=None, jackknife=None):
    """Bootstrap interval of each column's statistic from its draws.

    Parameters
    ----------
    draws : ndarray of shape (resamples, k)
        NaN marks a resample in which the statistic is undefined (e.g. a constant column); it is left out.
    level : float in (0, 1)
    method : "percentile" or "bca"
        BCa (Efron 1987) also needs ``estimate`` (k,) and ``jackknife`` (G, k): values without one cluster.

    Returns
    -------
    low, high : ndarray of shape (k,)
        NaN where fewer than half of the resamples are defined.
    """
    if not 0 < level < 1:
        raise DreError(f"level is {level}; expected a share between 0 and 1 such as 0.95")
    if method not in ("percentile", "bca"):
        raise DreError(f"unknown interval method {method!r}; choose 'percentile' or 'bca'")
    draws = np.asarray(draws, float)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    out = np.full((2, draws.shape[1]), np.nan)
    for j, column in enumerate(draws.T):
        defined = column[~np.isnan(column)]
        if len(defined) < MIN_DEFINED * len(column) or len(defined) == 0:
            continue
        q = tails
        if method == "bca":
            q = _bca_quantiles(defined, estimate[j], jackknife[:, j], tails)
        if not np.isnan(q).any():
            out[:, j] = np.quantile(defined, q)
    return out[0], out[1]


def _bca_quantiles(defined, estimate, jackknife, tails):
    """Bias-corrected and accelerated tail probabilities; ties with the estimate count half, as in scipy."""
    below = (np.sum(defined < estimate) + np.sum(defined <= estimate)) / (2 * len(defined))
    z0 = norm.ppf(below)
    left = np.nanmean(jackknife) - jackknife[~np.isnan(jackknife)]
    spread = np.sum(left**2)
    acceleration = np.sum(left**3) / (6 * spread**1.5) if spread > 0 else 0.0
    z = z0 + norm.ppf(tails)
    return norm.cdf(z0 + z / (1 - acceleration * z))


def cluster_mean_draws(values, clusters, weights):
    """Mean of each column in each resample: (resamples, k); NaN is left out of its column."""
    values = _columns(values)
    codes, n_clusters = cluster_codes(clusters)
    if len(values) != len(codes):
        raise DreError(f"found {len(values)} values and {len(codes)} cluster labels; expected one label a value")
    seen = ~np.isnan(values)
    sums = np.zeros((n_clusters, values.shape[1]))
    counts = np.zeros_like(sums)
    np.add.at(sums, codes, np.where(seen, values, 0.0))
    np.add.at(counts, codes, seen.astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (weights @ sums) / (weights @ counts)


def cluster_mean_interval(values, clusters, resamples=2000, level=0.95, seed=0, method="percentile"):
    """Means (or accuracies: give 0/1 values) with an interval from a bootstrap over clusters.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, k), or DataFrame
        Numbers or booleans. NaN is missing: left out of its own column only (``n`` says how many remain);
        a resample whose clusters hold no value of a column is left out of that column's interval.
    clusters : array-like of shape (n,)
        The context of each item.

    Returns
    -------
    DataFrame with one row a column of ``values`` (indexed by its name) and columns ``mean, low, high, n,
    n_clusters``. An empty column gives NaN; with a single cluster the interval is NaN, since nothing can be
    resampled.
    """
    names = values.columns if isinstance(values, pd.DataFrame) else None
    matrix = _columns(values)
    codes, n_clusters = cluster_codes(clusters)
    estimate = cluster_mean_draws(matrix, codes, np.ones((1, n_clusters)))[0]
    used = [len(np.unique(codes[~np.isnan(column)])) for column in matrix.T]
    draws = cluster_mean_draws(matrix, codes, resample_weights(n_clusters, resamples, seed))
    jackknife = None
    if method == "bca" and n_clusters > 1:
        jackknife = cluster_mean_draws(matrix, codes, jackknife_weights(n_clusters))
    if n_clusters == 1:
        draws = np.full_like(draws, np.nan)
    low, high = interval(draws, level, method, estimate, jackknife)
    single = np.array(used) < 2
    low, high = np.where(single, np.nan, low), np.where(single, np.nan, high)
    n = (~np.isnan(matrix)).sum(axis=0)
    table = {"mean": estimate, "low": low, "high": high, "n": n, "n_clusters": used}
    return pd.DataFrame(table, index=names)


def _columns(values):
    """Values as a float matrix (n, k); pandas' missing values become NaN."""
    if isinstance(values, (pd.DataFrame, pd.Series)):
        matrix = values.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    else:
        matrix = np.asarray(values, dtype=float)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2 or matrix.shape[0] == 0:
        raise DreError(f"values have shape {matrix.shape}; expected (n,) or (n, k) with at least one item")
    if np.isinf(matrix).any():
        raise DreError("values hold an infinite number; expected finite numbers or NaN for missing")
    return matrix
