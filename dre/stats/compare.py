"""Does method A correlate better with people than method B? Paired tests on the same items.

The permutation test is the one to report: it assumes nothing about the scores and, swapping within
contexts, keeps items of one context together. Williams' and Steiger's tests assume normal, independent
items; they are checks.
"""

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata
from scipy.stats import t as student_t

from dre.errors import DreError
from dre.stats.align import align
from dre.stats.bootstrap import interval, resample_weights
from dre.stats.correlation import MIN_ITEMS, draws_of, over_seeds, seeds_of
from dre.stats.multiple import holm

#: permuted differences this close to the observed one count as equal to it
TIE = 1e-10
COLUMNS = [
    "a",
    "b",
    "statistic",
    "r_a",
    "r_b",
    "difference",
    "low",
    "high",
    "p_permutation",
    "p_holm",
    "p_williams",
    "p_steiger",
    "n",
    "n_clusters",
    "reason",
]


def compare(
    scores,
    human,
    clusters,
    pairs,
    statistic="spearman",
    permutations=10_000,
    resamples=2000,
    level=0.95,
    seed=0,
):
    """Paired comparison of methods, Holm-corrected over all given pairs.

    Parameters
    ----------
    scores, human, clusters : as in :func:`dre.stats.correlate`
        Where a method has one column a seed, its correlation is the mean over seeds. Both methods of a pair then
        have the same seeds, in the same order, or one of them has one column only.
    pairs : sequence of (a, b)
        Column names: is a's correlation different from b's? Both are compared on the items both have scored.
    statistic : "pearson" or "spearman"

    Returns
    -------
    DataFrame, one row a pair: ``a, b, statistic, r_a, r_b, difference, low, high`` (bootstrap over
    contexts, shared resamples), ``p_permutation, p_holm, p_williams, p_steiger`` (two-sided; Steiger and
    Williams treat items as independent, and are NaN where there are several seeds), ``n, n_clusters, reason``.
    """
    scores, human, codes, _ = align(scores, human, clusters)
    methods = seeds_of(scores)
    unknown = {name for pair in pairs for name in pair} - set(methods)
    if unknown:
        raise DreError(f"no score column {sorted(unknown)[0]!r}; there are {', '.join(map(str, methods))}")
    x = scores.to_numpy()
    rows = []
    for a, b in pairs:
        sides = x[:, methods[a]], x[:, methods[b]]
        _same_seeds(a, b, *sides)
        seen = ~(np.isnan(np.hstack(sides)).any(axis=1) | np.isnan(human))
        groups, inner = np.unique(codes[seen], return_inverse=True)
        row = {"a": a, "b": b, "statistic": statistic, "n": int(seen.sum()), "n_clusters": len(groups)}
        arguments = (*(side[seen] for side in sides), human[seen], inner, len(groups), statistic)
        rows.append(row | _compare_two(*arguments, permutations, resamples, level, seed))
    table = pd.DataFrame(rows)
    table["p_holm"] = holm(table["p_permutation"])
    return table[COLUMNS]


def _same_seeds(a, b, x_a, x_b):
    counts = {x_a.shape[1], x_b.shape[1]}
    if len(counts - {1}) > 1:
        raise DreError(
            f"{a!r} has {x_a.shape[1]} seeds and {b!r} {x_b.shape[1]}; expected as many, or one column of either"
        )


def _compare_two(a, b, human, codes, n_clusters, statistic, permutations, resamples, level, seed):
    names = ["r_a", "r_b", "difference", "low", "high", "p_permutation", "p_williams", "p_steiger"]
    empty = dict.fromkeys(names, np.nan)
    if len(a) < MIN_ITEMS:
        return empty | {"reason": f"n = {len(a)}: at least {MIN_ITEMS} items needed"}
    x, methods = (
        np.hstack([a, b]),
        {"a": list(range(a.shape[1])), "b": list(range(a.shape[1], a.shape[1] + b.shape[1]))},
    )

    def draws(weights):
        return over_seeds(draws_of(x, human, codes, weights, statistic), methods)

    r_a, r_b = draws(np.ones((1, n_clusters)))[0]
    if np.isnan(r_a) or np.isnan(r_b):
        return empty | {"r_a": r_a, "r_b": r_b, "reason": "constant score or rating"}
    result = empty | {"r_a": r_a, "r_b": r_b, "difference": r_a - r_b, "reason": ""}
    if n_clusters > 1:
        drawn = draws(resample_weights(n_clusters, resamples, seed))
        low, high = interval(drawn[:, :1] - drawn[:, 1:], level)
        result |= {"low": low[0], "high": high[0]}
    else:
        result["reason"] = "one context: no interval"
    result["p_permutation"] = permutation_test(a, b, human, codes, statistic, permutations, seed)
    if x.shape[1] == 2:
        between = draws_of(a, b[:, 0], codes, np.ones((1, n_clusters)), statistic)[0, 0]
        result["p_williams"] = williams_test(r_a, r_b, between, len(x))[1]
        result["p_steiger"] = steiger_test(r_a, r_b, between, len(x))[1]
    return result


def permutation_test(a, b, human, clusters=None, statistic="spearman", permutations=10_000, seed=0):
    """Two-sided paired permutation test of corr(a, human) = corr(b, human).

    Both methods are brought to one scale (z-scores for Pearson, midranks for Spearman); under the null
    hypothesis the two values of an item could as well be swapped. A permutation swaps them for a random
    half of the contexts (all items of a context together) and the difference of correlations is computed
    anew. The observed difference is exact; in a permutation, swapped midranks are not ranked again, which
    leaves the test valid.

    Parameters
    ----------
    a, b, human : array-like of shape (n,), no NaN
        ``a`` and ``b`` may also be (n, seeds), or one of them (n, 1): then the mean over seeds of the difference is
        tested, and a swap exchanges the two methods in every seed at once.
    clusters : array-like of shape (n,), optional
        Contexts; None swaps item by item, as if items were independent.
    permutations : int
        With 2**G <= permutations all 2**G swaps are enumerated, and the p-value is exact.

    Returns
    -------
    float : p-value in (0, 1], (1 + hits) / (1 + permutations) when sampled; NaN when a correlation is
    undefined.
    """
    if statistic not in ("pearson", "spearman"):
        raise DreError(f"the permutation test knows 'pearson' and 'spearman', not {statistic!r}")
    a, b, human = (np.asarray(v, dtype=float) for v in (a, b, human))
    a, b = np.broadcast_arrays(*(v.reshape(len(v), -1) for v in (a, b)))
    if any(np.isnan(v).any() for v in (a, b, human)):
        raise DreError("a, b and human must hold no NaN; keep the items both methods have scored")
    if len(a) < MIN_ITEMS or min(np.ptp(v, axis=0).min() for v in (a, b, human)) == 0:
        return np.nan
    if statistic == "spearman":
        a, b, human = (rankdata(v, axis=0) for v in (a, b, human))
    a, b, human = ((v - v.mean(axis=0)) / v.std(axis=0) for v in (a, b, human))
    codes = np.arange(len(a)) if clusters is None else pd.factorize(np.asarray(clusters))[0]
    swaps, exact = _swaps(codes.max() + 1, permutations, seed)
    difference = np.concatenate(
        [
            np.mean([_swapped_difference(one, other, human, codes, s) for one, other in zip(a.T, b.T)], axis=0)
            for s in np.array_split(swaps, 20)
        ]
    )
    observed = np.abs(((a - b).T @ human).mean()) / len(a)
    with np.errstate(invalid="ignore"):
        hits = int(np.sum(np.abs(difference) >= observed - TIE))
    return hits / len(swaps) if exact else (1 + hits) / (1 + len(swaps))


def _swaps(n_clusters, permutations, seed):
    """Which clusters are swapped in each permutation: 0/1 matrix (P, G), and whether it holds every case."""
    if n_clusters < 60 and 2**n_clusters <= permutations:
        return (np.arange(2**n_clusters)[:, None] >> np.arange(n_clusters)) & 1, True
    return np.random.default_rng(seed).integers(0, 2, size=(permutations, n_clusters), dtype=np.int8), False


def _swapped_difference(a, b, human, codes, swaps):
    """Difference of the two Pearson correlations after each swap; every sum is linear in the 0/1 swaps."""
    per_item = np.stack([b - a, b**2 - a**2, (b - a) * human], axis=1)
    per_cluster = np.zeros((codes.max() + 1, 3))
    np.add.at(per_cluster, codes, per_item)
    moved = swaps.astype(float) @ per_cluster
    correlations = []
    for sign, column in ((1, a), (-1, b)):
        total, square, cross = (s + sign * m for s, m in zip((0.0, column @ column, column @ human), moved.T))
        variance = square / len(a) - (total / len(a)) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations.append(cross / len(a) / np.sqrt(np.where(variance > TIE, variance, np.nan)))
    return correlations[0] - correlations[1]


def williams_test(r_a, r_b, r_ab, n):
    """Williams' t of two correlations that share a variable (Williams 1959; Steiger 1980, Eq. 7).

    Parameters
    ----------
    r_a, r_b : float, correlation of each method with the human ratings
    r_ab : float, correlation of the two methods
    n : int, number of items, at least 4

    Returns
    -------
    t : float, distributed as Student's t with n - 3 degrees of freedom
    p : float, two-sided; both are NaN where undefined
    """
    if n < 4 or np.isnan([r_a, r_b, r_ab]).any():
        return np.nan, np.nan
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    spread = 2 * determinant * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    if r_ab >= 1 or spread <= 0:
        return np.nan, np.nan
    t = (r_a - r_b) * np.sqrt((n - 1) * (1 + r_ab) / spread)
    return float(t), float(2 * student_t.sf(abs(t), n - 3))


def steiger_test(r_a, r_b, r_ab, n):
    """Steiger's Z for the same comparison (Steiger 1980, Eq. 14: Dunn and Clark's Z, pooled).

    Arguments as in :func:`williams_test`. Returns z and its two-sided p; NaN where undefined.
    """
    if n < 4 or np.isnan([r_a, r_b, r_ab]).any() or max(abs(r_a), abs(r_b)) >= 1 or r_ab >= 1:
        return np.nan, np.nan
    mean = (r_a + r_b) / 2
    psi = r_ab * (1 - 2 * mean**2) - mean**2 * (1 - 2 * mean**2 - r_ab**2) / 2
    covariance = psi / (1 - mean**2) ** 2
    z = (np.arctanh(r_a) - np.arctanh(r_b)) * np.sqrt((n - 3) / (2 - 2 * covariance))
    return float(z), float(2 * norm.sf(abs(z)))
