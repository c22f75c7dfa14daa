"""Table 4: what every method says of the rated sets, and how that agrees with people.

`RatedScores` holds the scores by `dre.paper.methods.Method`. `fusion_gains` compares each fusion
with both of its parts, and `class_means` pools these gains over judges of one strength.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pandas as pd

from dre import fusion, stats
from dre.datasets import ratings
from dre.errors import DreError
from dre.judges import released
from dre.paper import judgements, methods, plan
from dre.paper.judgements import PanelJudge
from dre.paper.methods import ALONE, AS_SHOWN, WHOLE, Method
from dre.paper.plan import FAMILIES
from dre.paper.profile import PAPER, TABLE_4, Profile
from dre.paper.trainings import trained
from dre.tables import EMPTY, counted, named, number, spread

#: What a recorded judge was shown besides the numbers of one training.
EARLIER = "an earlier training of ours as shown"
AS_PRINTED = "as printed"
WRONG_NUMBERS = "another pair's numbers"
#: Readings of a method: asked a second time, or over both askings.
AGAIN = "again"
EITHER = "either asking"
SLIDES_QUESTION = "SLIDE A.1"
NO_SUCH_JUDGE = "the profile has no such judge"
#: What the authors of the rated sets call people among their systems.
PEOPLE = ("Original Ground Truth", "New Human Generated")
#: The row of a score that knows nothing, in the table of systems.
RANDOM_NUMBERS = "random numbers"
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
STRENGTHS = ("open", "middle", "strong")
#: The paper's methods that ask for one criterion at a time, and the prompts.
_PROMPTS_OF_CRITERIA = {"G-EVAL": "geval", "LLM-Chiang": "analyse_rate"}
#: The judges of the papers' Table 4 whose weights nobody can download. The others are open.
CLOSED_IN_PRINT = ("GPT-3.5", "Claude3", "Gemini")
_POOLED = ("pooled", "pooled_low", "pooled_high", "seen")
_ENDINGS_OF_GAIN = {"": "gain", "_low": "gain_low", "_high": "gain_high"}
_CLASS_MEANS = ["fusion", "slm", "less", "judges", "gain", "gain_low", "gain_high"]
_CLASS_MEANS += ["above", "pairs", "seen", "undecided"]
_GAIN_COLUMNS = ["set", "judge", "strength", "fusion", "slm", "less", "better", "decided", "alone"]
#: How the families of metrics begin that count shared words.
_WORD_OVERLAP = ("BLEU-", "ROUGE", "METEOR")
#: What ablations call the parts of a small model's score.
_PART_OF = {methods.DISTANCE: "Dis", methods.PROBABILITY: "Prob"}
#: The classes over which gains are pooled. A judge of no class stands alone, and counts in "all".
CLASSES = {strength: [strength] for strength in STRENGTHS} | {"all but strong": ["open", "middle"]}
ALL = "all"


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
        self.scores: dict[str, dict[Method, pd.DataFrame]] = {name: {} for name in items}
        self._methods = {}  # in the order in which they came
        self._agreements = {}

    @property
    def methods(self) -> list[Method]:
        """All methods, in the order in which they came."""
        return list(self._methods)

    def add(
        self, name: str, method: Method, score: pd.Series | pd.DataFrame | Sequence[pd.Series]
    ) -> None:
        """Keep the scores of a method on a set.

        Parameters
        ----------
        name : str
            The set.
        method : Method
        score : Series, or list of Series, or DataFrame
            One score for each row of the set, or one such column for each training seed.
        """
        if isinstance(score, list):
            columns = pd.concat(score, axis=1)
        else:
            columns = pd.DataFrame(score)
        columns = columns.set_axis(range(columns.shape[1]), axis=1).astype(float)
        self.scores[name][method] = columns.set_axis(self.items[name].index)
        self._methods[method] = None

    def of(self, name: str, method: Method) -> pd.DataFrame:
        """Return the scores of a method on a set, a column for each training seed.

        Raises
        ------
        DreError
            If the method has not scored the set.
        """
        if method not in self.scores[name]:
            raise DreError(
                f"there is no score of {method} on {ratings.RATED[name]}: "
                "a method is scored on a set before it is compared there"
            )
        return self.scores[name][method]

    def has(self, name: str, *methods: Method) -> bool:
        """Return whether all of these methods have scored a set."""
        return all(method in self.scores[name] for method in methods)

    def agreement(
        self,
        name: str,
        method: Method,
        among: Sequence[Method] = (),
        measures: Iterable[str] = ("overall",),
    ) -> dict[str, np.ndarray]:
        """Return how a method agrees with people on a set, as `dre.stats.agreements` does.

        Parameters
        ----------
        name : str
        method : Method
        among : list of Method
            Only rows count that these methods have scored, too.
        measures : list of str
            Which of `dre.stats.MEASURES`.
        """
        is_used = self.is_scored(name, method, *among)
        known = self._agreements.setdefault((name, method, is_used.tobytes()), {})
        missing = [measure for measure in measures if measure not in known]
        if missing:
            table = self.items[name]
            all_scores = self.of(name, method).to_numpy()
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

    def gain(
        self,
        name: str,
        method: Method,
        less: Method,
        measures: Iterable[str] = stats.MEASURES,
    ) -> dict[str, np.ndarray]:
        """Return by measure the agreement of one method minus that of another, on shared rows."""
        of_method = self.agreement(name, method, [less], measures)
        of_other = self.agreement(name, less, [method], measures)
        return {measure: of_method[measure] - of_other[measure] for measure in measures}

    def mean_agreement(self, method: Method) -> np.ndarray:
        """Return the mean correlation over the sets that a method has scored: (1 + n, seeds)."""
        names = [name for name in self.items if self.has(name, method)]
        if not names:
            raise DreError(f"there is no score of {method} on any set")
        by_set = [self.agreement(name, method)["overall"] for name in names]
        return np.mean(np.broadcast_arrays(*by_set), axis=0)

    def mean_gain(self, method: Method, less: Method) -> np.ndarray:
        """Return the mean over sets of what one method has over another: (1 + n, seeds)."""
        gains = []
        for name in self.items:
            gain = self.gain(name, method, less, ["overall"])
            gains.append(gain["overall"])
        return np.mean(np.broadcast_arrays(*gains), axis=0)

    def correlations(self, statistic: str = "spearman") -> pd.DataFrame:
        """Return a row for each method: its correlation on each set, with the interval.

        Columns are ``method`` (a `Method`), for each set by its title ``<title>``,
        ``<title>_low`` and so on, and ``n`` (`counts`).
        """
        rows = []
        for method in self.methods:
            row = {"method": method}
            for name in self.items:
                if self.has(name, method):
                    draws = self.correlation(name, method, statistic)
                    row |= stats.interval(draws, ratings.RATED[name])
            rows.append(row)
        table = pd.DataFrame(rows)
        return table.assign(n=[self.counts(method) for method in self.methods])

    def counts(self, method: Method) -> str:
        """Return how many replies of each set count for a method, in words: ``397 / 300 / 360``."""
        counts = []
        for name in self.items:
            is_run = self.has(name, method)
            counts.append(f"{self.is_scored(name, method).sum():,}" if is_run else EMPTY)
        return " / ".join(counts)

    def correlation(self, name: str, method: Method, statistic: str) -> np.ndarray:
        """Return ``spearman`` or ``pearson`` of a method on a set, as (1 + n, seeds)."""
        if statistic == "spearman":
            return self.agreement(name, method)["overall"]
        is_used = self.is_scored(name, method)
        table = self.items[name][is_used]
        scores = self.of(name, method)[is_used]
        people = table["human"], table["context_id"]
        seed = list(self.items).index(name)
        return stats.draws(scores, *people, statistic, self.resamples, seed)

    def is_scored(self, name: str, *methods: Method) -> np.ndarray:
        """Return a mask of the rows of a set that people and all of these methods scored."""
        is_scored = self.items[name]["human"].notna().to_numpy()
        for method in methods:
            scores = self.of(name, method).to_numpy()
            is_scored = is_scored & ~np.isnan(scores).any(axis=1)
        return is_scored


def with_single_raters(items: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the sets that say what each of several raters gave, and not their mean alone."""
    return [name for name, table in items.items() if len(table["ratings"].iloc[0]) > 1]


def plain_scores(
    panel: Sequence[PanelJudge], items: Mapping[str, pd.DataFrame]
) -> dict[str, dict[str, pd.Series]]:
    """Return what every judge says of each set with its plain prompt, on 0 to 5.

    These are the judges of the profile, and those whose scores others released.

    Returns
    -------
    By set, then by judge, a Series with the index of the set.
    """
    by_set = {}
    for name, table in items.items():
        of_others = released.scores(name).head(len(table)).set_index(table.index)
        of_others = of_others.drop(columns=["pair_id", released.CLAUDE], errors="ignore")
        by_judge = {}
        for judge in panel:
            verdicts = judge.scores(table)
            if verdicts is not None:
                by_judge[judge.name] = verdicts["score"]
        for released_name, column in of_others.items():
            by_judge[str(released_name)] = column
        by_set[name] = by_judge
    return by_set


def strengths(panel: Sequence[PanelJudge], plain: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the class of each judge, one of `STRENGTHS`, or its name where it is in no class.

    Parameters
    ----------
    panel : the judges of the profile.
    plain : dict
        By set, the judges that have scored it.
    """
    by_judge = {judge.name: judge.strength() or judge.name for judge in panel}
    for of_set in plain.values():
        for judge in of_set:
            by_judge.setdefault(judge, judgements.strength(judge) or judge)
    return by_judge


def classes(strengths: Iterable[str]) -> list[str]:
    """Return the classes of some judges, weak ones first, and then judges of no class."""
    rank = {strength: number for number, strength in enumerate(STRENGTHS)}
    return sorted(dict.fromkeys(strengths), key=lambda name: rank.get(name, len(rank)))


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
    not_run = []
    for name, items in scores.items.items():
        training = plan.training_of(settings, settings.training_set(name).key)
        of_slm = None
        if any(judge.is_live for judge in panel):
            slm = trained(settings, *training)
            accuracy = judgements.slm_accuracy(settings, slm, training.key)
            of_slm = judgements.slm_scores(items, slm).assign(slm_accuracy=accuracy)
        for judge in panel:
            numbers = judge.interior_numbers(items, of_slm)
            shown = _shown_numbers(judge, PAPER)
            if numbers is None or not _add_interior(scores, name, judge, "dre", numbers, shown):
                what = f"In-DRE and DRE by {judge.name} on {ratings.RATED[name]}"
                why = judge.why_absent("dre")
                not_run.append((what, why or "it was not shown numbers of a small model there"))
            elif not judge.is_live and judge.name in plain[name]:
                s_c = numbers["score_slm"]
                scores.add(name, Method(WHOLE, slm=shown), s_c)
                ex_dre = s_c * plain[name][judge.name]
                scores.add(name, Method("Ex-DRE", judge.name, shown), ex_dre)
    return not_run


def _add_interior(scores, name, judge, prompt, numbers, shown):
    """Add In-DRE, DRE and DRE by the reading c of a judge that was shown some numbers.

    Return whether it said anything.
    """
    verdicts = judge.scores(scores.items[name], prompt, numbers=numbers)
    if verdicts is None:
        return False
    score = verdicts["score"]
    s_d = numbers["s_d"]
    s_p = numbers["s_p"]
    dre = Method("DRE", judge.name, shown)
    scores.add(name, replace(dre, family="In-DRE"), score)
    scores.add(name, dre, fusion.dre(s_d, s_p, score))
    reading_c = fusion.dre(s_d, s_p, score, verdicts["influence"], "c")
    scores.add(name, replace(dre, reading="c"), reading_c)
    return True


def add_by_criterion(scores: RatedScores, name: str, judge: PanelJudge, slm: str) -> None:
    """Add the mean of four criteria by G-EVAL's form, LLM-Chiang's, and SLIDE's question A.1."""
    row_of = judge_rows(judge, slm)
    methods_by_prompt = {
        "geval": row_of["G-EVAL"],
        "analyse_rate": row_of["LLM-Chiang"],
        "slide_a1": Method(ALONE, judge.name, reading=SLIDES_QUESTION),
    }
    for prompt, method in methods_by_prompt.items():
        verdicts = judge.scores(scores.items[name], prompt)
        if verdicts is not None:
            scores.add(name, method, verdicts["score"])


def either_asking(
    scores: RatedScores, judge: PanelJudge, plain: Mapping[str, Mapping[str, pd.Series]]
) -> Method:
    """Add the plain prompt's scores of both askings of a judge, and return their method.

    It has a column for each asking, so its agreement is the mean of both and its interval draws
    both. A judge that was not asked again on every set keeps its one asking.

    Parameters
    ----------
    scores : RatedScores
    judge : the judge.
    plain : what `plain_scores` returned.
    """
    alone = Method(ALONE, judge.name)
    second_askings = {}
    for name, items in scores.items.items():
        second_asking = None if judge.is_live else judge.scores(items, repeat=1)
        if second_asking is None or judge.name not in plain[name]:
            return alone
        second_askings[name] = second_asking["score"]
    method = replace(alone, reading=EITHER)
    for name, second in second_askings.items():
        scores.add(name, method, [plain[name][judge.name], second])
    return method


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
    askings = {"": plain}
    second_asking = judge.scores(items, repeat=1)
    if second_asking is not None:
        askings[AGAIN] = pd.Series(second_asking["score"])
        _add_askings(scores, name, Method(ALONE, judge.name), askings)
    wrong = judge.scores(items, "dre_other")
    if wrong is not None:
        scores.add(name, Method("In-DRE", judge.name, WRONG_NUMBERS), wrong["score"])

    prompts_by_numbers = {
        AS_SHOWN: "dre",
        EARLIER: "dre_graded",
        AS_PRINTED: "dre_as_printed",
    }
    for shown, prompt in prompts_by_numbers.items():
        numbers = judge.numbers(items, None, "", prompt)
        if numbers is None:
            continue
        s_c = numbers["score_slm"]
        scores.add(name, Method(WHOLE, slm=shown), s_c)
        is_there = _add_interior(scores, name, judge, prompt, numbers, shown)
        products = {asking: s_c * score for asking, score in askings.items()}
        _add_askings(scores, name, Method("Ex-DRE", judge.name, shown), products)
        second = judge.scores(items, prompt, repeat=1)
        if is_there and second is not None:
            in_dre = Method("In-DRE", judge.name, shown)
            hinted = {"": scores.of(name, in_dre)[0], AGAIN: pd.Series(second["score"])}
            _add_askings(scores, name, in_dre, hinted)
            products = [s_c * score for score in hinted.values()]
            scores.add(name, Method("DRE", judge.name, shown, EITHER), products)


def _add_askings(scores, name, method, askings):
    """Add what a method says by each asking of its judge, and by all of them."""
    for asking, score in askings.items():
        scores.add(name, replace(method, reading=asking), score)
    scores.add(name, replace(method, reading=EITHER), list(askings.values()))


def interior_comparisons(judge: PanelJudge, slm: str) -> dict[str, tuple[Method, Method]]:
    """Return what `differences` compares to see what interior refinement does, by label."""
    plain = Method(ALONE, judge.name)
    in_dre = Method("In-DRE", judge.name, _shown_numbers(judge, slm))
    slide = Method("SLIDE", judge.name, slm)
    reading_of = {AS_SHOWN: "", EARLIER: "", AS_PRINTED: EITHER}
    asking = EITHER
    if judge.is_live:
        reading_of = {slm: ""}
        asking = ""
    comparisons = {}
    for numbers, reading in reading_of.items():
        refined = Method("In-DRE", judge.name, numbers, reading)
        ex_dre = Method("Ex-DRE", judge.name, numbers, asking)
        label = f"In-DRE, {numbers}, less the plain prompt"
        comparisons[label] = (refined, replace(plain, reading=asking))
        comparisons[f"DRE less Ex-DRE, {numbers}"] = (replace(refined, family="DRE"), ex_dre)
    if not judge.is_live:
        printed = replace(in_dre, slm=AS_PRINTED)
        comparisons |= {
            "In-DRE less another pair's numbers": (in_dre, replace(in_dre, slm=WRONG_NUMBERS)),
            "plain prompt: again less first": (replace(plain, reading=AGAIN), plain),
            "In-DRE, as printed: again less first": (replace(printed, reading=AGAIN), printed),
        }
    return comparisons | {"DRE less SLIDE": (replace(in_dre, family="DRE"), slide)}


@dataclass
class Gains:
    """Gains of fusions over their parts: a row for each, and its draws in the same order."""

    rows: pd.DataFrame
    draws: list[dict[str, np.ndarray]] = field(repr=False)


def counts_in_words(gains: Gains) -> str:
    """Return how many judges and pairs of a set and a judge stand behind each class."""
    sentences = []
    for name in classes(gains.rows["strength"]):
        of_class = pd.DataFrame(gains.rows[gains.rows["strength"] == name])
        n_judges = len(set(of_class["judge"]))
        n_pairs = len(of_class[["set", "judge"]].drop_duplicates())
        counts = f"{counted(n_judges, 'judge')} in {counted(n_pairs, 'pair')}"
        sentences.append(f"{name}, {counts}")
    return f"Pairs of a set and a judge: {'; '.join(sentences)}."


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
        With both parts of every fusion: the judge alone, and the whole score of the small model.
    strength_of : dict
        The class of each judge, as `strengths` returns it.
    families, slms : list of str
        Which fusions: of these families, with these small models, in their main reading.

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
        for method in scores.methods:
            is_asked = method.family in families and method.slm in slms and not method.reading
            if not is_asked or not scores.has(name, method):
                continue
            part_methods = {
                "judge": Method(ALONE, method.judge),
                "small model": Method(WHOLE, slm=method.slm),
            }
            if not scores.has(name, *part_methods.values()):
                continue
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
                    "judge": method.judge,
                    "strength": strength_of[method.judge],
                    "fusion": method.family,
                    "slm": method.slm,
                    "less": part,
                    "better": better["overall"],
                    "decided": decided,
                    "alone": alone,
                }
                rows.append(row)
                draws.append(gain_over[part])
    return Gains(pd.DataFrame(rows, columns=_GAIN_COLUMNS), draws)


def _better_parts(scores, name, part_methods):
    """Return by measure which part agrees better with people, and if other sets decided that."""
    parts = part_methods.values()
    other_sets = [other for other in scores.items if other != name and scores.has(other, *parts)]
    better = {}
    for measure in stats.MEASURES:
        agreement = {}
        for part, method in part_methods.items():
            by_set = []
            for deciding_set in other_sets or [name]:
                agreement_of = scores.agreement(deciding_set, method, measures=[measure])
                by_set.append(agreement_of[measure][0].mean())
            agreement[part] = pd.Series(by_set).mean()
        better[measure] = pd.Series(agreement).fillna(-np.inf).idxmax()
    return better, "on other sets" if other_sets else "here"


def class_means(gains: Gains, measure: str = "overall") -> pd.DataFrame:
    """Return the mean gain of each fusion over each part, for judges of one strength.

    Judges are fixed: an interval speaks of other contexts and trainings, not of other judges.

    Parameters
    ----------
    gains : what `fusion_gains` returned.
    measure : one of `dre.stats.MEASURES`.

    Returns
    -------
    Columns ``fusion, slm, less, judges`` (one of `CLASSES`, a judge of no class, or `ALL`),
    ``gain, gain_low, gain_high``,
    ``above`` (how many of the pairs of set and judge gain), ``pairs``, ``seen`` (the gain that
    would have been seen with a power of 80 %) and ``undecided`` (for how many pairs the better part
    was not decided on other sets).
    """
    rows = []
    keys = _CLASS_MEANS[:3]
    for _, of_fusion in gains.rows.groupby(keys, sort=False):
        present = classes(of_fusion["strength"])
        alone = {name: [name] for name in present if name not in STRENGTHS}
        for judges, members in (CLASSES | alone | {ALL: present}).items():
            of_class = of_fusion[of_fusion["strength"].isin(members)]
            if of_class.empty or set(of_class["strength"]) != set(members):
                continue
            # Where systems are not known, there is no agreement within them.
            draws = [gains.draws[i][measure] for i in of_class.index]
            draws = [gain for gain in draws if not np.isnan(gain[0]).any()]
            if not draws:
                continue
            pooled = stats.pooled(draws)
            row = {
                **of_fusion[keys].iloc[0],
                "judges": judges,
                **named("gain", pooled),
                "above": int(pooled["positive"]),
                "pairs": int(pooled["pairs"]),
                "seen": stats.smallest_seen(pooled["low"], pooled["high"]),
                "undecided": list(of_class["decided"]).count("here"),
            }
            rows.append(row)
    return pd.DataFrame(rows, columns=_CLASS_MEANS)


#: The power to which a small model only breaks the ties of a judge.
_ONLY_TIES = 0.0001
#: What the columns of `tie_controls` multiply a judge's score with.
TIE_CONTROLS = ("small model", "breaks ties", "random ties")


def tie_controls(
    scores: RatedScores, groups: Mapping[str, Sequence[str]], slm: str
) -> pd.DataFrame:
    """Compare the gain of Ex-DRE over its judge with two controls that only break the judge's ties.

    A judge that gives few distinct scores gains from anything that orders its ties. So the judge is
    also multiplied by the small model to the power 0.0001, and by random numbers to that power.

    Parameters
    ----------
    scores : RatedScores
        With the judges alone, and the whole score of the small model.
    groups : dict
        By name, the judges whose gains are averaged, over all sets that they have scored.
    slm : str
        The small model.

    Returns
    -------
    Columns ``judges``, ``pairs`` (of set and judge) and, for each of `TIE_CONTROLS`, the mean gain
    over the judge in Spearman correlation with ``_low, _high`` (95 % over contexts and trainings).
    """
    judges = dict.fromkeys(chain.from_iterable(groups.values()))
    of_controls = RatedScores(scores.items, scores.resamples)
    gains = {}
    for seed, name in enumerate(scores.items):
        whole = scores.of(name, Method(WHOLE, slm=slm))
        rng = np.random.default_rng(seed)
        random_numbers = pd.DataFrame(rng.uniform(0.5, 1.5, whole.shape), whole.index)
        factors = (whole, whole**_ONLY_TIES, random_numbers**_ONLY_TIES)
        for judge in judges:
            alone = Method(ALONE, judge)
            if not scores.has(name, alone):
                continue
            judge_scores = scores.of(name, alone).iloc[:, 0]
            of_controls.add(name, alone, judge_scores)
            for control, factor in zip(TIE_CONTROLS, factors):
                method = Method("Ex-DRE", judge, slm, control)
                of_controls.add(name, method, factor.mul(judge_scores, axis=0))
                gain = of_controls.gain(name, method, alone, ["overall"])
                gains.setdefault((judge, control), []).append(gain["overall"])
    rows = []
    for group, members in groups.items():
        row = {"judges": group}
        for control in TIE_CONTROLS:
            of_group = [gain for judge in members for gain in gains.get((judge, control), [])]
            if of_group:
                pooled = stats.pooled(of_group)
                row |= {"pairs": len(of_group), control: pooled["difference"]}
                row |= {f"{control}_{end}": pooled[end] for end in ("low", "high")}
        if "pairs" in row:
            rows.append(row)
    return pd.DataFrame(rows)


def wide_gains(means: pd.DataFrame, less: str = "judge") -> pd.DataFrame:
    """Return the class means over one part as a row for each fusion and small model.

    Columns are ``fusion, slm`` and, for each class, ``<class>, <class>_low, <class>_high`` and
    ``<class> above`` (such as "7 of 10").
    """
    of_part = means[means["less"] == less]
    above = [f"{above} of {pairs}" for above, pairs in zip(of_part["above"], of_part["pairs"])]
    endings = _ENDINGS_OF_GAIN | {" above": "above"}
    return spread(of_part.assign(above=above), ["fusion", "slm"], "judges", endings)


def in_print(root: Path, name: str = "dre_table4") -> pd.DataFrame:
    """Return a table of the papers with the method that each of its rows is here.

    Parameters
    ----------
    root : Path
        The folder of the project.
    name : str
        A file of ``data/paper`` with columns ``family, judge_here, slm`` for our method.

    Returns
    -------
    The file's columns, with ``key`` in the place of these three: a `Method`, or None where the row
    was not run here.
    """
    table = pd.read_csv(root / "data/paper" / f"{name}.csv")
    columns = ["family", "judge_here", "slm"]
    keys = methods.from_columns(table, columns)
    return table.drop(columns=columns).assign(key=keys)


def _correlations_in_print(table, names, statistic) -> pd.DataFrame:
    """Return a paper's correlations with the columns called by the titles of rated sets."""
    columns = {f"{TABLE_4[name]}_{statistic}": ratings.RATED[name] for name in names}
    return table[list(columns)].rename(columns=columns).astype(float)


def _by_judge_in_print(table, names) -> pd.DataFrame:
    """Return what print has of methods with a judge, by both: Spearman, a column for each set."""
    spearman = _correlations_in_print(table, names, "spearman")
    by_judge = spearman.set_index([table["method"], table["judge"]])
    return by_judge.loc[table["judge"].notna().to_numpy(), :]


def printed_gains(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each fusion gains in the papers' own Table 4, over its judge and its SLM.

    The row of the SLM is SLIDE's. DRE's judges alone are *Non-DRE*, those of SLIDE,
    in the same table and with another prompt, *LLMs-only*.

    Parameters
    ----------
    table : DataFrame
        What `in_print` returned.

    Returns
    -------
    A row for each comparison: ``fusion, less``, ``gain`` (mean over the papers' judges and sets),
    ``cells``, ``above`` (in how many cells the fusion is above), the mean gain by set, and by
    judges: ``closed, open`` (mean gains, see `CLOSED_IN_PRINT`) and ``closed_above, open_above``
    (such as ``"9 of 9"``). A class without a number has NaN and "".
    """
    is_slm = table["key"] == Method(WHOLE, slm=PAPER)
    of_slm = _correlations_in_print(table, TABLE_4, "spearman")[is_slm].iloc[0]
    by_judge = _by_judge_in_print(table, TABLE_4)
    compared = [("SLIDE", "LLMs-only")]
    compared += [(fused, "Non-DRE") for fused in ("In-DRE", "Ex-DRE", "DRE")]
    compared += [("DRE", "Ex-DRE")]
    compared += [(fused, "SLM") for fused in ("SLIDE", "Ex-DRE", "DRE")]
    compared += [(fused, "LLMs-only") for fused in ("Ex-DRE", "DRE")]
    rows = []
    for fusion_name, less in compared:
        other = of_slm if less == "SLM" else by_judge.loc[less]
        gain = (by_judge.loc[fusion_name] - other).dropna()
        row = {"fusion": fusion_name, "less": less, "gain": gain.stack().mean()}
        row |= {"cells": gain.size, "above": _cells_above(gain), **gain.mean().to_dict()}
        is_closed = gain.index.isin(CLOSED_IN_PRINT)
        by_class = {"closed": gain[is_closed], "open": gain[~is_closed]}
        for judges, of_class in by_class.items():
            row[judges] = of_class.stack().mean()
            row[f"{judges}_above"] = ""
            if len(of_class):
                row[f"{judges}_above"] = f"{_cells_above(of_class)} of {of_class.size}"
        rows.append(row)
    return pd.DataFrame(rows)


def _cells_above(gain):
    # Print has three decimals: a smaller difference is one of floating point.
    return int((gain > 5e-4).to_numpy().sum())


def slides_gains_in_print(slide: pd.DataFrame) -> pd.DataFrame:
    """Return what SLIDE gains over each of its judges in SLIDE's own Table 2, weak judges first.

    Parameters
    ----------
    slide : DataFrame
        The file ``data/paper/slide_table2.csv``.

    Returns
    -------
    A row for each judge: ``judge``, ``alone`` (its Spearman correlation with people, mean of sets),
    the fusion's gain over it by set and on average (``gain``), and ``above``, such as ``"1 of 3"``.
    """
    by_judge = _by_judge_in_print(slide, TABLE_4)
    alone = by_judge.loc["LLMs-only"].mean(axis=1).sort_values()
    gain = by_judge.loc["SLIDE"] - by_judge.loc["LLMs-only"]
    gain = gain.loc[alone.index]
    above = [f"{_cells_above(of_judge)} of {len(of_judge)}" for _, of_judge in gain.iterrows()]
    table = gain.assign(gain=gain.mean(axis=1), above=above)
    table.insert(0, "alone", alone)
    return table.reset_index()


def printed_table(
    table: pd.DataFrame, names: Sequence[str], statistic: str, row_of: Mapping[str, Method]
) -> pd.DataFrame:
    """Return the rows that the paper prints, under our methods.

    Parameters
    ----------
    table : DataFrame
        What `in_print` returned. A row without a key is known by its name in print.
    names : list of str
        Which of `dre.paper.profile.TABLE_4`.
    statistic : str
        ``spearman`` or ``pearson``.
    row_of : dict
        By the paper's method, our method of a judge that the paper does not have. It is set beside
        the mean over the paper's judges, unless a row of the table is this method.

    Returns
    -------
    Columns ``method`` (a `Method`), one for each set, ``row_in_print`` and ``not_run``.
    """
    printed = _correlations_in_print(table, names, statistic)
    by_method = pd.DataFrame(printed.groupby(table["method"]).mean())
    in_file = set(table["key"])
    row_of = {name: method for name, method in row_of.items() if method not in in_file}
    means = by_method.loc[[*row_of]]
    printed["method"] = table["key"].where(table["key"].notna(), table["metric"].map(Method))
    printed = printed.assign(row_in_print=table["metric"], not_run=table["not_run"])
    return pd.concat([printed, means.assign(method=list(row_of.values()))], ignore_index=True)


def with_live_judges(table: pd.DataFrame, panel: Sequence[PanelJudge], slm: str) -> pd.DataFrame:
    """Return the paper's Table 4 with our methods of the rows that live judges of the panel have.

    Where the profile does not have a judge asked for a row, or has no such judge, ``not_run`` says
    so.

    Parameters
    ----------
    table : what `in_print` returned.
    panel : the judges of the profile.
    slm : our name of the papers' small model.
    """
    table = table.copy()
    for judge in panel:
        if not judge.is_live or not judge.printed_name:
            continue
        of_judge = table["judge"] == judge.printed_name
        for method_in_print, method in judge_rows(judge, slm).items():
            is_row = of_judge & (table["method"] == method_in_print)
            prompt = _PROMPTS_OF_CRITERIA.get(method_in_print, "llm_only")
            if judge.asks(prompt):
                table["key"] = table["key"].mask(is_row, method)
                table.loc[is_row, "not_run"] = np.nan
            else:
                # A recording of another judge may have the row.
                is_row &= table["key"].isna()
                table.loc[is_row, "not_run"] = f"optional_prompts does not name {prompt}"
        # SLIDE's paper calls the judge alone so, and has other numbers of it.
        is_judge_alone = of_judge & (table["method"] == "LLMs-only")
        table.loc[is_judge_alone, "not_run"] = "the same scores as in row Non-DRE"
    if any(judge.is_live for judge in panel):
        names = [judge.printed_name for judge in panel if judge.printed_name]
        is_absent = table["judge"].notna() & ~table["judge"].isin(names)
        table.loc[is_absent & table["key"].isna(), "not_run"] = NO_SUCH_JUDGE
    return table


def with_reasons(table: pd.DataFrame, panel: Sequence[PanelJudge], slm: str) -> pd.DataFrame:
    """Return all rows, and those of live judges that lack replies with the reason in ``not_run``.

    Parameters
    ----------
    table : all rows, as `dre.tables.beside_print` returns them.
    panel : the judges of the profile.
    slm : our name of the papers' small model.
    """
    table = table.copy()
    prompt_of = {**_PROMPTS_OF_CRITERIA, "In-DRE": "dre", "DRE": "dre"}
    for judge in panel:
        for name, method in judge_rows(judge, slm).items():
            prompt = prompt_of.get(name, "llm_only")
            why = judge.why_absent(prompt)
            if why and judge.asks(prompt) and method not in set(table["method"]):
                table.loc[len(table), "method"] = method
            if why:
                table.loc[[row == method for row in table["method"]], "not_run"] = why
        # Further rows of the judge, such as by another prompt, that lack a number.
        reasons = [judge.why_absent(prompt) for prompt in ("dre", *FAMILIES) if judge.asks(prompt)]
        of_judge = np.array([getattr(row, "judge", "") == judge.name for row in table["method"]])
        numbers = table[[column for column in table if f"{column}_low" in table]]
        is_empty = of_judge & numbers.isna().any(axis=1) & table["not_run"].isna()
        table.loc[is_empty, "not_run"] = next(filter(None, reasons), None)
    return table


def rows_of_paper(table: pd.DataFrame, panel: Sequence[PanelJudge], slm: str) -> pd.Series:
    """Return which rows make the paper's Table 4: all that it prints, and those of the panel.

    Parameters
    ----------
    table : all rows, as `dre.tables.beside_print` returns them.
    panel : the judges of the profile.
    slm : our name of the papers' small model.
    """
    of_judges = [method for judge in panel for method in judge_rows(judge, slm).values()]
    is_in_print = pd.Series(table["row_in_print"]).notna()
    return is_in_print | table["method"].isin(of_judges)


def in_papers_form(
    spearman: pd.DataFrame, pearson: pd.DataFrame, names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the columns of Table 4 as the paper has them, of each set Pearson and Spearman.

    Parameters
    ----------
    spearman, pearson : all rows, as `dre.tables.beside_print` returns them.
    names : the sets.

    Returns
    -------
    By column, ``<title>, Pearson`` and ``<title>, Spearman``: ours, and in brackets the paper's.
    """
    columns = {}
    of_pearson = pearson.set_index("method").reindex(spearman["method"])
    for title in (ratings.RATED[name] for name in names):
        for statistic, table in (("Pearson", of_pearson), ("Spearman", spearman)):
            cells = zip(table[title], table[f"{title}_printed"])
            columns[f"{title}, {statistic}"] = [ours_and_printed(*cell, True) for cell in cells]
    return columns


def judge_rows(judge: PanelJudge, slm: str) -> dict[str, Method]:
    """Return our methods of a judge by the paper's name of the method.

    A recorded judge was shown the numbers of one training, *as shown*; a live one those of `slm`.
    """
    name = judge.name
    in_one_reply = "" if judge.is_live else "one reply"
    shown = _shown_numbers(judge, slm)
    return {
        "G-EVAL": Method("G-EVAL", name, reading=in_one_reply),
        "LLM-Chiang": Method("LLM-Chiang", name, reading=in_one_reply),
        "Non-DRE": Method(ALONE, name),
        "SLIDE": Method("SLIDE", name, slm),
        "In-DRE": Method("In-DRE", name, shown),
        "Ex-DRE": Method("Ex-DRE", name, slm),
        "DRE": Method("DRE", name, shown),
    }


def _shown_numbers(judge, slm):
    """Return what rows call the numbers that a judge is shown: ``as shown``, or a small model."""
    return slm if judge.is_live else AS_SHOWN


def main_table(
    scores: RatedScores,
    printed: pd.DataFrame,
    printed_pearson: pd.DataFrame,
    method_of: Mapping[str, Method],
) -> pd.DataFrame:
    """Return the rows of the main table: ours with the paper's numbers in brackets.

    Parameters
    ----------
    scores : RatedScores
    printed, printed_pearson : what `printed_table` returned.
    method_of : dict
        By the label of a row, its method. The row of one that no set has is empty.

    Returns
    -------
    Columns ``method``, one for each set (text), ``mean`` with its interval, ``printed``, the mean
    of the paper, ``<title>, Pearson`` for each set (text), and ``n``.
    """
    by_method = printed.set_index("method")
    pearson_by_method = printed_pearson.set_index("method")
    rows = []
    for label, method in method_of.items():
        texts, printed_values = _beside_print(scores, method, "spearman", by_method)
        row = {"method": label, **texts}
        if method in scores.methods:
            row |= stats.interval(scores.mean_agreement(method), "mean")
        row["printed"] = np.mean(printed_values)
        texts, _ = _beside_print(scores, method, "pearson", pearson_by_method)
        row |= {f"{title}, Pearson": text for title, text in texts.items()}
        row["n"] = scores.counts(method)
        rows.append(row)
    return pd.DataFrame(rows).drop(columns="mean_sd", errors="ignore")


def _beside_print(scores, method, statistic, by_method):
    """Return correlations of a method, by set as text beside the paper's, and the paper's."""
    texts = {}
    printed_values = []
    for name in scores.items:
        title = ratings.RATED[name]
        ours = np.nan
        if scores.has(name, method):
            ours = scores.correlation(name, method, statistic)[0].mean()
        printed_values.append(by_method[title].get(method, np.nan))
        texts[title] = ours_and_printed(ours, printed_values[-1])
    return texts, printed_values


def measures_table(
    scores: RatedScores, method_of: Mapping[str, Method], names: Sequence[str]
) -> pd.DataFrame:
    """Return how methods agree with people in each of `dre.stats.MEASURES`, below what is possible.

    Parameters
    ----------
    scores : RatedScores
    method_of : dict
        By label, a method.
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
        of_raters = rater_agreement(scores, name)
        by_label = {
            "highest possible": of_raters["ceiling"],
            "one rater, the others": of_raters["rater"],
        }
        for label, method in method_of.items():
            draws = {}
            if scores.has(name, method):
                draws = scores.agreement(name, method, measures=stats.MEASURES)
            by_label[label] = _intervals(draws)
        for label, row in by_label.items():
            rows.append({"set": ratings.RATED[name], "score": label, **row})
    if not rows:
        return pd.DataFrame(columns=["set", "score", *stats.MEASURES])
    return pd.DataFrame(rows)


def _intervals(draws_by_measure):
    """Return the numbers of a row, with their intervals, by measure."""
    row = {}
    for measure, draws in draws_by_measure.items():
        row |= stats.interval(draws, measure)
    return row


def rater_agreement(scores: RatedScores, name: str) -> dict[str, dict[str, float]]:
    """Return the ceiling of a set and the agreement of one rater with the others, by measure."""
    table = scores.items[name]
    by_rater = np.array(table["ratings"].to_list(), float)
    arguments = by_rater, table["context_id"], table["system"], scores.resamples
    return {
        "ceiling": _intervals(stats.ceilings(*arguments)),
        "rater": _intervals(stats.one_against_rest(*arguments)),
    }


def differences(
    scores: RatedScores, comparisons: Mapping[str, tuple[Method, Method]]
) -> pd.DataFrame:
    """Return the difference of two methods on each set and pooled over them.

    The seeds, or askings, of the two are drawn apart.

    Parameters
    ----------
    scores : RatedScores
    comparisons : dict
        By label, the two methods. The row is empty where no set has both.

    Returns
    -------
    Columns ``comparison``, one for each set, ``pooled`` (all with intervals) and ``seen``, the
    pooled difference that would have been seen with a power of 80 %.
    """
    rows = []
    for label, (first, second) in comparisons.items():
        names = [name for name in scores.items if scores.has(name, first, second)]
        of_first = [scores.agreement(name, first, [second])["overall"] for name in names]
        of_second = [scores.agreement(name, second, [first])["overall"] for name in names]
        row = {"comparison": label}
        for name, first_draws, second_draws in zip(names, of_first, of_second):
            row |= stats.interval(apart(first_draws, second_draws), ratings.RATED[name])
        pooled = dict.fromkeys(_POOLED, np.nan)
        if names:
            draws = apart(np.mean(of_first, axis=0), np.mean(of_second, axis=0))
            pooled = stats.interval(draws, "pooled")
            pooled["seen"] = stats.smallest_seen(pooled["pooled_low"], pooled["pooled_high"])
        rows.append(row | pooled)
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
    is_shown = (means["fusion"] == fusion_name) & (means["slm"] == slm) & (means["judges"] != ALL)
    compared = means.loc[is_shown & means["less"].ne("small model"), :]
    table = spread(compared, ["judges", "less"], "way", _ENDINGS_OF_GAIN | {" seen": "seen"})
    table = table.rename(columns={"overall seen": "seen"})
    columns = [column for column in table if not column.endswith(" seen")]
    # A measure without any number keeps its column.
    return table.reindex(columns=[*dict.fromkeys([*columns, *stats.MEASURES, "seen"])])


def ablations(
    scores: RatedScores, table: pd.DataFrame, row_of: Mapping[str, Method], *slms: str
) -> pd.DataFrame:
    """Return what the papers conclude from ablations: as printed, and measured here.

    Parameters
    ----------
    scores : RatedScores
    table : what `in_print` returned.
    row_of : our rows of the judge, as `judge_rows` returns them.
    slms : the papers' small model and others.

    Returns
    -------
    Columns ``claim``, ``with`` (a small model or a judge), ``printed`` and ``here``, with its
    interval.
    """
    names = list(scores.items)
    in_spearman = _correlations_in_print(table, names, "spearman").set_axis(table["key"])
    mean_of_row = in_spearman.mean(axis=1)
    rows = []
    for family, part in _PART_OF.items():
        for slm in slms:
            whole = Method(WHOLE, slm=slm)
            half = Method(family, slm=slm)
            row: dict = {"claim": f"Prob & Dis agrees better than {part} alone", "with": slm}
            if slm == slms[0]:
                row["printed"] = mean_of_row[whole] - mean_of_row[half]
            gain = scores.mean_agreement(whole) - scores.mean_agreement(half)
            rows.append(row | stats.interval(gain, "here"))
    by_judge = _by_judge_in_print(table, names).mean(axis=1)
    row = {"claim": "LLM-Chiang agrees better than G-EVAL", "with": "the judge"}
    row["printed"] = (by_judge["LLM-Chiang"] - by_judge["G-EVAL"]).mean()
    chiang = row_of["LLM-Chiang"]
    geval = row_of["G-EVAL"]
    if chiang in scores.methods and geval in scores.methods:
        gain = scores.mean_agreement(chiang) - scores.mean_agreement(geval)
        row |= stats.interval(gain, "here")
    rows.append(row)
    words = [method for method in scores.methods if method.family.startswith(_WORD_OVERLAP)]
    words = [method for method in words if method in mean_of_row.index]
    if words:
        best = max(words, key=lambda method: scores.mean_agreement(method)[0].mean())
        row = {"claim": "Every word-overlap metric stays below 0.4 (the highest)", "with": best}
        row["printed"] = in_spearman.loc[words].to_numpy().max()
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
    low, high = pd.DataFrame(_PAPERS_CRITERIA).to_numpy()
    shares = (items[[*_PAPERS_CRITERIA]] - low) / (high - low)
    return shares.mean(axis=1, skipna=False)


def target_table(
    scores: RatedScores, method_of: Mapping[str, Method], names: Sequence[str]
) -> pd.DataFrame:
    """Return the agreement with people's overall rating, and with the papers' human score.

    Parameters
    ----------
    scores : RatedScores
    method_of : dict
        By label, a method.
    names : list of str
        The sets that have the papers' four criteria.

    Returns
    -------
    Columns ``method`` and, for each set, ``<title>`` (overall) and ``<title>, mean of four``, with
    their intervals.
    """
    rows = []
    for label, method in method_of.items():
        row = {"method": label}
        for name in names:
            title = ratings.RATED[name]
            if not scores.has(name, method):
                row |= dict.fromkeys([title, f"{title}, mean of four"], np.nan)
                continue
            items = scores.items[name]
            of_four = stats.draws(
                scores.of(name, method),
                papers_target(items),
                items["context_id"],
                n=scores.resamples,
                seed=list(scores.items).index(name),
            )
            row |= stats.interval(scores.agreement(name, method)["overall"], title)
            row |= stats.interval(of_four, f"{title}, mean of four")
        rows.append(row)
    return pd.DataFrame(rows)


def mean_kappa(rater_ratings: np.ndarray) -> tuple[float, float, float]:
    """Return Cohen's kappa of every two raters: lowest, mean and highest.

    Parameters
    ----------
    rater_ratings : (rows, raters), without NaN; equal values are the same category.
    """
    _, categories = np.unique(rater_ratings, return_inverse=True)
    from sklearn.metrics import cohen_kappa_score  # which loads packages of the extras

    kappas = [cohen_kappa_score(*two) for two in combinations(categories.T, 2)]
    return min(kappas), float(np.mean(kappas)), max(kappas)


def ours_and_printed(ours: float, printed: float, printed_alone: bool = False) -> str:
    """Return a cell of the main table: our number, and that of the paper in brackets.

    Without a number of ours the cell is empty, or has the paper's alone if that is asked for.
    """
    in_brackets = "" if pd.isna(printed) else f"({number(printed)})"
    if pd.isna(ours):
        return in_brackets if printed_alone else ""
    return f"{number(ours)} {in_brackets}".strip()


def rank_systems(
    scores: RatedScores,
    method_of: Mapping[str, Method],
    permutations: int = 2000,
    n_random: int = 20,
) -> pd.DataFrame:
    """Return how well methods rank the systems of the sets that have systems.

    Parameters
    ----------
    scores : RatedScores
    method_of : dict
        By label, a method; of one with several seeds the first is taken.
    permutations : int
        Of the tests behind each number.
    n_random : int
        Of draws of random numbers, whose mean is the last row. It is above 0.5 where people's
        own difference of two systems is not certain.

    Returns
    -------
    Columns ``score``, and for each set ``<title>`` (soft pairwise accuracy of all systems) and
    ``<title>, machines`` (without people's replies).
    """
    with_systems = {}
    for name, table in scores.items.items():
        if pd.Series(table["system"]).nunique() > 1:
            with_systems[name] = table
    rows = []
    for label, method in method_of.items():
        of_method = {}
        for name in with_systems:
            if scores.has(name, method):
                of_method[name] = scores.of(name, method).iloc[:, 0]
        rows.append({"score": label, **_soft_accuracies(of_method, with_systems, permutations)})

    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(n_random):
        noise = {}
        for name, table in with_systems.items():
            noise[name] = pd.Series(rng.random(len(table)), table.index)
        drawn.append(_soft_accuracies(noise, with_systems, permutations))
    if drawn:
        rows.append({"score": RANDOM_NUMBERS} | pd.DataFrame(drawn).mean().to_dict())
    return pd.DataFrame(rows)


def _soft_accuracies(score_of, tables, permutations):
    """Return the soft pairwise accuracy of scores by set, for all systems and for machines."""
    row = {}
    for name, table in tables.items():
        title = ratings.RATED[name]
        is_machine = ~table["system"].isin(PEOPLE)
        for column, is_counted in ((title, True), (f"{title}, machines", is_machine)):
            row[column] = np.nan
            if name in score_of:
                is_used = score_of[name].notna() & is_counted
                pairs = table[is_used]
                people = pairs["human"], pairs["context_id"], pairs["system"]
                score = score_of[name][is_used]
                row[column] = stats.soft_pairwise_accuracy(score, *people, permutations)
    return row


def printed_correlations(root: Path, name: str, statistic: str = "spearman") -> pd.DataFrame:
    """Return the correlations in a table of the papers that belong to methods with a judge.

    Parameters
    ----------
    root : Path
        The folder of the project.
    name : str
        A file of ``data/paper`` with columns ``method, judge`` and ``<set>_<statistic>``.
    statistic : str
        ``spearman`` or ``pearson``.

    Returns
    -------
    DataFrame
        By ``method`` and ``judge``, as the paper calls them, a column for each set, such as
        ``personachat``.
    """
    table = pd.read_csv(root / "data" / "paper" / f"{name}.csv").dropna(subset="judge")
    by_key = table.set_index(["method", "judge"])
    ending = f"_{statistic}"
    correlations = by_key.filter(regex=f"{ending}$").astype(float)
    return correlations.rename(columns=lambda column: column.removesuffix(ending))
