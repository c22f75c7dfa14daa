"""Pearson, Spearman and Kendall (tau-b) with a bootstrap over contexts, exact in every resample.

A resample is a row of cluster counts w (see :mod:`dre.stats.bootstrap`), and each statistic is a form in w:

- Pearson: weighted moments, linear in w. One matrix product for all rows.
- Spearman: twice the centred midrank of item i is r_i = sum_j w_j sign(x_i - x_j), linear in w, so the
  midranks of all resamples are one matrix product with C[i, g] = sum_{j in g} sign(x_i - x_j); rho is the
  weighted Pearson of midranks. Ranks are recomputed in each resample, ties included: no approximation.
- Kendall: sum_ij w_i w_j sign(x_i - x_j) sign(y_i - y_j), a quadratic form with a (G, G) matrix.
"""

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from dre.errors import DreError
from dre.stats.align import align
from dre.stats.bootstrap import interval, jackknife_weights, resample_weights

STATISTICS = ("pearson", "spearman", "kendall")
#: below this n a correlation says nothing (two points always give +-1)
MIN_ITEMS = 3
#: a weighted variance below this share of the mean square is rounding noise of a constant
TINY = 1e-12
#: resamples handled at once: 2 MB a matrix at 900 items, so that the work stays in the cache
BLOCK = 256


def correlate(
    scores,
    human,
    clusters,
    statistics=("pearson", "spearman"),
    resamples=2000,
    level=0.95,
    seed=0,
    interval_method="percentile",
):
    """Correlation of each score column with the human ratings; intervals by bootstrap over contexts.

    Parameters
    ----------
    scores : DataFrame of shape (n, methods), indexed by pair_id
        NaN is a missing score: left out of its own column only, counted in ``n_missing``, never read as 0.
        With two levels of columns, (method, seed), a method has one column a training seed: its value is the mean
        of the seeds' correlations, its interval that of this mean over the same resamples, so it speaks of the
        items; ``sd`` speaks of the seeds.
    human : Series indexed by pair_id, or array-like of shape (n,)
    clusters : Series indexed by pair_id, or array-like of shape (n,)
        The context of each pair, the unit of resampling. All columns share the same resamples.
    statistics : subset of ("pearson", "spearman", "kendall")
    interval_method : "percentile" or "bca"

    Returns
    -------
    DataFrame, one row a (method, statistic): ``method, statistic, value, low, high, n, n_missing, n_clusters,
    reason, sd, seeds``. An undefined value or interval is NaN and ``reason`` says why ("" otherwise); ``sd`` is NaN
    for a method of one column.
    """
    scores, human, codes, n_clusters = align(scores, human, clusters)
    x = scores.to_numpy()
    methods = seeds_of(scores)
    weights = resample_weights(n_clusters, resamples, seed)
    # the data as they are, then each cluster left out (for BCa), then the resamples, in one pass
    extra = [np.ones((1, n_clusters))] + [jackknife_weights(n_clusters)] * (interval_method == "bca")
    weights = np.vstack([*extra, weights])
    frames = []
    for statistic in statistics:
        draws = draws_of(x, human, codes, weights, statistic)
        single = draws[0]
        value, leave_out, draws = np.split(over_seeds(draws, methods), [1, len(draws) - resamples])
        low, high = interval(draws, level, interval_method, value[0], leave_out)
        sd = [np.std(single[columns], ddof=1) if len(columns) > 1 else np.nan for columns in methods.values()]
        frames.append(_rows(x, methods, human, codes, statistic, value[0], low, high).assign(sd=sd))
    table = pd.concat(frames, ignore_index=True)
    table["seeds"] = table["method"].map({name: len(columns) for name, columns in methods.items()})
    order = {m: i for i, m in enumerate(methods)}
    return table.sort_values("method", key=lambda c: c.map(order), kind="stable", ignore_index=True)


def correlation_draws(scores, human, clusters, statistic="spearman", resamples=2000, seed=0):
    """Bootstrap draws, shape (resamples, methods) with the methods' names: subtract columns to compare."""
    scores, human, codes, n_clusters = align(scores, human, clusters)
    weights = resample_weights(n_clusters, resamples, seed)
    return pd.DataFrame(draws_of(scores.to_numpy(), human, codes, weights, statistic), columns=scores.columns)


def seeds_of(scores):
    """Return the column numbers of each method, {method: [number, ...]}: several where there is one a seed."""
    found = {}
    for number, name in enumerate(scores.columns.get_level_values(0)):
        found.setdefault(name, []).append(number)
    return found


def over_seeds(values, methods):
    """Return the mean over each method's columns of a (B, columns) array, shape (B, methods)."""
    return np.stack([values[:, columns].mean(axis=1) for columns in methods.values()], axis=1)


def draws_of(x, y, codes, weights, statistic):
    """Weighted correlations of the columns of x with y.

    Parameters
    ----------
    x : ndarray of shape (n, m), one column a method
    y : ndarray of shape (n,)
        NaN in x or y is left out pairwise.
    codes : ndarray of int, shape (n,), the cluster of each item
    weights : ndarray of shape (B, G), cluster counts of each resample
    statistic : "pearson", "spearman" or "kendall"

    Returns
    -------
    ndarray of shape (B, m); NaN where a side is constant in the resample or fewer than 3 items are there at
    all.
    """
    if statistic not in STATISTICS:
        raise DreError(f"unknown statistic {statistic!r}; choose among {', '.join(STATISTICS)}")
    kernel = {"pearson": _pearson, "spearman": _spearman, "kendall": _kendall}[statistic]
    out = np.full((len(weights), x.shape[1]), np.nan)
    seen = ~(np.isnan(x) | np.isnan(y)[:, None])
    for columns in _same_rows(seen.T):
        rows = np.flatnonzero(seen[:, columns[0]])
        if len(rows) < MIN_ITEMS:
            continue
        rows = rows[np.argsort(codes[rows], kind="stable")]
        kept, local = np.unique(codes[rows], return_inverse=True)
        starts = np.flatnonzero(np.r_[True, np.diff(local) > 0])
        out[:, columns] = kernel(x[np.ix_(rows, columns)], y[rows], local, starts, weights[:, kept])
    return out


def _same_rows(masks):
    """Groups of column numbers that share one mask of present items."""
    groups = {}
    for column, mask in enumerate(masks):
        groups.setdefault(mask.tobytes(), []).append(column)
    return groups.values()


def _ratio(cov, var_x, var_y, scale_x, scale_y):
    """Covariance over standard deviations; NaN where a variance is only rounding noise."""
    defined = (var_x > TINY * scale_x) & (var_y > TINY * scale_y)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = cov / np.sqrt(np.where(defined, var_x * var_y, np.nan))
    return np.clip(r, -1.0, 1.0)


def _pearson(x, y, codes, starts, weights):
    x, y = (x - x.mean(axis=0)) / _spread(x), (y - y.mean()) / _spread(y)
    total = weights @ np.diff(np.r_[starts, len(codes)]).astype(float)
    moments = [weights @ np.add.reduceat(v, starts, axis=0) for v in (x, x * x, x * y[:, None])]
    sum_x, sum_xx, sum_xy = moments
    sum_y, sum_yy = (weights @ np.add.reduceat(v, starts) for v in (y, y * y))
    n, sum_y, sum_yy = total[:, None], sum_y[:, None], sum_yy[:, None]
    var_x, var_y = n * sum_xx - sum_x**2, n * sum_yy - sum_y**2
    r = _ratio(n * sum_xy - sum_x * sum_y, var_x, var_y, n * sum_xx, n * sum_yy)
    r[:, _constant(x)] = np.nan
    return r


def _spread(x):
    """Largest absolute deviation, 1 for a constant: keeps products in range whatever the unit."""
    spread = np.abs(x - x.mean(axis=0)).max(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _constant(x):
    return x.max(axis=0) == x.min(axis=0)


def _signs(x, starts):
    """C[i, g] = sum over items j of cluster g of sign(x_i - x_j), shape (n, G)."""
    out = np.empty((len(x), len(starts)))
    step = max(1, 4_000_000 // len(x))
    for i in range(0, len(x), step):
        out[i : i + step] = np.add.reduceat(np.sign(x[i : i + step, None] - x[None, :]), starts, axis=1)
    return out


# these products are small: a second BLAS thread gains little, and waits long when the machine is busy
@threadpool_limits.wrap(limits=1, user_api="blas")
def _spearman(x, y, codes, starts, weights):
    # ranks are sums of at most n integers: single precision holds them exactly and is twice as fast
    sign_y = _signs(y, starts).T.astype(np.float32)
    signs = [_signs(column, starts).T.astype(np.float32) for column in x.T]
    out = np.empty((len(weights), x.shape[1]))
    for b in range(0, len(weights), BLOCK):
        w = weights[b : b + BLOCK].astype(np.float32)
        item_weights = w[:, codes].astype(float)
        rank_y = (w @ sign_y).astype(float)
        weighted_y = item_weights * rank_y
        var_y = np.vecdot(weighted_y, rank_y)
        single, rank_x, weighted_x = (
            np.empty_like(rank_y, np.float32),
            np.empty_like(rank_y),
            np.empty_like(rank_y),
        )
        for j, sign_x in enumerate(signs):
            np.matmul(w, sign_x, out=single)
            np.copyto(rank_x, single)
            np.multiply(item_weights, rank_x, out=weighted_x)
            cov, var_x = np.vecdot(weighted_y, rank_x), np.vecdot(weighted_x, rank_x)
            out[b : b + BLOCK, j] = _ratio(cov, var_x, var_y, 1.0, 1.0)
    return out


def _kendall(x, y, codes, starts, weights):
    tied_y = _pair_form(y, y, starts, weights)
    out = np.empty((len(weights), x.shape[1]))
    for j, column in enumerate(x.T):
        tied_x = _pair_form(column, column, starts, weights)
        out[:, j] = _ratio(_pair_form(column, y, starts, weights), tied_x, tied_y, 1.0, 1.0)
    return out


def _pair_form(x, y, starts, weights):
    """sum_ij w_i w_j sign(x_i - x_j) sign(y_i - y_j) of each resample, shape (B,)."""
    form = np.zeros((len(starts), len(starts)))
    for g, (first, last) in enumerate(zip(starts, np.r_[starts[1:], len(x)])):
        product = np.sign(x[first:last, None] - x[None, :]) * np.sign(y[first:last, None] - y[None, :])
        form[g] = np.add.reduceat(product.sum(axis=0), starts)
    return np.einsum("bg,bg->b", weights @ form, weights)


def _rows(x, methods, human, codes, statistic, value, low, high):
    rows = []
    for j, (name, columns) in enumerate(methods.items()):
        seen = ~np.isnan(x[:, columns]).any(axis=1) & ~np.isnan(human)
        n_clusters = len(np.unique(codes[seen]))
        reason = _reason(x[seen][:, columns], human[seen], n_clusters, value[j], low[j])
        known = not np.isnan(value[j])
        bounds = (low[j], high[j]) if known and n_clusters > 1 else (np.nan, np.nan)
        rows.append((name, statistic, value[j], *bounds, seen.sum(), (~seen).sum(), n_clusters, reason))
    names = ["method", "statistic", "value", "low", "high", "n", "n_missing", "n_clusters", "reason"]
    return pd.DataFrame(rows, columns=names)


def _reason(x, y, n_clusters, value, low):
    """Why a value or its interval is missing, "" when both are there."""
    if len(x) < MIN_ITEMS:
        return f"n = {len(x)}: at least {MIN_ITEMS} items needed"
    if np.isnan(value):
        return "constant score" if _constant(x).any() else "constant human rating"
    if n_clusters < 2:
        return "one context: no interval"
    return "no interval: undefined in most resamples" if np.isnan(low) else ""
