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
#: Decimals of means; of the other measures two.
DIGITS = {"score": 3, "score_slm": 3, "scaled_distance": 3, "fits": 3, "length": 1}

_RESAMPLES = 2000
_PERMUTATIONS = 10_000
_PERMUTATIONS_AT_ONCE = 500  # which bounds memory
_FEW_CONTEXTS = 13  # of a pair of systems, which are swapped in all 2^n ways
#: More contexts are resampled and swapped in so many groups, which bounds time and memory.
GROUPS = 4000


def summarise(table: pd.DataFrame, seed: int = 0) -> dict:
    """Say what a table of scores says about its systems.

    Parameters
    ----------
    table
        One row per response, with ``context_id``, ``system``, ``score`` and those of the other
        `MEASURES` there are. A missing score is NaN.
    seed
        Of the resampling and of the permutation tests.

    Returns
    -------
    dict
        ``rows`` and ``contexts``, their numbers, and ``shared_contexts``, the number of contexts
        with a score of every system.
        ``systems``, a list with a dict for each system, the best first: ``system``, ``n`` (the
        number of scores), ``n_missing``, each of the `MEASURES` that has values with ``_low`` and
        ``_high`` (95 %), ``rank`` and ``rank_last``.
        ``comparisons`` as `compare_systems` returns them, and ``baselines``, the same for each of
        the `BASELINES` (its ``measure``). What is undefined is None.
    """
    # In the order of their names, so that the order of rows changes nothing.
    contexts, context_ids = pd.factorize(table["context_id"], sort=True)
    systems = []
    for name, rows in table.groupby("system"):
        n = int(rows["score"].notna().to_numpy().sum())
        systems.append({"system": name, "n": n, "n_missing": len(rows) - n})

    # The mean of each measure, with its interval.
    weights = _resampled_groups(len(context_ids), seed)
    for measure in [name for name in MEASURES if name in table]:
        by_group = table.groupby([contexts % GROUPS, "system"])[measure]
        sums = _by_system(by_group.sum()).fillna(0).to_numpy()
        counts = _by_system(by_group.count()).fillna(0).to_numpy()
        for row, draws in zip(systems, _mean_draws(sums, counts, weights).T):
            if not np.isnan(draws[0]):
                row.update(stats.interval(draws, measure))

    # The comparisons of systems, in the score and in the baselines.
    by_context = table.groupby([contexts, "system"])
    means = _by_system(by_context["score"].mean())
    comparisons = compare_systems(means, seed)
    baselines = [
        {"measure": measure, **row}
        for measure in BASELINES
        if measure in table
        for row in compare_systems(_by_system(by_context[measure].mean()), seed)
    ]
    return {
        "rows": len(table),
        "contexts": len(context_ids),
        "shared_contexts": int(means.notna().all(axis=1).sum()),
        "systems": without_nan(rank_systems(systems, comparisons)),
        "comparisons": without_nan(comparisons),
        "baselines": without_nan(baselines),
    }


def _by_system(values) -> pd.DataFrame:
    """Return values by group and system as a table with a column for each system."""
    return values.unstack()


def _resampled_groups(n_contexts, seed):
    """Return how often each group of contexts is in the data, in row 0, and in each resample.

    The shape is (1 + RESAMPLES, groups). With few contexts each is a group of its own.
    """
    return stats.context_weights(range(min(n_contexts, GROUPS)), _RESAMPLES, seed)


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
    n_contexts = is_shared.sum(axis=0)
    sums = _by_group(np.where(is_shared, by_context, 0))
    weights = _resampled_groups(len(means), seed)
    draws = _mean_draws(sums, _by_group(is_shared), weights)
    p = _permutation_p(by_context, sums, seed)
    p_holm = stats.holm(p)

    rows = []
    for k, (a, b) in enumerate(pairs):
        row = {"a": a, "b": b, **stats.interval(draws[:, k], "difference")}
        row |= {"p_permutation": p[k], "p_holm": p_holm[k], "n_contexts": int(n_contexts[k])}
        row["visible"] = np.nan
        if n_contexts[k] > 1:
            standard_error = np.nanstd(by_context[:, k], ddof=1) / np.sqrt(n_contexts[k])
            # Where all differences are equal, nothing is known of what could be seen.
            row["visible"] = stats.POWER * standard_error or np.nan
        rows.append(row)
    return rows


def _by_group(values):
    """Add up values (contexts, pairs) by the group of each context: (groups, pairs)."""
    sums = np.zeros((min(len(values), GROUPS), values.shape[1]))
    np.add.at(sums, np.arange(len(values)) % GROUPS, values)
    return sums


def _permutation_p(by_context: np.ndarray, sums: np.ndarray, seed: int) -> np.ndarray:
    """Return the two-sided p-value of the mean difference of each pair of systems, (pairs,).

    Swapping two systems in a context flips the sign of their difference there. A pair with few
    contexts is swapped in all ways; else groups of contexts are swapped at random, alike for all
    pairs, and the data count as one more permutation. ``by_context`` are the differences, NaN where
    a pair has none, (contexts, pairs); ``sums`` are those of the groups, (groups, pairs).
    """
    observed = np.abs(sums.sum(axis=0))
    observed -= 1e-10 * np.abs(sums).sum(axis=0)  # equal sums may differ by rounding
    rng = np.random.default_rng(seed)
    hits = np.zeros(sums.shape[1])
    for _ in range(_PERMUTATIONS // _PERMUTATIONS_AT_ONCE):
        is_swapped = rng.integers(0, 2, (_PERMUTATIONS_AT_ONCE, len(sums)), dtype=np.int8)
        signs = 2.0 * is_swapped - 1
        hits += (np.abs(signs @ sums) >= observed).sum(axis=0)
    p = (1 + hits) / (1 + _PERMUTATIONS)
    for k, differences in enumerate(by_context.T):
        shared = differences[~np.isnan(differences)]
        if len(shared) <= _FEW_CONTEXTS:
            is_swapped = np.arange(2 ** len(shared))[:, None] >> np.arange(len(shared)) & 1
            p[k] = (np.abs((1 - 2 * is_swapped) @ shared) >= observed[k]).mean()
        if len(shared) < 2:
            p[k] = np.nan
    return p


def baselines(pairs: pd.DataFrame) -> dict:
    """Return for each response what knows nothing of its sense, by the names in `BASELINES`.

    ``length`` is its number of words, ``echo`` the share of its words that stand in its context,
    in [0, 1], NaN without a word. ``pairs`` has ``context`` (turns) and ``response``.
    """
    echo = []
    for turns, response in zip(pairs["context"], pairs["response"]):
        words = _words_of([response])
        context_words = set(_words_of(turns))
        echo.append(np.mean([word in context_words for word in words]) if words else np.nan)
    return {"length": metrics.length(pairs["response"]), "echo": echo}


def _words_of(texts: Iterable[str]) -> list[str]:
    """Return the words of texts in small letters, without punctuation."""
    return re.findall(r"\w+", " ".join(texts).lower())


def least_contexts(n_tests: int, alpha: float = stats.LEVEL) -> int:
    """Return how many contexts it takes until one of several tests can be significant.

    With n contexts the smallest two-sided p-value is 2 / 2^n, and Holm's correction multiplies it
    by the number of tests.
    """
    return math.floor(2 - math.log2(alpha / n_tests))


def show(comparisons: Sequence[dict], alpha: float = stats.LEVEL) -> None:
    """Print comparisons, perhaps those of several measures, each named by ``measure``.

    ``alpha`` is the level of the tests, of which the note says how many contexts they need.
    """
    rows = [{"measure": "score", **row} for row in comparisons]
    n_tests = sum(row["measure"] == "score" for row in rows)
    needed = least_contexts(max(1, n_tests), alpha)
    note = (
        "Difference a - b on the contexts of both; permutation test by context (which needs "
        f"{needed}), after Holm. Length: words; echo: share of words that the context has. "
        "Smallest difference that could be seen: with so many contexts, in four of five cases."
    )
    columns = ["a", "b", "measure", "difference", "p_holm", "n_contexts", "visible"]
    digits = {"difference": 3, "p_holm": 4, "visible": 3}
    headers = {"visible": "Smallest difference that could be seen"}
    tables.show(pd.DataFrame(rows), "Comparisons", note, columns, headers, digits)


def verdict(comparisons: Sequence[dict]) -> list[str]:
    """Return a sentence for every two systems: which is better by how much, or why none can say."""
    sentences = []
    for row in comparisons:
        a, b = (row[side] or "(no name)" for side in "ab")
        if not row["n_contexts"]:
            sentences.append(
                f"{a} and {b} have no context in common with a score of both: they cannot be "
                "compared. Let both answer the same contexts"
            )
            continue
        sign = -1 if row["difference"] < 0 else 1
        a, b = (a, b)[::sign]
        by = sign * row["difference"]
        if row["p_holm"] is None or row["p_holm"] >= stats.LEVEL:
            favour = f"{by:.3f} in favour of {a}" if by else "0"
            sentences.append(f"{a} and {b}: no difference is proven ({favour})")
        else:
            low, high = sorted(sign * row[f"difference_{end}"] for end in ("low", "high"))
            sentences.append(f"{a} is better than {b}, by {by:.3f} [{low:.3f}, {high:.3f}]")
    return sentences


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
            is_a_better = comparison["difference"] > 0
            n_better[comparison["b" if is_a_better else "a"]] += 1
            n_worse[comparison["a" if is_a_better else "b"]] += 1
    ranked = []
    for row in systems:
        name = row["system"]
        ranks = {"rank": 1 + n_better[name], "rank_last": len(systems) - n_worse[name]}
        ranked.append(row | ranks)
    return sorted(ranked, key=lambda row: (row["rank"], -row.get("score", -np.inf), row["system"]))
