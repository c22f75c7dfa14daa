"""The papers' Table 5 and SLIDE's Table 2 with all their rows, ours beside print.

A row of a judge stands beside the row of the same judge in print. If print does not have this
judge, it stands beside what ``in_print`` names. A printed row that no judge of the run has says
why.
"""

from collections.abc import Sequence
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
    for ending, statistic in _STATISTICS.items():
        in_print[ending] = table4.printed_correlations(root, "dre_table5", statistic)
    judges_in_print = list(in_print[""].index.unique("judge"))
    printed_name_of = {judge.name: judge.printed_name for judge in panel}
    rows = []
    has_row = set()  # of the printed rows, by method and judge in print
    for method in scores.methods:
        family = FAMILIES.get(method.family)
        printed_name = printed_name_of.get(method.judge, "")
        row = _measured(scores, method)
        if family:
            is_printed = printed_name in judges_in_print
            chosen = [printed_name] if is_printed else judges_in_print
            row |= _mean_in_print(scores, in_print, family, chosen)
            row["in_print"] = printed_name if is_printed else f"mean of {len(chosen)} other judges"
            has_row.add((family, printed_name))
        rows.append(row)
    for printed_name in judges_in_print:
        for family, name_in_print in FAMILIES.items():
            if (name_in_print, printed_name) in has_row:
                continue
            of_panel = [
                name for name, printed in printed_name_of.items() if printed == printed_name
            ]
            row = {"method": Method(family, (of_panel or [printed_name])[0])}
            row |= _mean_in_print(scores, in_print, name_in_print, [printed_name])
            row |= {"in_print": printed_name, "not_run": NOT_SHOWN if of_panel else NO_SUCH_JUDGE}
            rows.append(row)
    columns = ["method"]
    for name in scores.items:
        title = ratings.RATED[name]
        for ending in _STATISTICS:
            column = f"{title}{ending}"
            columns += [column, f"{column}_low", f"{column}_high", f"{column}, paper"]
    return pd.DataFrame(rows, columns=[*columns, "n", "in_print", "not_run"])


def shown_columns(scores: RatedScores) -> list[str]:
    """Return the columns of `table5` in the papers' order: of each set Pearson, then Spearman."""
    columns = ["method"]
    for name in scores.items:
        for ending in reversed(_STATISTICS):
            column = f"{ratings.RATED[name]}{ending}"
            columns += [column, f"{column}, paper"]
    return [*columns, "n", "in_print", "not_run"]


def _measured(scores, method):
    """Return the correlations of a method, with intervals, and how many replies count."""
    row: dict[str, object] = {"method": method, "n": scores.counts(method)}
    for name in scores.items:
        if not scores.has(name, method):
            continue
        for ending, statistic in _STATISTICS.items():
            draws = scores.correlation(name, method, statistic)
            row |= stats.interval(draws, f"{ratings.RATED[name]}{ending}")
    return row


def _mean_in_print(scores, in_print, family, judges):
    """Return what the paper prints for a method, mean over some of its judges."""
    row = {}
    for ending, table in in_print.items():
        mean = table.loc[family].loc[judges].mean()
        for name in scores.items:
            row[f"{ratings.RATED[name]}{ending}, paper"] = mean.get(TABLE_4[name], np.nan)
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
    key_of = in_paper.set_index("metric")["key"]
    reason_of = in_paper.set_index("metric")["not_run"]
    rows_of_judge = {judge.name: slide_methods(judge, slm) for judge in panel}
    first_of_name = {judge.printed_name: judge for judge in reversed(panel)}
    rows = []
    has_row = set()
    for row_in_print in printed.to_dict("records"):
        row_name, judge_in_print = row_in_print["method"], row_in_print["judge"]
        about = {"method": row_in_print["metric"], "judge": "", "in_print": judge_in_print}
        judge = first_of_name.get(judge_in_print)
        if judge is None:
            # Without a judge, or with one whose scores others have released.
            method = key_of.get(row_in_print["metric"])
            reason = NO_SUCH_JUDGE
            if pd.isna(judge_in_print):
                reason = reason_of.get(row_in_print["metric"])
                reason = reason if isinstance(reason, str) else NOT_MEASURED
        else:
            method = rows_of_judge[judge.name][row_name]
            about["judge"] = judge.name
            reason = _why_not(judge, row_name)
            has_row.add(method)
        rows.append(_slide_row(scores, method, about, row_in_print, reason))

    by_name = {}
    for row_in_print in printed.dropna(subset="judge").to_dict("records"):
        by_name[row_in_print["method"], row_in_print["judge"]] = row_in_print
    names_in_print = {judge_in_print for _, judge_in_print in by_name}
    for judge in panel:
        beside = judge.printed_name if judge.printed_name in names_in_print else STRONGEST
        for row_name, method in rows_of_judge[judge.name].items():
            if method in has_row:
                continue
            about = {"method": row_name, "judge": judge.name, "in_print": None}
            row_in_print = by_name.get((row_name, beside))
            if row_in_print is not None:
                about["in_print"] = beside
            reason = _why_not(judge, row_name)
            rows.append(_slide_row(scores, method, about, row_in_print or {}, reason))
    return pd.DataFrame(rows)


def _why_not(judge, row_name):
    """Return why a row of a judge may be missing."""
    prompt = _PROMPTS.get(row_name, "slide_a1")
    if judge.is_live and not judge.asks(prompt):
        return f"optional_prompts does not name {prompt}"
    return "this judge was not asked in this way"


def _slide_row(scores, method, about, row_in_print, reason):
    """Return a row of SLIDE's Table 2; `reason` is why it is missing, if no set has it."""
    texts: dict[str, object] = {**about, "n": ""}
    numbers: dict[str, float] = {}
    is_run = method is not None and any(scores.has(name, method) for name in scores.items)
    if method is not None and is_run:
        texts["n"] = scores.counts(method)
        if not about["judge"]:
            texts["judge"] = method.judge
    for name in scores.items:
        title = ratings.RATED[name]
        for ending, statistic in _STATISTICS.items():
            theirs = float(row_in_print.get(f"{TABLE_4[name]}_{statistic}", np.nan))
            ours = np.nan
            if is_run and scores.has(name, method):
                ours, p_value = _tested(scores, name, method, statistic)
                numbers[f"{title} {statistic}"] = ours
                numbers[f"{title} {statistic} p"] = p_value
            numbers[f"{title} {statistic} printed"] = theirs
            brackets = "" if np.isnan(theirs) else f"({number(theirs)})"
            texts[f"{title}{ending}"] = ours_and_printed(ours, theirs) or brackets
    p_values = [value for key, value in numbers.items() if key.endswith(" p")]
    texts["largest_p"] = ""
    if p_values:
        largest = max(p_values)
        texts["largest_p"] = "< 0.0001" if largest < 0.0001 else number(largest, 4)
    texts["not_run"] = None if is_run else reason
    return texts | numbers


def _tested(scores, name, method, statistic) -> tuple[float, float]:
    """Return a correlation with people, mean over seeds, and its largest p-value."""
    function = {"spearman": spearmanr, "pearson": pearsonr}[statistic]
    human = scores.items[name]["human"]
    results = []
    for _, score in scores.of(name, method).items():
        is_scored = score.notna() & human.notna()
        results.append(function(score[is_scored], human[is_scored]))
    mean = float(np.mean([result.statistic for result in results]))
    return mean, max(result.pvalue for result in results)


def slide_columns(scores: RatedScores) -> list[str]:
    """Return the columns of `slide_table2` that are shown, as SLIDE orders them."""
    columns = ["method", "judge", "n"]
    for name in scores.items:
        for ending in reversed(_STATISTICS):
            columns.append(f"{ratings.RATED[name]}{ending}")
    return [*columns, "largest_p", "in_print", "not_run"]


def without_partner(panel: Sequence[PanelJudge], names: Sequence[str]) -> list[str]:
    """Return the judges of a printed table that no judge of a profile is."""
    in_profile = {judge.printed_name for judge in panel}
    return [name for name in names if name not in in_profile]
