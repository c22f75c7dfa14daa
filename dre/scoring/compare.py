"""Means of systems over contexts: intervals, paired tests, and a ranking whose ties are honest."""

from itertools import combinations

import numpy as np

from dre.stats import holm
from dre.stats.bootstrap import interval, resample_weights

RESAMPLES, PERMUTATIONS, AT_ONCE = 2000, 10_000, 250
LEVEL, ALPHA = 0.95, 0.05
#: permuted differences this close to the observed one count as equal to it
TIE = 1e-10


def mean_interval(sums, counts, seed=0):
    """Mean of values with a bootstrap interval over contexts.

    Parameters
    ----------
    sums, counts : ndarray of shape (contexts,)
        Sum and number of the values of each context; 0 where there is none.

    Returns
    -------
    mean, low, high : float or None
        None where undefined: no interval with fewer than two contexts.
    """
    there = counts > 0
    sums, counts = sums[there], counts[there]
    mean = float(sums.sum() / counts.sum())
    if len(sums) < 2:
        return mean, None, None
    draws = _draws(len(sums), seed, lambda weights: (weights @ sums) / (weights @ counts))
    low, high = interval(draws[:, None], LEVEL)
    return mean, float(low[0]), float(high[0])


def pairs(means, seed=0):
    """Compare every two systems on the contexts that both answered.

    Parameters
    ----------
    means : dict of str to ndarray of shape (contexts,)
        A system's mean score of each context, NaN where it has none.

    Returns
    -------
    list of dict
        ``a, b, difference`` (mean over contexts of a minus b), ``low, high`` (bootstrap over contexts),
        ``p_permutation`` (two-sided, the two systems swapped within contexts), ``p_holm`` (corrected over all pairs),
        ``n_contexts, reason``. What is undefined is None, and ``reason`` says why.
    """
    rows = [{"a": a, "b": b} | _compare(means[a] - means[b], seed) for a, b in combinations(means, 2)]
    p_values = [np.nan if row["p_permutation"] is None else row["p_permutation"] for row in rows]
    for row, p in zip(rows, holm(p_values) if rows else ()):
        row["p_holm"] = None if np.isnan(p) else float(p)
    return rows


def _compare(difference, seed):
    d = difference[~np.isnan(difference)]
    row = dict.fromkeys(("difference", "low", "high", "p_permutation"))
    row |= {"n_contexts": len(d), "reason": ""}
    if len(d) < 2:
        return row | {"reason": f"{len(d)} context(s) with scores of both systems: at least 2 are needed"}
    draws = _draws(len(d), seed, lambda weights: weights @ d / len(d))
    low, high = interval(draws[:, None], LEVEL)
    row |= {"difference": float(d.mean()), "low": float(low[0]), "high": float(high[0])}
    return row | {"p_permutation": sign_flip_test(d, seed)}


def sign_flip_test(d, seed=0, permutations=PERMUTATIONS):
    """Two-sided paired permutation test of mean(d) = 0.

    Under the null hypothesis the two systems of a context could as well be swapped, which flips the sign of its
    difference.

    Parameters
    ----------
    d : ndarray of shape (contexts,)
    permutations : int
        With 2**contexts <= permutations all sign patterns are enumerated, and the p-value is exact.

    Returns
    -------
    float
        In (0, 1]; (1 + hits) / (1 + permutations) when sampled.
    """
    n, observed = len(d), abs(d.sum())
    exact = n < 60 and 2**n <= permutations
    hits, total = 0, 2**n if exact else permutations
    rng = np.random.default_rng(seed)
    for start in range(0, total, AT_ONCE):
        size = min(AT_ONCE, total - start)
        if exact:
            flips = (np.arange(start, start + size)[:, None] >> np.arange(n)) & 1
        else:
            flips = rng.integers(0, 2, size=(size, n), dtype=np.int8)
        hits += int(np.sum(np.abs((1 - 2 * flips) @ d) >= observed - TIE))
    return hits / total if exact else (1 + hits) / (1 + total)


def rank(systems, comparisons):
    """Add ``rank`` and ``rank_last`` to the rows of systems and sort them by their score, the best first.

    ``rank`` is 1 plus the number of systems that are significantly better (Holm-corrected p below 0.05), ``rank_last``
    the number of systems minus those that are significantly worse: systems that no test separates share a rank.
    """
    better = {row["system"]: set() for row in systems}
    for pair in comparisons:
        if pair["p_holm"] is not None and pair["p_holm"] < ALPHA:
            worse, winner = (pair["a"], pair["b"]) if pair["difference"] < 0 else (pair["b"], pair["a"])
            better[worse].add(winner)
    for row in systems:
        beaten = sum(row["system"] in winners for winners in better.values())
        row["rank"], row["rank_last"] = 1 + len(better[row["system"]]), len(systems) - beaten
    systems.sort(key=lambda row: (row["rank"], -row.get("score", -np.inf), row["system"]))


def _draws(n, seed, statistic):
    """A statistic of every resample, a few resamples at a time: with thousands of contexts their counts are large."""
    parts = [statistic(resample_weights(n, AT_ONCE, seed + i)) for i in range(RESAMPLES // AT_ONCE)]
    return np.concatenate(parts)
