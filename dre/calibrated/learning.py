"""A calibrated fusion of your own SLM and judge, learned from scores and from people's ratings of the same pairs."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dre import stats
from dre.calibrated.fusion import Calibrated, complete
from dre.errors import DreError
from dre.report import signature
from dre.scoring import forms, readers
from dre.scoring.rows import absent

#: methods of ``dre score`` whose scores hold an SLM's and a judge's, neither of which saw the other
METHODS = ("ex_dre", "slide", "calibrated")
#: what two sets must share to be learned from together, and a pair with them to be scored
SAME = ("model", "judge", "prompt")


def learn(sets, human="human", names=None, resamples=1000, seed=0):
    """Learn a fusion from rated files and their scores.

    Parameters
    ----------
    sets : list of (path, path)
        A file of pairs with a rating each, and what ``dre score`` made of it with a method of `METHODS`.
    human : str
        What the files call the rating: a number, or a list of several raters' numbers. Pairs without are left out.
    names : dict, optional
        Our field -> the files', as for `dre.scoring.rows.row_of`.

    Returns
    -------
    fusion : Calibrated
    measured : DataFrame
        One row a set: ``set, pairs, contexts``; Spearman correlation with people of ``slm``, ``judge`` and ``fused``,
        with 95 % intervals (bootstrap over contexts), where ``fused`` and ``weight`` come from the *other* sets, and
        are missing where there is none.

    Raises
    ------
    DreError
        If a file is no such file, a set cannot be learned from, or the sets were scored with different models, judges
        or prompts.
    """
    made = [made_with(rated, scores) for rated, scores in sets]
    for (_, scores), found in zip(sets, made):
        for part in SAME:
            if found[part] != made[0][part]:
                raise DreError(
                    f"{scores} was scored with {part} {found[part]}, {sets[0][1]} with {made[0][part]}: one fusion is "
                    "of one model and one judge"
                )
    tables = [evidence(rated, scores, human, names) for rated, scores in sets]
    fusion = Calibrated.fit(tables, resamples=resamples, seed=seed)
    measured = [_measured(i, tables, resamples, seed) for i in range(len(tables))]
    measured = pd.DataFrame(measured).assign(set=[Path(rated).name for rated, _ in sets])
    return replace(fusion, made_with={part: made[0][part] for part in SAME}), measured[["set", *measured.columns[:-1]]]


def made_with(rated, scores):
    """Return what made a file of scores, from the summary beside it: the parts of its signature.

    Raises
    ------
    DreError
        If there is no summary, the scores are of another file, or they lack an SLM's or a judge's.
    """
    summary = Path(f"{scores}.summary.json")
    try:
        found = signature.parts(json.loads(summary.read_text(encoding="utf-8"))["signature"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DreError(
            f"{summary} cannot be read ({type(error).__name__}): expected the summary that dre score wrote beside "
            f"{scores}, which says what made them"
        ) from None
    if found.get("dre") not in METHODS:
        raise DreError(
            f"{scores} was made with method {found.get('dre')}: expected one of {', '.join(METHODS)}, whose scores "
            "hold the SLM's and the judge's own"
        )
    try:
        digest = hashlib.sha256(Path(rated).read_bytes()).hexdigest()
    except OSError as error:
        raise DreError(f"{rated}: cannot be read ({error.strerror or error})") from None
    if not digest.startswith(found["data"]):
        raise DreError(f"{scores} was not made from {rated}: expected the scores of this very file")
    return found


def evidence(rated, scores, human="human", names=None):
    """Return what a fusion is fitted on: ``pair_id, context_id, human, score_slm, score_llm, status``."""
    table = forms.read(Path(scores), ("line", "context_id", "score_slm", "score_llm", "status"))
    table["human"] = table["line"].map(ratings(rated, human, names))
    if table["human"].isna().all():
        raise DreError(f"{rated}: no pair has a rating in {human!r}; say what the ratings are called with --human")
    try:
        return complete(table.assign(pair_id=table["line"]))
    except DreError as error:
        raise DreError(f"{rated}: {error}") from None


def ratings(rated, human="human", names=None):
    """Return the rating of each line of a file that has one."""
    found = {}
    for line, record in readers.records(Path(rated), names or {}):
        value = record.get(human) if isinstance(record, dict) else None
        number = _mean(value, readers.place(rated, line), human)
        if number is not None:
            found[line] = number
    return found


def _mean(value, where, human):
    """The mean of the numbers a rating holds, None where it holds none."""
    given = _written_list(value) if isinstance(value, str) else value
    given = [one for one in (given if isinstance(given, list) else [given]) if not absent(one)]
    try:
        numbers = [float(one) for one in given]
    except (ValueError, TypeError):
        numbers = [float("nan")]
    if not np.isfinite(numbers).all():
        raise DreError(f"{where}: {human} is {value!r}: expected a number, a list of numbers, or nothing")
    return float(np.mean(numbers)) if numbers else None


def _written_list(text):
    """The list that a CSV cell such as ``[4, 5]`` was written from, or the text itself."""
    try:
        found = json.loads(text) if text.startswith("[") else text
    except ValueError:
        return text
    return found


def _measured(i, tables, resamples, seed):
    table = tables[i].set_index("pair_id")
    others = tables[:i] + tables[i + 1 :]
    scores = {"slm": table["score_slm"], "judge": table["score_llm"]}
    weight = np.nan
    if others:
        fusion = Calibrated.fit(others, resamples=resamples, seed=seed)
        weight, scores["fused"] = fusion.weight, fusion.fuse(tables[i]).set_index("pair_id")["score"]
    there = table["human"].notna() & pd.DataFrame(scores).notna().all(axis=1)
    table, scores = table[there], pd.DataFrame(scores)[there]
    found = stats.correlate(
        scores, table["human"], table["context_id"], statistics=("spearman",), resamples=resamples, seed=seed
    ).set_index("method")
    row = {"pairs": len(table), "contexts": table["context_id"].nunique()}
    for name in ("slm", "judge", "fused"):
        one = found.loc[name] if name in found.index else dict.fromkeys(("value", "low", "high"), np.nan)
        row |= {name: one["value"], f"{name}_low": one["low"], f"{name}_high": one["high"]}
    return row | {"weight": weight}
