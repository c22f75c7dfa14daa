"""The seven replies that DRE (Table 6) and SLIDE (Tables 3 and 4) print, from a file of the user's.

Their texts are the papers', so this project does not have them. Whoever has the papers types them
into a JSONL file, a line for each case:

    {"id": "DRE 1", "context": ["..."], "reference": "...", "responses": ["...", "..."]}

A profile that names the file (``cases``) has them scored by its judges and small models: `table6`
and `slide_tables` set these scores beside those that are printed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre import fusion
from dre.datasets import readers
from dre.errors import DreError
from dre.paper import methods
from dre.paper.methods import Method

#: How many replies the papers print of each case.
REPLIES = {"DRE 1": 2, "DRE 2": 2, "SLIDE 1": 1, "SLIDE 2": 1, "SLIDE 3": 1}
#: How the printed tables call the replies of each paper, in the order of `REPLIES`.
COLUMNS = {
    "DRE": ["case1_response1", "case1_response2", "case2_response1", "case2_response2"],
    "SLIDE": ["case1", "case2", "case3"],
}
#: The metrics that need a reference, as DRE's Table 6 calls them.
OVERLAP = {
    "BLEU-1": "BLEU-1",
    "BLEU-2": "BLEU-2",
    "BLEU-3": "BLEU-3",
    "BLEU-4": "BLEU-4",
    "BERTScore": "BertScore",
}


def read(file: str | Path) -> pd.DataFrame:
    """Return the printed replies, in the order of `REPLIES`.

    Parameters
    ----------
    file : JSONL, as the module says. ``context`` is a list of turns.

    Returns
    -------
    A row for each reply: ``pair_id``, ``case``, ``reply`` (from 1), ``context`` (tuple of turns),
    ``reference`` and ``response``.

    Raises
    ------
    DreError
        If a case is missing, unknown or there twice, if one has another number of replies than the
        papers print, or if a text is missing; the message names the line.
    """
    rows_by_case = {}
    for line, record in readers.records(file):
        try:
            case, rows = _rows(record)
            if case in rows_by_case:
                raise ValueError(f"the case {case} is there twice")
        except ValueError as error:
            raise DreError(f"{file}:{line}: {error}") from None
        rows_by_case[case] = rows
    missing = [case for case in REPLIES if case not in rows_by_case]
    if missing:
        raise DreError(f"{file}: found no {', '.join(missing)}, expected {', '.join(REPLIES)}")
    return pd.DataFrame([row for case in REPLIES for row in rows_by_case[case]])


def _rows(record):
    """Return the name of a case, and a dict for each reply; ValueError if it has a fault."""
    case = record.get("id") if isinstance(record, dict) else None
    if case not in REPLIES:
        raise ValueError(f"found id {case!r}, expected one of {', '.join(REPLIES)}")
    responses: Any = record.get("responses")
    n_responses = len(responses) if isinstance(responses, list) else 0
    if n_responses != REPLIES[case]:
        raise ValueError(
            f"{case}: found {n_responses} responses, expected the {REPLIES[case]} that are printed"
        )
    reference: Any = record.get("reference")
    for text in (*responses, reference):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{case}: a response or the reference is missing or no text")
    try:
        turns = readers.turns_of(record.get("context"))
    except ValueError as error:
        raise ValueError(f"{case}: the context is not a list of turns ({error})") from None
    if not "".join(turns).strip():
        raise ValueError(f"{case}: the context is empty")
    rows = []
    for number, response in enumerate(responses, 1):
        row = {
            "pair_id": f"{case}/{number}",
            "case": case,
            "reply": number,
            "context": tuple(turns),
            "reference": reference.strip(),
            "response": response.strip(),
        }
        rows.append(row)
    return case, rows


class Judged(NamedTuple):
    """What a judge said of the printed replies, on 0 to 5, and the numbers that it was shown.

    Attributes
    ----------
    name : of the judge.
    printed_name : what the papers call it, or "".
    alone, hinted : its scores without and with the numbers of a small model.
    numbers : these numbers, ``s_d, s_p, score_slm``.
    by_family : by family of prompts (``geval``, ``analyse_rate``, ``slide_a1``) the scores, where
        the profile has it asked.
    """

    name: str
    printed_name: str
    alone: pd.Series
    hinted: pd.Series
    numbers: pd.DataFrame
    by_family: dict[str, pd.Series]


def judged(judge: Any, replies: pd.DataFrame, slm: Any, key: str) -> Judged:
    """Return what a live judge said of the printed replies; nobody is asked.

    Parameters
    ----------
    judge : `dre.paper.judgements.PanelJudge`.
    replies : what `read` returned.
    slm : the small model whose numbers it was shown.
    key : the set of the profile that the small model was trained on.
    """

    def score(prompt, numbers=None):
        told = judge.scores(replies, prompt, numbers=numbers)
        return pd.Series(np.nan, replies.index) if told is None else told["score"]

    numbers = judge.numbers(replies, slm, key)
    hinted = score("dre", numbers)
    if numbers is None:
        numbers = pd.DataFrame(np.nan, replies.index, ["s_d", "s_p", "score_slm"])
    families = ("geval", "analyse_rate", "slide_a1")
    by_family = {family: score(family) for family in families if judge.asks(family)}
    return Judged(judge.name, judge.printed_name, score("llm_only"), hinted, numbers, by_family)


def table6(
    replies: pd.DataFrame,
    overlap: pd.DataFrame,
    small_models: Mapping[str, pd.DataFrame],
    judges: Sequence[Judged],
    root: Path,
) -> pd.DataFrame:
    """Return DRE's Table 6 about its own replies, beside what is printed, on 0 to 5.

    Parameters
    ----------
    replies : what `read` returned.
    overlap : of the replies, the metrics of `OVERLAP`, in [0, 1].
    small_models : by recipe, the scores of the replies, ``s_d, s_p, score_slm``.
    judges : what `judged` returned of each judge.
    root : the project's folder.

    Returns
    -------
    A row for each score: ``method`` (a `Method`), ``row_in_print`` and, for each of `COLUMNS`, ours
    and ``<column>_printed``. A score is brought to 0 to 5 by its own range, as in notebook 05. The
    paper prints one judge, which it does not name, so all judges stand beside it.
    """
    rows = []
    for metric, in_print in OVERLAP.items():
        rows.append((Method(metric), in_print, 5 * overlap[metric].clip(lower=0)))
    for recipe, table in small_models.items():
        probability = Method(methods.PROBABILITY, slm=recipe)
        rows.append((probability, "SLM(prob-only)", 5 * table["s_p"]))
    for judge in judges:
        for in_print, column in _by_row_of_table6(judge).items():
            family = in_print[0].upper() + in_print[1:]
            rows.append((Method(family, judge.name), in_print, column))
    printed = pd.read_csv(root / "data/paper/dre_table6.csv", index_col="metric")
    return _beside_print(rows, replies, "DRE", printed)


def _by_row_of_table6(judge):
    """Return the scores of a judge and of its fusions, on 0 to 5, by their rows in print."""
    s_d = judge.numbers["s_d"]
    s_p = judge.numbers["s_p"]
    return {
        "non-DRE": judge.alone,
        "in-DRE": judge.hinted,
        "ex-DRE": fusion.ex_dre(s_d, s_p, judge.alone) / 2,
        "DRE": fusion.dre(s_d, s_p, judge.hinted) / 2,
    }


def slide_tables(
    replies: pd.DataFrame,
    small_models: Mapping[str, pd.DataFrame],
    judges: Sequence[Judged],
    root: Path,
) -> pd.DataFrame:
    """Return SLIDE's Tables 3 and 4 about its own replies, beside what is printed.

    Ours are on 0 to 5, the printed ones on 1 to 5. SLIDE fuses the judge's answer to the question
    of SLIDE's appendix A.1 where that was asked, and else its plain score. What the parameters are,
    and what comes back, is as with `table6`.
    """
    rows = []
    for recipe, table in small_models.items():
        whole = Method(methods.WHOLE, slm=recipe)
        rows.append((whole, "SLM", 2.5 * table["score_slm"]))
    families = {"geval": "G-EVAL", "analyse_rate": "LLM-Chiang"}
    for judge in judges:
        in_brackets = f" ({judge.printed_name})"
        for family, name in families.items():
            if family in judge.by_family:
                column = judge.by_family[family]
                rows.append((Method(name, judge.name), name + in_brackets, column))
        llm = judge.by_family.get("slide_a1", judge.alone)
        fused = 2.5 * fusion.slide(pd.Series(judge.numbers["score_slm"]), llm)
        rows.append((Method("SLIDE", judge.name), f"SLIDE{in_brackets}", fused))
    printed = pd.read_csv(root / "data/paper/slide_table3.csv", index_col="metric")
    return _beside_print(rows, replies, "SLIDE", printed)


def _beside_print(rows, replies, paper, printed):
    """Return rows of scores about a paper's replies, each beside its row in print, if it has one.

    Rows that are in print alone come last.
    """
    is_of_paper = replies["case"].str.startswith(paper).to_numpy()
    printed = printed.rename_axis("row_in_print").add_suffix("_printed")
    table = []
    for method, in_print, scores in rows:
        ours = dict(zip(COLUMNS[paper], scores.to_numpy()[is_of_paper], strict=True))
        if in_print not in printed.index:
            in_print = ""
        table.append({"method": method, "row_in_print": in_print, **ours})
    table = pd.DataFrame(table).join(printed, on="row_in_print")
    only_printed = printed[~printed.index.isin(table["row_in_print"])].reset_index()
    only_printed = only_printed.assign(method=only_printed["row_in_print"].map(Method))
    return pd.concat([table, only_printed], ignore_index=True)
