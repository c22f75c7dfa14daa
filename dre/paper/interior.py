"""Interior refinement: what a judge does with the numbers of a small model that it is shown.

The same pairs were asked of a strong and of a weak judge: plainly, twice; and with the numbers of
several small models. `rated_scores` gathers what a judge said, `effects` compares it with the judge
alone and with both parts, and `reactions` says how far the judge follows the numbers.
"""

import functools
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from scipy.stats import t as student

from dre import fusion, stats
from dre.datasets import ratings, recordings
from dre.judges import released
from dre.judges.recorded import Recorded
from dre.paper import plots
from dre.paper.methods import ALONE, WHOLE, Method
from dre.paper.table4 import RatedScores
from dre.tables import spread

WEAK = "qwen2.5-coder-1.5b"
STRONG = released.CLAUDE
#: What tables and figures call the two judges.
NAMES = {WEAK: "weak", STRONG: "strong"}
#: The prompt of the pairs that decided whether the weak judge was asked at all.
GATE_PROMPT = "llm_only_gate"
#: What the rows of the control are called, and those of numbers as good as printed.
OTHER = "another pair's"
AS_PRINTED = "as printed"
#: The numbers that are shown: what tables call them, and their file in the recording of `WEAK`.
NUMBERS = {
    "paper": "dre_inputs.csv",
    "ours": "dre_inputs_ours.csv",
    AS_PRINTED: "dre_as_printed.csv",
    OTHER: "dre_other.csv",
}
#: How much of the numbers is added to the judge's score where they only break its ties.
BREAKS_TIES = 0.0001
#: The family of the judge alone, whose ties the numbers break: a control.
WITHOUT_TIES = "Ties broken"
#: What the gain by good numbers and the harm by wrong ones add up to.
GAIN_AND_HARM = "gain as printed and harm by another pair's"
_TOP = 5  # of the judges' scale
_MEASURES = ("overall", "within_contexts")
_LEVEL = 0.95  # of intervals
_TITLE_WIDTH = 62  # characters: a wider title would shrink the figure on a phone
_FUSIONS = ("In-DRE", "Ex-DRE", "DRE")
#: What the figure draws of each judge, and of the numbers: look, legend and height.
_DRAWN = {
    "weak": (plots.JUDGE_LOOKS["open"], "the weak judge, shown them", 0.2),
    "strong": (plots.JUDGE_LOOKS["strong"], "the strong judge, shown them", -0.2),
}
_NUMBERS_ALONE = (plots.Look(plots.ORANGE, "s", ":"), "the numbers alone", 0.0)


class Askings(NamedTuple):
    """How a recorded judge was asked.

    Attributes
    ----------
    plain : pairs of a prompt's name and a repeat: the plain askings.
    interior : by `NUMBERS`, the name of the prompt that showed them.
    """

    plain: Sequence[tuple[str, int]]
    interior: Mapping[str, str]


#: By judge. The strong judge was never shown the numbers of recipe ``ours``. With those as printed
#: it was told the printed accuracies, too, as the weak one was with all numbers.
ASKINGS = {
    WEAK: Askings(
        [("llm_only", 0), ("llm_only_reworded", 0)],
        {"paper": "dre", "ours": "dre_ours", AS_PRINTED: "dre_as_printed", OTHER: "dre_other"},
    ),
    STRONG: Askings(
        [("llm_only", 0), ("llm_only", 1)],
        {"paper": "dre", AS_PRINTED: "dre_as_printed_accuracies", OTHER: "dre_other"},
    ),
}


class Judgements(NamedTuple):
    """What a judge said of the pairs of one set; every table has the rows of ``items``.

    Attributes
    ----------
    items : the pairs, with people's ratings, as `dre.datasets.ratings.rated` returns them.
    plain : the scores of the plain prompt, 0 to 5, a column for each asking.
    informed : by the numbers that were shown, a table of ``score`` (0 to 5), ``influence`` (0 to
        1), ``s_d`` and ``s_p``. What a reply lacks is NaN.
    """

    items: pd.DataFrame
    plain: pd.DataFrame
    informed: Mapping[str, pd.DataFrame]


# What was recorded


def asked_of_all(judge: str = WEAK) -> dict[str, pd.DataFrame]:
    """Return the pairs that a recorded judge was asked in every way in which it was asked at all.

    Returns
    -------
    By set, rows of `dre.datasets.ratings.rated`. Sets without such a pair are left out, and so all
    are where the recording has none of the prompts yet.

    Raises
    ------
    DreError
        If there is no such recording.
    """
    prompt_names = Recorded(judge).prompt_names
    askings = ASKINGS[judge]
    askings_in_order = [*askings.plain]
    for prompt in askings.interior.values():
        askings_in_order.append((prompt, 0))
    recorded = [(prompt, repeat) for prompt, repeat in askings_in_order if prompt in prompt_names]
    if not recorded:
        return {}
    items = {}
    for name in list(ratings.RATED)[:3]:
        table = ratings.rated(name)
        is_asked = np.ones(len(table), bool)
        for prompt, repeat in recorded:
            status = _score(judge, prompt, repeat, table)["status"]
            is_asked &= status.ne("missing").to_numpy()
        if is_asked.any():
            items[name] = table[is_asked].reset_index(drop=True)
    return items


def judgements(judge: str, items: Mapping[str, pd.DataFrame]) -> dict[str, Judgements]:
    """Return by set what a recorded judge said of some pairs.

    Parameters
    ----------
    judge : one of `ASKINGS`.
    items : what `asked_of_all` returned, so that every pair has its numbers.
    """
    askings = ASKINGS[judge]
    prompt_names = Recorded(judge).prompt_names
    by_set = {}
    for name, table in items.items():
        plain = {}
        for number, (prompt, repeat) in enumerate(askings.plain):
            plain[number] = _score(judge, prompt, repeat, table)["score_llm"]
        informed = {}
        for label, prompt in askings.interior.items():
            if prompt not in prompt_names:
                continue
            numbers = recordings.numbers_shown(WEAK, NUMBERS[label])
            numbers = numbers.loc[table["pair_id"]].reset_index(drop=True)
            verdicts = _score(judge, prompt, 0, table)
            numbers.insert(0, "score", verdicts["score_llm"])
            numbers.insert(1, "influence", verdicts["s_inf"])
            informed[label] = numbers
        by_set[name] = Judgements(table, pd.DataFrame(plain), informed)
    return by_set


def _score(judge, prompt, repeat, table):
    """The recorded verdicts; pairs that were not asked are ``missing``."""
    return Recorded(judge, repeat=repeat).score(table, prompt, ask=False)


# Agreement with people


def jackknife(by_set: Sequence[np.ndarray], name: str) -> dict[str, float]:
    """Return a mean over sets with an interval over contexts that also holds for few of them.

    A bootstrap of three contexts draws one of them alone in a ninth of its resamples. So each
    context is left out once, and Student's t has a degree of freedom for each context but the first
    of every set (Efron and Tibshirani 1993, chapter 11).

    Parameters
    ----------
    by_set : for each set (1 + contexts,): the number of all pairs, and without each context.
    name : what the number is called in a row of a table.

    Returns
    -------
    ``<name>, <name>_low, <name>_high``; the ends are NaN where a set has one context.
    """
    value = float(np.mean([numbers[0] for numbers in by_set]))
    variance = 0.0
    freedom = 0
    for _, *without in by_set:
        n_contexts = len(without)
        freedom += n_contexts - 1
        of_set = pd.Series(without, dtype=float).var(skipna=False)  # NaN of a single context
        variance += of_set * (n_contexts - 1) ** 2 / max(n_contexts, 1)
    deviation = np.sqrt(variance) / len(by_set)
    half = float(student.ppf((1 + _LEVEL) / 2, freedom) * deviation)
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def _without_each(contexts):
    """Yield which rows are used: all, and then those without each context."""
    values = np.asarray(contexts)
    yield np.ones(len(values), bool)
    for context in pd.unique(values):
        yield values != context


def _correlation(first, second, contexts=None):
    """Spearman's correlation; with numbers of contexts, less the mean rank of each context."""
    of_first = rankdata(first)
    of_second = rankdata(second)
    if contexts is not None:
        sizes = np.maximum(np.bincount(contexts), 1)
        of_first = of_first - (np.bincount(contexts, of_first) / sizes)[contexts]
        of_second = of_second - (np.bincount(contexts, of_second) / sizes)[contexts]
    of_first = of_first - of_first.mean()
    of_second = of_second - of_second.mean()
    size = np.sqrt(np.sum(of_first**2) * np.sum(of_second**2))
    if size == 0:
        return np.nan
    return float(np.sum(of_first * of_second) / size)


def _agreement(
    scores: RatedScores, name: str, method: Method, used_rows: bytes, measure: str
) -> np.ndarray:
    """How well a method agrees with people on a set: (1 + contexts,), see `_without_each`.

    Its askings are averaged. ``used_rows`` are truth values as bytes, by which it is remembered.
    """
    is_used = np.frombuffer(used_rows, bool)
    pairs = scores.items[name][is_used]
    people = np.asarray(pairs["human"])
    askings = scores.of(name, method)[is_used].to_numpy().T
    numbers, _ = pd.factorize(pairs["context_id"])
    agreement = []
    for chosen in _without_each(numbers):
        contexts = numbers[chosen] if measure == "within_contexts" else None
        of_askings = [_correlation(asking[chosen], people[chosen], contexts) for asking in askings]
        agreement.append(np.mean(of_askings))
    return np.array(agreement)


def rated_scores(judge: str, by_set: Mapping[str, Judgements]) -> RatedScores:
    """Return the scores of a judge, of what it was shown, and of their fusions.

    By family: the judge alone and `Ex-DRE`, a column for each plain asking; the numbers alone
    (`dre.paper.methods.WHOLE`); ``SLIDE``; ``In-DRE``; ``DRE``, with reading ``c`` also where the
    influence counts; and `WITHOUT_TIES`, the judge alone, whose ties the numbers break.
    """
    items = {name: of_set.items for name, of_set in by_set.items()}
    scores = RatedScores(items, resamples=0)
    for name, of_set in by_set.items():
        scores.add(name, Method(ALONE, judge), of_set.plain)
        for source, table in of_set.informed.items():
            _add_fusions(scores, name, judge, source, of_set.plain, table)
    return scores


def _add_fusions(scores, name, judge, source, plain, informed):
    """Add what `rated_scores` says of one kind of numbers, on one set."""
    score = informed["score"]
    s_d = informed["s_d"]
    s_p = informed["s_p"]
    s_c = fusion.s_c(s_d, s_p)
    scores.add(name, Method(WHOLE, slm=source), s_c)
    by_family = {
        "In-DRE": score,
        "Ex-DRE": plain.mul(s_c, axis=0),
        "SLIDE": [fusion.slide(s_c, asking) for _, asking in plain.items()],
        "DRE": fusion.dre(s_d, s_p, score),
        WITHOUT_TIES: plain.add(BREAKS_TIES * s_c, axis=0),
    }
    for family, fused in by_family.items():
        scores.add(name, Method(family, judge, source), fused)
    reading_c = fusion.dre(s_d, s_p, score, informed["influence"], "c")
    scores.add(name, Method("DRE", judge, source, "c"), reading_c)


def comparisons(judge: str, source: str) -> dict[str, tuple[Method, Method]]:
    """Return what is compared with what, for one kind of numbers: methods of `rated_scores`."""
    alone = Method(ALONE, judge)
    slm = Method(WHOLE, slm=source)
    in_dre = Method("In-DRE", judge, source)
    ex_dre = Method("Ex-DRE", judge, source)
    dre = Method("DRE", judge, source)
    slide = Method("SLIDE", judge, source)
    without_ties = Method(WITHOUT_TIES, judge, source)
    compared = {}
    for method in (in_dre, ex_dre, dre):
        compared[f"{method.family} less the judge"] = (method, alone)
        compared[f"{method.family} less the small model"] = (method, slm)
        compared[f"{method.family} less broken ties"] = (method, without_ties)
    compared["DRE less Ex-DRE"] = (dre, ex_dre)
    compared["DRE less SLIDE"] = (dre, slide)
    if source != OTHER:
        other = Method("In-DRE", judge, OTHER)
        compared["In-DRE less another pair's numbers"] = (in_dre, other)
    compared["broken ties less the judge"] = (without_ties, alone)
    compared["the small model less the judge"] = (slm, alone)
    return compared


def effects(judge: str, scores: RatedScores) -> pd.DataFrame:
    """Compare what a judge says with numbers with itself alone, and with both parts.

    The plain askings are averaged.

    Returns
    -------
    Columns ``judge, numbers, comparison``; ``measure``, ``overall`` or ``within_contexts``; one for
    each set by its title, and ``pooled``, all with intervals (95 %, `jackknife`); ``seen``, the
    pooled difference that would have been seen with a power of 80 %; ``pairs`` and ``contexts``,
    how many both methods have scored (contexts by set, in words). The comparison `GAIN_AND_HARM`
    adds what the judge gains by numbers as printed to what it loses by those of another pair: above
    zero the gain is larger.
    """
    sources = [method.slm for method in scores.methods if method.family == WHOLE]
    compared = []  # numbers, label, and the differences of two methods that are added up
    for source in sources:
        for label, two_methods in comparisons(judge, source).items():
            compared.append((source, label, [two_methods]))
    if {AS_PRINTED, OTHER} <= set(sources):
        alone = Method(ALONE, judge)
        both = [(Method("In-DRE", judge, source), alone) for source in (AS_PRINTED, OTHER)]
        compared.append((AS_PRINTED, GAIN_AND_HARM, both))
    rows = []
    agreement = functools.cache(functools.partial(_agreement, scores))
    for source, label, differences in compared:
        for measure in _MEASURES:
            row = {"judge": judge, "numbers": source, "comparison": label, "measure": measure}
            row |= _difference(scores, differences, measure, agreement)
            if "pooled" in row:
                rows.append(row)
    return pd.DataFrame(rows)


def _difference(scores, differences, measure, agreement) -> dict:
    """The sum of the differences of two methods each in one measure, by set and pooled."""
    row = {}
    compared = dict.fromkeys(method for two_methods in differences for method in two_methods)
    of_sets = []
    n_pairs = 0
    for name in scores.items:
        if not scores.has(name, *compared):
            continue
        is_used = scores.is_scored(name, *compared)
        used_rows = is_used.tobytes()
        of_set = np.zeros(1)
        for first, second in differences:
            of_first = agreement(name, first, used_rows, measure)
            of_second = agreement(name, second, used_rows, measure)
            of_set = of_set + of_first - of_second
        row |= jackknife([of_set], ratings.RATED[name])
        of_sets.append(of_set)
        n_pairs += int(is_used.sum())
    if of_sets:
        row |= jackknife(of_sets, "pooled")
        row["seen"] = stats.smallest_seen(row["pooled_low"], row["pooled_high"])
        row["pairs"] = n_pairs
        row["contexts"] = " / ".join(str(len(of_set) - 1) for of_set in of_sets)
    return row


def gate() -> dict[str, float]:
    """Return how well the weak judge agrees with people on the pairs of the gate, mean of sets.

    Returns
    -------
    ``gate, gate_low, gate_high`` (Spearman, 95 % over contexts) and ``pairs``.
    """
    of_sets = []
    n_pairs = 0
    for name in list(ratings.RATED)[:3]:
        table = ratings.rated(name)
        score = _score(WEAK, GATE_PROMPT, 0, table)["score_llm"]
        scored = table.assign(score=score).dropna(subset=["score", "human"])
        n_pairs += len(scored)
        samples = [scored[chosen] for chosen in _without_each(scored["context_id"])]
        numbers = [_correlation(sample["score"], sample["human"]) for sample in samples]
        of_sets.append(np.array(numbers))
    return jackknife(of_sets, "gate") | {"pairs": n_pairs}


def agreements(judge: str, scores: RatedScores) -> pd.DataFrame:
    """Return how well a judge agrees with people alone and by what it was shown, mean of sets.

    Returns
    -------
    A row for the judge alone, whose ``numbers`` are ``nothing``, and one for each kind of numbers.
    Columns ``judge, numbers``, ``alone`` (the numbers by themselves), ``In-DRE``, ``Ex-DRE`` and
    ``DRE``, all Spearman with intervals (95 %). That of the judge alone stands under ``In-DRE``.
    """

    def agreement(method: Method, name: str) -> dict[str, float]:
        of_sets = []
        for set_name in scores.items:
            used_rows = scores.is_scored(set_name, method).tobytes()
            of_sets.append(_agreement(scores, set_name, method, used_rows, "overall"))
        return jackknife(of_sets, name)

    rows = [{"judge": judge, "numbers": "nothing"} | agreement(Method(ALONE, judge), "In-DRE")]
    for method in scores.methods:
        if method.family == WHOLE:
            row = {"judge": judge, "numbers": method.slm} | agreement(method, "alone")
            for family in _FUSIONS:
                row |= agreement(Method(family, judge, method.slm), family)
            rows.append(row)
    return pd.DataFrame(rows)


def wide_effects(table: pd.DataFrame) -> pd.DataFrame:
    """Return what `effects` returned with a row for each comparison.

    Returns
    -------
    Columns ``judge, numbers, comparison``, the pooled difference ``overall`` and
    ``within_contexts``, with intervals, ``seen`` and ``seen_within``, ``pairs`` and ``contexts``.
    """
    endings = {"": "pooled", "_low": "pooled_low", "_high": "pooled_high"}
    endings |= {f" {column}": column for column in ("seen", "pairs", "contexts")}
    wide = spread(table, ["judge", "numbers", "comparison"], "measure", endings)
    # Pairs and contexts are those of both measures.
    wide = wide.rename(columns={"within_contexts seen": "seen_within"})
    wide = wide.rename(columns=lambda column: column.removeprefix("overall "))
    return wide.loc[:, [column for column in wide if " " not in column]]


# What a judge does with the numbers


def pull(plain: ArrayLike, informed: ArrayLike, s_c: ArrayLike) -> float:
    """Return how far shown numbers pull a judge's score: 0 not at all, 1 all the way.

    It is the slope b of the regression (informed - plain) / 5 = a + c plain / 5 + b s_c / 2.

    Parameters
    ----------
    plain : (rows,), the judge's score without numbers, 0 to 5.
    informed : (rows,), its score with them.
    s_c : (rows,), the sum of the numbers that were shown, 0 to 2.

    Returns
    -------
    The slope; NaN where the rows lie on a line.
    """
    scaled_plain = np.asarray(plain) / _TOP
    move = np.asarray(informed) / _TOP - scaled_plain
    predictors = np.column_stack([np.ones(len(move)), scaled_plain, np.asarray(s_c) / 2])
    slopes, _, rank, _ = np.linalg.lstsq(predictors, move)
    if rank < predictors.shape[1]:
        return np.nan
    return float(slopes[2])


def reactions(judge: str, by_set: Mapping[str, Judgements]) -> pd.DataFrame:
    """Return how far a judge follows the numbers that it is shown, and what its influence says.

    Returns
    -------
    A row for each kind of numbers, means over sets with intervals (95 %, `jackknife`). Columns:

    - ``judge, numbers``; ``pull``, see `pull`
    - ``follows``: the Spearman correlation of the score with the sum that was shown
    - ``copies``: that correlation less the one of the judge's own plain score with the same sum
    - ``keeps``: that of the score with the judge's own plain score, the mean of all askings
    - ``influence``: its mean
    - ``moves``: the Spearman correlation of the influence with how far the score moved from the
      plain one; NaN where the influence never varies
    """
    labels = dict.fromkeys(label for of_set in by_set.values() for label in of_set.informed)
    rows = []
    for source in labels:
        of_sets = [_reactions_on_set(of_set, source) for of_set in by_set.values()]
        row = {"judge": judge, "numbers": source}
        for measure in of_sets[0]:
            numbers = [of_set[measure].to_numpy() for of_set in of_sets]
            row |= jackknife(numbers, str(measure))
        rows.append(row)
    return pd.DataFrame(rows)


def _reactions_on_set(of_set, source):
    """Every number of `reactions` on one set, a row for each part of `_without_each`."""
    table = of_set.informed[source]
    pairs = pd.DataFrame(
        {
            "score": table["score"],
            "s_c": fusion.s_c(table["s_d"], table["s_p"]),
            "plain": of_set.plain.mean(axis=1, skipna=False),
            "influence": table["influence"],
            "context": of_set.items["context_id"],
        }
    ).dropna()
    pairs["moved"] = (pairs["score"] - pairs["plain"]).abs()
    rows = []
    for chosen in _without_each(pairs["context"]):
        sample = pairs[chosen]
        follows = _correlation(sample["score"], sample["s_c"])
        row = {
            "pull": pull(sample["plain"], sample["score"], sample["s_c"]),
            "follows": follows,
            "copies": follows - _correlation(sample["plain"], sample["s_c"]),
            "keeps": _correlation(sample["score"], sample["plain"]),
            "influence": sample["influence"].mean(),
            "moves": _correlation(sample["influence"], sample["moved"]),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def both() -> dict[str, pd.DataFrame]:
    """Return every table of this module for both judges, on the pairs that the weak one was asked.

    Returns
    -------
    ``effects, agreements`` and ``reactions``: the tables of the functions of these names, one judge
    below the other, called by `NAMES`. Empty where there is no such pair.
    """
    items = asked_of_all(WEAK)
    if not items:
        return {}
    of_judges = []
    for judge in NAMES:
        by_set = judgements(judge, items)
        scores = rated_scores(judge, by_set)
        tables = (effects(judge, scores), agreements(judge, scores), reactions(judge, by_set))
        of_judges.append(tables)
    below = [pd.concat(tables, ignore_index=True) for tables in zip(*of_judges)]
    renamed = [table.replace({"judge": NAMES}) for table in below]
    return dict(zip(("effects", "agreements", "reactions"), renamed))


# In a figure


def side_by_side(table: pd.DataFrame, title: str) -> Figure:
    """Draw how the judges agree with people alone, and shown several numbers: a row for each kind.

    Parameters
    ----------
    table : what `agreements` returned, for judges called as in `NAMES`.
    title : the title.
    """
    labels = list(dict.fromkeys(table["numbers"]))
    fig, ax = plt.subplots(figsize=(5.6, 3.8))

    def draw(rows, column, look, legend, offset, filled=True):
        y = rows["numbers"].map(labels.index) + offset
        plots.whiskers(ax, rows, y, look.colour, column, look.marker, legend, filled=filled)

    for judge, (look, legend, offset) in _DRAWN.items():
        rows = table[table["judge"] == judge]
        draw(rows, "In-DRE", look, legend, offset)
        judge_alone = rows.loc[rows["numbers"] == "nothing", "In-DRE"].item()
        ax.axvline(judge_alone, color=look.colour, linewidth=0.9, linestyle=look.line)
    numbers_alone = table.dropna(subset=["alone"]).drop_duplicates("numbers")
    draw(numbers_alone, "alone", *_NUMBERS_ALONE, filled=False)
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set(xlabel="Spearman correlation with people", ylabel="numbers shown")
    ax.grid(axis="y", visible=False)
    lines = [textwrap.fill(line, _TITLE_WIDTH) for line in title.splitlines()]
    fig.suptitle("\n".join(lines))
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig
