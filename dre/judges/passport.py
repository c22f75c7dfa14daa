"""How well does a judge agree with people? It is asked for a sample of rated pairs.

The pairs are public ones, on which other judges are recorded, or the user's own.
"""

import dataclasses
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
_OF_PAIRS = ["human", "context_id", "system"]  # columns of a sample, beside those of judges
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

    agreement: pd.DataFrame = field(default_factory=pd.DataFrame)
    pairs_drawn: int = 0
    pairs_scored: int = 0
    draws_differ_by: float = np.nan
    retest: float = np.nan
    malformed: float = np.nan
    usd_per_1000: float = np.nan
    seconds_per_1000: float = np.nan
    tokens_per_reply: float = np.nan
    calls: int = 0
    spent_usd: float = 0.0
    uncertain_usd: float = 0.0
    stopped: str = ""
    constant: dict[str, float] = field(default_factory=dict)
    contexts_to_show: dict[float, float] = field(default_factory=dict)
    level: float = np.nan
    level_low: float = np.nan
    level_high: float = np.nan

    def count(self, run: asking.Run) -> None:
        """Add what a call of `dre.judges.judge.Judge.score` took."""
        self.calls += run.calls
        self.spent_usd += run.spent
        self.uncertain_usd += run.uncertain
        self.stopped = self.stopped or run.stopped


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
    return _draw(table, n, seed)


def _draw(table, n, seed):
    """Draw n rows of a table, a third from each third of the human ratings."""
    order = np.argsort(table["human"].to_numpy(), kind="stable")
    positions = []
    for of_third, size in zip(np.array_split(order, 3), _shared_out(n, 3)):
        rng = np.random.RandomState(seed)
        positions.append(rng.choice(np.sort(of_third), size, replace=False))
    return table.iloc[np.concatenate(positions)].sort_index()


def _shared_out(n, n_parts):
    """Return the sizes of parts of n that differ by one at most, the larger first."""
    return [n // n_parts + (i < n % n_parts) for i in range(n_parts)]


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
    sizes = _shared_out(n, len(sets))
    return {name: draw_sample(name, size, seed) for name, size in zip(sets, sizes)}


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
    passport = Passport(pairs_drawn=sum(len(pairs) for pairs in samples.values()))
    tables_by_set = _ask(judge, samples, prompt, repeats, passport)
    _describe_replies(judge, samples, prompt, tables_by_set, passport)

    scored_samples = []
    all_pairs = []
    # Only judges that know all sets stand in the table. GPT-3.5 knows one set alone.
    with_gpt35 = len(samples) == 1
    for name, pairs in samples.items():
        recorded = pd.DataFrame()
        if name in ratings.RATED:
            recorded = _recorded_scores(judge, name, prompt, with_gpt35)
            all_pairs.append(_all_pairs(judge, name, prompt, recorded))
        scores = tables_by_set[name][0]["score_llm"].to_numpy(float)
        sample = _beside_recorded(judge, recorded, pairs, scores)
        scored_samples.append(sample)
        passport.pairs_scored += int(sample[judge.spec].count())
        if sample[judge.spec].nunique() == 1:
            passport.constant[name] = sample[judge.spec].dropna().iloc[0]

    judges = list(scored_samples[0].columns.drop(_OF_PAIRS))
    for sample in scored_samples[1:]:
        judges = [name for name in judges if name in sample]
    passport.agreement = _agreement(
        scored_samples, all_pairs, judges, passport.pairs_scored, resamples
    )
    sizes = [len(pairs) for pairs in samples.values()]
    passport.draws_differ_by = _draws_differ_by(all_pairs, judges, sizes)
    passport.contexts_to_show = _contexts_to_show(scored_samples, judge.spec)
    level = _level(scored_samples, judge.spec, resamples, seed)
    return dataclasses.replace(passport, **level)


def _ask(judge, samples, prompt, repeats, passport):
    """Return the tables of the replies to each sample, one for each repeat; count what they took.

    Of a recording the first replies are needed, and others are taken where it has them.
    """
    tables_by_set = {}
    seconds = 0.0
    with asking.one_run(judge):
        for name, pairs in samples.items():
            tables_by_set[name] = []
            for repeat in range(repeats):
                start = time.monotonic()
                is_extra = repeat > 0 and is_recording(judge.spec)
                ask = not passport.stopped and not is_extra
                table = judge.score(pairs, prompt, first=repeat, ask=ask)
                if is_extra and not np.any(table["n_samples"]):
                    continue
                if judge.last.calls:
                    seconds += time.monotonic() - start
                passport.count(judge.last)
                tables_by_set[name].append(table)
    if passport.calls:
        passport.seconds_per_1000 = 1000 * seconds / passport.calls
    return tables_by_set


def _describe_replies(judge, samples, prompt, tables_by_set, passport):
    """Fill in what the replies say of a judge, stored ones included."""
    correlations = []
    token_counts = []
    for name, tables in tables_by_set.items():
        first, *later = [table["score_llm"].astype(float) for table in tables]
        for scores in later:
            varies = first.nunique() > 1 and scores.nunique() > 1
            correlations.append(first.corr(scores, method="spearman") if varies else np.nan)
        for repeat in range(len(tables)):
            token_counts += _token_counts(judge, samples[name], prompt, repeat)
    passport.retest = _mean(correlations)
    passport.tokens_per_reply = _mean(token_counts)
    table = pd.concat([table for tables in tables_by_set.values() for table in tables])
    replies = table["n_samples"].sum()
    if np.any(replies):
        passport.malformed = 1 - table["n_ok"].sum() / replies
        passport.usd_per_1000 = 1000 * table["cost"].sum(min_count=1) / replies


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
    """Return `_OF_PAIRS` of a set, the scores of the judge, and those recorded for the same pairs.

    Scores are from 0 to 5, or NaN.
    """
    table = pairs.loc[:, _OF_PAIRS].assign(**{judge.spec: scores})
    return table.join(recorded).reset_index(drop=True)


def _scored_by(sample, judge):
    """Return a judge's scores without NaN, and people's ratings and the contexts of these."""
    scored = sample.dropna(subset=judge)
    return [scored[column].to_numpy() for column in (judge, "human", "context_id")]


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


def _agreement(samples, all_pairs, judges, pairs_scored, resamples):
    """Return the table `Passport.agreement`."""
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
                on_all_pairs = _on_own_pairs(all_pairs, judge, resamples)
                row.update(stats.interval(on_all_pairs, "all_pairs"))
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
        scored = sample.dropna(subset=judges)
        systems = scored["system"]
        numbers = scored[[*judges, "human"]]
        if view == "within":
            if systems.nunique() < 2:
                continue
            numbers = numbers - numbers.groupby(systems).transform("mean")
        if view == "machine":
            is_person = systems.isin(PEOPLE)
            if is_person.all() or not is_person.any():
                continue
            numbers = numbers[~is_person]
        if len(numbers):
            context_ids = scored.loc[numbers.index, "context_id"]
            draws = stats.draws(numbers[judges], numbers["human"], context_ids, n=resamples, seed=i)
        else:  # no pair has a score of every judge
            draws = np.full((1 + resamples, len(judges)), np.nan)
        draws_by_set.append(draws)
    if not draws_by_set:
        return None
    with np.errstate(invalid="ignore"):
        return np.mean(draws_by_set, axis=0)


def _on_own_pairs(samples, judge, resamples):
    """Correlate a judge with people on all pairs that it scored: mean over sets, (1 + resamples,).

    NaN if it scored no pair of a set.
    """
    draws_by_set = []
    for i, sample in enumerate(samples):
        scores, *people = _scored_by(sample, judge)
        if not len(scores):
            return np.full(1 + resamples, np.nan)
        draws_by_set.append(stats.draws(scores, *people, n=resamples, seed=i)[:, 0])
    return np.mean(draws_by_set, axis=0)


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


def _draws_differ_by(all_pairs, judges, sizes):
    """Return how far samples of these sizes lie from all pairs in 19 of 20 cases, in Spearman."""
    if not all_pairs:
        return np.nan
    draws = [
        [_draw(sample, size, seed) for sample, size in zip(all_pairs, sizes)]
        for seed in range(_OTHER_DRAWS)
    ]
    deviations = []
    for judge in judges:
        on_all_pairs = _on_own_pairs(all_pairs, judge, 0)
        for samples in draws:
            deviations.append(abs(_on_own_pairs(samples, judge, 0) - on_all_pairs)[0])
    return float(pd.Series(deviations).quantile(0.95))


def _mean(values):
    return float(np.mean(values)) if values else np.nan


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
    columns = ["context_id", "system", judge]
    tables = [sample[columns].assign(set=i) for i, sample in enumerate(samples)]
    scores = pd.concat(tables, ignore_index=True)
    scores = scores.rename(columns={judge: "score"}).dropna(subset="score")
    scores["score"] -= scores.groupby(["set", "system"])["score"].transform("mean")
    pairs = scores.merge(scores, on=["set", "context_id"])
    pairs = pairs[pairs["system_x"] < pairs["system_y"]]
    gaps = pd.Series(pairs["score_x"] - pairs["score_y"])
    if len(gaps) > 9:
        return cast(float, gaps.std())
    return float(np.sqrt(2) * pd.Series(scores["score"]).std())


def _level(samples, judge, resamples, seed):
    """Return how well an SLM must agree with people to help a judge: ``level, _low, _high``.

    Nothing is returned if the judge gives all replies of a set one score.

    The numbers of the SLM that `released.CLAUDE` was shown are dealt out anew in each set.
    """
    slm_numbers = recordings.numbers_shown().to_numpy()
    gains = []
    for sample in samples:
        scored = _scored_by(sample, judge)
        if len(set(scored[0])) < 2:
            return {}
        dealt = np.random.default_rng(seed).choice(slm_numbers, len(scored[0]))
        gain = what_if.gains(*scored, rows=dealt, shared=_SHARED_ERRORS, n=resamples, seed=seed)
        gains.append(gain)
    return what_if.crossing(np.mean(gains, axis=0))
