"""What a score is made of: the key that joins tables, effects, claims and the papers' rows.

A `Method` is a value. What tables print of it is made from its fields, and is never read back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import pandas as pd

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
        return ", ".join(filter(None, [name, self.slm, self.reading]))


FIELDS = tuple(field.name for field in fields(Method))


def encoder_alone() -> Method:
    """Return the method of an encoder's cosine before any training."""
    return Method("Encoder", reading="before our training")


def from_columns(table: pd.DataFrame, columns: Sequence[str] = FIELDS) -> pd.Series:
    """Return the method of each row of a table, None where it names no family.

    Parameters
    ----------
    table : DataFrame
        With the fields of methods as texts; an empty cell is an empty field.
    columns : list of str
        The columns of family, judge, small model and reading. Fewer stand for the first fields.
    """
    cells = table[list(columns)].fillna("").astype(str)
    methods = []
    for row in cells.itertuples(index=False):
        methods.append(Method(*row) if row[0] else None)
    return pd.Series(methods, table.index, dtype=object)
