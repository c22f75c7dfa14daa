"""The papers' Table 5 and SLIDE's Table 2 with all their rows, ours beside print.

A row of a judge stands beside the row of the same judge in print. If print does not have this
judge, it stands beside what ``in_print`` names. A printed row that no judge of the run has says
why.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import pearsonr, spearmanr

from dre import stats
from dre.datasets import ratings
from dre.paper import table4
from dre.paper.judgements import PanelJudge
from dre.paper.methods import ALONE, Method
from dre.paper.profile import TABLE_4
from dre.paper.table4 import NO_SUCH_JUDGE, RatedScores, ours_and_printed
from dre.tables import number

#: What Table 5 prints, by our family of the row.
FAMILIES = {ALONE: "Non-DRE", "In-DRE": "In-DRE", "Ex-DRE": "Ex-DRE", "DRE": "DRE"}
NOT_MEASURED = "not measured here"
NOT_SHOWN = "this judge was not shown these numbers"
#: The judge beside whom SLIDE's Table 2 shows one that it does not print: its strongest.
STRONGEST = "GPT-4"
_STATISTICS = {"": "spearman", ", Pearson": "pearson"}
#: By the name of a row of a judge in SLIDE's Table 2, why it may be missing.
_PROMPTS = {"G-EVAL": "geval", "LLM-Chiang": "analyse_rate"}


def table5(scores: RatedScores, panel: Sequence[PanelJudge], root: Path) -> pd.DataFrame:
    """Return all rows of Table 5: those of the run, in its order, and then what only print has.

    Parameters
    ----------
    scores : RatedScores
        Of the judges' methods, each a `Method` with family and judge.
    panel : the judges of the profile.
    root : Path
        The folder of the project.

    Returns
    -------
    Columns ``method``; for each set ``<title>`` (Spearman, with its interval), ``<title>, paper``,
    ``<title>, Pearson`` and ``<title>, Pearson, paper``; ``n``, the replies of each set that count;
    ``in_print``, whose printed row that is; and ``not_run``.
    """
    in_print = {}
    for statistic in _STATISTICS.values():
        in_print[statistic] = table4.printed_correlations(root, "dre_table5", statistic)
    judges_in_print = list(in_print["spearman"].index.unique("judge"))
    printed_name_of = {judge.name: judge.printed_name for judge in panel}
    our_name_of = {printed: name for name, printed in reversed(printed_name_of.items())}
    rows = []
    has_row = set()  # of the printed rows, by method and judge in print
    for method in scores.methods:
        family = FAMILIES.get(method.family)
        printed_name = printed_name_of.get(method.judge, "")
        row = _measured(scores, method)
        if family:
            chosen = judges_in_print
            label = f"mean of {len(chosen)} other judges"
            if printed_name in judges_in_print:
                chosen = [printed_name]
                label = printed_name
            row |= _mean_in_print(scores, in_print, family, chosen)
            row["in_print"] = label
            has_row.add((family, printed_name))
        rows.append(row)
    for printed_name, (family, name_in_print) in product(judges_in_print, FAMILIES.items()):
        if (name_in_print, printed_name) not in has_row:
            row = {"method": Method(family, str(our_name_of.get(printed_name, printed_name)))}
            row |= _mean_in_print(scores, in_print, name_in_print, [printed_name])
            reason = NOT_SHOWN if printed_name in our_name_of else NO_SUCH_JUDGE
            rows.append(row | {"in_print": printed_name, "not_run": reason})
    for judge in panel:
        why = judge.why_absent("llm_only") or judge.why_absent("dre_transfer")
        of_judge: list[dict] = [row for row in rows if row["method"].judge == judge.name]
        if why and not of_judge:
            of_judge = [{"method": Method(family, judge.name)} for family in FAMILIES]
            rows += of_judge
        for row in of_judge if why else ():
            row["not_run"] = why
    columns = ["method"]
    for _, _, column in _cells(scores):
        columns += [column, f"{column}_low", f"{column}_high", f"{column}, paper"]
    return pd.DataFrame(rows, columns=[*columns, "n", "in_print", "not_run"])


def _cells(scores):
    """Return of each cell of a row the set, the statistic, and the column that it stands in."""
    titles = {name: ratings.RATED[name] for name in scores.items}
    return [
        (name, statistic, f"{title}{ending}")
        for name, title in titles.items()
        for ending, statistic in _STATISTICS.items()
    ]


def _measured(scores, method):
    """Return the correlations of a method, with intervals, and how many replies count."""
    row = {"method": method, "n": scores.counts(method)}
    for name, statistic, column in _cells(scores):
        if scores.has(name, method):
            row |= stats.interval(scores.correlation(name, method, statistic), column)
    return row


def _mean_in_print(scores, in_print, family, judges):
    """Return what the paper prints for a method, mean over some of its judges."""
    row = {}
    for name, statistic, column in _cells(scores):
        mean = in_print[statistic].loc[family].loc[judges].mean()
        row[f"{column}, paper"] = mean.get(TABLE_4[name], np.nan)
    return row


def slide_methods(judge: PanelJudge, slm: str) -> dict[str, Method]:
    """Return our methods of a judge by the name of the row in SLIDE's Table 2."""
    row_of = table4.judge_rows(judge, slm)
    return {
        "G-EVAL": row_of["G-EVAL"],
        "LLM-Chiang": row_of["LLM-Chiang"],
        "LLMs-only": Method(ALONE, judge.name, reading=table4.SLIDES_QUESTION),
        "SLIDE": Method(table4.SLIDES_QUESTION, judge.name, slm),
    }


def slide_table2(
    scores: RatedScores,
    panel: Sequence[PanelJudge],
    in_paper: pd.DataFrame,
    printed: pd.DataFrame,
    slm: str,
) -> pd.DataFrame:
    """Return all rows of SLIDE's Table 2, and those of judges that it does not print.

    Parameters
    ----------
    scores : RatedScores
    panel : the judges of the profile.
    in_paper : DataFrame
        What `dre.paper.table4.in_print` returned of DRE's Table 4, which has the same rows without
        a judge.
    printed : DataFrame
        ``data/paper/slide_table2.csv``.
    slm : str
        Our name of the papers' small model.

    Returns
    -------
    Columns ``method`` (as print names it), ``judge`` (ours), ``n``; by set Spearman and Pearson as
    text, ours and in brackets the paper's; ``largest_p`` of all these correlations; ``in_print``,
    the judge in print; ``not_run``; and as numbers ``<title> spearman``, ``<title> spearman p``,
    ``<title> spearman printed``, and the same for Pearson.
    """
    by_metric = in_paper.set_index("metric")
    rows_of_judge = {judge.name: slide_methods(judge, slm) for judge in panel}
    first_of_name = {judge.printed_name: judge for judge in reversed(panel)}
    rows = []
    has_row = set()
    for row_in_print in printed.to_dict("records"):
        metric = row_in_print["metric"]
        judge_in_print = row_in_print["judge"]
        about = {"method": metric, "judge": "", "in_print": judge_in_print}
        judge = first_of_name.get(judge_in_print)
        if judge is None:
            # Without a judge, or with one whose scores others have released.
            method = by_metric["key"].get(metric)
            reason = NO_SUCH_JUDGE
            if pd.isna(judge_in_print):
                reason = by_metric["not_run"].get(metric)
                reason = reason if isinstance(reason, str) else NOT_MEASURED
        else:
            method = rows_of_judge[judge.name][row_in_print["method"]]
            about["judge"] = judge.name
            reason = _why_not(judge, row_in_print["method"])
            has_row.add(method)
        rows.append(_slide_row(scores, method, about, row_in_print, reason))

    of_judges = printed.dropna(subset="judge").to_dict("records")
    by_name = {(row["method"], row["judge"]): row for row in of_judges}
    names_in_print = {judge_in_print for _, judge_in_print in by_name}
    for judge in panel:
        beside = judge.printed_name
        if beside not in names_in_print:
            beside = STRONGEST
        for row_name, method in rows_of_judge[judge.name].items():
            if method not in has_row:
                row_in_print = by_name.get((row_name, beside), {})
                in_print = row_in_print.get("judge")
                about = {"method": row_name, "judge": judge.name, "in_print": in_print}
                reason = _why_not(judge, row_name)
                rows.append(_slide_row(scores, method, about, row_in_print, reason))
    return pd.DataFrame(rows)


def _why_not(judge, row_name):
    """Return why a row of a judge may be missing."""
    prompt = _PROMPTS.get(row_name, "slide_a1")
    return judge.why_absent(prompt) or "this judge was not asked in this way"


def _slide_row(scores, method, about, row_in_print, reason):
    """Return a row of SLIDE's Table 2; `reason` is why it is missing, if no set has it."""
    texts = {**about, "n": ""}
    numbers = {}
    p_values = []
    is_run = method is not None and any(scores.has(name, method) for name in scores.items)
    if method is not None and is_run:
        texts |= {"n": scores.counts(method), "judge": about["judge"] or method.judge}
    for name, statistic, column in _cells(scores):
        label = f"{ratings.RATED[name]} {statistic}"
        theirs = row_in_print.get(f"{TABLE_4[name]}_{statistic}", np.nan)
        ours = np.nan
        if is_run and scores.has(name, method):
            ours, p_value = _tested(scores, name, method, statistic)
            numbers |= {label: ours, f"{label} p": p_value}
            p_values.append(p_value)
        numbers[f"{label} printed"] = theirs
        texts[column] = ours_and_printed(ours, theirs, printed_alone=True)
    texts["largest_p"] = ""
    if p_values:
        largest = max(p_values)
        texts["largest_p"] = "< 0.0001" if largest < 0.0001 else number(largest, 4)
    texts["not_run"] = None if is_run else reason
    return texts | numbers


def _tested(scores, name, method, statistic):
    """Return a correlation with people, mean over seeds, and its largest p-value."""
    function = {"spearman": spearmanr, "pearson": pearsonr}[statistic]
    human = scores.items[name]["human"]
    results = []
    for _, score in scores.of(name, method).items():
        is_scored = score.notna() & human.notna()
        results.append(function(score[is_scored], human[is_scored]))
    mean = float(np.mean([result.statistic for result in results]))
    return mean, max(result.pvalue for result in results)


def without_partner(panel: Sequence[PanelJudge], names: Sequence[str]) -> list[str]:
    """Return the judges of a printed table that no judge of a profile is."""
    in_profile = {judge.printed_name for judge in panel}
    return [name for name in names if name not in in_profile]
