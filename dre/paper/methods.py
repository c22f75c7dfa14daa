"""What a score is made of: the key that joins tables, effects, claims and the papers' rows.

A `Method` is a value. What tables print of it is made from its parts, and is never read back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import pandas as pd

from dre.errors import DreError

#: The families of a small model's scores: the sum of both parts, and each part alone.
WHOLE = "SLM (Prob & Dis)"
DISTANCE = "SLM (Dis)"
PROBABILITY = "SLM (Prob)"
#: The family of a judge's score with the plain prompt.
ALONE = "LLM-only"
#: What rows call the numbers of a small model that a recorded judge was shown.
AS_SHOWN = "as shown"


@dataclass(frozen=True)
class Method:
    """What a score is made of; `str` is what tables print.

    Attributes
    ----------
    family : str
        What is computed, such as ``Ex-DRE``. "" stands for what the judge itself says.
    judge : str
        The judge's name, or "".
    slm : str
        The small model behind it, or what the judge was shown of one, or "".
    reading : str
        Which reading, asking or variant it is, such as ``c`` or ``again``; "" for the main one.
    """

    family: str
    judge: str = ""
    slm: str = ""
    reading: str = ""

    def __str__(self) -> str:
        name = self.family or self.judge
        if self.family and self.judge:
            name = f"{self.family} ({self.judge})"
        return ", ".join(part for part in (name, self.slm, self.reading) if part)


PARTS = tuple(field.name for field in fields(Method))


def encoder_alone() -> Method:
    """Return the method of an encoder's cosine before any training."""
    return Method("Encoder", reading="untrained")


def from_columns(table: pd.DataFrame, columns: Sequence[str] = PARTS) -> pd.Series:
    """Return the method of each row of a table, None where it names no family.

    Parameters
    ----------
    table : DataFrame
        With the parts of methods as texts; an empty cell is an empty part.
    columns : list of str
        The columns of family, judge, small model and reading. Fewer stand for the first parts.
    """
    parts = table[list(columns)].fillna("").astype(str)
    methods = []
    for row in parts.itertuples(index=False):
        methods.append(Method(*row) if row[0] else None)
    return pd.Series(methods, table.index, dtype=object)


def from_text(text: str) -> Method:
    """Return the method that a cell of a file names part by part: ``family=Ex-DRE; slm=paper``.

    Raises
    ------
    DreError
        If the cell has another part, or none of a family and a judge.
    """
    given: dict[str, str] = {}
    for entry in text.split(";"):
        part, _, value = entry.partition("=")
        given[part.strip()] = value.strip()
    unknown = sorted(set(given) - set(PARTS))
    if unknown or not (given.get("family") or given.get("judge")):
        raise DreError(
            f"{text!r} names no method: expected parts such as family=Ex-DRE; slm=paper, "
            f"which are {', '.join(PARTS)}"
        )
    return Method(**{"family": "", **given})
