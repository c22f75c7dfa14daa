"""Means of systems over contexts: intervals, paired permutation tests, and a ranking whose ties are honest."""

import re
from itertools import combinations, product

import numpy as np
import pandas as pd

from dre import metrics, stats
from dre import tables as report

BASELINES = ("length", "echo")  # which a score should know more than
#: columns whose means are given
MEASURES = ("score", "score_slm", "s_d", "s_p", "score_llm", "s_inf", *BASELINES)
RESAMPLES, PERMUTATIONS, AT_ONCE = 2000, 10_000, 500
EXACT = 13  # so many contexts, or fewer, are swapped in all 2^n ways, which are no more than PERMUTATIONS
GROUPS = 4000  # more contexts are resampled in so many groups, each context whole, which bounds time and memory


def summarise(table: pd.DataFrame, seed: int = 0) -> dict:
    """Say what a table of scores says about its systems; resampled are contexts, since responses share them.

    Returns ``rows, contexts, shared_contexts`` (those with a score of every system); ``systems``, one dict per system,
    the best first: ``system, n`` (scored), ``n_missing, statuses, accepted`` (a share), the `MEASURES` that have values
    with ``_low`` and ``_high`` (95 %), ``rank, rank_last``; ``comparisons``, see `compare`, and ``baselines``, the same
    of each of `BASELINES` (a ``measure``), so far as there are such columns. What is undefined is None.
    """
    unit, names = pd.factorize(table["context_id"])
    grouped, systems = table.groupby([unit % GROUPS, "system"]), []
    for name, rows in table.groupby("system"):
        statuses = rows["status"].value_counts().to_dict()
        row = {
            "system": name,
            "n": statuses.get("ok", 0),
            "n_missing": len(rows) - statuses.get("ok", 0),
        }
        row |= {"statuses": statuses} | (
            {"accepted": float(rows["accepted"].mean())} if "accepted" in rows else {}
        )
        systems.append(row)
    drawn = stats.context_weights(range(min(len(names), GROUPS)), RESAMPLES, seed)
    for measure in [name for name in MEASURES if name in table]:
        sums, counts = (
            getattr(grouped[measure], how)().unstack(fill_value=0).to_numpy()
            for how in ("sum", "count")
        )
        for row, found in zip(systems, _means(sums, counts, measure, drawn)):
            row |= {} if np.isnan(found[measure]) else found
    comparisons = compare(grouped["score"].mean().unstack(), seed, drawn)
    baselines = [
        {"measure": name} | row
        for name in BASELINES
        if name in table
        for row in compare(grouped[name].mean().unstack(), seed, drawn)
    ]
    found = {
        "systems": rank(systems, comparisons),
        "comparisons": comparisons,
        "baselines": baselines,
    }
    for name, rows in found.items():  # as JSON has them, without NaN
        found[name] = [
            {key: None if value != value else value for key, value in row.items()} for row in rows
        ]
    scored = table[table["score"].notna()].groupby("context_id")["system"].nunique()
    shared = int((scored == len(systems)).sum())
    return {"rows": len(table), "contexts": len(names), "shared_contexts": shared} | found


def _means(sums, counts, name, drawn):
    """Mean and interval of each column, given as sums and counts by context (contexts, k): dicts to put into rows."""
    with np.errstate(invalid="ignore"):  # a resample may hold no context of a system
        found = (drawn @ sums) / (drawn @ counts)
    found[1:, (counts > 0).sum(axis=0) < 2] = np.nan
    return [stats.interval(column, name) for column in found.T]


def compare(means: pd.DataFrame, seed: int = 0, drawn: np.ndarray | None = None) -> list[dict]:
    """Compare every two systems on the contexts that both answered.

    ``means`` has one row per context, one column per system: its mean score there, NaN where it has none. Returns one
    dict per two systems: ``a, b, difference`` (mean over contexts of a minus b) with ``_low, _high`` (95 %, bootstrap),
    ``p_permutation`` (two-sided), ``p_holm`` (corrected over all of them), ``n_contexts``, and ``visible``, the
    difference that so many contexts can show (at 5 %, power 80 %); NaN with fewer than two contexts.
    ``drawn``: how often each context is in each resample, if that is known.
    """
    pairs = list(combinations(means, 2))
    if not pairs:
        return []
    d = np.stack([(means[a] - means[b]).to_numpy(float) for a, b in pairs], axis=1)
    seen, d = ~np.isnan(d), np.nan_to_num(d)
    n = seen.sum(axis=0)
    spread = [d[:, k][seen[:, k]].std(ddof=1) if n[k] > 1 else np.nan for k in range(len(pairs))]
    visible = stats.POWER * np.array(spread) / np.sqrt(np.maximum(n, 1))
    drawn = stats.context_weights(range(len(d)), RESAMPLES, seed) if drawn is None else drawn
    p, found = _permuted(d, seen, seed), _means(d, seen, "difference", drawn)
    tests = zip(p.tolist(), stats.holm(p).tolist(), n.tolist(), visible.tolist())
    names = "p_permutation", "p_holm", "n_contexts", "visible"
    return [
        {"a": a, "b": b, **row, **dict(zip(names, test))}
        for (a, b), row, test in zip(pairs, found, tests)
    ]


def _permuted(d, seen, seed):
    """Two-sided p of the mean of each column of differences (contexts, k), 0 where none is ``seen``.

    Swapping two systems in a context flips the sign of their difference there: in all ways where a column has few
    contexts, else in random ones, the same for all columns, where the data count as one more.
    """
    p, n = np.full(d.shape[1], np.nan), seen.sum(axis=0)
    least = np.abs(d.sum(axis=0)) - 1e-10 * np.abs(d).sum(
        axis=0
    )  # equal sums may differ by rounding
    for k in np.flatnonzero((n > 1) & (n <= EXACT)):
        signs = np.array(list(product((1, -1), repeat=n[k])))
        p[k] = (np.abs(signs @ d[seen[:, k], k]) >= least[k]).mean()
    many, hits, draw = np.flatnonzero(n > EXACT), 0, np.random.default_rng(seed)
    for _ in range(PERMUTATIONS // AT_ONCE if len(many) else 0):
        signs = 2.0 * draw.integers(0, 2, (AT_ONCE, len(d)), dtype=np.int8) - 1
        hits += (np.abs(signs @ d[:, many]) >= least[many]).sum(axis=0)
    p[many] = (1 + hits) / (1 + PERMUTATIONS)
    return p


def baselines(pairs: pd.DataFrame) -> dict:
    """What knows nothing of a reply's sense: its words, and the share of them that stand in its context."""
    words = [re.findall(r"\w+", text.lower()) for text in pairs["response"]]
    known = [set(re.findall(r"\w+", " ".join(turns).lower())) for turns in pairs["context"]]
    echo = [
        np.mean([word in there for word in own]) if own else np.nan
        for own, there in zip(words, known)
    ]
    return {"length": metrics.length(pairs["response"]), "echo": echo}


def measured(summary: dict) -> list[dict]:
    """Return the comparisons of a summary, each with its ``measure``, before those of the baselines."""
    return [{"measure": "score"} | row for row in summary["comparisons"]] + summary.get(
        "baselines", []
    )


def show(summary: dict) -> None:
    """Print comparisons, beside the differences in length and echo."""
    note = "Difference a - b on the contexts of both; permutation test by context (which needs six), after Holm. "
    note += "Length: words; echo: share of words that the context has. Visible: the difference that so many contexts "
    note += "can show (power 80 %)."
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
    report.show(pd.DataFrame(measured(summary)), "Comparisons", note, columns)


def rank(systems: list[dict], comparisons: list[dict]) -> list[dict]:
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
