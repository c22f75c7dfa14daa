"""How well does a judge agree with people? It is asked for a sample of rated pairs.

The pairs are public ones, on which other judges are recorded, or the user's own.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pandas as pd

from dre import stats, what_if
from dre.datasets import ratings, recordings
from dre.errors import DreError
from dre.judges import AnyJudge, asking, is_recording, released
from dre.judges.recorded import Recorded

SETS = ("personachat-usr", "topicalchat-usr", "fed-turn")  # known to most recorded judges
PEOPLE = ("Original Ground Truth", "New Human Generated", "Human")  # "systems" that are people
_VIEWS = ("spearman", "within", "machine")  # explained in `Passport`
_DIFFERENCE_TO_SHOW = 0.05  # between two judges' Spearman correlations with people
_SYSTEM_GAPS = (0.05, 0.2)  # between two systems' mean scores, in points of a judge's 0 to 5
_OTHER_DRAWS = 100  # samples that are drawn to see how far a correlation moves from one to another
_SHARED_ERRORS = 0.25  # share of an SLM's errors that a judge makes, too; measured: 0.1 to 0.35


@dataclass
class Passport:
    """What is known of a judge once it was asked for a sample of rated pairs.

    Attributes
    ----------
    agreement : DataFrame
        One row per judge, first the one that was asked, then those recorded for all sets.
        ``spearman``: correlation of first replies with people, mean over sets. ``all_pairs``: the
        same on all pairs of the sets that a recording knows, not on the sample alone.
        ``within``: with each system's mean taken off (of sets that name systems). ``machine``:
        without replies that people wrote. ``difference``: ``spearman`` minus that of the judge
        asked. Each with a 95 % interval over contexts (``_low``, ``_high``). ``pairs``: how many
        rated pairs would show a difference of 0.05 (test at 5 %, power 80 %).
    pairs_drawn, pairs_scored : int
        Pairs of the sample, and those of them to which the first reply is a score.
    draws_differ_by : float
        How far the correlation of a recorded judge on another sample of the same size lies from
        that on all pairs, in 19 of 20 samples; NaN where no judge is recorded.
    retest : float
        Spearman correlation of first and second replies, mean over sets and repeats.
    malformed : float
        Share of replies without a score, 0 to 1.
    usd_per_1000, seconds_per_1000, tokens_per_reply : float
        NaN where unknown, or where nothing was asked.
    calls, spent_usd, uncertain_usd, stopped
        Of this run; ``stopped`` says why it ended early, "" if it did not.
    constant : dict
        The one score that all pairs of a set got, by set; it correlates with nothing.
    contexts_to_show : dict
        How many contexts show each of `_SYSTEM_GAPS` between two systems; NaN if the judge gives
        all replies of a system the same score, since it then shows no difference at all.
    level, level_low, level_high : float
        How well an SLM must agree with people for Ex-DRE to help this judge (`dre.what_if`).
    """

    agreement: pd.DataFrame
    pairs_drawn: int
    pairs_scored: int
    draws_differ_by: float
    retest: float
    malformed: float
    usd_per_1000: float
    seconds_per_1000: float
    tokens_per_reply: float
    calls: int
    spent_usd: float
    uncertain_usd: float
    stopped: str
    constant: dict[str, float]
    contexts_to_show: dict[float, float]
    level: float
    level_low: float
    level_high: float


@dataclass
class _ScoredSample:
    """The scores of one set's sample: ``scores`` has one column per judge, 0 to 5 or NaN."""

    scores: pd.DataFrame
    human_ratings: np.ndarray
    context_ids: np.ndarray
    systems: np.ndarray

    def scored_by(self, judge: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a judge's scores without NaN, and people's ratings and the contexts of these."""
        scores = self.scores[judge].to_numpy(float)
        is_scored = ~np.isnan(scores)
        return scores[is_scored], self.human_ratings[is_scored], self.context_ids[is_scored]


@dataclass
class _Replies:
    """What asking for all samples took, and the tables that `dre.judges.judge.Judge.score` gave."""

    tables: list[pd.DataFrame] = field(default_factory=list)
    retest_correlations: list[float] = field(default_factory=list)
    token_counts: list[int] = field(default_factory=list)
    calls: int = 0
    spent_usd: float = 0.0
    uncertain_usd: float = 0.0
    seconds: float = 0.0
    stopped: str = ""


def draw_sample(rated: str | pd.DataFrame, n: int, seed: int = 0) -> pd.DataFrame:
    """Draw rated pairs, a third from each third of the human ratings, and keep their order.

    Parameters
    ----------
    rated : str or DataFrame
        One of `dre.datasets.ratings.RATED`, or a table with ``human``.
    n, seed : int
        Number of pairs, from 9 on, and the seed of the draw.
    """
    name = rated if isinstance(rated, str) else "rated pairs"
    table = ratings.rated(rated) if isinstance(rated, str) else rated
    if not 9 <= n <= len(table):
        raise DreError(
            f"{n} pairs of {name}: expected between 9 and its {len(table)}; change --n or --sets"
        )
    return table.iloc[_draw_positions(table["human"], n, seed)].sort_index()


def _draw_positions(human_ratings, n, seed):
    """Draw n positions, a third from each third of the ratings."""
    order = np.argsort(np.asarray(human_ratings), kind="stable")
    rank = np.argsort(order)
    third = rank * 3 // len(rank)
    positions = []
    for i in range(3):
        size = n // 3 + (i < n % 3)
        of_third = np.flatnonzero(third == i)
        rng = np.random.RandomState(seed)
        positions.append(rng.choice(of_third, size, replace=False))
    return np.concatenate(positions)


def draw_samples(
    sets: Sequence[str] = SETS,
    n: int = 120,
    seed: int = 0,
    own_rated: pd.DataFrame | None = None,
) -> dict[str, pd.DataFrame]:
    """Return the pairs that a judge is to be asked for, by name of set.

    ``n`` pairs are spread evenly over public sets, or drawn from your own table.
    """
    if own_rated is not None:
        own_rated = own_rated.reset_index(drop=True)
        return {"rated": draw_sample(own_rated, min(n, len(own_rated)), seed)}
    for name in sets:
        if name not in ratings.RATED:
            raise DreError(f"no rated set {name!r}: the sets are {', '.join(ratings.RATED)}")
    samples = {}
    for i, name in enumerate(sets):
        size = n // len(sets) + (i < n % len(sets))
        samples[name] = draw_sample(name, size, seed)
    return samples


def measure(
    judge: AnyJudge,
    samples: Mapping[str, pd.DataFrame],
    repeats: int = 2,
    seed: int = 0,
    prompt: str = "llm_only",
    resamples: int = 1000,
) -> Passport:
    """Ask a judge for the pairs of some samples and compare its scores with people's ratings.

    Parameters
    ----------
    judge : Judge, Recorded or Function
        One that gives a single reply at a time (``repeats=1``). The ``max_usd`` of a `Judge` is a
        limit of all that is asked here.
    samples : dict
        What `draw_samples` returns.
    repeats : int
        Replies for each pair; the second and later ones say how steady the judge is. A recording
        gives those of them that it has.
    seed, resamples : int
        Of the intervals.
    """
    replies = _Replies()
    scored_samples = []
    all_pairs = []
    # Only judges that know all sets stand in the table. GPT-3.5 knows one set alone.
    with_gpt35 = len(samples) == 1
    scores_by_sample = {}
    with asking.one_run(judge):
        for name, pairs in samples.items():
            scores_by_sample[name] = _ask(judge, pairs, prompt, repeats, replies)
    for name, pairs in samples.items():
        scores = scores_by_sample[name]
        recorded = pd.DataFrame()
        if name in ratings.RATED:
            recorded = _recorded_scores(judge, name, prompt, with_gpt35)
            all_pairs.append(_all_pairs(judge, name, prompt, recorded))
        scored_samples.append(_beside_recorded(judge, recorded, pairs, scores))
    own_scores = [sample.scores[judge.spec] for sample in scored_samples]
    pairs_scored = sum(int(scores.notna().sum()) for scores in own_scores)
    agreement = _agreement(scored_samples, all_pairs, pairs_scored, resamples)
    sizes = [len(pairs) for pairs in samples.values()]
    constant = {}
    for name, scores in zip(samples, own_scores):
        if scores.nunique() == 1:
            constant[name] = scores.dropna().iloc[0]
    return Passport(
        agreement=agreement,
        pairs_drawn=sum(sizes),
        pairs_scored=pairs_scored,
        draws_differ_by=_draws_differ_by(all_pairs, sizes),
        retest=_mean(replies.retest_correlations),
        malformed=_share_without_score(replies.tables),
        usd_per_1000=_usd_per_1000(replies.tables),
        seconds_per_1000=1000 * replies.seconds / replies.calls if replies.calls else np.nan,
        tokens_per_reply=_mean(replies.token_counts),
        calls=replies.calls,
        spent_usd=replies.spent_usd,
        uncertain_usd=replies.uncertain_usd,
        stopped=replies.stopped,
        constant=constant,
        contexts_to_show=_contexts_to_show(scored_samples, judge.spec),
        **_level(scored_samples, judge.spec, resamples, seed),
    )


def _ask(judge, pairs, prompt, repeats, replies):
    """Return the scores of the first replies to pairs, an array; note in `replies` what it took."""
    scores_by_repeat = []
    for repeat in range(repeats):
        start = time.monotonic()
        # Of a recording the first replies are needed, and others are taken where it has them.
        is_extra = repeat > 0 and is_recording(judge.spec)
        ask = not replies.stopped and not is_extra
        table = judge.score(pairs, prompt, first=repeat, ask=ask)
        if is_extra and not np.any(table["n_samples"]):
            continue
        if judge.last.calls:
            replies.seconds += time.monotonic() - start
        replies.calls += judge.last.calls
        replies.spent_usd += judge.last.spent
        replies.uncertain_usd += judge.last.uncertain
        replies.stopped = replies.stopped or judge.last.stopped
        replies.tables.append(table)
        replies.token_counts += _token_counts(judge, pairs, prompt, repeat)
        scores_by_repeat.append(pd.Series(table["score_llm"].to_numpy(float)))
    first, *later = scores_by_repeat
    for scores in later:
        varies = first.nunique() > 1 and scores.nunique() > 1
        correlation = first.corr(scores, method="spearman") if varies else np.nan
        replies.retest_correlations.append(correlation)
    return first.to_numpy()


def known_sets(judge: AnyJudge, prompt: str = "llm_only") -> list[str]:
    """Return those of `SETS` that a recording has judged with a prompt; `DreError` if none."""
    sets = []
    for name in SETS:
        table = judge.score(ratings.rated(name), prompt, ask=False)
        if np.any(table["n_samples"]):
            sets.append(name)
    if not sets:
        own_sets = cast(Recorded, judge).known(prompt)
        raise DreError(
            f"{judge.spec} knows no pair of {', '.join(SETS)}. It knows {own_sets}: name sets that "
            "it knows with --sets, or another --prompt"
        )
    return sets


def _token_counts(judge, pairs, prompt, repeat):
    """Return the tokens of each reply, prompt included; a recording has no counts."""
    if not hasattr(judge, "replies"):
        return []
    counts = []
    for _, reply in judge.replies(pairs, prompt, repeat):
        if reply and reply.input_tokens:
            counts.append(reply.input_tokens + (reply.output_tokens or 0))
    return counts


def _beside_recorded(judge, recorded, pairs, scores):
    """Return the scores of the judge, and those recorded for the same pairs of a set."""
    table = pd.DataFrame({judge.spec: scores})
    if len(recorded):
        of_pairs = recorded.loc[pairs.index].reset_index(drop=True)
        table = pd.concat([table, of_pairs], axis=1)
    return _ScoredSample(
        scores=table,
        human_ratings=pairs["human"].to_numpy(),
        context_ids=pairs["context_id"].to_numpy(),
        systems=pairs["system"].to_numpy(),
    )


def _recorded_scores(judge, name, prompt, with_gpt35):
    """Return the scores of a public set by recorded judges, without the judge asked itself."""
    recorded = released.scores(name, with_gpt35).drop(columns="pair_id")
    own_name = judge.spec.removeprefix("recorded:")
    if is_recording(judge.spec) and prompt == "llm_only":
        recorded = recorded.drop(columns=own_name, errors="ignore")
    return recorded


def _all_pairs(judge, name, prompt, recorded):
    """Return the scores of all pairs of a public set, as far as they are recorded."""
    pairs = ratings.rated(name)
    scores = np.full(len(pairs), np.nan)
    if is_recording(judge.spec):
        scores = judge.score(pairs, prompt, ask=False)["score_llm"].to_numpy(float)
    return _beside_recorded(judge, recorded, pairs, scores)


def _agreement(samples, all_pairs, pairs_scored, resamples):
    """Return the table `Passport.agreement`."""
    judges = list(samples[0].scores)
    for sample in samples[1:]:
        judges = [judge for judge in judges if judge in sample.scores]
    draws_by_view = {}
    for view in _VIEWS:
        draws = _correlations(samples, judges, view, resamples)
        if draws is not None:
            draws_by_view[view] = draws
    rows = []
    for j, judge in enumerate(judges):
        row = {"judge": judge}
        for view, draws in draws_by_view.items():
            row.update(stats.interval(draws[:, j], view))
            if view == "spearman" and all_pairs:
                row.update(_on_all_pairs(all_pairs, judge, resamples))
        difference = draws_by_view["spearman"][:, j] - draws_by_view["spearman"][:, 0]
        row.update(_difference(difference, pairs_scored))
        rows.append(row)
    return pd.DataFrame(rows)


def _correlations(samples, judges, view, resamples):
    """Correlate each judge with people in one view: mean over sets, (1 + resamples, judges).

    The first row is of the data, the others of resampled contexts. None if no set has the view.
    """
    draws_by_set = []
    for i, sample in enumerate(samples):
        has_all_scores = sample.scores[judges].notna().all(axis=1).to_numpy()
        numbers = sample.scores[judges].assign(human=sample.human_ratings)[has_all_scores]
        context_ids = sample.context_ids[has_all_scores]
        systems = sample.systems[has_all_scores]
        if view == "within":
            if len(set(systems)) < 2:
                continue
            numbers = numbers - numbers.groupby(systems).transform("mean")
        if view == "machine":
            is_person = np.isin(systems, PEOPLE)
            if is_person.all() or not is_person.any():
                continue
            numbers = numbers[~is_person]
            context_ids = context_ids[~is_person]
        if len(numbers):
            draws = stats.draws(numbers[judges], numbers["human"], context_ids, n=resamples, seed=i)
        else:  # no pair has a score of every judge
            draws = np.full((1 + resamples, len(judges)), np.nan)
        draws_by_set.append(draws)
    if not draws_by_set:
        return None
    with np.errstate(invalid="ignore"):
        return np.mean(draws_by_set, axis=0)


def _on_all_pairs(all_pairs, judge, resamples):
    """Return ``all_pairs`` with its interval: a judge's agreement on all pairs recorded for it."""
    draws_by_set = []
    for i, sample in enumerate(all_pairs):
        scores, *people = sample.scored_by(judge)
        if not len(scores):
            return {"all_pairs": np.nan, "all_pairs_low": np.nan, "all_pairs_high": np.nan}
        draws_by_set.append(stats.draws(scores, *people, n=resamples, seed=i))
    return stats.interval(np.mean(draws_by_set, axis=0)[:, 0], "all_pairs")


def _difference(draws, pairs_scored):
    """Return ``difference`` from the judge asked, and ``pairs``: how many show one of 0.05."""
    is_judge_itself = not np.nan_to_num(draws).any()
    if is_judge_itself or np.isnan(draws[0]):  # or one of the two has no correlation
        return {"difference": np.nan, "pairs": np.nan}
    row = stats.interval(draws, "difference")
    # The standard error falls with the root of the number of pairs.
    standard_error = np.nanstd(draws[1:])
    row["pairs"] = int(
        np.ceil(pairs_scored * (stats.POWER * standard_error / _DIFFERENCE_TO_SHOW) ** 2)
    )
    return row


def _draws_differ_by(all_pairs, sizes):
    """Return how far samples of these sizes lie from all pairs in 19 of 20 cases, in Spearman."""
    if not all_pairs:
        return np.nan
    on_all_pairs = _mean_spearman(all_pairs)
    deviations = []
    for seed in range(_OTHER_DRAWS):
        samples = [_draw_from(sample, size, seed) for sample, size in zip(all_pairs, sizes)]
        deviation = _mean_spearman(samples) - on_all_pairs
        deviations.append(deviation.abs())
    deviations = pd.Series(pd.concat(deviations)).dropna()
    return float(deviations.quantile(0.95)) if len(deviations) else np.nan


def _mean_spearman(samples):
    """Return each judge's correlation with people, mean over the sets: a Series."""
    correlations = []
    for sample in samples:
        of_set = {}
        for judge in sample.scores:
            scores, *people = sample.scored_by(judge)
            if len(scores):
                of_set[judge] = stats.draws(scores, *people, n=0)[0, 0]
        correlations.append(pd.Series(of_set, dtype=float))
    return pd.concat(correlations, axis=1).mean(axis=1, skipna=False)


def _draw_from(sample, size, seed):
    """Draw `size` pairs from all pairs of a set as `draw_sample` does."""
    rows = np.sort(_draw_positions(sample.human_ratings, size, seed))
    return _ScoredSample(
        scores=sample.scores.iloc[rows],
        human_ratings=sample.human_ratings[rows],
        context_ids=sample.context_ids[rows],
        systems=sample.systems[rows],
    )


def _mean(values):
    return float(np.mean(values)) if values else np.nan


def _share_without_score(tables):
    """Return the share of replies that came but are not a score, 0 to 1."""
    replies = sum(table["n_samples"].sum() for table in tables)
    scores = sum(table["n_ok"].sum() for table in tables)
    return 1 - scores / replies if replies else np.nan


def _usd_per_1000(tables):
    """Return the price of 1,000 replies, stored ones included; NaN where none is known."""
    table = pd.concat(tables)
    replies = table["n_samples"].sum()
    return 1000 * table["cost"].sum(min_count=1) / replies if replies else np.nan


def _contexts_to_show(samples, judge):
    """Return by gap between two systems' mean scores how many contexts show it."""
    sd = _sd_of_system_gaps(samples, judge)
    if not sd > 1e-9:  # every reply got one score: no number of contexts shows anything
        return dict.fromkeys(_SYSTEM_GAPS, np.nan)
    return {gap: float(np.ceil((stats.POWER * sd / gap) ** 2)) for gap in _SYSTEM_GAPS}


def _sd_of_system_gaps(samples, judge) -> float:
    """Return the sd of the difference between two systems' scores on one context.

    Each system's mean is taken off first. Where hardly any context has two systems' replies, the
    scores of two systems are taken to be independent.
    """
    tables = []
    for i, sample in enumerate(samples):
        tables.append(
            pd.DataFrame(
                {
                    "set": i,
                    "context": sample.context_ids,
                    "system": sample.systems,
                    "score": sample.scores[judge],
                }
            )
        )
    scores = pd.concat(tables, ignore_index=True).dropna(subset="score")
    scores["score"] -= scores.groupby(["set", "system"])["score"].transform("mean")
    pairs = scores.merge(scores, on=["set", "context"])
    pairs = pairs[pairs["system_x"] < pairs["system_y"]]
    gaps = pd.Series(pairs["score_x"] - pairs["score_y"])
    if len(gaps) > 9:
        return cast(float, gaps.std())
    return float(np.sqrt(2) * pd.Series(scores["score"]).std())


def _level(samples, judge, resamples, seed):
    """Return how well an SLM must agree with people to help a judge: ``level, _low, _high``.

    The numbers of the SLM that `released.CLAUDE` was shown are dealt out anew in each set.
    """
    slm_numbers = recordings.numbers_shown().to_numpy()
    gains = []
    for sample in samples:
        scored = sample.scored_by(judge)
        if len(set(scored[0])) < 2:
            return {"level": np.nan, "level_low": np.nan, "level_high": np.nan}
        dealt = np.random.default_rng(seed).choice(slm_numbers, len(scored[0]))
        gain = what_if.gains(*scored, rows=dealt, shared=_SHARED_ERRORS, n=resamples, seed=seed)
        gains.append(gain)
    return what_if.crossing(np.mean(gains, axis=0))
