"""Correlation with people: bootstrap intervals, paired permutation tests, Holm's correction. NaN is a missing score.

Resampled are contexts, never single responses, since several share one. The number of a method trained with several
seeds is the mean over them, and seeds are resampled, too: the interval speaks of other dialogues and of another
training. With k seeds the resampled mean varies by (k - 1) / k of the variance that new trainings would have: of few
seeds the interval is rather too narrow.
"""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre.errors import DreError

POWER = (
    1.96 + 0.84
)  # standard errors that a difference must measure to be seen: test at 5 %, power 80 %
LEVEL = 0.05  # two-sided: intervals of 95 %, adjusted p-values below it count as shown
LARGEST_CACHED = (
    2_500_000  # numbers in a set of resamples that is kept: 20 MB each, eight sets at most
)
BLOCK = 256  # resamples handled at once, so that the work stays in the cache
SWAPS = (
    100_000,
    1_000_000,
    2_000_000,
)  # of contexts: where `decide` goes on, so many, one after the other


def context_weights(contexts: ArrayLike, n: int = 1000, seed: int = 0) -> np.ndarray:
    """How often each row is in each resample of whole contexts, (1 + n, rows), in the first line once."""
    code, drawn = _resamples(contexts, n, seed)
    return drawn[:, code]


def draws(
    scores: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    method: str = "spearman",
    n: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Correlation of each column of ``scores`` (rows, columns), no NaN, with ``human`` (rows,): (1 + n, columns).

    The first line is of the data, the others of resamples of contexts, exact with ties: the midranks are anew those of
    each resample. ``method`` is "spearman" or "pearson". NaN where a score or the rating does not vary.
    """
    return _correlations(scores, human, *_resamples(contexts, n, seed), method)


def _correlations(scores, human, code, drawn, method="spearman"):
    """`draws`, of rows whose contexts have the numbers ``code`` in resamples ``drawn``, which may have others, too."""
    y, x = np.asarray(human, float), np.atleast_2d(np.asarray(scores, float).T).T
    if len(y) < 3:  # two points always correlate by 1 or -1
        return np.full((len(drawn), x.shape[1]), np.nan)
    there, code = np.unique(code, return_inverse=True)
    drawn, order = (
        drawn[:, there],
        np.argsort(code, kind="stable"),
    )  # rows of one context stand together
    x, y, code = x[order], y[order], code[order]
    starts = np.searchsorted(code, np.arange(drawn.shape[1]))
    return (
        _spearman(x, y, code, starts, drawn)
        if method == "spearman"
        else _pearson(x, y, starts, drawn)
    )


def correlate(
    scores: pd.DataFrame | Mapping[str, pd.Series | pd.DataFrame],
    human: ArrayLike,
    contexts: ArrayLike,
    method: str = "spearman",
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Correlation of each method with people. Resampled: contexts and a method's training seeds.

    ``scores``: a table with one column per method, or a dict of method to Series, or to DataFrame with one column per
    training seed. A column ``pair_id`` is left out. A row that lacks a score counts for the other methods only.
    ``human, contexts`` (rows,): ratings in any unit, NaN where unrated; ``context_id``. ``method``: "spearman" or
    "pearson". ``n, seed``: number of resamples, and the seed of their generator.

    Returns a DataFrame by ``method``: ``r`` (mean over seeds), ``low, high`` (95 %; NaN for a single context), ``sd``
    over seeds (NaN for one), ``n`` rows used.
    """
    scores, human, contexts = _aligned(scores, human, contexts)
    rows = {}
    for name in scores.columns.unique(0):
        seen = scores[name].notna().all(axis=1).to_numpy() & ~np.isnan(human)
        r = draws(scores.loc[seen, name], human[seen], contexts[seen], method, n, seed)
        rows[name] = interval(r, seed=[seed, 1]) | {"n": int(seen.sum())}
    return (
        pd.DataFrame.from_dict(rows, orient="index")
        .rename_axis("method")
        .rename(columns={"mean": "r"})
    )


def compare(
    a: pd.Series | pd.DataFrame,
    b: pd.Series | pd.DataFrame,
    human: ArrayLike,
    contexts: ArrayLike,
    n: int = 1000,
    permutations: int = 10_000,
    seed: int = 0,
) -> dict:
    """Does a correlate (Spearman) with people otherwise than b, on the rows that both have scored?

    Resampled for the interval: contexts and seeds, the same ones for a and b. The p-value swaps a and b in whole
    contexts, in all seeds at once; it speaks of these models, not of other trainings.

    ``a, b``: a Series, or a DataFrame with one column per training seed; as many seeds on both sides, in one order, or
    one column on one side. ``human, contexts`` as in `correlate`.

    Returns a dict: ``difference`` (a less b, mean over seeds), ``low, high`` (95 %), ``sd`` over seeds, ``p``
    (two-sided, (1 + hits) / (1 + permutations)), ``n`` rows used, and ``swap``, the function of a number of
    permutations that gives ``p``: `decide` takes it out, and asks it for more where the answer hangs on chance.
    """
    both, human, contexts = _aligned({"a": a, "b": b}, human, contexts)
    seen = both.notna().all(axis=1).to_numpy() & ~np.isnan(human)
    gain = gains(both["a"], both["b"], human, contexts, n, seed)
    a, b, human, contexts = both.loc[seen, "a"], both.loc[seen, "b"], human[seen], contexts[seen]
    swap = functools.partial(_permuted, a, b, human, contexts, seed)
    p = np.nan if np.isnan(gain[0]).any() else swap(permutations)
    found = interval(gain, seed=[seed, 1])
    return {"difference": found.pop("mean"), **found, "p": p, "n": int(seen.sum()), "swap": swap}


def gains(
    a: pd.Series | pd.DataFrame,
    b: pd.Series | pd.DataFrame,
    human: ArrayLike,
    contexts: ArrayLike,
    n: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Spearman correlation of a with people less that of b, by training seed: (1 + n, seeds), as `draws`.

    Contexts are drawn among all rows, before those that lack a score are left out: by one ``seed`` all pairs of scores
    of a set are seen in the same resamples.
    """
    both, human, contexts = _aligned({"a": a, "b": b}, human, contexts)
    seen, (code, drawn) = (
        both.notna().all(axis=1).to_numpy() & ~np.isnan(human),
        _resamples(contexts, n, seed),
    )
    r = _correlations(both[seen], human[seen], code[seen], drawn)
    k = both["a"].shape[1]
    return r[:, :k] - r[:, k:]


def pooled(of_pairs: Sequence[np.ndarray], seed: int = 0) -> dict[str, float]:
    """Pool differences: their mean over several (set, judge) pairs, say, every pair counting alike.

    ``of_pairs``: what `gains` returned, with one seed for all pairs of a set and another for each set; so what pairs
    share is in the interval. Training seeds are drawn once for all of them.

    Returns a dict: ``difference, low, high`` (95 %), ``sd`` over seeds, ``pairs``, and ``positive`` ones among them.
    """
    found = interval(np.mean(np.broadcast_arrays(*of_pairs), axis=0), seed=[seed, 1])
    positive = sum(bool(gain[0].mean() > 0) for gain in of_pairs)
    return {"difference": found.pop("mean"), **found, "pairs": len(of_pairs), "positive": positive}


def mean(values: ArrayLike, contexts: ArrayLike, n: int = 1000, seed: int = 0) -> dict[str, float]:
    """Mean of values (rows,) or (rows, seeds). Resampled: contexts and seeds.

    Returns a dict: ``mean, low, high`` (95 %; NaN for a single context), ``sd`` over seeds, ``n`` rows without NaN.
    """
    values, contexts = np.atleast_2d(np.asarray(values, float).T).T, np.asarray(contexts)
    seen = ~np.isnan(values).any(axis=1)
    values, contexts = values[seen], contexts[seen]
    if not len(values):
        return dict.fromkeys(("mean", "low", "high", "sd"), np.nan) | {"n": 0}
    code, drawn = _resamples(contexts, n, seed)
    sums = np.zeros((drawn.shape[1], values.shape[1] + 1))
    np.add.at(sums, code, np.column_stack([values, np.ones(len(values))]))
    total = drawn @ sums
    means = total[:, :-1] / total[:, -1:]
    return interval(means, seed=[seed, 1]) | {"n": len(values)}


def interval(draws: ArrayLike, name: str | None = None, seed: int | Sequence[int] = 0) -> dict:
    """Of a number in the data and in resamples: its mean over training seeds, and the 95 % interval.

    ``draws`` (1 + n, seeds): the number of each training, in the first line of the data, in the others of resamples of
    contexts, as `draws` returns correlations; or differences and means of such arrays. Where there are several seeds,
    they are resampled, too, by the generator of ``seed`` (`numpy.random.default_rng`). Or (1 + n,): no seeds.

    Returns a dict to put into a row: ``<name>``, ``<name>_low``, ``<name>_high`` (NaN where less than half of the
    resamples have a number) and, of two axes, ``<name>_sd`` over seeds; without a name ``mean, low, high, sd``.
    """
    by_seed = np.asarray(draws, float)
    by_seed = by_seed[:, None] if by_seed.ndim == 1 else by_seed
    n, k = len(by_seed) - 1, by_seed.shape[1]
    share = np.random.default_rng(seed).multinomial(k, np.full(k, 1 / k), size=n) / k
    drawn = (share * by_seed[1:]).sum(axis=1)
    drawn = drawn[~np.isnan(drawn)]
    low, high = (np.nan, np.nan)
    if len(drawn) >= max(n / 2, 1):
        low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    found = {"low": low, "high": high}
    if np.ndim(draws) > 1:
        found["sd"] = by_seed[0].std(ddof=1) if k > 1 else np.nan
    prefix = f"{name}_" if name else ""
    return {name or "mean": by_seed[0].mean()} | {
        f"{prefix}{key}": value for key, value in found.items()
    }


def alpha(ratings: ArrayLike, contexts: ArrayLike, n: int = 1000, seed: int = 0) -> np.ndarray:
    """Krippendorff's alpha, interval level, of ratings (rows, raters), NaN where one is missing: (1 + n,) as `draws`.

    One less observed over expected squared difference of two ratings: of one row, and of any two (Krippendorff 2011).
    A row that less than two people rated does not count.
    """
    x = np.asarray(ratings, float)
    raters = (~np.isnan(x)).sum(axis=1)
    seen = raters > 1
    x, raters, weights = x[seen], raters[seen], context_weights(contexts, n, seed)[:, seen]
    squares = np.nansum((x - np.nanmean(x, axis=1, keepdims=True)) ** 2, axis=1)
    values = weights @ raters
    observed = weights @ (squares * raters / (raters - 1)) / values
    total = weights @ np.nansum(x**2, axis=1) - (weights @ np.nansum(x, axis=1)) ** 2 / values
    return 1 - observed / (total / (values - 1))


def holm(p: ArrayLike) -> np.ndarray:
    """Holm's step-down adjusted p-values (Holm 1979) of a family, all tests (tests,) of a table; NaN is one not run."""
    p = np.asarray(p, float)
    run = np.flatnonzero(~np.isnan(p))
    order, adjusted = run[np.argsort(p[run], kind="stable")], np.full_like(p, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1)
    return adjusted


def decide(tests: pd.DataFrame | Sequence[dict]) -> pd.DataFrame:
    """Answer a family of tests, a table of what `compare` returned: Holm over its rows with a ``p``.

    Where ``p_holm`` lies within a factor of three of `LEVEL`, contexts are swapped again, up to the last of `SWAPS`,
    until its distance from the level is more than three standard errors of the swaps.

    Returns the table with ``low, high, sd`` as ``difference_low, difference_high, difference_sd``, ``p_holm``, and
    ``answer``: "better" or "worse" where ``p_holm`` is below `LEVEL` and the interval lies above or below zero, else
    "no clear difference"; "undecided" where the last swaps leave open on which side ``p_holm`` lies, and the interval
    excludes zero; empty where there is no ``p``.
    """
    tests = pd.DataFrame(tests)
    again = tests.pop("swap") if "swap" in tests else None
    tests["p_holm"] = holm(tests["p"])
    unclear = tests["p_holm"].between(LEVEL / 3, 3 * LEVEL) & (again is not None)
    for count in SWAPS:
        for row in tests.index[unclear]:
            tests.loc[row, "p"] = again[row](count)
        tests["p_holm"] = holm(tests["p"])
        error = tests["p_holm"] * ((1 / tests["p"] - 1) / count) ** 0.5
        unclear &= (tests["p_holm"] - LEVEL).abs() <= 3 * error
    tests = tests.rename(columns={end: f"difference_{end}" for end in ("low", "high", "sd")})
    above, below = tests["difference_low"] > 0, tests["difference_high"] < 0
    shown = tests["p_holm"] < LEVEL
    answers = [unclear & (above | below), shown & above, shown & below, tests["p"].isna()]
    return tests.assign(
        answer=np.select(answers, ["undecided", "better", "worse", ""], "no clear difference")
    )


def normal_scores(x: ArrayLike) -> np.ndarray:
    """Return the midranks of each column of x as standard normal scores."""
    from scipy.special import ndtri  # these two take more than a second to import
    from scipy.stats import rankdata

    return ndtri((rankdata(x, axis=0) - 0.5) / len(x))


def _resamples(contexts, n, seed):
    """Number the contexts and resample them.

    Returns
    -------
    code : (rows,) integers, the number of each row's context.
    drawn : (1 + n, contexts), how often each context is in the data (once) and in each resample. Read-only.
    """
    code, names = pd.factorize(np.asarray(contexts))
    seed = tuple(seed) if np.ndim(seed) else seed  # a key of the cache
    draw = _cached_counts if n * len(names) <= LARGEST_CACHED else _context_counts
    return code, draw(len(names), n, seed)


def _context_counts(contexts, n, seed):
    """Draw how often each of so many contexts is in the data (once) and in each of n resamples.

    With a single context it is unknown what others would be like: its resamples are NaN.
    Returns an array (1 + n, contexts), read-only.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(contexts, np.full(contexts, 1 / contexts), size=n).astype(float)
    if contexts == 1:
        drawn[:] = np.nan
    counts = np.vstack([np.ones(contexts), drawn])
    counts.flags.writeable = False  # all who ask for it share it
    return counts


#: Drawing takes nine tenths of the time of a mean, and the cells of a table ask for the same draws again and again.
_cached_counts = functools.lru_cache(maxsize=8)(_context_counts)


def _aligned(scores, human, contexts):
    """Scores as a table with two levels of columns, (method, seed); people's ratings and contexts as arrays."""
    scores = {name: pd.DataFrame(one) for name, one in dict(scores).items() if name != "pair_id"}
    scores = {name: one.set_axis(range(one.shape[1]), axis=1) for name, one in scores.items()}
    first = next(iter(scores.values())).index
    for name, one in (scores | {"human": human, "contexts": contexts}).items():
        if len(one) != len(first) or (hasattr(one, "index") and not first.equals(one.index)):
            raise DreError(
                f"{name} has other rows than the scores; expected the same {len(first)} rows in one order"
            )
    return pd.concat(scores, axis=1).astype(float), np.asarray(human, float), np.asarray(contexts)


def _spearman(x, y, code, starts, drawn):
    # Twice the centred midrank of row i in a resample is the sum over contexts g of drawn[g] * signs[g, i]: one matrix
    # product, of sums of at most n integers, which single precision holds exactly.
    signs, out = [_signs(v, starts) for v in (y, *x.T)], np.empty((len(drawn), x.shape[1]))
    for b in range(0, len(drawn), BLOCK):
        w = drawn[b : b + BLOCK].astype(np.float32)
        rows, rank_y = w[:, code].astype(float), (w @ signs[0]).astype(float)
        spread_y = np.vecdot(rows * rank_y, rank_y)
        for j, sign_x in enumerate(signs[1:]):
            rank_x = (w @ sign_x).astype(float)
            weighted = rows * rank_x
            out[b : b + BLOCK, j] = _ratio(
                np.vecdot(weighted, rank_y), np.vecdot(weighted, rank_x) * spread_y, 0.0
            )
    return out


def _signs(v, starts):
    """For each context g and row i: how many rows of g lie below v_i, less how many lie above, (G, n)."""
    step = max(1, 4_000_000 // len(v))
    parts = [np.sign(v[i : i + step, None] - v).astype(np.float32) for i in range(0, len(v), step)]
    return np.concatenate([np.add.reduceat(part, starts, axis=1) for part in parts]).T


def _pearson(x, y, starts, drawn):
    x, y = ((v - v.mean(axis=0)) / np.maximum(np.ptp(v, axis=0), 1e-300) for v in (x, y[:, None]))
    moments = [np.ones_like(y), x, y, x * x, y * y, x * y]
    n, sx, sy, sxx, syy, sxy = (drawn @ np.add.reduceat(v, starts, axis=0) for v in moments)
    return _ratio(
        n * sxy - sx * sy, (n * sxx - sx**2) * (n * syy - sy**2), 1e-12 * n**2 * sxx * syy
    )


def _ratio(covariance, variances, least):
    """Correlation, NaN where nothing varies (beyond rounding)."""
    return np.divide(
        covariance,
        np.sqrt(variances),
        out=np.full_like(covariance, np.nan),
        where=variances > least,
    )


def _permuted(a, b, human, contexts, seed, permutations):
    """Two-sided p of the difference when a and b are swapped in whole contexts; midranks are not ranked again."""
    from scipy.stats import rankdata

    code, names = pd.factorize(contexts)
    y, one, other = (
        (v - v.mean(axis=0)) / v.std(axis=0) for v in (rankdata(v, axis=0) for v in (human, a, b))
    )
    one, other, draw = *np.broadcast_arrays(one, other), np.random.default_rng(seed)

    def gain(swaps):
        return np.abs(
            np.mean([_swapped(x, z, y, code, swaps) for x, z in zip(one.T, other.T)], axis=0)
        )

    least, hits = gain(np.zeros((1, len(names)))) - 1e-10, 0
    for start in range(0, permutations, 10_000):  # a few megabytes, however many
        swaps = draw.integers(0, 2, (min(10_000, permutations - start), len(names)), dtype=np.int8)
        hits += (
            ~(gain(swaps) < least)
        ).sum()  # a swap that leaves a constant is NaN, and counts as a hit
    return (1 + hits) / (1 + permutations)


def _swapped(x, z, y, code, swaps):
    """Difference of the correlations with y after each swap (P, G); every sum is linear in the 0/1 swaps."""
    by_context, found = np.zeros((swaps.shape[1], 3)), []
    np.add.at(by_context, code, np.stack([z - x, z**2 - x**2, (z - x) * y], axis=1))
    total, square, cross = (swaps @ by_context).T
    for v, sign in ((x, 1), (z, -1)):
        variance = (v @ v + sign * square) / len(y) - ((sign * total) / len(y)) ** 2
        found.append(_ratio((v @ y + sign * cross) / len(y), variance, 1e-10))
    return found[0] - found[1]
