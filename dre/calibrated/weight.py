"""The weight of the SLM: the one whose bad case, over resamples of all training sets, is best."""

import numpy as np
from scipy.stats import norm, rankdata

from dre.stats.bootstrap import cluster_codes, resample_weights

GRID = np.linspace(0, 1, 101)
TINY = 1e-12


def covariances(table, resamples, seed):
    """Covariance matrices (k, 3, 3) of z_SLM, z_LLM, z_human: of the whole set (k = 1), and of each resample."""
    ranks = rankdata(table[["score_slm", "score_llm", "human"]].to_numpy(float), axis=0)
    z = norm.ppf((ranks - 0.5) / len(table))
    codes, n_clusters = cluster_codes(table["context_id"])
    sums = np.zeros((n_clusters, 13))
    np.add.at(sums, codes, np.column_stack([np.ones(len(z)), z, (z[:, :, None] * z[:, None, :]).reshape(-1, 9)]))
    drawn = np.vstack([np.ones((1, n_clusters)), resample_weights(n_clusters, resamples, seed)]) @ sums
    mean, square = drawn[:, 1:4] / drawn[:, :1], (drawn[:, 4:] / drawn[:, :1]).reshape(-1, 3, 3)
    covariance = square - mean[:, :, None] * mean[:, None, :]
    return covariance[:1], covariance[1:]


def _with_people(covariance, weight):
    """Covariance with people and variance of (1 - w) z_LLM + w z_SLM: two arrays of shape (k, weights)."""
    mix = np.array([weight, 1 - np.asarray(weight)]).reshape(2, -1)
    return covariance[:, 2, :2] @ mix, np.einsum("kij,iw,jw->kw", covariance[:, :2, :2], mix, mix)


def best(covariance, level):
    """The w of `GRID` with the best bad case; of equals the one nearest the judge."""
    shared, variance = _with_people(covariance, GRID)
    scale = np.sqrt(variance * covariance[:, 2, 2, None])
    # where parts cancel out (or a resample holds one rating only) nothing correlates
    r = np.divide(shared, scale, out=np.zeros_like(shared), where=scale > TINY)
    gain = r - np.maximum(r[:, :1], r[:, -1:])
    # rounding noise must not decide between equals
    return float(GRID[np.argmax(np.quantile(gain, level, axis=0).round(9))])


def slope(covariance, weight):
    """Mean over sets of the least-squares slope of people on the score of a weight, at least 0."""
    shared, variance = _with_people(np.concatenate(covariance), weight)
    return float(max(np.mean(shared / np.maximum(variance, TINY)), 0.0))
