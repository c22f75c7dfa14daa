"""Means of systems over contexts: intervals, paired permutation tests, and ranks with honest ties.

What is resampled, swapped and counted are contexts, since the responses to one context are not
independent.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from dre import metrics, stats, tables
from dre.files import without_nan

#: What a score should know more than: the number of words, and how many of them the context has.
BASELINES = ("length", "echo")
#: The columns of a table of scores whose means are given.
MEASURES = ("score", "score_slm", "scaled_distance", "fits", "score_llm", "s_inf", *BASELINES)

#: What columns are called where the name alone would not say it.
HEADERS = {"visible": "Smallest difference that could be seen"}
#: Decimals of means; of the other measures two.
DIGITS = {"score": 3, "score_slm": 3, "scaled_distance": 3, "fits": 3, "length": 1}

_RESAMPLES = 2000
_PERMUTATIONS = 10_000
_PERMUTATIONS_AT_ONCE = 500  # which bounds memory
#: Two systems with at most so many contexts are swapped in all 2^n ways, less than _PERMUTATIONS.
_MOST_CONTEXTS_FOR_ALL_SWAPS = 13
#: More contexts are resampled and swapped in so many groups, which bounds time and memory.
GROUPS = 4000


def summarise(table: pd.DataFrame, seed: int = 0) -> dict:
    """Say what a table of scores says about its systems.

    Parameters
    ----------
    table
        One row per response, with ``context_id``, ``system``, ``status``, ``score``, those of the
        other `MEASURES` there are, and perhaps ``accepted``. A missing score is NaN.
    seed
        Of the resampling and of the permutation tests.

    Returns
    -------
    dict
        ``rows`` and ``contexts``, their numbers, and ``shared_contexts``, the number of contexts
        with a score of every system.
        ``systems``, a list with a dict for each system, the best first: ``system``, ``n`` (the
        number of scores), ``n_missing``, ``statuses``, ``accepted`` (a share), each of the
        `MEASURES` that has values with ``_low`` and ``_high`` (95 %), ``rank`` and ``rank_last``.
        ``comparisons`` as `compare_systems` returns them, and ``baselines``, the same for each of
        the `BASELINES` (its ``measure``). What is undefined is None.
    """
    # In the order of their names, so that the order of rows changes nothing.
    contexts, context_ids = pd.factorize(table["context_id"], sort=True)
    systems = [_counts(name, rows) for name, rows in table.groupby("system")]

    # The mean of each measure, with its interval.
    groups = contexts % GROUPS
    weights = _resampled_groups(len(context_ids), seed)
    for measure in [name for name in MEASURES if name in table]:
        by_group = table.groupby([groups, "system"])[measure]
        sums = _by_system(by_group.sum()).fillna(0).to_numpy()
        counts = _by_system(by_group.count()).fillna(0).to_numpy()
        means = _mean_draws(sums, counts, weights)
        for row, draws in zip(systems, means.T):
            if not np.isnan(draws[0]):
                row.update(stats.interval(draws, measure))

    # The comparisons of systems, in the score and in the baselines.
    by_context = table.groupby([contexts, "system"])
    by_measure = {
        measure: compare_systems(_by_system(by_context[measure].mean()), seed)
        for measure in ("score", *BASELINES)
        if measure in table
    }
    comparisons = by_measure.pop("score")
    baselines = []
    for name, rows in by_measure.items():
        baselines += [{"measure": name, **row} for row in rows]

    scored = table[table["score"].notna()]
    systems_by_context = scored.groupby("context_id")["system"].nunique()
    return {
        "rows": len(table),
        "contexts": len(context_ids),
        "shared_contexts": int(np.sum(systems_by_context == len(systems))),
        "systems": without_nan(rank_systems(systems, comparisons)),
        "comparisons": without_nan(comparisons),
        "baselines": without_nan(baselines),
    }


def _by_system(values) -> pd.DataFrame:
    """Return values by group and system as a table with a column for each system."""
    return values.unstack()


def _counts(name, rows):
    """Return what is counted about the rows of one system."""
    statuses = rows["status"].value_counts().to_dict()
    n_scored = statuses.get("ok", 0)
    row = {
        "system": name,
        "n": n_scored,
        "n_missing": len(rows) - n_scored,
        "statuses": statuses,
    }
    if "accepted" in rows:
        share = rows["accepted"].mean()
        row["accepted"] = None if pd.isna(share) else float(share)
    return row


def _resampled_groups(n_contexts, seed):
    """Return how often each group of contexts is in the data, in row 0, and in each resample.

    The shape is (1 + RESAMPLES, groups). With few contexts each is a group of its own.
    """
    n_groups = min(n_contexts, GROUPS)
    return stats.context_weights(range(n_groups), _RESAMPLES, seed)


def _mean_draws(sums, counts, weights):
    """Return means in the data, in row 0, and in each resample: (1 + RESAMPLES, columns).

    ``sums`` and ``counts`` are those of the values in each group, (groups, columns). Where values
    are in one group alone, nothing is known about other contexts, and the resamples are NaN.
    """
    with np.errstate(invalid="ignore"):  # a resample may hold none of the contexts of a system
        means = (weights @ sums) / (weights @ counts)
    is_in_one_group = (counts > 0).sum(axis=0) < 2
    means[1:, is_in_one_group] = np.nan
    return means


def compare_systems(means: pd.DataFrame, seed: int = 0) -> list[dict]:
    """Compare every two systems on the contexts that both answered.

    The difference is taken in each context first. Only then are contexts put into groups, so that
    a context counts for a pair of systems only if both have a score there.

    Parameters
    ----------
    means
        One row per context, one column per system: its mean score there, NaN where it has none.
    seed
        Of the resampling and of the permutation test.

    Returns
    -------
    list of dict
        For every two systems ``a`` and ``b``; ``difference`` (mean over contexts of a minus b) with
        ``difference_low`` and ``difference_high`` (95 %, bootstrap); ``p_permutation`` (two-sided);
        ``p_holm`` (corrected over all of them); ``n_contexts``; and ``visible``, the smallest
        difference that could be seen on so many contexts (at 5 %, with a power of 80 %). What needs
        two contexts is NaN without them.
    """
    pairs = list(combinations(means, 2))
    if not pairs:
        return []
    by_context = np.stack([means[a] - means[b] for a, b in pairs], axis=1)
    is_shared = ~np.isnan(by_context)
    sums = _by_group(np.where(is_shared, by_context, 0))
    weights = _resampled_groups(len(means), seed)
    draws = _mean_draws(sums, _by_group(is_shared), weights)
    shared = [differences[~np.isnan(differences)] for differences in by_context.T]
    p = _permutation_p(shared, sums, seed)
    p_holm = stats.holm(p)

    rows = []
    for k, (a, b) in enumerate(pairs):
        n_contexts = len(shared[k])
        row = {"a": a, "b": b, **stats.interval(draws[:, k], "difference")}
        row["p_permutation"] = p[k]
        row["p_holm"] = p_holm[k]
        row["n_contexts"] = n_contexts
        row["visible"] = np.nan
        if n_contexts > 1:
            standard_error = shared[k].std(ddof=1) / np.sqrt(n_contexts)
            # Where all differences are equal, nothing is known of what could be seen.
            row["visible"] = stats.POWER * standard_error or np.nan
        rows.append(row)
    return rows


def _by_group(values):
    """Add up values (contexts, pairs) by the group of each context: (groups, pairs)."""
    sums = np.zeros((min(len(values), GROUPS), values.shape[1]))
    np.add.at(sums, np.arange(len(values)) % GROUPS, values)
    return sums


def _permutation_p(shared: Sequence[np.ndarray], sums: np.ndarray, seed: int) -> np.ndarray:
    """Return the two-sided p-value of the mean difference of each pair of systems, (pairs,).

    Swapping two systems in a context flips the sign of their difference there. A pair with few
    contexts is swapped in all ways; else groups of contexts are swapped at random, alike for all
    pairs, and the data count as one more permutation. ``shared`` are the differences of each pair
    in the contexts that both systems have, ``sums`` those of each group, (groups, pairs).
    """
    p = np.full(len(shared), np.nan)
    totals = np.array([differences.sum() for differences in shared])
    magnitudes = np.array([np.abs(differences).sum() for differences in shared])
    observed = np.abs(totals) - 1e-10 * magnitudes  # equal sums may differ by rounding

    n_contexts = np.array([len(differences) for differences in shared])
    is_small = n_contexts <= _MOST_CONTEXTS_FOR_ALL_SWAPS
    for k in np.flatnonzero(is_small & (n_contexts > 1)).tolist():
        n = n_contexts[k]
        is_swapped = np.arange(2**n)[:, None] >> np.arange(n) & 1
        signs = 1 - 2 * is_swapped
        is_as_large = np.abs(signs @ shared[k]) >= observed[k]
        p[k] = is_as_large.mean()

    large = np.flatnonzero(~is_small)
    if not len(large):
        return p
    rng = np.random.default_rng(seed)
    hits = np.zeros(len(large))
    for _ in range(_PERMUTATIONS // _PERMUTATIONS_AT_ONCE):
        is_swapped = rng.integers(0, 2, (_PERMUTATIONS_AT_ONCE, len(sums)), dtype=np.int8)
        signs = 2.0 * is_swapped - 1
        is_as_large = np.abs(signs @ sums[:, large]) >= observed[large]
        hits += is_as_large.sum(axis=0)
    p[large] = (1 + hits) / (1 + _PERMUTATIONS)
    return p


def baselines(pairs: pd.DataFrame) -> dict:
    """Return for each response what knows nothing of its sense, by the names in `BASELINES`.

    ``length`` is its number of words, ``echo`` the share of its words that stand in its context,
    in [0, 1], NaN without a word. ``pairs`` has ``context`` (turns) and ``response``.
    """
    echo = []
    for turns, response in zip(pairs["context"], pairs["response"]):
        words = words_of([response])
        context_words = set(words_of(turns))
        is_in_context = [word in context_words for word in words]
        echo.append(np.mean(is_in_context) if words else np.nan)
    return {"length": metrics.length(pairs["response"]), "echo": echo}


def without_repeats(rows: Sequence[dict], columns: Iterable[str]) -> list[str]:
    """Return columns of systems without a part of the score that is the score itself.

    The small model's score is the score where no judge was asked, and the judge's where it is
    alone. One of the two columns is enough.
    """
    return [
        column
        for column in columns
        if column not in ("score_slm", "score_llm")
        or any(row.get(column) != row.get("score") for row in rows)
    ]


def words_of(texts: Iterable[str]) -> list[str]:
    """Return the words of texts in small letters, without punctuation."""
    return re.findall(r"\w+", " ".join(texts).lower())


def comparison_rows(summary: dict) -> list[dict]:
    """Return the comparisons of a summary, each with its ``measure``, before the baselines'."""
    rows = [{"measure": "score", **row} for row in summary["comparisons"]]
    return rows + summary.get("baselines", [])


def least_contexts(n_tests: int, alpha: float = stats.LEVEL) -> int:
    """Return how many contexts it takes until one of several tests can be significant.

    With n contexts the smallest two-sided p-value is 2 / 2^n, and Holm's correction multiplies it
    by the number of tests.
    """
    return math.floor(2 - math.log2(alpha / n_tests))


def show(summary: dict, alpha: float = stats.LEVEL) -> None:
    """Print the comparisons of a summary, beside the differences in length and echo.

    ``alpha`` is the level of the tests, of which the note says how many contexts they need.
    """
    needed = least_contexts(max(1, len(summary["comparisons"])), alpha)
    note = (
        "Difference a - b on the contexts of both; permutation test by context (which needs "
        f"{needed}), after Holm. Length: words; echo: share of words that the context has. "
        "Smallest difference that could be seen: with so many contexts, in four of five cases."
    )
    columns = [
        "a",
        "b",
        "measure",
        "difference",
        "p_permutation",
        "p_holm",
        "n_contexts",
        "visible",
    ]
    digits = {"difference": 3, "p_permutation": 4, "p_holm": 4, "visible": 3}
    table = pd.DataFrame(comparison_rows(summary))
    tables.show(table, "Comparisons", note, columns, HEADERS, digits)


def rank_systems(systems: Sequence[dict], comparisons: Sequence[dict]) -> list[dict]:
    """Return the rows of systems with ``rank`` and ``rank_last``, the best first.

    The rank is 1 plus the number of systems that are significantly better (a Holm-corrected p below
    0.05); the last rank is the number of all systems minus those that are significantly worse.
    Systems that no test separates share a rank.
    """
    n_better = Counter()
    n_worse = Counter()
    for comparison in comparisons:
        if comparison["p_holm"] < stats.LEVEL:
            winner = comparison["a"]
            loser = comparison["b"]
            if comparison["difference"] < 0:
                winner, loser = loser, winner
            n_better[loser] += 1
            n_worse[winner] += 1

    ranked = []
    for row in systems:
        name = row["system"]
        ranks = {"rank": 1 + n_better[name], "rank_last": len(systems) - n_worse[name]}
        ranked.append(row | ranks)

    def by_rank(row):
        score = row.get("score", -np.inf)
        return row["rank"], -score, row["system"]

    return sorted(ranked, key=by_rank)
