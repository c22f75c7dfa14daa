"""The seven replies that DRE (Table 6) and SLIDE (Tables 3 and 4) print, from a file of the user's.

Their texts are the papers', so this project does not have them. Whoever has the papers types them
into a JSONL file, a line for each case:

    {"id": "DRE 1", "context": ["..."], "reference": "...", "responses": ["...", "..."]}
"""

from pathlib import Path
from typing import Any

import pandas as pd

from dre.datasets import readers
from dre.errors import DreError

#: How many replies the papers print of each case.
REPLIES = {"DRE 1": 2, "DRE 2": 2, "SLIDE 1": 1, "SLIDE 2": 1, "SLIDE 3": 1}


def read(file: str | Path) -> pd.DataFrame:
    """Return the printed replies, in the order of `REPLIES`.

    Parameters
    ----------
    file : JSONL, as the module says. ``context`` is a list of turns, or a text with a turn on each
        line.

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
    rows_by_case: dict[str, list[dict]] = {}
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


def _rows(record: Any) -> tuple[str, list[dict]]:
    """Return the name of a case, and a dict for each reply; ValueError if it has a fault."""
    case: Any = record.get("id") if isinstance(record, dict) else None
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
    except (ValueError, TypeError, DreError) as error:
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
