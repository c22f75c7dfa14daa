"""Is a judge worth trusting? It is asked on a sample of public rated pairs, beside the judges recorded there."""

import time

import numpy as np
import pandas as pd

from dre import ratings, stats
from dre.errors import DreError
from dre.judges import others

SETS = ("personachat-usr", "topicalchat-usr", "fed-turn")  # those that most recorded judges know
SHOWN = 0.05  # a difference in Spearman that one would want to see
POWER = 1.96 + 0.84  # standard errors that it must measure: two-sided test at 5 %, power 80 %


def sample(name, n, seed=0):
    """Return n responses of a rated set in its order, a third from each third of the human ratings, drawn by seed."""
    rated = ratings.rated(name)
    third = np.argsort(np.argsort(rated["human"], kind="stable")) * 3 // len(rated)
    if not 9 <= n <= len(rated):
        raise DreError(f"{n} pairs of {name}: expected between 9 and its {len(rated)}; change --n or --sets")
    parts = [rated[third == i].sample(n // 3 + (i < n % 3), random_state=seed) for i in range(3)]
    return pd.concat(parts).sort_index()


def compare(judge, sets=SETS, n=120, repeats=2, seed=0, prompt="llm_only", resamples=1000):
    """Ask a judge (``repeats=1``) for ``n`` pairs of public rated ``sets``, ``repeats`` times; compare it there.

    Returns the table, by ``judge``, that of the first row asked now, the others recorded for all of these sets:
    ``spearman`` with people (of first replies, mean over sets) with its interval, ``difference`` from the judge asked
    with its interval, and ``pairs``, how many it takes to show a difference of 0.05 at 5 % with power 80 %. Intervals
    are of 95 %, over contexts. And a dict: ``pairs`` scored of those drawn, ``retest`` (Spearman of first and second
    replies, mean over sets), ``malformed`` (share of replies without a score), ``usd`` and ``seconds`` per 1,000
    replies (NaN where unknown or nothing was asked), ``calls, spent, stopped``, ``constant`` (the one score of a set
    all of whose pairs got it, by set: there is no correlation then).
    """
    if unknown := [name for name in sets if name not in ratings.RATED]:
        raise DreError(f"no rated set {unknown[0]!r}: the sets are {', '.join(ratings.RATED)}")
    found, retests, asked, did = [], [], [], {"calls": 0, "spent": 0.0, "stopped": "", "seconds": 0.0}
    did["constant"] = {}
    for i, name in enumerate(sets):
        rows, replies = sample(name, n // len(sets) + (i < n % len(sets)), seed), []
        for repeat in range(repeats):
            start = time.monotonic()
            replies.append(judge.score(rows, prompt, first=repeat, ask=not did["stopped"]))
            did["seconds"] += time.monotonic() - start if judge.last.calls else 0.0
            did |= {"calls": did["calls"] + judge.last.calls, "spent": did["spent"] + judge.last.spent}
            did["stopped"] = did["stopped"] or judge.last.stopped
        asked += replies
        first, *again = (frame["score_llm"].to_numpy() for frame in replies)
        if len(given := set(first[~np.isnan(first)])) == 1:
            did["constant"][name] = given.pop()
        retests += [pd.Series(first).corr(pd.Series(other), method="spearman") for other in again]
        table = others.scores(name).drop(columns="pair_id").loc[rows.index]
        table.insert(0, judge.spec, first)
        found.append((table, rows["human"].to_numpy(), rows["context_id"].to_numpy()))
    known = [column for column in found[0][0] if all(column in table for table, *_ in found)]
    with np.errstate(invalid="ignore"):
        r = np.mean([_draws(table[known], *people, resamples, i) for i, (table, *people) in enumerate(found)], axis=0)
    scored = sum(int(table[judge.spec].notna().sum()) for table, *_ in found)
    rows = [_row(name, r[:, j], r[:, 0], scored) for j, name in enumerate(known)]
    replies = pd.concat(asked)
    came, good = replies["n_samples"].sum(), replies["n_ok"].sum()
    per = 1000 / came if came else np.nan
    did |= {"pairs": f"{scored} of {n}", "retest": np.mean(retests) if retests else np.nan}
    did |= {"malformed": 1 - good / came if came else np.nan, "usd": replies["cost"].sum(min_count=1) * per}
    did["seconds"] = 1000 * did["seconds"] / did["calls"] if did["calls"] else np.nan
    return pd.DataFrame(rows), did


def _draws(table, human, contexts, resamples, seed):
    seen = table.notna().all(axis=1).to_numpy()
    return stats.draws(table[seen], human[seen], contexts[seen], n=resamples, seed=seed)


def _row(name, r, asked, scored):
    """One row of the table, from the correlations of a judge and of the judge asked, in the data and in resamples."""
    row, gap = {"judge": name, **stats.interval(r, "spearman")}, r - asked
    if not gap.any() or np.isnan(gap[0]):  # the judge itself, its own recording, or one without a correlation
        return row | {"difference": np.nan, "pairs": np.nan}
    needed = np.ceil(scored * (POWER * np.nanstd(gap[1:]) / SHOWN) ** 2)
    return row | stats.interval(gap, "difference") | {"pairs": int(needed)}
