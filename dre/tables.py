"""Tables as CSV and Markdown, and numbers as text."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pandas as pd

from dre.errors import DreError
from dre.files import replace

EMPTY = "—"
#: Columns with these endings belong to the column without the ending.
ENDINGS = ("_low", "_high", "_sd")

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


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one: ``1,000 pairs``."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


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
        spread_columns = {f"{column}{ending}" for column in df.columns for ending in ENDINGS}
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
        self.cells = [
            [_cell(row, column, digits.get(column, 2)) for column in printed_columns]
            for row in printed_rows.to_dict("records")
        ]

        left_out = ""
        if len(printed_rows) < len(df):
            left_out = f"({len(printed_rows)} of {len(df)} rows; all are in {name}.csv)"
        elif len(printed_columns) < len(value_columns):
            count = f"{len(printed_columns)} of {len(value_columns)} columns"
            left_out = f"({count}; all are in {name}.csv)"
        self.below = " ".join(filter(None, [note, left_out]))

    def _check_columns(self, columns, value_columns):
        """Raise a DreError that names the first of `columns` that the table does not have."""
        unknown = sorted(set(columns) - set(self.df))
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
        self._check_columns([column], self.df)
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
        blocks = [f"**{self.caption}**", markdown_rows([self.headers, alignment, *self.cells])]
        if self.below:
            blocks.append(self.below)
        return "\n\n".join(blocks) + "\n"

    def save(self, folder: Path | str) -> Path:
        """Write ``<name>.csv`` into `folder`, and return its path."""
        path = Path(folder) / f"{self.name}.csv"
        replace(path, self.csv())
        return path

    __repr__ = _repr_markdown_ = markdown


def markdown_rows(rows: Iterable[Iterable[str]]) -> str:
    """Return the cells of rows as lines of a Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


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
    with_intervals = [f"{column}{ending}" for column in columns for ending in ("", "_low", "_high")]
    table = Table(
        df.filter(items=with_intervals),
        "table",
        caption,
        note,
        digits={column: n for column, n in (digits or {}).items() if column in columns},
        headers={column: text for column, text in (headers or {}).items() if column in columns},
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
    low, high, sd = (row.get(f"{column}{ending}") for ending in ENDINGS)
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


def named(name: str, statistics: Mapping | pd.Series) -> dict:
    """Return a number and its interval as columns, which `Table` prints as one.

    Parameters
    ----------
    name : str
        The name of the number.
    statistics : mapping
        The result of a function of `dre.stats`: ``r``, ``mean`` or ``difference``, and perhaps
        ``low``, ``high`` and ``sd``.

    Returns
    -------
    dict
        ``<name>, <name>_low, <name>_high, <name>_sd``, except those that are missing or NaN.
    """
    numbers: dict = dict(statistics)
    value_key = next(key for key in ("r", "mean", "difference") if key in numbers)
    columns = {name: numbers[value_key]}
    for ending in ENDINGS:
        key = ending.removeprefix("_")
        if key in numbers and not pd.isna(numbers[key]):
            columns[f"{name}{ending}"] = numbers[key]
    return columns


def with_interval(row: Mapping | pd.Series, column: str, form: int | str = "+.2f") -> str:
    """Return a number of a row as text with its interval: ``+0.09 [+0.06, +0.13]``.

    What the row lacks is ``NaN``. ``form`` is that of `number`.
    """
    ends = [row.get(f"{column}{ending}", math.nan) for ending in ("", *ENDINGS[:2])]
    value, low, high = (number(end, form) for end in ends)
    return f"{value} [{low}, {high}]"


def beside_print(table: pd.DataFrame, printed: pd.DataFrame, on: str) -> pd.DataFrame:
    """Return our table with columns for the paper's numbers. Rows of the paper come first.

    Parameters
    ----------
    table, printed : DataFrame
        Ours and the paper's, with some columns of the same names.
    on : str
        The column with the names of rows, in both tables.

    Returns
    -------
    DataFrame
        With the paper's column ``x_printed`` for each column ``x`` that both have.
    """
    shared = [column for column in printed if column in table and column != on]
    printed_names = {column: f"{column}_printed" for column in shared}
    renamed = printed.rename(columns=printed_names)
    in_print = table.merge(renamed, "right", on=on, validate="one_to_one")
    is_printed = table[on].isin(printed[on])
    only_ours = table.loc[~is_printed, :]
    return pd.concat([in_print, only_ours], ignore_index=True)


def spread(
    table: pd.DataFrame, names: Sequence[str], across: str, endings: Mapping[str, str]
) -> pd.DataFrame:
    """Make a long table wide: the entries of one column become columns.

    Parameters
    ----------
    table : DataFrame
    names : list of str
        The columns that identify a row of the wide table. Rows come in the order of `table`.
    across : str
        The column whose entries become columns.
    endings : dict
        What fills these columns: by their ending, the column of `table`. With
        ``{"": "r", "_low": "r_low"}`` the ``r_low`` of set X becomes ``X_low``.
    """
    rows = {}
    for record in table.to_dict("records"):
        key = tuple(record[name] for name in names)
        row = rows.setdefault(key, dict(zip(names, key)))
        row |= {f"{record[across]}{ending}": record[column] for ending, column in endings.items()}
    return pd.DataFrame(list(rows.values()), columns=None if rows else list(names))
