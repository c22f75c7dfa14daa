"""A judge is asked on a sample of rated pairs, public ones or the user's, beside the judges recorded there."""

import time

import numpy as np
import pandas as pd

from dre import stats, what_if
from dre.datasets import ratings
from dre.datasets.registry import repository_file
from dre.errors import DreError
from dre.judges import released as others

SETS = ("personachat-usr", "topicalchat-usr", "fed-turn")  # those that most recorded judges know
PEOPLE = (
    "Original Ground Truth",
    "New Human Generated",
    "Human",
)  # the systems that are none, in these
SHOWN = 0.05  # a difference in Spearman that one would want to see
GAPS = (0.05, 0.2)  # differences between two systems, in points of a judge's 0-5
VIEWS = (
    "spearman",
    "within",
    "machine",
)  # of all pairs, with systems' means taken off, without people's replies
SHARED = 0.25  # of an SLM's errors that are the judge's, too; real ones share 0.1 to 0.35
ROWS = f"rows that the recorded judge was shown, {SHARED:.0%} of its errors the judge's"  # what is dealt out


def sample(rated, n, seed=0):
    """Return n responses of a rated set in its order, a third from each third of the human ratings, drawn by seed.

    ``rated``: the name of one of `dre.datasets.ratings.RATED`, or a table with ``human``.
    """
    name, rated = (
        (rated, ratings.rated(rated)) if isinstance(rated, str) else ("rated pairs", rated)
    )
    third = np.argsort(np.argsort(rated["human"], kind="stable")) * 3 // len(rated)
    if not 9 <= n <= len(rated):
        raise DreError(
            f"{n} pairs of {name}: expected between 9 and its {len(rated)}; change --n or --sets"
        )
    parts = [rated[third == i].sample(n // 3 + (i < n % 3), random_state=seed) for i in range(3)]
    return pd.concat(parts).sort_index()


def samples(sets=SETS, n=120, seed=0, rated=None):
    """Return what a judge is to be asked, a table by name of set: n pairs over public sets, or of one's own table."""
    if rated is not None:
        return {"rated": sample(rated.reset_index(drop=True), min(n, len(rated)), seed)}
    if unknown := [name for name in sets if name not in ratings.RATED]:
        raise DreError(f"no rated set {unknown[0]!r}: the sets are {', '.join(ratings.RATED)}")
    return {
        name: sample(name, n // len(sets) + (i < n % len(sets)), seed)
        for i, name in enumerate(sets)
    }


def compare(judge, asked, repeats=2, seed=0, prompt="llm_only", resamples=1000):
    """Ask a judge (``repeats=1``) for the pairs of `samples`, ``repeats`` times; compare it there.

    Returns the table, by ``judge``, that of the first row asked now, the others recorded for all of these sets:
    ``spearman`` with people (of first replies, mean over sets), ``within`` systems (their means taken off; of sets that
    name some), on ``machine`` replies alone, ``difference`` from the judge asked, each with its interval, and
    ``pairs``, how many it takes to show a difference of 0.05 at 5 % with power 80 %. Intervals are of 95 %, over
    contexts. And a dict: ``pairs`` scored of those drawn, ``retest`` (Spearman of first and second replies, mean over
    sets), ``malformed`` (share of replies without a score), ``usd`` and ``seconds`` per 1,000 replies, ``tokens`` a
    reply (NaN where unknown or nothing was asked), ``calls, spent, stopped``, ``constant`` (the one score of a set all
    of whose pairs got it, by set: there is no correlation then), ``contexts`` (how many show each of `GAPS`), and
    ``level`` with its interval: how well an SLM must agree with people for Ex-DRE to help (`dre.what_if`).
    """
    found, did = _ask(judge, asked, repeats, prompt)
    known = [column for column in found[0][0] if all(column in table for table, *_ in found)]
    r = {view: _agreement(found, known, view, resamples) for view in VIEWS}
    r = {view: drawn for view, drawn in r.items() if drawn is not None}
    scored = sum(int(table[judge.spec].notna().sum()) for table, *_ in found)
    by_judge = [{view: drawn[:, j] for view, drawn in r.items()} for j in range(len(known))]
    rows = [
        _row(name, views, by_judge[0]["spearman"], scored) for name, views in zip(known, by_judge)
    ]
    did["pairs"] = f"{scored} of {sum(map(len, asked.values()))}"
    did["contexts"] = {
        gap: np.ceil((stats.POWER * _spread(found, judge.spec) / gap) ** 2) for gap in GAPS
    }
    return pd.DataFrame(rows), did | _level(found, judge.spec, resamples, seed)


def _ask(judge, asked, repeats, prompt):
    """Return of each set (scores by judge, human, contexts, systems), and what asking cost and brought."""
    did = {"calls": 0, "spent": 0.0, "stopped": "", "seconds": 0.0, "constant": {}}
    found, retests, came, tokens = [], [], [], []
    for name, rows in asked.items():
        replies = []
        for repeat in range(repeats):
            start = time.monotonic()
            replies.append(judge.score(rows, prompt, first=repeat, ask=not did["stopped"]))
            did["seconds"] += time.monotonic() - start if judge.last.calls else 0.0
            did |= {
                "calls": did["calls"] + judge.last.calls,
                "spent": did["spent"] + judge.last.spent,
            }
            did["stopped"] = did["stopped"] or judge.last.stopped
            kept = judge.replies(rows, prompt, repeat) if hasattr(judge, "replies") else ()
            tokens += [
                one.input_tokens + (one.output_tokens or 0)
                for *_, one in kept
                if one and one.input_tokens
            ]
        came += replies
        first, *again = (frame["score_llm"].to_numpy() for frame in replies)
        if len(given := set(first[~np.isnan(first)])) == 1:
            did["constant"][name] = given.pop()
        retests += [pd.Series(first).corr(pd.Series(other), method="spearman") for other in again]
        table = (
            others.scores(name).drop(columns="pair_id").loc[rows.index]
            if name in ratings.RATED
            else rows[[]]
        )
        table = pd.concat(
            [pd.Series(first, rows.index, name=judge.spec), table], axis=1
        ).reset_index(drop=True)
        found.append(
            (table, *(rows[column].to_numpy() for column in ("human", "context_id", "system")))
        )
    replies = pd.concat(came)
    n, good = replies["n_samples"].sum(), replies["n_ok"].sum()
    did |= {
        "retest": np.mean(retests) if retests else np.nan,
        "malformed": 1 - good / n if n else np.nan,
    }
    did |= {"usd": 1000 * replies["cost"].sum(min_count=1) / n if n else np.nan}
    did["tokens"] = np.mean(tokens) if tokens else np.nan
    did["seconds"] = 1000 * did["seconds"] / did["calls"] if did["calls"] else np.nan
    return found, did


def _agreement(found, known, view, resamples):
    """Correlations of each judge with people in one view, mean over sets that have it: (1 + resamples, judges)."""
    drawn = []
    for i, (table, human, contexts, systems) in enumerate(found):
        scored = table[known].notna().all(axis=1).to_numpy()
        numbers, contexts, systems = (
            table[known].assign(human=human)[scored],
            contexts[scored],
            systems[scored],
        )
        person = np.isin(systems, PEOPLE)
        if view == "within":
            numbers = numbers - numbers.groupby(systems).transform("mean")
        has = {
            "spearman": True,
            "within": len(set(systems)) > 1,
            "machine": ~person & person.any(),
        }[view]
        seen = np.full(len(systems), True) & has
        if seen.any():
            numbers = numbers[seen]
            drawn.append(
                stats.draws(numbers[known], numbers["human"], contexts[seen], n=resamples, seed=i)
            )
    with np.errstate(invalid="ignore"):
        return np.mean(drawn, axis=0) if drawn else None


def _row(name, views, asked, scored):
    """One row of the table, from the correlations of a judge and of the judge asked, in the data and in resamples."""
    row, gap = {"judge": name}, views["spearman"] - asked
    for view, r in views.items():
        row |= stats.interval(r, view)
    if not np.nan_to_num(gap).any() or np.isnan(
        gap[0]
    ):  # the judge itself, its recording, or no correlation
        return row | {"difference": np.nan, "pairs": np.nan}
    needed = np.ceil(scored * (stats.POWER * np.nanstd(gap[1:]) / SHOWN) ** 2)
    return row | stats.interval(gap, "difference") | {"pairs": int(needed)}


def _spread(found, judge):
    """The sd of a judge's scores of two systems' replies to one context, less one another and the systems' means."""
    rows = [
        pd.DataFrame({"score": table[judge], "context": contexts, "system": systems}).assign(set=i)
        for i, (table, _, contexts, systems) in enumerate(found)
    ]
    rows = pd.concat(rows, ignore_index=True).dropna(subset="score")
    rows["score"] -= rows.groupby(["set", "system"])["score"].transform("mean")
    pairs = rows.merge(rows, on=["set", "context"])
    gaps = (pairs["score_x"] - pairs["score_y"])[pairs["system_x"] < pairs["system_y"]]
    return gaps.std() if len(gaps) > 9 else np.sqrt(2) * rows["score"].std()


def _level(found, judge, resamples, seed):
    """How well an SLM must agree with people to help: rows of the recorded SLM, dealt out anew in each set."""
    inputs = pd.read_csv(repository_file("recorded", ratings.NAME, "dre_inputs.csv"))[
        ["s_d", "s_p"]
    ].to_numpy()
    gains = []
    for table, human, contexts, _ in found:
        seen = table[judge].notna().to_numpy()
        if table[judge].nunique() < 2:
            return dict.fromkeys(("level", "level_low", "level_high"), np.nan)
        rows = np.random.default_rng(seed).choice(inputs, seen.sum())
        asked = table.loc[seen, judge].to_numpy(), human[seen], contexts[seen], rows
        gains.append(what_if.gains(*asked, SHARED, n=resamples, seed=seed))
    return what_if.crossing(np.mean(gains, axis=0))
