"""Tables as CSV and Markdown, and numbers as text."""

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pandas as pd

from dre.errors import DreError
from dre.files import replace

EMPTY = "—"
#: Columns with these endings belong to the column without the ending.
PARTS = ("_low", "_high", "_sd")

#: By default, so many rows and columns are printed.
ROWS = 15
COLUMNS = 7

_MARKUP = str.maketrans({"\\": r"\\", "|": r"\|", "<": r"\<", "*": r"\*", "$": r"\$"})


def number(value: Any, form: int | str = 2) -> str:
    """Return a number as text, with a true minus sign, and without a sign for zero.

    Halves are rounded up in decimal: 85.65 becomes 85.7, although its nearest binary number,
    85.649999999999991, is smaller.

    Parameters
    ----------
    value : number, or text of one
    form : int or str
        A number of decimals, or a format such as ``+.1f``. Whole numbers have no decimals.
    """
    is_whole = isinstance(value, Integral)
    if isinstance(form, int):
        form = ",d" if is_whole else f".{form}f"
    with localcontext(rounding=ROUND_HALF_UP):
        decimal = int(value) if is_whole else Decimal(f"{float(value):.10g}")
        text = format(decimal, form)
    text = re.sub(r"^[-+](?=[0.,]*%?$)", "", text)  # no sign before zero
    return text.replace("-", "−")


class Table:
    """A table as CSV and as Markdown; see `dre.paper.notebook.Book.table`.

    Parameters
    ----------
    df : DataFrame
        All rows and columns. Columns ``x_low``, ``x_high`` and ``x_sd`` belong to column ``x``.
    name, caption, note : str
        The name of its files, the line above the Markdown table and the sentence below it.
    digits : int or dict
        Decimals of all columns, or of each column by its name (by default 2).
    headers : dict, optional
        Printed names by column.
    rows : int, list, mask or dict, optional
        The rows of the Markdown table: the first n, a list of positions, a mask, or
        ``{column: names}`` with exactly one column. By default the first 15.
    columns : list of str, optional
        The columns of the Markdown table, by default the first 7.

    Raises
    ------
    DreError
        If there is no such column, or no row with one of the names.
    """

    def __init__(
        self,
        df: pd.DataFrame,
        name: str,
        caption: str,
        note: str = "",
        *,
        digits: int | dict[str, int] = 2,
        headers: dict[str, str] | None = None,
        rows=None,
        columns: Sequence[str] | None = None,
    ):
        self.df = df.reset_index(drop=True)
        self.name = name
        self.caption = caption
        headers = headers or {}

        # Columns such as r_low are printed in the column r.
        spread_columns = {f"{column}{ending}" for column in df.columns for ending in PARTS}
        value_columns = [column for column in df.columns if column not in spread_columns]
        printed_columns = value_columns[:COLUMNS] if columns is None else list(columns)
        if not isinstance(digits, dict):
            digits = dict.fromkeys([*value_columns, *printed_columns], digits)
        self._check_columns([*headers, *digits, *printed_columns], value_columns)

        printed_rows = self._select(rows)
        self.headers = []
        # Whether a column is aligned to the right, as numbers are.
        self.right = []
        for column in printed_columns:
            self.headers.append(_markdown(headers.get(column, _title(column))))
            self.right.append(any(_is_number(value) for value in printed_rows[column]))
        self.cells = []
        for row in printed_rows.to_dict("records"):
            cells = [_cell(row, column, digits.get(column, 2)) for column in printed_columns]
            self.cells.append(cells)

        left_out = ""
        if len(printed_rows) < len(df):
            left_out = f"({len(printed_rows)} of {len(df)} rows; all are in {name}.csv)"
        elif len(printed_columns) < len(value_columns):
            count = f"{len(printed_columns)} of {len(value_columns)} columns"
            left_out = f"({count}; all are in {name}.csv)"
        self.below = " ".join(filter(None, [note, left_out]))

    def _check_columns(self, columns, value_columns):
        """Raise a DreError that names the first of `columns` that the table does not have."""
        unknown = sorted(set(columns) - set(self.df.columns))
        if unknown:
            raise DreError(
                f"table {self.name} has no column {unknown[0]!r}: "
                f"its columns are {', '.join(value_columns)}"
            )

    def _select(self, rows) -> pd.DataFrame:
        """Return the rows that the Markdown table shows."""
        if rows is None:
            rows = ROWS
        if isinstance(rows, int):
            return self.df.head(rows)
        if isinstance(rows, dict):
            if len(rows) != 1:
                raise DreError(
                    f"table {self.name}: rows={rows} names {len(rows)} columns; "
                    "name one column, such as rows={'model': ['a', 'b']}"
                )
            [(column, names)] = rows.items()
            rows = self._positions_of(column, names)
        return self.df.loc[rows]

    def _positions_of(self, column, names) -> list[int]:
        """Return the positions of rows with one of `names` in a column, in the order of names."""
        self._check_columns([column], list(self.df.columns))
        positions = []
        for name in names:
            matching = self.df.index[self.df[column] == name]
            if matching.empty:
                raise DreError(f"table {self.name} has no row whose {column} is {name!r}")
            positions.extend(matching)
        return positions

    def csv(self) -> str:
        """Return all rows and columns as CSV text, six significant digits."""
        return self.df.to_csv(index=False, float_format="%.6g", lineterminator="\n")

    def markdown(self) -> str:
        """Return the printed rows and columns as a Markdown table with caption and note."""
        alignment = ["--:" if is_right else ":--" for is_right in self.right]
        lines = []
        for cells in [self.headers, alignment, *self.cells]:
            lines.append(f"| {' | '.join(cells)} |")
        blocks = [f"**{self.caption}**", "\n".join(lines)]
        if self.below:
            blocks.append(self.below)
        return "\n\n".join(blocks) + "\n"

    def save(self, folder: Path | str) -> list[Path]:
        """Write ``<name>.csv`` and ``<name>.md`` into `folder` and return their paths."""
        csv = Path(folder) / f"{self.name}.csv"
        markdown = Path(folder) / f"{self.name}.md"
        replace(csv, self.csv())
        replace(markdown, self.markdown())
        return [csv, markdown]

    __repr__ = _repr_markdown_ = markdown


def show(
    df: pd.DataFrame,
    caption: str,
    note: str,
    columns: Sequence[str],
    headers: dict[str, str] | None = None,
    digits: dict[str, int] | None = None,
) -> None:
    """Print those of `columns` that a table has, with their intervals.

    Numbers have two decimals, but for the columns that ``digits`` names.
    """
    columns = [column for column in columns if column in df]
    printed = []
    for column in df:
        value_column = str(column).removesuffix("_low").removesuffix("_high")
        if value_column in columns:
            printed.append(column)
    printed_headers = {}
    for column, header in (headers or {}).items():
        if column in columns:
            printed_headers[column] = header
    table = Table(
        df.loc[:, printed],
        "table",
        caption,
        note,
        digits={column: (digits or {}).get(column, 2) for column in columns},
        headers=printed_headers,
        rows=len(df),
        columns=columns,
    )
    print(table.markdown())


def _title(column):
    """Return a column's name with spaces and a capital. A symbol such as n is not changed."""
    text = str(column).replace("_", " ")
    if len(text) == 1:
        return text
    return text[:1].upper() + text[1:]


def _is_number(value):
    """Return whether a value is a finite number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _cell(row, column, digits):
    """Return the text of a cell: the value of a column, and its interval or deviation."""
    value = row[column]
    low, high, sd = (row.get(f"{column}{ending}") for ending in PARTS)
    if not _is_number(value):
        is_missing = value is None or value is pd.NA or value == "" or isinstance(value, float)
        return EMPTY if is_missing else _markdown(value)
    text = number(value, digits)
    if _is_number(sd):
        text += f" ± {number(sd, digits)}"
    if _is_number(low) and _is_number(high):
        text += f" [{number(low, digits)}, {number(high, digits)}]"
    return text


def _markdown(text):
    """Return a text on one line, with everything escaped that would be markup in a cell."""
    return " ".join(str(text).translate(_MARKUP).split())
