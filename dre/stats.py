"""Statistics of scores: correlation with people, bootstrap intervals and permutation tests.

Responses to one context are not independent. So intervals come from resamples of whole contexts,
and the permutation test swaps whole contexts.

A method that was trained with several seeds has the mean over them as its number, and an interval
resamples the seeds, too: it speaks of other dialogues and of another training. With k seeds the
resampled mean varies by (k - 1) / k of the variance that new trainings would have, so with few
seeds the interval is rather too narrow.

A statistic is a function in `CORRELATIONS` or `MEASURES`; nearly all run `in_each_resample`.

NaN is a missing score.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre.errors import DreError

#: Two-sided level: intervals hold 95 %, and an adjusted p-value below it counts as significant.
LEVEL = 0.05
#: Standard errors that a difference must measure to be seen by a test at 5 % with a power of 80 %.
POWER = 1.96 + 0.84
#: Numbers of swaps that `decide` goes on with, in turn, where a p-value is near `LEVEL`.
_SWAPS = (100_000, 1_000_000, 2_000_000)
#: Permutations that are handled at once: a few megabytes, however many there are in all.
_PERMUTATION_BLOCK = 10_000
#: Scores of a method: one for each row, or one column for each training seed.
Scores = pd.Series | pd.DataFrame


class Rated(NamedTuple):
    """Rows that have a rating and all scores, as a statistic takes them."""

    scores: np.ndarray  # (rows, columns)
    human: np.ndarray  # (rows,)
    contexts: np.ndarray  # (rows,), the number of each row's context
    systems: np.ndarray | None  # (rows,), the number of each row's system


def in_each_resample(
    statistic: Callable[[np.ndarray], ArrayLike], rated: Rated, counts: np.ndarray
) -> np.ndarray:
    """Compute a statistic in the data and in each resample of whole contexts.

    Parameters
    ----------
    statistic : takes the numbers of the rows of a resample, where those of a context that was drawn
        twice stand twice, and returns a number for each column of scores.
    rated : the rows.
    counts : (1 + n, contexts), how often each context is in the data (once) and in each resample;
        NaN for resamples of a single context.

    Returns
    -------
    (1 + n, columns) array; NaN for resamples of a single context, and for fewer than three rows,
    since two points always correlate by 1 or -1.
    """
    values = _unknown(rated, counts)
    row_numbers = np.arange(len(rated.human))
    times = np.nan_to_num(counts)[:, rated.contexts].astype(int)
    is_known = ~np.isnan(counts).any(axis=1) & (len(row_numbers) > 2)
    for line in np.flatnonzero(is_known):
        values[line] = statistic(np.repeat(row_numbers, times[line]))
    return values


def pearson(rated: Rated, counts: np.ndarray) -> np.ndarray:
    """Pearson's correlation over all rows.

    Takes and returns what `in_each_resample` does, as all functions of `MEASURES` do. It needs no
    loop: means over the rows of a resample are sums over contexts, weighted by their counts.
    """
    if len(rated.human) < 3:
        return _unknown(rated, counts)
    columns = np.column_stack([rated.human, rated.scores])
    # With mean 0 and range 1 sums of squares lose no digits.
    width = np.maximum(np.ptp(columns, axis=0), 1e-300)
    columns = (columns - columns.mean(axis=0)) / width
    y = columns[:, :1]
    products = np.hstack([columns, columns**2, columns * y])
    means = _means(products, rated.contexts, counts)
    mean, mean_square, mean_product = np.split(means, 3, axis=1)
    variance = mean_square - mean**2
    covariance = mean_product - mean * mean[:, :1]
    return _ratio(covariance, variance * variance[:, :1], 1e-14)[:, 1:]


def spearman(rated: Rated, counts: np.ndarray) -> np.ndarray:
    """Spearman's correlation over all rows, as papers report it."""
    return _rank_correlation(rated, counts)


def within_contexts(rated: Rated, counts: np.ndarray) -> np.ndarray:
    """Spearman's correlation after the mean rank of each context is taken off.

    Only differences between replies to one context count.
    """
    return _rank_correlation(rated, counts, rated.contexts)


def within_systems(rated: Rated, counts: np.ndarray) -> np.ndarray:
    """Spearman's correlation after the mean rank of each system is taken off.

    NaN without systems, or with a single one.
    """
    if rated.systems is None or len(set(rated.systems)) < 2:
        return _unknown(rated, counts)
    return _rank_correlation(rated, counts, rated.systems)


def ordered_pairs(rated: Rated, counts: np.ndarray) -> np.ndarray:
    """Of all pairs of replies to one context the share, 0 to 1, that scores order as people do.

    It is the mean over contexts. Scores that differ by no more than a threshold are tied, and a tie
    is right where people have one, too. The threshold is the best for these pairs (Deutsch et al.
    2023, "Ties matter": accuracy with tie calibration, grouped by item).

    Pairs are in the order of their difference in scores. With each further one that is called a
    tie, the number of right answers changes by what it adds (people tie) or takes away (the scores
    were right). So the best threshold is where the sum of these changes is highest.
    """
    shares = _unknown(rated, counts)
    rows_by_context = pd.Series(rated.contexts).groupby(rated.contexts).indices.values()
    pairs = [pair for rows in rows_by_context for pair in combinations(rows, 2)]
    if not pairs:
        return shares
    first, second = np.array(pairs).T
    context_of_pair = rated.contexts[first]
    n_pairs = np.bincount(context_of_pair, minlength=counts.shape[1])
    # Each context counts alike, however many pairs it has.
    weights = counts / np.maximum(n_pairs, 1)
    n_contexts = counts @ (n_pairs > 0)

    people = np.sign(rated.human[first] - rated.human[second])
    for column, scores in enumerate(rated.scores.T):
        gap = scores[first] - scores[second]
        is_right = (np.sign(gap) == people) & (people != 0)
        change = 1.0 * (people == 0) - is_right
        by_size = np.argsort(np.abs(gap), kind="stable")
        by_size = by_size[change[by_size] != 0]
        size = np.abs(gap[by_size])
        is_last_of_equals = np.append(size[1:] > size[:-1], True)[: len(size)]
        for line, weight in enumerate(weights):
            right = weight[context_of_pair[is_right]].sum()
            sums = np.cumsum(weight[context_of_pair[by_size]] * change[by_size])
            best = sums[is_last_of_equals].max(initial=0)
            shares[line, column] = (right + best) / n_contexts[line]
    return shares


#: Correlations, as `draws` and `correlate` take them.
CORRELATIONS = {"spearman": spearman, "pearson": pearson}
#: Measures of agreement with people, as `agreements` takes them.
MEASURES = {
    "overall": spearman,
    "within_contexts": within_contexts,
    "ordered_pairs": ordered_pairs,
    "within_systems": within_systems,
}


def _unknown(rated, counts):
    """Return NaN for each resample and column of scores: (1 + n, columns)."""
    return np.full((len(counts), rated.scores.shape[1]), np.nan)


def _rank_correlation(rated, counts, groups=None):
    """Correlate midranks, less the mean of each group, with those of people: (1 + n, columns).

    Ranks are other ones in each resample. Values are numbered in rising order once, so that ranking
    a resample takes no sort: a midrank is the number of rows below, and half of those that are
    equal.
    """
    columns = np.vstack([rated.human, rated.scores.T])
    # No two columns share a level or a group, so that all columns are counted at once.
    column_numbers = np.arange(len(columns))[:, None]
    levels = np.stack([np.unique(column, return_inverse=True)[1] for column in columns])
    levels += column_numbers * columns.shape[1]
    if groups is not None:
        groups = groups + column_numbers * (1 + groups.max(initial=0))

    def correlation(rows):
        level_of_row = levels.take(rows, axis=1)
        times = np.bincount(level_of_row.ravel())
        doubled_midranks = (2 * np.cumsum(times) - times).take(level_of_row)
        if groups is None:
            means = doubled_midranks.sum(axis=1, keepdims=True) / len(rows)
        else:
            group_of_row = groups.take(rows, axis=1)
            sums = np.bincount(group_of_row.ravel(), doubled_midranks.ravel())
            sizes = np.maximum(np.bincount(group_of_row.ravel()), 1)
            means = (sums / sizes).take(group_of_row)
        centred = doubled_midranks - means
        variances = np.vecdot(centred, centred)
        variances[variances < 1e-9] = np.nan  # nothing varies, beyond rounding
        r = centred @ centred[0] / np.sqrt(variances * variances[0])
        return r[1:]

    return in_each_resample(correlation, rated, counts)


def context_weights(contexts: ArrayLike, n: int = 1000, seed: int = 0) -> np.ndarray:
    """Return how often each row is in the data (once) and in each resample of whole contexts.

    Parameters
    ----------
    contexts : (rows,), the context of each row.
    n : number of resamples.
    seed : of the generator that draws them.

    Returns
    -------
    (1 + n, rows) array; the first line is of the data.
    """
    context_numbers, counts = _resamples(contexts, n, seed)
    return counts[:, context_numbers].astype(float)


def draws(
    scores: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    method: str = "spearman",
    n: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Correlate each column of scores with ratings, in the data and in resamples of contexts.

    Ties are exact: in each resample the rows are ranked anew, by midranks.

    Parameters
    ----------
    scores : (rows, columns). A row that lacks a score or a rating does not count.
    human : (rows,), people's ratings.
    contexts : (rows,), the context of each row; those of rows that do not count are drawn, too.
    method : one of `CORRELATIONS`.
    n, seed : as of `context_weights`.

    Returns
    -------
    (1 + n, columns) array; the first line is of the data. NaN where a score or a rating does not
    vary.
    """
    rated, counts = _rated(scores, human, contexts, None, n, seed)
    return CORRELATIONS[method](rated, counts)


def correlate(
    scores: pd.DataFrame | Mapping[str, Scores],
    human: ArrayLike,
    contexts: ArrayLike,
    method: str = "spearman",
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Correlate each method with people, with an interval over contexts and training seeds.

    Parameters
    ----------
    scores : a table with one column for each method, or a dict of method to Series, or to a
        DataFrame with one column for each training seed. A row that lacks a score of one method
        counts for the other methods.
    human : (rows,), ratings in any unit, NaN where nobody rated.
    contexts : (rows,), ids of contexts.
    method : one of `CORRELATIONS`.
    n, seed : as of `context_weights`.

    Returns
    -------
    DataFrame with a row for each ``method``: ``r`` (mean over seeds), ``low, high`` (95 %; NaN for
    a single context), ``sd`` over seeds (NaN for one seed), ``n`` rows used. A method without any
    score is a row of NaN.
    """
    table, human, contexts = _aligned(scores, human, contexts)
    rows = {}
    for name in table.columns.unique(0):
        is_used = table[name].notna().all(axis=1) & ~np.isnan(human)
        scores_used = table.loc[is_used, name]
        r = draws(scores_used, human[is_used], contexts[is_used], method, n, seed)
        rows[name] = {**interval(r, seed=[seed, 1]), "n": is_used.sum()}
    by_method = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    return by_method.rename(columns={"mean": "r"})


def compare(
    a: Scores,
    b: Scores,
    human: ArrayLike,
    contexts: ArrayLike,
    n: int = 1000,
    permutations: int = 10_000,
    seed: int = 0,
) -> dict:
    """Test whether a correlates (Spearman) with people better or worse than b.

    Only rows count that both have scored. The interval resamples contexts and training seeds, the
    same ones for a and b. The p-value comes from swapping a and b in whole contexts, in all seeds
    at once: it speaks of these models, not of other trainings.

    Parameters
    ----------
    a, b : Series, or DataFrames with one column for each training seed: as many on both sides, in
        the same order, or one column on one side.
    human, contexts : as of `correlate`.
    n, seed : as of `context_weights`.
    permutations : number of random swaps.

    Returns
    -------
    dict: ``difference`` (a minus b, mean over seeds), ``low, high`` (95 %), ``sd`` over seeds,
    ``p`` (two-sided: (1 + hits) / (1 + permutations)), ``n`` rows used, and ``p_by_swaps``, the
    function that computes ``p`` from a number of permutations. `decide` removes ``p_by_swaps``, and
    calls it with more permutations where these may change the answer.
    """
    table, human, contexts = _aligned({"a": a, "b": b}, human, contexts)
    is_used = table.notna().all(axis=1) & ~np.isnan(human)
    gain = gains(a, b, human, contexts, n, seed)
    used = table[is_used]
    p_by_swaps = functools.partial(
        _permuted, used["a"], used["b"], human[is_used], contexts[is_used], seed
    )
    p = np.nan if np.isnan(gain[0]).any() else p_by_swaps(permutations)
    return {**_difference(gain, seed), "p": p, "n": len(used), "p_by_swaps": p_by_swaps}


def gains(
    a: Scores,
    b: Scores,
    human: ArrayLike,
    contexts: ArrayLike,
    n: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Return the Spearman correlation of a with people minus that of b, for each training seed.

    Contexts are drawn among all rows, before those that lack a score are left out. So with one
    ``seed`` all pairs of methods on a set are seen in the same resamples, which `pooled` needs.

    Takes what `compare` takes. Returns a (1 + n, seeds) array; the first line is of the data.
    """
    return agreement_gains(a, b, human, contexts, None, n, seed, ["overall"])["overall"]


def pooled(of_pairs: Sequence[np.ndarray]) -> dict[str, float]:
    """Pool differences over several pairs of a set and a judge; every pair counts alike.

    Parameters
    ----------
    of_pairs : what `gains` returned for each pair, with one seed for all pairs of a set and another
        for each set. So the interval knows what pairs share. Training seeds are drawn once for all.

    Returns
    -------
    dict: ``difference, low, high`` (95 %), ``sd`` over seeds, ``pairs``, and how many of them are
    ``positive``.
    """
    mean_gain = np.mean(np.broadcast_arrays(*of_pairs), axis=0)
    positive = sum(bool(gain[0].mean() > 0) for gain in of_pairs)
    return {**_difference(mean_gain, 0), "pairs": len(of_pairs), "positive": positive}


def _difference(draws, seed):
    """Return the `interval` of differences (1 + n, seeds), whose mean is their ``difference``."""
    statistics = interval(draws, seed=[seed, 1])
    return {"difference": statistics.pop("mean"), **statistics}


def agreements(
    scores: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike | None = None,
    n: int = 1000,
    seed: int = 0,
    measures: Iterable[str] = MEASURES,
) -> dict[str, np.ndarray]:
    """Measure in several respects how each column of scores agrees with people, in one pass.

    A correlation over all pairs mixes three questions: which system is better, which conversation
    goes better, and which reply to a conversation is better.

    Parameters
    ----------
    scores, human, contexts : as of `draws`.
    systems : (rows,), the system that gave each reply; None or all the same if that is not known.
    n, seed : as of `context_weights`.
    measures : which of `MEASURES`.

    Returns
    -------
    By measure a (1 + n, columns) array; the first line is of the data.
    """
    rated, counts = _rated(scores, human, contexts, systems, n, seed)
    return {measure: MEASURES[measure](rated, counts) for measure in measures}


def agreement_gains(
    a: Scores,
    b: Scores,
    human: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike | None = None,
    n: int = 1000,
    seed: int = 0,
    measures: Iterable[str] = MEASURES,
) -> dict[str, np.ndarray]:
    """Return the agreement of a with people minus that of b, by measure and for each training seed.

    Only rows count that both have scored.

    Parameters
    ----------
    a, b, human, contexts, n, seed : as of `gains`, whose numbers are those of measure ``overall``.
    systems, measures : as of `agreements`.

    Returns
    -------
    By measure a (1 + n, seeds) array; the first line is of the data.
    """
    table, human, contexts = _aligned({"a": a, "b": b}, human, contexts)
    by_measure = agreements(table, human, contexts, systems, n, seed, measures)
    seeds_of_a = table["a"].shape[1]
    return {measure: r[:, :seeds_of_a] - r[:, seeds_of_a:] for measure, r in by_measure.items()}


def ceilings(
    ratings: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike | None = None,
    n: int = 1000,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return the highest correlation with people's mean rating that a perfect score could reach.

    The mean of k raters has the reliability k r / (1 + (k - 1) r), where r is the mean correlation
    of two raters (Spearman-Brown). A score without error correlates with that mean at the root of
    its reliability.

    Parameters
    ----------
    ratings : (rows, raters). Rows that lack a rating are left out.
    contexts, systems, n, seed : as of `agreements`.

    Returns
    -------
    By measure, except ``ordered_pairs``, a (1 + n,) array; the first number is of the data. NaN
    where raters do not agree at all.
    """
    ratings = _rated_by_all(ratings)
    n_raters = ratings.shape[1]
    of_two = _mean_agreements(combinations(ratings.T, 2), contexts, systems, n, seed)
    of_two.pop("ordered_pairs")
    ceiling_by_measure = {}
    for measure, r in of_two.items():
        r = np.where(r > 0, r, np.nan)
        reliability = n_raters * r / (1 + (n_raters - 1) * r)
        ceiling_by_measure[measure] = np.sqrt(reliability)
    return ceiling_by_measure


def one_against_rest(
    ratings: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike | None = None,
    n: int = 1000,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Measure how one rater agrees with the mean of the others, mean over raters.

    Takes what `ceilings` takes. Returns a (1 + n,) array for each of `MEASURES`.
    """
    ratings = _rated_by_all(ratings)
    pairs = []
    for rater, of_rater in enumerate(ratings.T):
        mean_of_others = np.delete(ratings, rater, axis=1).mean(axis=1)
        pairs.append((of_rater, mean_of_others))
    return _mean_agreements(pairs, contexts, systems, n, seed)


def soft_pairwise_accuracy(
    scores: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike,
    permutations: int = 2000,
) -> float:
    """Return how well scores rank systems: soft pairwise accuracy (Thompson et al. 2024).

    For each two systems a test asks whether the first is better, once by people's ratings and once
    by the scores: it swaps the two systems' replies in some contexts. The accuracy is one minus
    the mean difference of the two p-values. Scores that rank at random have about 0.5 where people
    are certain, and more where they are not.

    Parameters
    ----------
    scores, human : (rows,), without NaN.
    contexts, systems : (rows,). A context counts for two systems if both replied to it.
    permutations : number of random swaps.

    Returns
    -------
    0 to 1, mean over pairs of systems that replied to a context in common; NaN if there is none.
    """
    columns = {"context": contexts, "system": systems, "human": human, "scores": scores}
    table = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
    by_system = table.pivot_table(index="context", columns="system").swaplevel(axis=1)
    rng = np.random.default_rng(0)
    differences = []
    for first, second in combinations(sorted(table["system"].unique()), 2):
        gaps = (by_system[first] - by_system[second]).dropna().to_numpy()
        if not len(gaps):
            continue
        signs = rng.choice([-1.0, 1.0], size=(permutations, len(gaps)))
        # The one-sided p-values: how often swapped gaps are as large as those that were seen.
        is_as_large = signs @ gaps >= gaps.sum(axis=0) - 1e-9
        p_human, p_scores = is_as_large.mean(axis=0)
        differences.append(abs(p_human - p_scores))
    return 1 - float(np.mean(differences)) if differences else np.nan


def drawn_seeds(draws: ArrayLike, seed: int | Sequence[int] = 0) -> np.ndarray:
    """Resample the seeds (trainings, or askings of a judge) of a number, and take their mean.

    Two numbers whose seeds have nothing to do with each other are drawn apart, each with a seed of
    its own. Their difference is then handed to `interval`.

    Parameters
    ----------
    draws : (1 + n, seeds), as `draws` returns.
    seed : of the generator.

    Returns
    -------
    (1 + n,) array; the first number is the mean over seeds in the data.
    """
    by_seed = _columns(draws)
    n_seeds = by_seed.shape[1]
    rng = np.random.default_rng(seed)
    times = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=len(by_seed) - 1)
    resampled = (times / n_seeds * by_seed[1:]).sum(axis=1)
    return np.concatenate([[by_seed[0].mean()], resampled])


def smallest_seen(low: float, high: float) -> float:
    """Return the effect that a test at 5 % sees with a power of 80 %, from a 95 % interval."""
    standard_error = (high - low) / (2 * 1.96)
    return POWER * standard_error


def mean(values: ArrayLike, contexts: ArrayLike, n: int = 1000, seed: int = 0) -> dict[str, float]:
    """Return a mean with its interval over contexts and training seeds.

    Parameters
    ----------
    values : (rows,) or (rows, seeds). A row counts if no seed lacks a value.
    contexts : (rows,), ids of contexts.
    n, seed : as of `context_weights`.

    Returns
    -------
    dict: ``mean, low, high`` (95 %; NaN for a single context), ``sd`` over seeds, ``n`` rows used.
    """
    by_seed = _columns(values)
    is_used = ~np.isnan(by_seed).any(axis=1)
    by_seed = by_seed[is_used]
    context_numbers, counts = _resamples(np.asarray(contexts)[is_used], n, seed)

    means = _means(by_seed, context_numbers, counts)
    return {**interval(means, seed=[seed, 1]), "n": len(by_seed)}


def interval(draws: ArrayLike, name: str | None = None, seed: int | Sequence[int] = 0) -> dict:
    """Return a number with its 95 % interval, from its value in the data and in resamples.

    Parameters
    ----------
    draws : (1 + n, seeds), the number of each training in the data (first line) and in resamples of
        contexts, as `draws` returns correlations; or differences and means of such arrays. Where
        there are several seeds, they are resampled, too. Or (1 + n,), without seeds.
    name : what the number is called in a row of a table.
    seed : of the generator that draws training seeds (`numpy.random.default_rng`).

    Returns
    -------
    dict: ``<name>`` (mean over seeds), ``<name>_low, <name>_high`` (NaN where less than half of the
    resamples have a number) and, if there is an axis of seeds, ``<name>_sd`` over them (NaN for
    one). Without a name ``mean, low, high, sd``.
    """
    by_seed = _columns(draws)
    # Each resample of contexts gets a resample of seeds.
    resampled = drawn_seeds(by_seed, seed)[1:]
    n_numbers = np.count_nonzero(~np.isnan(resampled))
    low = high = np.nan
    if n_numbers >= max(len(resampled) / 2, 1):
        low, high = np.nanquantile(resampled, [LEVEL / 2, 1 - LEVEL / 2])

    prefix = f"{name}_" if name else ""
    row = {name or "mean": by_seed[0].mean(), f"{prefix}low": low, f"{prefix}high": high}
    if np.ndim(draws) > 1:
        row[f"{prefix}sd"] = by_seed[0].std(ddof=1) if by_seed.shape[1] > 1 else np.nan
    return row


def alpha(ratings: ArrayLike, contexts: ArrayLike, n: int = 1000, seed: int = 0) -> np.ndarray:
    """Return Krippendorff's alpha (interval level), in the data and in resamples of contexts.

    Alpha is one minus the ratio of two mean squared differences: of two ratings of the same row
    (observed), and of any two ratings (expected); Krippendorff 2011. A row that fewer than two
    people rated does not count.

    Parameters
    ----------
    ratings : (rows, raters), NaN where one is missing.
    contexts : (rows,), ids of contexts.
    n, seed : as of `context_weights`.

    Returns
    -------
    (1 + n,) array; the first number is of the data.
    """
    x = np.asarray(ratings, float)
    raters = (~np.isnan(x)).sum(axis=1)
    is_used = raters > 1
    x = x[is_used]
    raters = raters[is_used]
    weights = context_weights(contexts, n, seed)[:, is_used]
    n_ratings = weights @ raters

    # Half the mean squared difference of two numbers is their variance with divisor (count - 1).
    variances_in_rows = np.nanvar(x, axis=1, ddof=1)
    observed = weights @ (raters * variances_in_rows) / n_ratings
    sums = weights @ np.nansum(x, axis=1)
    sums_of_squares = weights @ np.nansum(x**2, axis=1)
    squares_in_all = sums_of_squares - sums**2 / n_ratings
    expected = squares_in_all / (n_ratings - 1)
    return 1 - observed / expected


def holm(p: ArrayLike) -> np.ndarray:
    """Return the p-values of a family of tests, adjusted by Holm's step-down procedure (1979).

    ``p`` (tests,) are all tests of a table, NaN for one that was not run. The k-th smallest of m is
    multiplied by m - k + 1; none gets a smaller value than one before it, or more than 1.
    """
    by_test = pd.Series(np.asarray(p, float))
    ascending = by_test.dropna().sort_values(kind="stable")
    multipliers = np.arange(len(ascending), 0, -1)
    adjusted = (ascending * multipliers).cummax().clip(upper=1)
    return adjusted.reindex(by_test.index).to_numpy()


def decide(tests: pd.DataFrame | Sequence[dict]) -> pd.DataFrame:
    """Answer a family of tests, after Holm's correction over its rows that have a p-value.

    Where an adjusted p-value lies within a factor of three of `LEVEL`, contexts are swapped again
    with the numbers in `_SWAPS`, until its distance from the level is more than three standard
    errors of the swaps.

    Parameters
    ----------
    tests : what `compare` returned for each test, perhaps with further columns.

    Returns
    -------
    The table with ``low, high, sd`` as ``difference_low, difference_high, difference_sd``, with
    ``p_holm``, and ``answer``:

    - "better" or "worse": ``p_holm`` is below `LEVEL`, and the interval is above or below zero.
    - "undecided": after all swaps it is open on which side of the level ``p_holm`` lies, and the
      interval excludes zero.
    - "": there is no p-value.
    - "no clear difference": everything else.
    """
    tests = pd.DataFrame(tests)
    p_by_swaps: dict = dict(tests.pop("p_by_swaps")) if "p_by_swaps" in tests else {}
    tests["p_holm"] = holm(tests["p"])
    is_unclear = tests["p_holm"].between(LEVEL / 3, 3 * LEVEL) & bool(p_by_swaps)
    for permutations in _SWAPS:
        for row in tests.index[is_unclear]:
            tests.loc[row, "p"] = p_by_swaps[row](permutations)
        tests["p_holm"] = holm(tests["p"])
        relative_variance = (1 / tests["p"] - 1) / permutations
        standard_error = tests["p_holm"] * relative_variance**0.5
        from_level = (tests["p_holm"] - LEVEL).abs()
        is_unclear &= from_level <= 3 * standard_error

    tests = tests.rename(columns={name: f"difference_{name}" for name in ("low", "high", "sd")})
    is_above = tests["difference_low"] > 0
    is_below = tests["difference_high"] < 0
    is_significant = tests["p_holm"] < LEVEL
    answers = {
        "undecided": is_unclear & (is_above | is_below),
        "better": is_significant & is_above,
        "worse": is_significant & is_below,
        "": tests["p"].isna(),
    }
    tests["answer"] = np.select([*answers.values()], [*answers], "no clear difference")
    return tests


def normal_scores(x: ArrayLike) -> np.ndarray:
    """Return the midranks of each column of x as standard normal scores."""
    from scipy.special import ndtri  # half a second of imports

    midranks = pd.DataFrame(x).rank().to_numpy()
    return ndtri((midranks - 0.5) / len(midranks))


def _columns(values):
    """Return (rows,) or (rows, columns) numbers as an array (rows, columns)."""
    array = np.asarray(values, float)
    return array[:, None] if array.ndim == 1 else array


def _resamples(contexts, n, seed):
    """Number the contexts in the order of their names, whatever order rows are in, and draw them.

    Returns
    -------
    context_numbers : (rows,) integers, the number of each row's context.
    counts : (1 + n, contexts), how often each context is in the data (once) and in each resample.
    """
    context_numbers, names = pd.factorize(np.asarray(contexts), sort=True)
    seed = tuple(seed) if np.ndim(seed) else seed  # a key of the cache
    return context_numbers, _context_counts(len(names), n, seed)


# Drawing takes nine tenths of the time of a mean, and the cells of a table ask for the same draws.
@functools.lru_cache(maxsize=4)
def _context_counts(contexts, n, seed):
    """Draw how often each of so many contexts is in the data (once) and in each of n resamples.

    With a single context it is unknown what others would be like: its resamples are NaN.
    Returns an array (1 + n, contexts) that nobody may change.
    """
    counts = np.full((1 + n, contexts), np.nan, np.float32)  # half the memory, and as exact
    counts[0] = 1
    if contexts > 1:
        rng = np.random.default_rng(seed)
        counts[1:] = rng.multinomial(contexts, np.full(contexts, 1 / contexts), size=n)
    return counts


def _means(columns, contexts, counts):
    """Return the mean of (rows, columns) in each resample: (1 + n, columns)."""
    values = [*columns.T, np.ones(len(columns))]
    n_contexts = counts.shape[1]
    sums = np.stack([np.bincount(contexts, column, minlength=n_contexts) for column in values])
    *totals, n_rows = sums @ counts.T
    return np.transpose(totals / np.where(n_rows > 0, n_rows, np.nan))


def _aligned(scores, human, contexts):
    """Return scores as a table with columns (method, seed); ratings and contexts as arrays.

    DreError if one of them has other rows than the scores.
    """
    by_method = {}
    for name, columns in dict(scores).items():
        table = pd.DataFrame(columns)
        by_method[name] = table.set_axis(range(table.shape[1]), axis=1)
    index = next(iter(by_method.values())).index
    for name, values in (by_method | {"human": human, "contexts": contexts}).items():
        has_other_index = hasattr(values, "index") and not index.equals(values.index)
        if len(values) != len(index) or has_other_index:
            raise DreError(
                f"{name} has other rows than the scores: expected the same {len(index)} rows, "
                "in the same order"
            )
    table = pd.concat(by_method, axis=1).astype(float)
    return table, np.asarray(human, float), np.asarray(contexts)


def _rated(scores, human, contexts, systems, n, seed):
    """Return the `Rated` rows, and how often each context is drawn: (1 + n, contexts)."""
    x = _columns(scores)
    y = np.asarray(human, float)
    is_used = ~np.isnan(x).any(axis=1) & ~np.isnan(y)
    context_numbers, counts = _resamples(contexts, n, seed)
    if systems is not None:
        systems = pd.factorize(np.asarray(systems)[is_used])[0]
    return Rated(x[is_used], y[is_used], context_numbers[is_used], systems), counts


def _mean_agreements(pairs, *about):
    """Return by measure the mean over pairs of how two columns of ratings agree: (1 + n,)."""
    by_pair = [agreements(x, y, *about) for x, y in pairs]
    return {
        measure: np.mean([of_pair[measure][:, 0] for of_pair in by_pair], axis=0)
        for measure in MEASURES
    }


def _rated_by_all(ratings):
    """Return ratings (rows, raters) that are NaN where a rater left the row out."""
    x = _columns(ratings)
    return np.where(np.isnan(x).any(axis=1, keepdims=True), np.nan, x)


def _ratio(covariance, variances, least):
    """Return a correlation, the covariance over the root of the product of variances.

    NaN where that product is not above ``least``, since nothing varies there (beyond rounding).
    """
    unknown = np.full_like(covariance, np.nan)
    return np.divide(covariance, np.sqrt(variances), out=unknown, where=variances > least)


def _permuted(a, b, human, contexts, seed, permutations):
    """Return the two-sided p-value of a difference when a and b are swapped in whole contexts.

    Midranks are made once, of all rows: a swap exchanges ranks, and does not rank anew.
    """
    context_numbers, names = pd.factorize(contexts, sort=True)
    people = _standard_ranks(human)[:, 0]
    ranks_a, ranks_b = np.broadcast_arrays(_standard_ranks(a), _standard_ranks(b))

    def size_of_difference(swaps):
        """Mean difference over training seeds after each swap, its size: (P, contexts) -> (P,)."""
        differences = [
            _after_swaps(of_a, of_b, people, context_numbers, swaps)
            for of_a, of_b in zip(ranks_a.T, ranks_b.T)
        ]
        return np.abs(np.mean(differences, axis=0))

    no_swap = np.zeros((1, len(names)))
    observed = size_of_difference(no_swap) - 1e-10  # room for rounding
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, permutations, _PERMUTATION_BLOCK):
        size = min(_PERMUTATION_BLOCK, permutations - start)
        swaps = rng.integers(0, 2, (size, len(names)), dtype=np.int8)
        # A swap that leaves a constant gives NaN; it counts as a hit.
        is_smaller = size_of_difference(swaps) < observed
        hits += (~is_smaller).sum()
    return (1 + hits) / (1 + permutations)


def _standard_ranks(values):
    """Return the midranks of each column with mean 0 and standard deviation 1."""
    ranks = pd.DataFrame(values).rank().to_numpy()
    return (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)


def _after_swaps(a, b, people, context_numbers, swaps):
    """Return the correlation of a with people minus that of b after each swap: (P,).

    ``a, b, people`` (rows,) have mean 0 and standard deviation 1; ``swaps`` (P, contexts) is 1
    where a context is swapped. What a swap changes in a sum over rows is added up by context once,
    so that the sums after all swaps are one matrix product.
    """
    rows = len(people)
    # The changes of the sums of a, of a squared, and of a times people.
    difference = b - a
    changes_by_row = np.stack([difference, b**2 - a**2, difference * people], axis=1)
    changes = np.zeros((swaps.shape[1], 3))
    np.add.at(changes, context_numbers, changes_by_row)
    total, square, product = (swaps @ changes).T
    # What a sum of a gains, the same sum of b loses.
    variance_a = (a @ a + square) / rows - (total / rows) ** 2
    variance_b = (b @ b - square) / rows - (-total / rows) ** 2
    r_a = _ratio((a @ people + product) / rows, variance_a, 1e-10)
    r_b = _ratio((b @ people - product) / rows, variance_b, 1e-10)
    return r_a - r_b
