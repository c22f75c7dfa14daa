"""Means of systems over contexts: intervals, paired permutation tests, and a ranking whose ties are honest."""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import permutation_test

from dre import stats

#: columns whose means are given
MEASURES = ("score", "score_slm", "s_d", "s_p", "score_llm", "s_inf")
RESAMPLES, PERMUTATIONS, AT_ONCE = 2000, 10_000, 250
GROUPS = 4000  # more contexts are resampled in so many groups, each context whole, which bounds time and memory


def summarise(table, seed=0):
    """Say what a table of scores says about its systems; resampled are contexts, since responses share them.

    Returns ``rows, contexts``; ``systems``, one dict per system, the best first: ``system, n`` (scored), ``n_missing,
    statuses, accepted`` (a share), the `MEASURES` that have values with ``_low`` and ``_high`` (95 %), ``rank,
    rank_last``; and ``comparisons``, see `compare`. What is undefined is None.
    """
    unit = pd.Series(pd.factorize(table["context_id"])[0] % GROUPS, table.index)
    systems, means = [], {}
    for name, rows in table.groupby("system"):
        statuses, within = rows["status"].value_counts().to_dict(), unit[rows.index]
        row = {"system": name, "n": statuses.get("ok", 0), "n_missing": len(rows) - statuses.get("ok", 0)}
        row |= {"statuses": statuses} | ({"accepted": rows["accepted"].mean()} if "accepted" in rows else {})
        for measure in MEASURES:
            if rows[measure].notna().any():
                row |= _mean(rows[measure], within, measure, seed)
        systems.append(row)
        means[name] = rows["score"].groupby(within).mean()
    comparisons = compare(pd.DataFrame(means), seed)
    found = {"systems": rank(systems, comparisons), "comparisons": comparisons}
    for name, rows in found.items():  # as JSON has them, without NaN
        found[name] = [{key: None if value != value else value for key, value in row.items()} for row in rows]
    return {"rows": len(table), "contexts": table["context_id"].nunique()} | found


def _mean(values, contexts, name, seed):
    found = stats.mean(values, contexts, RESAMPLES, seed)
    return {name: found["mean"], f"{name}_low": found["low"], f"{name}_high": found["high"]}


def compare(means, seed=0):
    """Compare every two systems on the contexts that both answered.

    ``means`` has one row per context, one column per system: its mean score there, NaN where it has none. Returns one
    dict per two systems: ``a, b, difference`` (mean over contexts of a minus b) with ``_low, _high`` (95 %, bootstrap),
    ``p_permutation`` (two-sided), ``p_holm`` (corrected over all of them), ``n_contexts``; NaN with fewer than two.
    """
    found = []
    for a, b in combinations(means, 2):
        d = (means[a] - means[b]).dropna().to_numpy()
        row = {"a": a, "b": b, **_mean(d, np.arange(len(d)), "difference", seed), "p_permutation": np.nan}
        if len(d) > 1:  # swapping the two within a context flips the sign of their difference
            swap = {"permutation_type": "samples", "n_resamples": PERMUTATIONS, "batch": AT_ONCE, "rng": seed}
            row["p_permutation"] = permutation_test((d,), np.mean, vectorized=True, **swap).pvalue
        found.append(row | {"n_contexts": len(d)})
    adjusted = stats.holm([row["p_permutation"] for row in found])
    return [row | {"p_holm": float(p)} for row, p in zip(found, adjusted)]


def rank(systems, comparisons):
    """Return the rows of systems with ``rank`` and ``rank_last``, the best first.

    They are 1 plus the number of systems that are significantly better, and the number of all less those that are
    significantly worse (Holm-corrected p below 0.05): systems that no test separates share a rank.
    """
    better = {row["system"]: set() for row in systems}
    for one in comparisons:
        if one["p_holm"] < stats.LEVEL:
            worse, winner = (one["a"], one["b"]) if one["difference"] < 0 else (one["b"], one["a"])
            better[worse].add(winner)
    for row in systems:
        beaten = sum(row["system"] in winners for winners in better.values())
        row["rank"], row["rank_last"] = 1 + len(better[row["system"]]), len(systems) - beaten
    return sorted(systems, key=lambda row: (row["rank"], -row.get("score", -np.inf), row["system"]))
