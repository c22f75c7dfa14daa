"""Statistics of scores: correlation with people, bootstrap intervals and permutation tests.

Responses to one context are not independent. So intervals come from resamples of whole contexts,
and the permutation test swaps whole contexts.

A method that was trained with several seeds has the mean over them as its number, and an interval
resamples the seeds, too: it speaks of other dialogues and of another training. With k seeds the
resampled mean varies by (k - 1) / k of the variance that new trainings would have, so with few
seeds the interval is rather too narrow.

There are three ways to agree with people, and a ceiling for each from what raters agree upon:
`agreements` and `ceilings`.

NaN is a missing score.
"""

import functools
from collections.abc import Mapping, Sequence
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
#: Resamples that are handled at once, so that the work stays in the processor's cache.
BLOCK = 256
#: Permutations that are handled at once: a few megabytes, however many there are in all.
_PERMUTATION_BLOCK = 10_000
#: Numbers in a set of resamples that is kept for the next caller: 20 MB each, eight sets at most.
_LARGEST_CACHED = 2_500_000
#: Measures of agreement with people, as `agreements` takes them.
MEASURES = ("overall", "within_contexts", "ordered_pairs", "within_systems")
#: Cells of the comparison of all rows with all rows that are made at once by `_rank_votes`.
_VOTES_BLOCK = 4_000_000
#: Scores of a method: one for each row, or one column for each training seed.
Scores = pd.Series | pd.DataFrame


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
    return counts[:, context_numbers]


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
    scores : (rows, columns), without NaN.
    human : (rows,), people's ratings.
    contexts : (rows,), the context of each row.
    method : "spearman" or "pearson".
    n, seed : as of `context_weights`.

    Returns
    -------
    (1 + n, columns) array; the first line is of the data. NaN where a score or a rating does not
    vary.
    """
    x = _columns(scores)
    y = np.asarray(human, float)
    context_numbers, counts = _resamples(contexts, n, seed)
    if method == "spearman":
        return _by_measure(x, y, context_numbers, counts, None, ["overall"])["overall"]
    return _pearson(x, y, context_numbers, counts)


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
        DataFrame with one column for each training seed. A column ``pair_id`` is left out. A row
        that lacks a score of one method counts for the other methods.
    human : (rows,), ratings in any unit, NaN where nobody rated.
    contexts : (rows,), ids of contexts.
    method : "spearman" or "pearson".
    n, seed : as of `context_weights`.

    Returns
    -------
    DataFrame with a row for each ``method``: ``r`` (mean over seeds), ``low, high`` (95 %; NaN for
    a single context), ``sd`` over seeds (NaN for one seed), ``n`` rows used.
    """
    table, human, contexts = _aligned(scores, human, contexts)
    rows = {}
    for name in table.columns.unique(0):
        has_scores = table[name].notna().all(axis=1)
        is_used = has_scores & ~np.isnan(human)
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


def pooled(of_pairs: Sequence[np.ndarray], seed: int = 0) -> dict[str, float]:
    """Pool differences over several pairs of a set and a judge; every pair counts alike.

    Parameters
    ----------
    of_pairs : what `gains` returned for each pair, with one seed for all pairs of a set and another
        for each set. So the interval knows what pairs share. Training seeds are drawn once for all.
    seed : of the generator that draws training seeds.

    Returns
    -------
    dict: ``difference, low, high`` (95 %), ``sd`` over seeds, ``pairs``, and how many of them are
    ``positive``.
    """
    mean_gain = np.mean(np.broadcast_arrays(*of_pairs), axis=0)
    positive = sum(bool(gain[0].mean() > 0) for gain in of_pairs)
    return {**_difference(mean_gain, seed), "pairs": len(of_pairs), "positive": positive}


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
    measures: Sequence[str] = MEASURES,
) -> dict[str, np.ndarray]:
    """Measure in several respects how each column of scores agrees with people, in one pass.

    A correlation over all pairs mixes three questions: which system is better, which conversation
    goes better, and which reply to a conversation is better. These are the measures, by name:

    - ``overall``: Spearman's correlation over all pairs, as papers report it. NaN for fewer than
      three.
    - ``within_contexts``: the same after the mean rank of each context is taken off. Only
      differences between replies to one context count.
    - ``ordered_pairs``: of all pairs of replies to one context the share, 0 to 1, that the scores
      order as people do, mean over contexts. Scores that differ by no more than a threshold are
      tied, and a tie is right where people have one, too. The threshold is the best for these
      pairs (Deutsch et al. 2023, "Ties matter": accuracy with tie calibration, grouped by item).
    - ``within_systems``: Spearman's correlation after the mean rank of each system is taken off.

    Parameters
    ----------
    scores : (rows, columns). A row that lacks a score or a rating does not count.
    human : (rows,), people's ratings.
    contexts : (rows,), the context of each row; those of rows that do not count are drawn, too.
    systems : (rows,), the system that gave each reply; None or all the same if that is not known.
    n, seed : as of `context_weights`.
    measures : which of `MEASURES`.

    Returns
    -------
    By measure a (1 + n, columns) array; the first line is of the data. Without systems
    ``within_systems`` is NaN.
    """
    x = _columns(scores)
    y = np.asarray(human, float)
    is_used = ~np.isnan(x).any(axis=1) & ~np.isnan(y)
    context_numbers, counts = _resamples(contexts, n, seed)
    systems_used = None if systems is None else np.asarray(systems)[is_used]
    return _by_measure(
        x[is_used], y[is_used], context_numbers[is_used], counts, systems_used, measures
    )


def agreement_gains(
    a: Scores,
    b: Scores,
    human: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike | None = None,
    n: int = 1000,
    seed: int = 0,
    measures: Sequence[str] = MEASURES,
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
    differences = {}
    for measure, r in by_measure.items():
        differences[measure] = r[:, :seeds_of_a] - r[:, seeds_of_a:]
    return differences


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
    raters = ratings.shape[1]
    measures = [measure for measure in MEASURES if measure != "ordered_pairs"]
    of_two = [
        agreements(ratings[:, i], ratings[:, j], contexts, systems, n, seed, measures)
        for i, j in combinations(range(raters), 2)
    ]
    ceiling_by_measure = {}
    for measure in measures:
        r = np.mean([by_measure[measure][:, 0] for by_measure in of_two], axis=0)
        r = np.where(r > 0, r, np.nan)
        reliability = raters * r / (1 + (raters - 1) * r)
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
    of_raters = []
    for rater in range(ratings.shape[1]):
        mean_of_others = np.delete(ratings, rater, axis=1).mean(axis=1)
        of_raters.append(agreements(ratings[:, rater], mean_of_others, contexts, systems, n, seed))
    return {
        measure: np.mean([by_measure[measure][:, 0] for by_measure in of_raters], axis=0)
        for measure in MEASURES
    }


def soft_pairwise_accuracy(
    scores: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    systems: ArrayLike,
    permutations: int = 2000,
    seed: int = 0,
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
    seed : of the generator that draws them.

    Returns
    -------
    0 to 1; NaN for a single system.
    """
    table = pd.DataFrame({"context": np.asarray(contexts), "system": np.asarray(systems)})
    table["human"] = np.asarray(human, float)
    table["scores"] = np.asarray(scores, float)
    by_system = table.pivot_table(index="context", columns="system")
    columns = {kind: by_system[kind] for kind in ("human", "scores")}
    rng = np.random.default_rng(seed)
    differences = []
    for first, second in combinations(table["system"].unique(), 2):
        gaps = {kind: column[first] - column[second] for kind, column in columns.items()}
        gaps = pd.DataFrame(gaps).dropna().to_numpy()
        signs = rng.choice([-1.0, 1.0], size=(permutations, len(gaps)))
        # The one-sided p-value: how often swapped gaps are as large as those that were seen.
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
    probabilities = np.full(n_seeds, 1 / n_seeds)
    shares = rng.multinomial(n_seeds, probabilities, size=len(by_seed) - 1) / n_seeds
    resampled = (shares * by_seed[1:]).sum(axis=1)
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
    if not len(by_seed):
        return {"mean": np.nan, "low": np.nan, "high": np.nan, "sd": np.nan, "n": 0}
    context_numbers, counts = _resamples(np.asarray(contexts)[is_used], n, seed)

    # Sums of the values and number of rows by context; a resample is a weighted sum of these.
    with_ones = np.column_stack([by_seed, np.ones(len(by_seed))])
    sums = np.zeros((counts.shape[1], with_ones.shape[1]))
    np.add.at(sums, context_numbers, with_ones)
    totals = counts @ sums
    means = totals[:, :-1] / totals[:, -1:]
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
    deviations = x - np.nanmean(x, axis=1, keepdims=True)
    squares_in_rows = np.nansum(deviations**2, axis=1)
    variances_in_rows = squares_in_rows * raters / (raters - 1)
    observed = weights @ variances_in_rows / n_ratings
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
    p = np.asarray(p, float)
    was_run = np.flatnonzero(~np.isnan(p))
    ascending = np.argsort(p[was_run], kind="stable")
    order = was_run[ascending]
    multipliers = np.arange(len(order), 0, -1)
    rising = np.maximum.accumulate(p[order] * multipliers)
    adjusted = np.full_like(p, np.nan)
    adjusted[order] = np.minimum(rising, 1)
    return adjusted


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
    from scipy.special import ndtri  # these two take more than a second to import
    from scipy.stats import rankdata

    midranks = rankdata(x, axis=0)
    return ndtri((midranks - 0.5) / len(midranks))


def _columns(values):
    """Return (rows,) or (rows, columns) numbers as an array (rows, columns)."""
    array = np.asarray(values, float)
    return array[:, None] if array.ndim == 1 else array


def _resamples(contexts, n, seed):
    """Number the contexts and resample them.

    Returns
    -------
    context_numbers : (rows,) integers, the number of each row's context.
    counts : (1 + n, contexts), how often each context is in the data (once) and in each resample.
        Read-only.
    """
    context_numbers, names = pd.factorize(np.asarray(contexts))
    seed = tuple(seed) if np.ndim(seed) else seed  # a key of the cache
    is_small = n * len(names) <= _LARGEST_CACHED
    draw = _context_counts if is_small else _context_counts.__wrapped__
    return context_numbers, draw(len(names), n, seed)


# Drawing takes nine tenths of the time of a mean, and the cells of a table ask for the same draws.
@functools.lru_cache(maxsize=8)
def _context_counts(contexts, n, seed):
    """Draw how often each of so many contexts is in the data (once) and in each of n resamples.

    With a single context it is unknown what others would be like: its resamples are NaN.
    Returns an array (1 + n, contexts), read-only.
    """
    rng = np.random.default_rng(seed)
    shares = np.full(contexts, 1 / contexts)
    resample_counts = rng.multinomial(contexts, shares, size=n).astype(float)
    if contexts == 1:
        resample_counts[:] = np.nan
    counts = np.vstack([np.ones(contexts), resample_counts])
    counts.flags.writeable = False  # all who ask for it share it
    return counts


def _aligned(scores, human, contexts):
    """Return scores as a table with columns (method, seed); ratings and contexts as arrays.

    DreError if one of them has other rows than the scores.
    """
    by_method = {}
    for name, columns in dict(scores).items():
        if name != "pair_id":
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


def _by_context(context_numbers, counts):
    """Put rows of one context together, so that sums by context are sums of neighbours.

    Returns
    -------
    order : (rows,), of the rows.
    grouping : `_Grouping` of the rows in this order by context.
    counts : (1 + n, contexts), of the contexts that have a row.
    """
    contexts_here, context_numbers = np.unique(context_numbers, return_inverse=True)
    order = np.argsort(context_numbers, kind="stable")
    return order, _grouping(context_numbers[order]), counts[:, contexts_here]


def _rated_by_all(ratings):
    """Return ratings (rows, raters) that are NaN where a rater left the row out."""
    x = _columns(ratings)
    return np.where(np.isnan(x).any(axis=1, keepdims=True), np.nan, x)


def _by_measure(x, y, context_numbers, counts, systems, measures):
    """Return what `agreements` does, for ``counts`` that may be of more contexts than the rows."""
    order, by_context, counts = _by_context(context_numbers, counts)
    x = x[order]
    y = y[order]
    groupings = {}
    if "overall" in measures and len(y) > 2:  # two points always correlate by 1 or -1
        groupings["overall"] = None
    if "within_contexts" in measures:
        groupings["within_contexts"] = by_context
    if "within_systems" in measures and systems is not None and len(set(systems)) > 1:
        system_numbers, _ = pd.factorize(np.asarray(systems)[order])
        groupings["within_systems"] = _grouping(system_numbers)
    by_measure = {}
    if groupings:
        correlations = _spearman(x, y, by_context, counts, groupings.values())
        by_measure = dict(zip(groupings, correlations))
    if "ordered_pairs" in measures:
        by_measure["ordered_pairs"] = _ordered_pairs(x, y, by_context.numbers, counts)
    unknown = np.full((len(counts), x.shape[1]), np.nan)
    return {measure: by_measure.get(measure, unknown) for measure in measures}


class _Grouping(NamedTuple):
    """Which rows belong together."""

    numbers: np.ndarray  # (rows,), the number of each row's group
    order: np.ndarray  # (rows,), puts the rows of a group together
    first_rows: np.ndarray  # (groups,), where each group begins in that order


def _grouping(numbers):
    """Return the `_Grouping` of rows by the number of the group of each."""
    order = np.argsort(numbers, kind="stable")
    first_rows = np.searchsorted(numbers[order], np.arange(numbers.max(initial=-1) + 1))
    return _Grouping(numbers, order, first_rows)


def _ordered_pairs(x, y, context_numbers, counts):
    """Share of the pairs within contexts that each column of x orders as y does: (1 + n, columns).

    Pairs are in the order of their difference in x. With each further one that is called a tie,
    the number of right answers changes by what it adds (people tie) or takes away (x was right).
    So the best threshold is where the sum of these changes is highest.
    """
    # All pairs of rows of one context; each context counts alike, however many it has.
    sizes = np.bincount(context_numbers)
    starts = np.cumsum(sizes) - sizes
    firsts = []
    seconds = []
    for start, size in zip(starts, sizes):
        i, j = np.triu_indices(size, 1)
        firsts.append(start + i)
        seconds.append(start + j)
    first = np.concatenate(firsts)
    second = np.concatenate(seconds)
    if not len(first):
        return np.full((len(counts), x.shape[1]), np.nan)
    context_of_pair = context_numbers[first]
    pairs_of_context = np.bincount(context_of_pair, minlength=len(sizes))
    weight_of_pair = 1 / pairs_of_context[context_of_pair]
    total = counts @ (pairs_of_context > 0)

    people = np.sign(y[first] - y[second])
    is_tie_of_people = people == 0
    shares = np.empty((len(counts), x.shape[1]))
    for column, values in enumerate(x.T):
        gap = values[first] - values[second]
        is_right = (np.sign(gap) == people) & ~is_tie_of_people
        change = 1.0 * is_tie_of_people - is_right
        # In the order of their gaps, only the pairs that change the number of right answers.
        changing = np.flatnonzero(change)
        size = np.abs(gap)
        order = np.argsort(size[changing], kind="stable")
        by_size = changing[order]
        is_larger = np.diff(size[by_size]) > 0
        is_last_of_equals = np.append(is_larger, True)[: len(by_size)]
        for start in range(0, len(counts), BLOCK):
            block = slice(start, start + BLOCK)
            weights = counts[block][:, context_of_pair] * weight_of_pair
            right = weights @ is_right
            sums = np.cumsum(weights[:, by_size] * change[by_size], axis=1)
            best = sums[:, is_last_of_equals].max(axis=1, initial=0)
            shares[block, column] = (right + best) / total[block]
    return shares


def _spearman(x, y, by_context, counts, groupings):
    """Spearman's correlation of each column of x with y: (groupings, 1 + n, columns).

    A grouping is None or a `_Grouping`: then the mean rank of each group in a resample is taken off
    before ranks are correlated.

    It is the Pearson correlation of midranks, which are other ones in each resample. To rank each
    resample anew would take a sort for each of them (5 to 14 times as long). Instead:

    1. Twice the centred midrank of row i in a set of rows is the number of rows below it minus the
       number of rows above it.
    2. In a resample each context g has counts[g] copies of its rows. So that number is the sum over
       contexts of counts[g] * votes[g, i], where votes[g, i] is the number of rows of context g
       below row i minus those above (`_rank_votes`).
    3. For all resamples at once this is one matrix product, counts @ votes. Its entries are
       integers of at most the number of rows, which single precision holds exactly.
    4. Midranks are centred, so the correlation is a ratio of weighted sums of products.
    """
    votes_of_y = _rank_votes(y, by_context.first_rows)
    votes_of_x = [_rank_votes(column, by_context.first_rows) for column in x.T]
    r = np.empty((len(groupings), len(counts), x.shape[1]))
    for start in range(0, len(counts), BLOCK):
        block = slice(start, start + BLOCK)
        weights = counts[block].astype(np.float32)
        row_weights = weights[:, by_context.numbers].astype(float)
        rank_y = (weights @ votes_of_y).astype(float)
        centred_y = []
        for grouping in groupings:
            rows = None if grouping is None else _sums_by_group(row_weights, grouping)
            v = _without_means(rank_y, row_weights, grouping, rows)
            centred_y.append((grouping, rows, v, np.vecdot(row_weights * v, v)))
        for column, votes in enumerate(votes_of_x):
            rank_x = (weights @ votes).astype(float)
            for g, (grouping, rows, v, variance_of_y) in enumerate(centred_y):
                u = _without_means(rank_x, row_weights, grouping, rows)
                weighted = row_weights * u
                covariance = np.vecdot(weighted, v)
                variances = np.vecdot(weighted, u) * variance_of_y
                # Taking off means leaves rounding where nothing varies.
                least = 0.0 if grouping is None else 1e-9
                r[g, block, column] = _ratio(covariance, variances, least)
    return r


def _without_means(ranks, row_weights, grouping, rows):
    """Take the mean of each group off ranks (resamples, rows); without a grouping nothing.

    ``rows`` (resamples, groups) is how many rows a group has in each resample.
    """
    if grouping is None:
        return ranks
    sums = _sums_by_group(row_weights * ranks, grouping)
    means = sums / np.maximum(rows, 1)
    return ranks - means.take(grouping.numbers, axis=1)


def _sums_by_group(values, grouping):
    """Add up values (resamples, rows) by group: (resamples, groups)."""
    return np.add.reduceat(values.take(grouping.order, axis=1), grouping.first_rows, axis=1)


def _rank_votes(values, first_rows):
    """Return for each context g and row i: how many rows of g are below row i, minus those above.

    ``values`` (rows,) are in the order of contexts, which begin at ``first_rows``. Returns a
    (contexts, rows) array.
    """
    step = max(1, _VOTES_BLOCK // len(values))
    blocks = []
    for start in range(0, len(values), step):
        signs = np.sign(values[start : start + step, None] - values).astype(np.float32)
        blocks.append(np.add.reduceat(signs, first_rows, axis=1))
    return np.concatenate(blocks).T


def _pearson(x, y, context_numbers, counts):
    """Pearson's correlation of each column of x with y in each resample: (1 + n, columns).

    Sums over the rows of a resample are sums by context, weighted by how often it has the context.
    """
    if len(y) < 3:  # two points always correlate by 1 or -1
        return np.full((len(counts), x.shape[1]), np.nan)
    order, by_context, counts = _by_context(context_numbers, counts)
    x = _standard(x[order])
    y = _standard(y[order, None])

    def total(values):
        return counts @ np.add.reduceat(values, by_context.first_rows, axis=0)

    n = total(np.ones_like(y))
    sum_x = total(x)
    sum_y = total(y)
    sum_xx = total(x * x)
    sum_yy = total(y * y)
    covariance = n * total(x * y) - sum_x * sum_y
    variance_x = n * sum_xx - sum_x**2
    variance_y = n * sum_yy - sum_y**2
    least = 1e-12 * n**2 * sum_xx * sum_yy
    return _ratio(covariance, variance_x * variance_y, least)


def _standard(values):
    """Return columns with mean 0 and range 1, so that sums of squares lose no digits."""
    width = np.maximum(np.ptp(values, axis=0), 1e-300)
    return (values - values.mean(axis=0)) / width


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
    context_numbers, names = pd.factorize(contexts)
    people = _standard_ranks(human)
    ranks_a, ranks_b = np.broadcast_arrays(_standard_ranks(a), _standard_ranks(b))

    def size_of_difference(swaps):
        """Mean difference over training seeds after each swap, its size: (P, contexts) -> (P,)."""
        differences = []
        for of_a, of_b in zip(ranks_a.T, ranks_b.T):
            differences.append(_after_swaps(of_a, of_b, people, context_numbers, swaps))
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
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=0)
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
