"""Table 4: what every method says of the rated sets, and how that agrees with people.

`RatedScores` holds the scores. `fusion_gains` compares each fusion with both of its parts, and
`class_means` pools these gains over judges of one strength.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import cast

import numpy as np
import pandas as pd

from dre import fusion, stats
from dre.datasets import ratings
from dre.judges import released
from dre.paper.judgements import PanelJudge
from dre.paper.profile import Profile
from dre.slm import trained
from dre.tables import number

#: What the authors of the rated sets call people among their systems.
PEOPLE = ("Original Ground Truth", "New Human Generated")
#: The criteria whose mean is the papers' human score, by their columns and highest ratings.
#: Ratings begin at 1, those of "uses knowledge" at 0.
_PAPERS_CRITERIA = {
    "natural": (1, 3),
    "maintains_context": (1, 3),
    "engaging": (1, 3),
    "uses_knowledge": (0, 1),
}
#: What a fusion is compared with, as columns and legends call it.
PARTS = ("judge", "small model", "better part")
STRENGTHS = ("open", "middle", "current")
#: The paper's methods that ask for one criterion at a time, and the prompts.
_PROMPTS_OF_CRITERIA = {"G-EVAL": "geval", "LLM-Chiang": "analyse_rate"}
#: The classes over which gains are pooled.
CLASSES = {strength: [strength] for strength in STRENGTHS} | {
    "all but current": ["open", "middle"],
    "all": list(STRENGTHS),
}


@dataclass(frozen=True)
class Method:
    """What a method is made of: its family, its judge and the small model behind it, if any."""

    family: str
    judge: str = ""
    slm: str = ""


class RatedScores:
    """The scores of methods on rated sets; agreements with people are computed once and kept.

    Parameters
    ----------
    items : dict
        By set, the table of its rated responses.
    resamples : int
        Of contexts, for intervals. A set has its own draws, the same ones for all methods.
    """

    def __init__(self, items: Mapping[str, pd.DataFrame], resamples: int):
        self.items = dict(items)
        self.resamples = resamples
        self.methods: dict[str, Method] = {}
        self.scores: dict[str, dict[str, pd.DataFrame]] = {name: {} for name in items}
        self._agreements: dict[tuple, dict[str, np.ndarray]] = {}

    def add(
        self,
        name: str,
        score: pd.Series | pd.DataFrame | Sequence[pd.Series],
        family: str,
        judge: str = "",
        slm: str = "",
        method: str = "",
    ) -> None:
        """Keep the scores of a method on a set.

        Parameters
        ----------
        name : str
            The set.
        score : Series, or list of Series, or DataFrame
            One score for each row of the set, or one such column for each training seed.
        family, judge, slm : str
            What the method is made of. By default its name is ``family (judge), slm``.
        method : str
            Another name.
        """
        if not method:
            method = f"{family} ({judge})" if judge else family
            method += f", {slm}" if slm else ""
        columns = pd.concat(score, axis=1) if isinstance(score, list) else pd.DataFrame(score)
        columns = columns.set_axis(range(columns.shape[1]), axis=1).astype(float)
        self.scores[name][method] = columns.set_axis(self.items[name].index)
        self.methods[method] = Method(family, judge, slm)

    def has(self, name: str, *methods: str) -> bool:
        """Return whether all of these methods have scored a set."""
        return all(method in self.scores[name] for method in methods)

    def agreement(
        self,
        name: str,
        method: str,
        among: Sequence[str] = (),
        measures: Sequence[str] = ("overall",),
    ) -> dict[str, np.ndarray]:
        """Return how a method agrees with people on a set, as `dre.stats.agreements` does.

        Parameters
        ----------
        name, method : str
        among : list of str
            Only rows count that these methods have scored, too.
        measures : list of str
            Which of `dre.stats.MEASURES`.
        """
        is_used = self._is_scored(name, method, *among)
        known = self._agreements.setdefault((name, method, is_used.tobytes()), {})
        missing = [measure for measure in measures if measure not in known]
        if missing:
            table = self.items[name]
            all_scores = self.scores[name][method].to_numpy()
            known |= stats.agreements(
                np.where(is_used[:, None], all_scores, np.nan),
                table["human"],
                table["context_id"],
                table["system"],
                self.resamples,
                seed=list(self.items).index(name),
                measures=missing,
            )
        return {measure: known[measure] for measure in measures}

    def gain(self, name: str, method: str, less: str) -> dict[str, np.ndarray]:
        """Return by measure the agreement of one method minus that of another, on shared rows."""
        of_method = self.agreement(name, method, [less], stats.MEASURES)
        of_other = self.agreement(name, less, [method], stats.MEASURES)
        return {measure: of_method[measure] - of_other[measure] for measure in stats.MEASURES}

    def mean_agreement(self, method: str) -> np.ndarray:
        """Return the mean correlation over the sets that a method has scored: (1 + n, seeds)."""
        by_set = []
        for name in self.items:
            if self.has(name, method):
                by_set.append(self.agreement(name, method)["overall"])
        return np.mean(np.broadcast_arrays(*by_set), axis=0)

    def mean_gain(self, method: str, less: str) -> np.ndarray:
        """Return the mean over sets of what one method has over another: (1 + n, seeds)."""
        gains = [self.gain(name, method, less)["overall"] for name in self.items]
        return np.mean(np.broadcast_arrays(*gains), axis=0)

    def correlations(self, statistic: str = "spearman") -> pd.DataFrame:
        """Return a row for each method: its correlation on each set, with the interval.

        Columns are ``method`` and, for each set by its title, ``<title>``, ``<title>_low`` and so
        on.
        """
        rows = []
        for method in self.methods:
            row: dict[str, object] = {"method": method}
            for name in self.items:
                if self.has(name, method):
                    draws = self._correlation(name, method, statistic)
                    row |= stats.interval(draws, ratings.RATED[name])
            rows.append(row)
        return pd.DataFrame(rows)

    def _correlation(self, name, method, statistic):
        if statistic == "spearman":
            return self.agreement(name, method)["overall"]
        is_used = self._is_scored(name, method)
        table = self.items[name][is_used]
        scores = self.scores[name][method][is_used]
        people = table["human"], table["context_id"]
        seed = list(self.items).index(name)
        return stats.draws(scores, *people, statistic, self.resamples, seed)

    def _is_scored(self, name, *methods):
        """Return a mask of the rows of a set that people and all of these methods scored."""
        is_scored = self.items[name]["human"].notna()
        for method in methods:
            is_scored &= self.scores[name][method].notna().all(axis=1)
        return is_scored.to_numpy()


def plain_scores(
    panel: Sequence[PanelJudge], items: Mapping[str, pd.DataFrame]
) -> dict[str, dict[str, pd.Series]]:
    """Return what every judge says of each set with its plain prompt, on 0 to 5.

    These are the judges of the profile, and those whose scores others released.

    Returns
    -------
    By set, then by judge, a Series with the index of the set.
    """
    by_set: dict[str, dict[str, pd.Series]] = {}
    for name, table in items.items():
        by_judge: dict[str, pd.Series] = {}
        for judge in panel:
            told = judge.scores(table)
            if told is not None:
                by_judge[judge.name] = pd.Series(told["score"])
        of_others = released.scores(name).head(len(table)).set_index(table.index)
        for judge_name in of_others.columns.drop(["pair_id", released.CLAUDE], errors="ignore"):
            by_judge[judge_name] = pd.Series(of_others[judge_name])
        by_set[name] = by_judge
    return by_set


def strengths(
    panel: Sequence[PanelJudge], plain: Mapping[str, Mapping[str, pd.Series]]
) -> dict[str, str]:
    """Return the class of each judge, one of `STRENGTHS`."""
    by_judge = {judge.name: judge.strength() for judge in panel}
    for of_set in plain.values():
        for judge in of_set:
            is_open = judge in released.P_YES
            by_judge.setdefault(judge, "open" if is_open else "middle")
    return by_judge


def add_interior(
    scores: RatedScores,
    settings: Profile,
    panel: Sequence[PanelJudge],
    plain: Mapping[str, Mapping[str, pd.Series]],
) -> list[tuple[str, str]]:
    """Add In-DRE and DRE by every judge, with the numbers of the papers' small model.

    A live judge is shown the numbers of the first training on the set of its kind, a recorded one
    was shown those of its recording. Of these it adds the small model and Ex-DRE, too.

    Parameters
    ----------
    scores : RatedScores
    settings : the profile.
    panel : its judges.
    plain : what `plain_scores` returned.

    Returns
    -------
    What was not run, and why.
    """
    paper = settings.recipes[0]
    not_run = []
    for judge in panel:
        shown = _shown_numbers(judge, paper)
        for name, entry in zip(scores.items, settings.sets):
            items = scores.items[name]
            slm = trained(settings, entry.key, paper, settings.seed)
            numbers = judge.numbers(items, slm, entry.key)
            if numbers is None:
                what = f"In-DRE and DRE by {judge.name} on {ratings.RATED[name]}"
                not_run.append((what, "it was not shown numbers of a small model there"))
                continue
            _add_interior(scores, name, judge, "dre", numbers, shown)
            if not judge.is_live:
                method = f"SLM (Prob & Dis), {shown}"
                scores.add(name, numbers["score_slm"], "SLM", slm=shown, method=method)
                s_d = pd.Series(numbers["s_d"])
                s_p = pd.Series(numbers["s_p"])
                product = fusion.ex_dre(s_d, s_p, plain[name][judge.name])
                scores.add(name, product, "Ex-DRE", judge.name, shown)
    return not_run


def _add_interior(scores, name, judge, prompt, numbers, shown):
    """Add In-DRE, DRE and DRE by the reading c of a judge that was shown some numbers."""
    told = judge.scores(scores.items[name], prompt, numbers=numbers)
    if told is None:
        return
    s_d = numbers["s_d"]
    s_p = numbers["s_p"]
    scores.add(name, told["score"], "In-DRE", judge.name, shown)
    scores.add(name, fusion.dre(s_d, s_p, told["score"]), "DRE", judge.name, shown)
    reading_c = fusion.dre(s_d, s_p, told["score"], told["influence"], "c")
    method = f"DRE ({judge.name}), {shown}, c"
    scores.add(name, reading_c, "DRE, c", judge.name, shown, method=method)


def add_by_criterion(scores: RatedScores, name: str, judge: PanelJudge, slm: str) -> None:
    """Add the mean of four criteria by G-EVAL's form, LLM-Chiang's, and SLIDE's question A.1."""
    row_of = judge_rows(judge, slm)
    rows = {
        "geval": ("G-EVAL", row_of["G-EVAL"]),
        "analyse_rate": ("LLM-Chiang", row_of["LLM-Chiang"]),
        "slide_a1": ("SLIDE A.1", f"LLM-only ({judge.name}), SLIDE A.1"),
    }
    for prompt, (family, method) in rows.items():
        told = judge.scores(scores.items[name], prompt)
        if told is not None:
            scores.add(name, told["score"], family, judge.name, method=method)


def add_second_askings(
    scores: RatedScores, name: str, judge: PanelJudge, plain: pd.Series | None
) -> None:
    """Add what a recorded judge said when it was asked again, or with other numbers.

    Rows ``either asking`` have one column for each asking, as others have for training seeds. A
    live judge is not asked again.

    Parameters
    ----------
    scores : RatedScores
    name : the set.
    judge : the judge.
    plain : its plain scores of the set.
    """
    items = scores.items[name]
    if judge.is_live or plain is None:
        return
    of_judge = f"({judge.name})"
    again = judge.scores(items, repeat=1)
    askings = {"": plain}
    if again is not None:
        score_again = pd.Series(again["score"])
        askings[", again"] = score_again
        both = [plain, score_again]
        scores.add(name, score_again, "again", judge.name, method=f"LLM-only {of_judge}, again")
        scores.add(name, both, "again", judge.name, method=f"LLM-only {of_judge}, either asking")
    wrong = judge.scores(items, "dre_other")
    if wrong is not None:
        method = f"In-DRE {of_judge}, another pair's numbers"
        scores.add(name, wrong["score"], "In-DRE", judge.name, method=method)

    prompts_by_numbers = {
        "as shown": "dre",
        "our earlier model as shown": "dre_graded",
        "as printed": "dre_as_printed",
    }
    for shown, prompt in prompts_by_numbers.items():
        numbers = judge.numbers(items, None, "", prompt)
        if numbers is None:
            continue
        s_c = numbers["score_slm"]
        method = f"SLM (Prob & Dis), {shown}"
        scores.add(name, s_c, "SLM", slm=shown, method=method)
        _add_interior(scores, name, judge, prompt, numbers, shown)
        products = []
        for asking, score in askings.items():
            products.append(s_c * score)
            method = f"Ex-DRE {of_judge}, {shown}{asking}"
            scores.add(name, products[-1], "Ex-DRE", judge.name, shown + asking, method=method)
        method = f"Ex-DRE {of_judge}, {shown}, either asking"
        scores.add(name, products, "Ex-DRE", judge.name, f"{shown}, either asking", method=method)
        second = judge.scores(items, prompt, repeat=1)
        if second is not None:
            first = scores.scores[name][f"In-DRE {of_judge}, {shown}"][0]
            both = [first, pd.Series(second["score"])]
            method = f"In-DRE {of_judge}, {shown}, again"
            scores.add(name, second["score"], "In-DRE", judge.name, method=method)
            method = f"In-DRE {of_judge}, {shown}, either asking"
            scores.add(name, both, "In-DRE", judge.name, method=method)
            both = [s_c * score for score in both]
            method = f"DRE {of_judge}, {shown}, either asking"
            scores.add(name, both, "DRE", judge.name, f"{shown}, either asking", method=method)


def interior_comparisons(judge: PanelJudge, slm: str) -> dict[str, tuple[str, str]]:
    """Return what `differences` compares to see what interior refinement does, by label."""
    of_judge = f"({judge.name})"
    plain = f"LLM-only {of_judge}"
    shown = _shown_numbers(judge, slm)
    if judge.is_live:
        return {
            f"In-DRE, {shown}, less the plain prompt": (f"In-DRE {of_judge}, {shown}", plain),
            f"DRE less Ex-DRE, {shown}": (
                f"DRE {of_judge}, {shown}",
                f"Ex-DRE {of_judge}, {shown}",
            ),
            "DRE less SLIDE": (f"DRE {of_judge}, {shown}", f"SLIDE {of_judge}, {slm}"),
        }
    either = f"{plain}, either asking"
    comparisons = {}
    for numbers in ("as shown", "our earlier model as shown"):
        in_dre = f"In-DRE {of_judge}, {numbers}"
        dre = f"DRE {of_judge}, {numbers}"
        ex_dre = f"Ex-DRE {of_judge}, {numbers}, either asking"
        comparisons[f"In-DRE, {numbers}, less the plain prompt"] = (in_dre, either)
        comparisons[f"DRE less Ex-DRE, {numbers}"] = (dre, ex_dre)
    printed = f"In-DRE {of_judge}, as printed"
    printed_either = f"{printed}, either asking"
    wrong = f"In-DRE {of_judge}, another pair's numbers"
    return comparisons | {
        "In-DRE, as printed, less the plain prompt": (printed_either, either),
        "DRE less Ex-DRE, as printed": (
            f"DRE {of_judge}, as printed, either asking",
            f"Ex-DRE {of_judge}, as printed, either asking",
        ),
        "In-DRE less another pair's numbers": (f"In-DRE {of_judge}, as shown", wrong),
        "plain prompt: again less first": (f"{plain}, again", plain),
        "In-DRE, as printed: again less first": (f"{printed}, again", printed),
        "DRE less SLIDE": (f"DRE {of_judge}, as shown", f"SLIDE {of_judge}, {slm}"),
    }


@dataclass
class Gains:
    """Gains of fusions over their parts: a row for each, and its draws in the same order."""

    rows: pd.DataFrame
    draws: list[dict[str, np.ndarray]] = field(repr=False)


def fusion_gains(
    scores: RatedScores,
    strength_of: Mapping[str, str],
    families: Sequence[str],
    slms: Sequence[str],
) -> Gains:
    """Compare every fusion with its judge, with its small model, and with the better of the two.

    Which part is better, by each measure, is decided on the other sets that both parts have
    scored. Where there is none, it is decided on the set itself, which is hard on the fusion.

    Parameters
    ----------
    scores : RatedScores
        With methods ``LLM-only (judge)`` and ``SLM (Prob & Dis), slm`` for the parts.
    strength_of : dict
        The class of each judge.
    families, slms : list of str
        Which fusions: of these families, with these small models.

    Returns
    -------
    Gains
        Columns ``set, judge, strength, fusion, slm, less`` (one of `PARTS`), ``better`` (which part
        that is over all pairs), ``decided`` (on other sets, or here) and ``alone``, the judge's own
        correlation.
    """
    rows = []
    draws = []
    for name in scores.items:
        for method, about in scores.methods.items():
            is_asked = about.family in families and about.slm in slms
            if not is_asked or not scores.has(name, method):
                continue
            part_methods = {
                "judge": f"LLM-only ({about.judge})",
                "small model": f"SLM (Prob & Dis), {about.slm}",
            }
            gain_over = {
                part: scores.gain(name, method, part_method)
                for part, part_method in part_methods.items()
            }
            better, decided = _better_parts(scores, name, part_methods)
            gain_over["better part"] = {
                measure: gain_over[part][measure] for measure, part in better.items()
            }
            alone = scores.agreement(name, part_methods["judge"])["overall"][0].mean()
            for part in PARTS:
                row = {
                    "set": ratings.RATED[name],
                    "judge": about.judge,
                    "strength": strength_of[about.judge],
                    "fusion": about.family,
                    "slm": about.slm,
                    "less": part,
                    "better": better["overall"],
                    "decided": decided,
                    "alone": alone,
                }
                rows.append(row)
                draws.append(gain_over[part])
    return Gains(pd.DataFrame(rows), draws)


def _better_parts(scores, name, part_methods):
    """Return by measure which part agrees better with people, and if other sets decided that."""
    deciding_sets = []
    for other in scores.items:
        if other != name and scores.has(other, *part_methods.values()):
            deciding_sets.append(other)
    decided = "on other sets" if deciding_sets else "here"
    better = {}
    for measure in stats.MEASURES:
        agreement = {}
        for part, method in part_methods.items():
            by_set = []
            for deciding_set in deciding_sets or [name]:
                agreement_of = scores.agreement(deciding_set, method, measures=[measure])
                by_set.append(agreement_of[measure][0].mean())
            known = [value for value in by_set if not np.isnan(value)]
            agreement[part] = np.mean(known) if known else -np.inf
        better[measure] = max(agreement, key=lambda part: agreement[part])
    return better, decided


def class_means(gains: Gains, measure: str = "overall") -> pd.DataFrame:
    """Return the mean gain of each fusion over each part, for judges of one strength.

    Judges are fixed: an interval speaks of other contexts and trainings, not of other judges.

    Parameters
    ----------
    gains : what `fusion_gains` returned.
    measure : one of `dre.stats.MEASURES`.

    Returns
    -------
    Columns ``fusion, slm, less, judges`` (one of `CLASSES`), ``gain, gain_low, gain_high``,
    ``above`` (how many of the pairs of set and judge gain), ``pairs``, ``seen`` (the gain that
    would have been seen with a power of 80 %) and ``undecided`` (for how many pairs the better part
    was not decided on other sets).
    """
    rows = []
    groups = gains.rows.groupby(["fusion", "slm", "less"], sort=False)
    for key, of_fusion in groups:
        fusion_name, slm, less = cast(tuple[str, str, str], key)
        for judges, members in CLASSES.items():
            of_class = of_fusion[of_fusion["strength"].isin(members)]
            if of_class.empty or set(of_class["strength"]) != set(members):
                continue
            # Where systems are not known, there is no agreement within them.
            draws = [gains.draws[i][measure] for i in of_class.index]
            draws = [gain for gain in draws if not np.isnan(gain[0]).any()]
            if not draws:
                continue
            pooled = stats.pooled(draws)
            rows.append(
                {
                    "fusion": fusion_name,
                    "slm": slm,
                    "less": less,
                    "judges": judges,
                    "gain": pooled["difference"],
                    "gain_low": pooled["low"],
                    "gain_high": pooled["high"],
                    "above": int(pooled["positive"]),
                    "pairs": int(pooled["pairs"]),
                    "seen": stats.smallest_seen(pooled["low"], pooled["high"]),
                    "undecided": list(of_class["decided"]).count("here"),
                }
            )
    return pd.DataFrame(rows)


def wide_gains(means: pd.DataFrame, less: str = "judge") -> pd.DataFrame:
    """Return the class means over one part as a row for each fusion and small model.

    Columns are ``fusion, slm`` and, for each class, ``<class>, <class>_low, <class>_high`` and
    ``<class> above`` (such as "7 of 10").
    """
    rows = []
    of_part = pd.DataFrame(means[means["less"] == less])
    for key, of_fusion in of_part.groupby(["fusion", "slm"], sort=False):
        fusion_name, slm = cast(tuple[str, str], key)
        row = {"fusion": fusion_name, "slm": slm}
        for mean in of_fusion.to_dict("records"):
            judges = mean["judges"]
            row[judges] = mean["gain"]
            row[f"{judges}_low"] = mean["gain_low"]
            row[f"{judges}_high"] = mean["gain_high"]
            row[f"{judges} above"] = f"{mean['above']} of {mean['pairs']}"
        rows.append(row)
    return pd.DataFrame(rows)


def printed_gains(table: pd.DataFrame, titles: Sequence[str]) -> pd.DataFrame:
    """Return what each fusion gains in the papers' own Table 4, over its judge and its SLM.

    Parameters
    ----------
    table : DataFrame
        ``data/paper/dre_table4.csv``.
    titles : list of str
        Titles of its three sets, in their order.

    Returns
    -------
    A row for each comparison: ``fusion, less``, ``gain`` (mean over the papers' judges and sets),
    ``cells``, ``above`` (in how many cells the fusion is above) and the mean gain by set.
    """
    spearman = table.filter(like="spearman").set_axis(list(titles), axis=1).astype(float)
    spearman = spearman.assign(method=table["method"], judge=table["judge"])
    by_judge = spearman.dropna(subset="judge").set_index(["method", "judge"])
    is_slm = table["metric"] == "Ours (SLM-Dis and Prob)"
    of_slm = spearman.loc[is_slm, list(titles)].iloc[0]
    comparisons = [
        ("SLIDE", "LLMs-only"),
        ("In-DRE", "Non-DRE"),
        ("Ex-DRE", "Non-DRE"),
        ("DRE", "Non-DRE"),
        ("DRE", "Ex-DRE"),
        ("SLIDE", "SLM"),
        ("Ex-DRE", "SLM"),
        ("DRE", "SLM"),
    ]
    rows = []
    for fusion_name, less in comparisons:
        other = of_slm if less == "SLM" else by_judge.loc[less]
        gain = by_judge.loc[fusion_name] - other
        row = {
            "fusion": fusion_name,
            "less": less,
            "gain": gain.stack().mean(),
            "cells": gain.size,
            "above": int((gain > 0).to_numpy().sum()),
        }
        rows.append(row | gain.mean().to_dict())
    return pd.DataFrame(rows)


def printed_table(
    table: pd.DataFrame, titles: Sequence[str], statistic: str, row_of: Mapping[str, str]
) -> pd.DataFrame:
    """Return the rows that the paper prints, under our names of them.

    Parameters
    ----------
    table : DataFrame
        ``data/paper/dre_table4.csv``: column ``ours`` is our name of a row that was run here.
    titles : list of str
        Titles of its three sets, in their order.
    statistic : str
        ``spearman`` or ``pearson``.
    row_of : dict
        By the paper's method, our row of a judge that the paper does not have. It is set beside the
        mean over the paper's judges.

    Returns
    -------
    Columns ``method``, one for each set, ``row_in_print`` and ``not_run``.
    """
    printed = table.filter(like=statistic).set_axis(list(titles), axis=1).astype(float)
    by_method = pd.DataFrame(printed.groupby(table["method"]).mean())
    means = by_method.loc[list(row_of)]
    printed["method"] = table["ours"].fillna(table["metric"])
    printed = printed.assign(row_in_print=table["metric"], not_run=table["not_run"])
    return pd.concat([printed, means.assign(method=list(row_of.values()))], ignore_index=True)


def with_live_judges(table: pd.DataFrame, panel: Sequence[PanelJudge], slm: str) -> pd.DataFrame:
    """Return the paper's Table 4 with our names of the rows that live judges of the panel have.

    Where the profile does not have a judge asked for a row, ``not_run`` says so.

    Parameters
    ----------
    table : ``data/paper/dre_table4.csv``.
    panel : the judges of the profile.
    slm : our name of the papers' small model.
    """
    table = table.copy()
    for judge in panel:
        if not judge.is_live or not judge.printed_name:
            continue
        for method, row in judge_rows(judge, slm).items():
            is_row = (table["judge"] == judge.printed_name) & (table["method"] == method)
            prompt = _PROMPTS_OF_CRITERIA.get(method, "llm_only")
            if judge.asks(prompt):
                table.loc[is_row, "ours"] = row
                table.loc[is_row, "not_run"] = np.nan
            else:
                # A recording of another judge may have the row.
                is_row &= table["ours"].isna()
                table.loc[is_row, "not_run"] = f"optional_prompts does not name {prompt}"
        # SLIDE's paper calls the judge alone so, and has other numbers of it.
        is_judge_alone = (table["judge"] == judge.printed_name) & (table["method"] == "LLMs-only")
        table.loc[is_judge_alone, "not_run"] = "the same scores as in row Non-DRE"
    return table


def rows_of_live_judges(
    table: pd.DataFrame, in_paper: pd.DataFrame, live_judges: Sequence[PanelJudge], slm: str
) -> pd.Series:
    """Return which rows make the paper's Table 4 with live judges in place of the paper's.

    These are the paper's rows without a judge, and all rows of the live judges.

    Parameters
    ----------
    table : all rows, as `dre.paper.tables.beside_print` returns them.
    in_paper : ``data/paper/dre_table4.csv``.
    live_judges : live judges of the profile.
    slm : our name of the papers' small model.
    """
    judge_of_row = dict(zip(in_paper["metric"], in_paper["judge"]))
    judge_in_print = pd.Series(table["row_in_print"]).map(judge_of_row)
    printed_names = [judge.printed_name for judge in live_judges if judge.printed_name]
    is_in_print = pd.Series(table["row_in_print"]).notna()
    is_in_print &= judge_in_print.isna() | judge_in_print.isin(printed_names)
    names = [name for judge in live_judges for name in judge_rows(judge, slm).values()]
    return is_in_print | pd.Series(table["method"]).isin(names)


def judge_rows(judge: PanelJudge, slm: str) -> dict[str, str]:
    """Return our rows of a judge by the paper's name of the method.

    A recorded judge was shown the numbers of one training, *as shown*; a live one those of `slm`.
    """
    name = judge.name
    in_one_reply = "" if judge.is_live else ", one reply"
    shown = _shown_numbers(judge, slm)
    return {
        "G-EVAL": f"G-EVAL ({name}){in_one_reply}",
        "LLM-Chiang": f"LLM-Chiang ({name}){in_one_reply}",
        "Non-DRE": f"LLM-only ({name})",
        "SLIDE": f"SLIDE ({name}), {slm}",
        "In-DRE": f"In-DRE ({name}), {shown}",
        "Ex-DRE": f"Ex-DRE ({name}), {slm}",
        "DRE": f"DRE ({name}), {shown}",
    }


def _shown_numbers(judge: PanelJudge, slm: str) -> str:
    """Return what rows call the numbers that a judge is shown: ``as shown``, or a small model."""
    return slm if judge.is_live else "as shown"


def main_table(
    scores: RatedScores, printed: pd.DataFrame, method_of: Mapping[str, str]
) -> pd.DataFrame:
    """Return the rows of the main table: ours with the paper's numbers in brackets.

    Parameters
    ----------
    scores : RatedScores
    printed : what `printed_table` returned.
    method_of : dict
        By the label of a row, the name of a method. Methods that no set has are left out.

    Returns
    -------
    Columns ``method``, one for each set (text), ``mean`` with its interval and ``printed``, the
    mean of the paper.
    """
    in_print = printed.set_index("method")
    rows = []
    for label, method in method_of.items():
        if method not in scores.methods:
            continue
        row: dict[str, object] = {"method": label}
        printed_values = []
        for name in scores.items:
            title = ratings.RATED[name]
            ours = np.nan
            if scores.has(name, method):
                ours = scores.agreement(name, method)["overall"][0].mean()
            theirs = cast(float, in_print[title].get(method, np.nan))
            printed_values.append(theirs)
            row[title] = ours_and_printed(ours, theirs)
        row |= stats.interval(scores.mean_agreement(method), "mean")
        row["printed"] = np.mean(printed_values)
        rows.append(row)
    return pd.DataFrame(rows).drop(columns="mean_sd", errors="ignore")


def measures_table(
    scores: RatedScores, method_of: Mapping[str, str], names: Sequence[str]
) -> pd.DataFrame:
    """Return how methods agree with people in each of `dre.stats.MEASURES`, below what is possible.

    Parameters
    ----------
    scores : RatedScores
    method_of : dict
        By label, the name of a method.
    names : list of str
        The sets, each with several raters for every response.

    Returns
    -------
    Columns ``set, score`` and one for each measure, with its interval. First come the ceiling,
    which is the highest correlation that a perfect score could reach, and one rater against the
    others.
    """
    rows = []
    for name in names:
        title = ratings.RATED[name]
        of_raters = rater_agreement(scores, name)
        rows.append({"set": title, "score": "highest possible", **of_raters["ceiling"]})
        rows.append({"set": title, "score": "one rater, the others", **of_raters["rater"]})
        for label, method in method_of.items():
            row: dict[str, object] = {"set": title, "score": label}
            for measure, draws in scores.agreement(name, method, measures=stats.MEASURES).items():
                row |= stats.interval(draws, measure)
            rows.append(row)
    return pd.DataFrame(rows)


def rater_agreement(scores: RatedScores, name: str) -> dict[str, dict[str, float]]:
    """Return the ceiling of a set and the agreement of one rater with the others, by measure."""
    table = scores.items[name]
    by_rater = np.array(table["ratings"].to_list(), float)
    arguments = by_rater, table["context_id"], table["system"], scores.resamples
    ceiling: dict[str, float] = {}
    for measure, draws in stats.ceilings(*arguments).items():
        ceiling |= stats.interval(draws, measure)
    rater: dict[str, float] = {}
    for measure, draws in stats.one_against_rest(*arguments).items():
        rater |= stats.interval(draws, measure)
    return {"ceiling": ceiling, "rater": rater}


def differences(scores: RatedScores, comparisons: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return the difference of two methods on each set and pooled over them.

    The seeds, or askings, of the two are drawn apart.

    Parameters
    ----------
    scores : RatedScores
    comparisons : dict
        By label, the names of the two methods.

    Returns
    -------
    Columns ``comparison``, one for each set, ``pooled`` (all with intervals) and ``seen``, the
    pooled difference that would have been seen with a power of 80 %.
    """
    rows = []
    for label, (first, second) in comparisons.items():
        row: dict[str, object] = {"comparison": label}
        of_first = []
        of_second = []
        for name in scores.items:
            if not scores.has(name, first, second):
                continue
            of_first.append(scores.agreement(name, first, [second])["overall"])
            of_second.append(scores.agreement(name, second, [first])["overall"])
            row |= stats.interval(apart(of_first[-1], of_second[-1]), ratings.RATED[name])
        if not of_first:
            continue
        pooled = apart(np.mean(of_first, axis=0), np.mean(of_second, axis=0))
        interval = stats.interval(pooled, "pooled")
        row |= interval
        row["seen"] = stats.smallest_seen(interval["pooled_low"], interval["pooled_high"])
        rows.append(row)
    return pd.DataFrame(rows)


def gains_by_measure(means: pd.DataFrame, fusion_name: str, slm: str) -> pd.DataFrame:
    """Return the class means of one fusion with a column for each measure.

    Parameters
    ----------
    means : DataFrame
        What `class_means` returned for each measure, with a column ``way``.
    fusion_name, slm : str
        Which fusion, with which small model.

    Returns
    -------
    Columns ``judges, less``, one for each of `dre.stats.MEASURES` with its interval, and ``seen``:
    the gain over all pairs that would have been seen.
    """
    is_shown = (means["fusion"] == fusion_name) & (means["slm"] == slm)
    rows: dict[tuple, dict[str, object]] = {}
    shown = pd.DataFrame(means[is_shown & means["less"].ne("small model")])
    for mean in shown.to_dict("records"):
        key = mean["judges"], mean["less"]
        row = rows.setdefault(key, {"judges": key[0], "less": key[1]})
        measure = mean["way"]
        row[measure] = mean["gain"]
        row[f"{measure}_low"] = mean["gain_low"]
        row[f"{measure}_high"] = mean["gain_high"]
        if measure == "overall":
            row["seen"] = mean["seen"]
    table = pd.DataFrame(list(rows.values()))
    is_class = table["judges"] != "all"
    return pd.DataFrame(table[is_class]).reset_index(drop=True)


def slide_table2(
    scores: RatedScores, rows: Mapping[str, tuple[str, str]], printed: pd.DataFrame
) -> pd.DataFrame:
    """Return rows of SLIDE's Table 2, ours with the paper's in brackets.

    Parameters
    ----------
    scores : RatedScores
    rows : dict
        By label, our method and the paper's name of the row.
    printed : DataFrame
        ``data/paper/slide_table2.csv``.

    Returns
    -------
    Columns ``method``; by set Spearman as text; ``largest_p``, the largest p-value of the three
    sets; and by set ``<title> spearman``, ``<title> pearson`` and their p-values.
    """
    from scipy.stats import pearsonr, spearmanr

    in_print = printed.set_index("metric").filter(like="spearman")
    table = []
    for label, (method, printed_name) in rows.items():
        texts: dict[str, object] = {"method": label}
        numbers: dict[str, float] = {}
        for i, (name, items) in enumerate(scores.items.items()):
            if not scores.has(name, method):
                continue
            title = ratings.RATED[name]
            for test, function in (("spearman", spearmanr), ("pearson", pearsonr)):
                by_seed = []
                for _, score in scores.scores[name][method].items():
                    is_scored = score.notna() & items["human"].notna()
                    by_seed.append(function(score[is_scored], items["human"][is_scored]))
                numbers[f"{title} {test}"] = float(np.mean([r.statistic for r in by_seed]))
                numbers[f"{title} {test} p"] = max(r.pvalue for r in by_seed)
            theirs = in_print.loc[printed_name].iloc[i]
            texts[title] = ours_and_printed(numbers[f"{title} spearman"], theirs)
        largest = max((p for key, p in numbers.items() if key.endswith("p")), default=np.nan)
        texts["largest_p"] = "< 0.0001" if largest < 0.0001 else number(largest, 4)
        table.append(texts | numbers)
    return pd.DataFrame(table)


def ablations(
    scores: RatedScores, printed: pd.DataFrame, row_of: Mapping[str, str], *slms: str
) -> pd.DataFrame:
    """Return what the papers conclude from ablations: as printed, and measured here.

    Parameters
    ----------
    scores : RatedScores
    printed : what `printed_table` returned, in Spearman.
    row_of : our rows of the judge, as `judge_rows` returns them.
    slms : the papers' small model and others.

    Returns
    -------
    Columns ``claim``, ``with`` (a small model or a judge), ``printed`` and ``here``, with its
    interval.
    """
    titles = [ratings.RATED[name] for name in scores.items]
    by_method = printed.drop_duplicates("method").set_index("method")
    print_mean = by_method[titles].mean(axis=1)
    paper = slms[0]
    rows = []
    for part in ("Dis", "Prob"):
        for slm in slms:
            whole = scores.mean_agreement(f"SLM (Prob & Dis), {slm}")
            gain = whole - scores.mean_agreement(f"SLM ({part}), {slm}")
            claim = f"Prob & Dis agrees better than {part} alone"
            row: dict[str, object] = {"claim": claim, "with": slm}
            if slm == paper:
                whole_printed = print_mean[f"SLM (Prob & Dis), {paper}"]
                row["printed"] = whole_printed - print_mean[f"SLM ({part}), {paper}"]
            rows.append(row | stats.interval(gain, "here"))
    chiang = row_of["LLM-Chiang"]
    geval = row_of["G-EVAL"]
    in_print = printed.set_index("row_in_print")[titles].mean(axis=1)
    printed_difference = [
        in_print[f"LLM-Chiang ({judge})"] - in_print[f"G-EVAL ({judge})"]
        for judge in ("GPT-3.5", "Gemini", "Claude3")
    ]
    row = {"claim": "LLM-Chiang agrees better than G-EVAL", "with": "the judge"}
    row["printed"] = np.mean(printed_difference)
    if chiang in scores.methods and geval in scores.methods:
        gain = scores.mean_agreement(chiang) - scores.mean_agreement(geval)
        row |= stats.interval(gain, "here")
    rows.append(row)
    words = [method for method in scores.methods if method.startswith(("BLEU-", "ROUGE", "METEOR"))]
    words = [method for method in words if method in by_method.index]
    best = max(words, key=lambda method: scores.mean_agreement(method)[0].mean())
    row = {"claim": "Every word-overlap metric stays below 0.4 (the highest)", "with": best}
    row["printed"] = by_method.loc[words, titles].astype(float).to_numpy().max()
    rows.append(row | stats.interval(scores.mean_agreement(best), "here"))
    return pd.DataFrame(rows).drop(columns="here_sd", errors="ignore")


def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the difference of two agreements whose seeds (or askings) are drawn apart.

    Parameters
    ----------
    a, b : (1 + n, seeds), from the same resamples of contexts.

    Returns
    -------
    (1 + n,), for `dre.stats.interval`.
    """
    return stats.drawn_seeds(a, [0, 1]) - stats.drawn_seeds(b, [0, 2])


def papers_target(items: pd.DataFrame) -> pd.Series:
    """Return the papers' human score, 0 to 1: the mean of four criteria, each brought to 0-1."""
    shares = []
    for criterion, (low, high) in _PAPERS_CRITERIA.items():
        shares.append((items[criterion] - low) / (high - low))
    return pd.concat(shares, axis=1).mean(axis=1, skipna=False)


def target_table(
    scores: RatedScores, method_of: Mapping[str, str], names: Sequence[str]
) -> pd.DataFrame:
    """Return the agreement with people's overall rating, and with the papers' human score.

    Parameters
    ----------
    scores : RatedScores
    method_of : dict
        By label, the name of a method.
    names : list of str
        The sets that have the papers' four criteria.

    Returns
    -------
    Columns ``method`` and, for each set, ``<title>`` (overall) and ``<title>, mean of four``, with
    their intervals.
    """
    rows = []
    for label, method in method_of.items():
        row: dict[str, object] = {"method": label}
        for name in names:
            items = scores.items[name]
            title = ratings.RATED[name]
            row |= stats.interval(scores.agreement(name, method)["overall"], title)
            draws = stats.draws(
                scores.scores[name][method],
                papers_target(items),
                items["context_id"],
                n=scores.resamples,
                seed=list(scores.items).index(name),
            )
            row |= stats.interval(draws, f"{title}, mean of four")
        rows.append(row)
    return pd.DataFrame(rows)


def mean_kappa(rater_ratings: np.ndarray) -> tuple[float, float, float]:
    """Return Cohen's kappa of every two raters: lowest, mean and highest.

    Parameters
    ----------
    rater_ratings : (rows, raters), without NaN; equal values are the same category.
    """
    kappas = []
    for i, j in combinations(range(rater_ratings.shape[1]), 2):
        first = rater_ratings[:, i]
        second = rater_ratings[:, j]
        observed = np.mean(first == second)
        expected = 0.0
        for category in np.unique(rater_ratings):
            expected += np.mean(first == category) * np.mean(second == category)
        kappas.append((observed - expected) / (1 - expected))
    return min(kappas), float(np.mean(kappas)), max(kappas)


def ours_and_printed(ours: float, printed: float) -> str:
    """Return a cell of the main table: our number, and that of the paper in brackets."""
    if pd.isna(ours):
        return ""
    text = number(ours)
    return text if pd.isna(printed) else f"{text} ({number(printed)})"


def rank_systems(
    scores: RatedScores, methods: Mapping[str, str], permutations: int = 2000
) -> pd.DataFrame:
    """Return how well methods rank the systems of the sets that have systems.

    Parameters
    ----------
    scores : RatedScores
    methods : dict
        By label, the name of a method; of one with several seeds the first is taken.
    permutations : int
        Of the tests behind each number.

    Returns
    -------
    Columns ``score``, and for each set ``<title>`` (soft pairwise accuracy of all systems) and
    ``<title>, machines`` (without people's replies).
    """
    rows = []
    for label, method in methods.items():
        row: dict[str, object] = {"score": label}
        for name, table in scores.items.items():
            n_systems = pd.Series(table["system"]).nunique()
            if n_systems < 2 or not scores.has(name, method):
                continue
            score = scores.scores[name][method].iloc[:, 0]
            is_machine = ~table["system"].isin(PEOPLE) & score.notna()
            title = ratings.RATED[name]
            for column, is_used in ((title, score.notna()), (f"{title}, machines", is_machine)):
                used = table[is_used]
                row[column] = stats.soft_pairwise_accuracy(
                    score[is_used], used["human"], used["context_id"], used["system"], permutations
                )
        rows.append(row)
    return pd.DataFrame(rows)
