"""Interior refinement: what a judge does with the numbers of a small model that it is shown.

The same pairs were asked of a strong and of a weak judge: plainly, twice; and with the numbers of
several small models. `rated_scores` gathers what a judge said, `effects` compares it with the judge
alone and with both parts, and `reactions` says how far the judge follows the numbers.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dre import fusion, stats
from dre.datasets import ratings, recordings
from dre.errors import DreError
from dre.judges import released
from dre.judges.recorded import Recorded
from dre.paper import plots
from dre.paper.methods import ALONE, WHOLE, Method
from dre.paper.table4 import RatedScores, apart

WEAK = "qwen2.5-coder-1.5b"
STRONG = released.CLAUDE
#: What the rows of the control are called.
OTHER = "another pair's"
#: The numbers that are shown: what tables call them, and their file in the recording of `WEAK`.
NUMBERS = {
    "paper": "dre_inputs.csv",
    "ours": "dre_inputs_ours.csv",
    "as printed": "dre_as_printed.csv",
    OTHER: "dre_other.csv",
}
#: How much of the numbers is added to the judge's score where they only break its ties.
BREAKS_TIES = 0.0001
#: The family of the judge alone, whose ties the numbers break: a control.
WITHOUT_TIES = "Ties broken"
_TOP = 5  # of the judges' scale
_MEASURES = ("overall", "within_contexts")
_FUSIONS = ("In-DRE", "Ex-DRE", "DRE")
#: What the figure draws: columns of `agreements`, with colour, mark, legend and height.
_DRAWN = {
    "In-DRE": (plots.BLUE, "o", "the judge that was shown them", -0.12),
    "alone": (plots.ORANGE, "s", "the numbers alone", 0.12),
}


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
        {"paper": "dre", "ours": "dre_ours", "as printed": "dre_as_printed", OTHER: "dre_other"},
    ),
    STRONG: Askings(
        [("llm_only", 0), ("llm_only", 1)],
        {"paper": "dre", "as printed": "dre_as_printed_accuracies", OTHER: "dre_other"},
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
    By set, rows of `dre.datasets.ratings.rated`. Sets without such a pair are left out.

    Raises
    ------
    DreError
        If there is no such recording, or it has none of the prompts.
    """
    prompt_names = Recorded(judge).prompt_names
    askings = ASKINGS[judge]
    askings_in_order = [*askings.plain, *((prompt, 0) for prompt in askings.interior.values())]
    recorded = [(prompt, repeat) for prompt, repeat in askings_in_order if prompt in prompt_names]
    if not recorded:
        expected = ", ".join(prompt for prompt, _ in askings_in_order)
        raise DreError(
            f"the recording {judge} has none of the prompts {expected}: it was asked with "
            f"{', '.join(sorted(prompt_names))}"
        )
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


def rated_scores(
    judge: str, by_set: Mapping[str, Judgements], resamples: int = 1000
) -> RatedScores:
    """Return the scores of a judge, of what it was shown, and of their fusions.

    By family: the judge alone and `Ex-DRE`, a column for each plain asking; the numbers alone
    (`dre.paper.methods.WHOLE`); ``In-DRE``; ``DRE``, with reading ``c`` also where the influence
    counts; and `WITHOUT_TIES`, the judge alone, whose ties the numbers break.
    """
    items = {name: of_set.items for name, of_set in by_set.items()}
    scores = RatedScores(items, resamples)
    for name, of_set in by_set.items():
        scores.add(name, Method(ALONE, judge), of_set.plain)
        for source, table in of_set.informed.items():
            s_d = pd.Series(table["s_d"])
            s_p = pd.Series(table["s_p"])
            score = pd.Series(table["score"])
            influence = pd.Series(table["influence"])
            s_c = fusion.s_c(s_d, s_p)
            scores.add(name, Method(WHOLE, slm=source), s_c)
            scores.add(name, Method("In-DRE", judge, source), score)
            scores.add(name, Method("Ex-DRE", judge, source), of_set.plain.mul(s_c, axis=0))
            product = fusion.dre(s_d, s_p, score)
            scores.add(name, Method("DRE", judge, source), product)
            reading_c = fusion.dre(s_d, s_p, score, influence, "c")
            scores.add(name, Method("DRE", judge, source, "c"), reading_c)
            without_ties = of_set.plain.add(BREAKS_TIES * s_c, axis=0)
            scores.add(name, Method(WITHOUT_TIES, judge, source), without_ties)
    return scores


def comparisons(judge: str, source: str) -> dict[str, tuple[Method, Method]]:
    """Return what is compared with what, for one kind of numbers: methods of `rated_scores`."""
    alone = Method(ALONE, judge)
    slm = Method(WHOLE, slm=source)
    in_dre = Method("In-DRE", judge, source)
    ex_dre = Method("Ex-DRE", judge, source)
    dre = Method("DRE", judge, source)
    without_ties = Method(WITHOUT_TIES, judge, source)
    compared = {}
    for method in (in_dre, ex_dre, dre):
        compared[f"{method.family} less the judge"] = (method, alone)
        compared[f"{method.family} less the small model"] = (method, slm)
    compared["DRE less Ex-DRE"] = (dre, ex_dre)
    if source != OTHER:
        other = Method("In-DRE", judge, OTHER)
        compared["In-DRE less another pair's numbers"] = (in_dre, other)
    compared["Ex-DRE less broken ties"] = (ex_dre, without_ties)
    compared["broken ties less the judge"] = (without_ties, alone)
    compared["the small model less the judge"] = (slm, alone)
    return compared


def effects(judge: str, scores: RatedScores) -> pd.DataFrame:
    """Compare what a judge says with numbers with itself alone, and with both parts.

    The askings of two methods are drawn apart, as `dre.paper.table4.differences` does it.

    Returns
    -------
    Columns ``judge, numbers, comparison``; ``measure``, ``overall`` or ``within_contexts``; one for
    each set by its title, and ``pooled``, all with intervals (95 %, over contexts and askings);
    ``seen``, the pooled difference that would have been seen with a power of 80 %; ``pairs``, how
    many pairs both methods have scored.
    """
    rows = []
    sources = [method.slm for method in scores.methods if method.family == WHOLE]
    for source in sources:
        for label, (first, second) in comparisons(judge, source).items():
            for measure in _MEASURES:
                row = {"judge": judge, "numbers": source, "comparison": label, "measure": measure}
                row |= _difference(scores, first, second, measure)
                if "pooled" in row:
                    rows.append(row)
    return pd.DataFrame(rows)


def _difference(scores, first, second, measure) -> dict[str, float]:
    """The difference of two methods in one measure, by set and pooled."""
    row: dict[str, float] = {}
    of_first = []
    of_second = []
    n_pairs = 0
    for name, table in scores.items.items():
        if not scores.has(name, first, second):
            continue
        of_first.append(scores.agreement(name, first, [second], [measure])[measure])
        of_second.append(scores.agreement(name, second, [first], [measure])[measure])
        row |= stats.interval(apart(of_first[-1], of_second[-1]), ratings.RATED[name])
        both = pd.concat([scores.of(name, first), scores.of(name, second)], axis=1)
        n_pairs += int((both.notna().all(axis=1) & table["human"].notna()).sum())
    if not of_first:
        return row
    pooled = apart(np.mean(of_first, axis=0), np.mean(of_second, axis=0))
    row |= stats.interval(pooled, "pooled")
    row["seen"] = stats.smallest_seen(row["pooled_low"], row["pooled_high"])
    row["pairs"] = n_pairs
    return row


def agreements(judge: str, scores: RatedScores) -> pd.DataFrame:
    """Return how well a judge agrees with people alone and by what it was shown, mean of sets.

    Returns
    -------
    A row for the judge alone, whose ``numbers`` are ``nothing``, and one for each kind of numbers.
    Columns ``judge, numbers``, ``alone`` (the numbers by themselves), ``In-DRE``, ``Ex-DRE`` and
    ``DRE``, all Spearman with intervals (95 %). That of the judge alone stands under ``In-DRE``.
    """
    alone = scores.mean_agreement(Method(ALONE, judge))
    rows = [{"judge": judge, "numbers": "nothing"} | stats.interval(alone, "In-DRE")]
    for method in scores.methods:
        if method.family != WHOLE:
            continue
        row = {"judge": judge, "numbers": method.slm}
        row |= stats.interval(scores.mean_agreement(method), "alone")
        for family in _FUSIONS:
            draws = scores.mean_agreement(Method(family, judge, method.slm))
            row |= stats.interval(draws, family)
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.drop(columns=[column for column in table if str(column).endswith("_sd")])


# What a judge does with the numbers


def pull(
    plain: pd.Series, informed: pd.Series, s_c: pd.Series, contexts: pd.Series, n: int = 1000
) -> np.ndarray:
    """Return how far shown numbers pull a judge's score: 0 not at all, 1 all the way.

    It is the slope b of the regression (informed - plain) / 5 = a + c plain / 5 + b s_c / 2.

    Parameters
    ----------
    plain : (rows,), the judge's score without numbers, 0 to 5.
    informed : (rows,), its score with them.
    s_c : (rows,), the sum of the numbers that were shown, 0 to 2.
    contexts : (rows,), the context of each row.
    n : resamples of contexts.

    Returns
    -------
    (1 + n,) array, for `dre.stats.interval`; the first number is of the data.
    """
    weights = stats.context_weights(contexts, n)
    is_used = (plain.notna() & informed.notna()).to_numpy()
    weights = weights[:, is_used]
    scaled_plain = plain.to_numpy()[is_used] / _TOP
    move = informed.to_numpy()[is_used] / _TOP - scaled_plain
    ones = np.ones(len(move))
    predictors = np.column_stack([ones, scaled_plain, s_c.to_numpy()[is_used] / 2])
    # The normal equations of weighted least squares, in each resample.
    gram = np.einsum("rn,ni,nj->rij", weights, predictors, predictors)
    moments = (weights * move) @ predictors
    slopes = np.linalg.solve(gram, moments[..., None])
    return slopes[:, 2, 0]


def reactions(judge: str, by_set: Mapping[str, Judgements], resamples: int = 1000) -> pd.DataFrame:
    """Return how far a judge follows the numbers that it is shown, and what its influence says.

    Returns
    -------
    A row for each kind of numbers, means over sets with intervals (95 %, over contexts). Columns:

    - ``judge, numbers``; ``pull``, see `pull`
    - ``follows``: the Spearman correlation of the score with the sum that was shown
    - ``keeps``: that of the score with the judge's own plain score, the mean of all askings
    - ``influence``: its mean
    - ``moves``: the Spearman correlation of the influence with how far the score moved from the
      plain one; NaN where the influence never varies
    """
    labels = [*dict.fromkeys(label for of_set in by_set.values() for label in of_set.informed)]
    rows = []
    for source in labels:
        draws: dict[str, list[np.ndarray]] = {}
        for seed, of_set in enumerate(by_set.values()):
            for what, values in _reactions_on_set(of_set, source, resamples, seed).items():
                draws.setdefault(what, []).append(values)
        row: dict[str, object] = {"judge": judge, "numbers": source}
        for what, of_sets in draws.items():
            row |= stats.interval(np.mean(of_sets, axis=0), what)
        rows.append(row)
    return pd.DataFrame(rows)


def _reactions_on_set(of_set, source, resamples, seed) -> dict[str, np.ndarray]:
    """The draws of every number of `reactions` on one set."""
    table = of_set.informed[source]
    plain = of_set.plain.mean(axis=1, skipna=False)
    score = table["score"]
    s_c = fusion.s_c(table["s_d"], table["s_p"])
    contexts = of_set.items["context_id"]
    is_used = plain.notna() & score.notna() & table["influence"].notna()
    used = {
        "score": score[is_used],
        "s_c": s_c[is_used],
        "plain": plain[is_used],
        "influence": table.loc[is_used, "influence"],
    }
    used["moved"] = (used["score"] - used["plain"]).abs()

    def correlation(first: str, second: str) -> np.ndarray:
        arguments = (used[first], used[second], contexts[is_used])
        return stats.draws(*arguments, n=resamples, seed=seed)[:, 0]

    weights = stats.context_weights(contexts[is_used], resamples, seed)
    mean_influence = weights @ used["influence"].to_numpy() / weights.sum(axis=1)
    return {
        "pull": pull(plain[is_used], score[is_used], s_c[is_used], contexts[is_used], resamples),
        "follows": correlation("score", "s_c"),
        "keeps": correlation("score", "plain"),
        "influence": mean_influence,
        "moves": correlation("influence", "moved"),
    }


def both(resamples: int = 1000) -> dict[str, pd.DataFrame]:
    """Return every table of this module for both judges, on the pairs that the weak one was asked.

    Returns
    -------
    ``effects, agreements`` and ``reactions``: the tables of the functions of these names, one judge
    below the other.
    """
    items = asked_of_all(WEAK)
    tables: dict[str, list[pd.DataFrame]] = {}
    for judge in (WEAK, STRONG):
        by_set = judgements(judge, items)
        scores = rated_scores(judge, by_set, resamples)
        tables.setdefault("effects", []).append(effects(judge, scores))
        tables.setdefault("agreements", []).append(agreements(judge, scores))
        tables.setdefault("reactions", []).append(reactions(judge, by_set, resamples))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}


# In a figure


def side_by_side(table: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """Draw how judges agree with people alone, and shown several numbers: a panel for each judge.

    Parameters
    ----------
    table : what `agreements` returned, for all judges.
    names : by judge, the title of its panel.
    """
    labels = list(dict.fromkeys(table["numbers"]))
    fig, grid = plt.subplots(1, len(names), figsize=(8.0, 3.2), sharey=True, squeeze=False)
    axes = grid[0]
    for ax, (judge, title) in zip(axes, names.items()):
        of_judge = pd.DataFrame(table[table["judge"] == judge])
        judge_alone = of_judge.loc[of_judge["numbers"] == "nothing", "In-DRE"].item()
        ax.axvline(judge_alone, color="0.3", linewidth=0.9, linestyle="--")
        for column, (colour, marker, legend, offset) in _DRAWN.items():
            rows = of_judge.dropna(subset=[column])
            y = pd.Series(rows["numbers"]).map(labels.index) + offset
            plots.whiskers(ax, rows, y, colour, column, marker, legend)
        ax.set_title(title, fontweight="normal")
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("Spearman correlation with people")
    axes[0].set_yticks(np.arange(len(labels)), labels)
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    axes[0].set_ylabel("numbers shown")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig
