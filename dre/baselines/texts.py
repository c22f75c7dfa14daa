"""What every baseline shares: which rows can be scored, each distinct pair of texts once, and the reasons."""

import numpy as np
import pandas as pd

from dre.errors import DreError


def score_pairs(table, columns, score, reference=True):
    """Score each distinct (response, reference) once and lay the scores out by pair_id.

    Parameters
    ----------
    table : DataFrame with pair_id, response and, where the metric needs one, reference (str or None)
    columns : list of str, names of the metrics that ``score`` returns
    score : callable
        Takes a list of responses and a list of references (None where not needed) and returns an array
        (texts, metrics); NaN where a metric is undefined.
    reference : bool, does the metric need a reference?

    Returns
    -------
    DataFrame : pair_id, one column a metric, ``reason`` ("" or why the scores are missing). A pair without a
    reference, or with an empty response, is missing, never 0.
    """
    needed = ["pair_id", "response"] + ["reference"] * reference
    absent = [name for name in needed if name not in table]
    if absent:
        raise DreError(f"the table lacks {absent[0]!r}; it has {', '.join(map(str, table.columns))}")
    if table["pair_id"].duplicated().any():
        twice = table["pair_id"][table["pair_id"].duplicated()].iloc[0]
        raise DreError(f"pair_id {twice!r} occurs twice; expected one row a pair")
    responses = [clean(text) for text in table["response"]]
    references = [clean(text) for text in table["reference"]] if reference else [None] * len(table)
    reasons = [why_not(r, ref, reference) for r, ref in zip(responses, references)]
    keys = [(r, ref) for r, ref, why in zip(responses, references, reasons) if not why]
    distinct = list(dict.fromkeys(keys))
    values = np.full((len(table), len(columns)), np.nan)
    if distinct:
        scored = np.asarray(score([r for r, _ in distinct], [ref for _, ref in distinct]), dtype=float)
        place = {key: i for i, key in enumerate(distinct)}
        values[[not why for why in reasons]] = scored.reshape(len(distinct), -1)[[place[key] for key in keys]]
    out = pd.DataFrame(values, columns=columns)
    out.insert(0, "pair_id", table["pair_id"].to_numpy())
    return out.assign(reason=reasons)


def clean(text):
    """Strip a text; None for anything that is no text (None, NaN) or has nothing in it."""
    return text.strip() or None if isinstance(text, str) else None


def why_not(response, reference, needs_reference):
    """Why a pair of cleaned texts has no score, "" if it has one."""
    if response is None:
        return "empty response"
    return "no reference" if needs_reference and reference is None else ""


def batches(texts, size):
    """Positions of texts in batches of similar length, longest first, so that little is padded."""
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    return [order[i : i + size] for i in range(0, len(order), size)]
