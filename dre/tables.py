"""Tables as CSV and Markdown, and numbers as text."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pandas as pd

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
    rows : int, mask or dict, optional
        The rows of the Markdown table: the first n, a mask, or those of ``{column: names}`` in
        this order. By default the first 15.
    columns : list of str, optional
        The columns of the Markdown table, by default the first 7.
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
        rows: Any = ROWS,
        columns: Sequence[str] | None = None,
    ):
        self.df = df.reset_index(drop=True)
        self.name = name
        self.caption = caption

        # Columns such as r_low are printed in the column r.
        spread_columns = {f"{column}{ending}" for column in df.columns for ending in ENDINGS}
        value_columns = [column for column in df.columns if column not in spread_columns]
        printed_columns = value_columns[:COLUMNS] if columns is None else list(columns)
        printed_rows = self._select(rows)
        titles = dict(zip(df.columns, map(_title, df.columns))) | (headers or {})
        self.headers = [_markdown(titles[column]) for column in printed_columns]
        # Whether a column is aligned to the right, as numbers are.
        self.right = [any(map(_is_number, printed_rows[column])) for column in printed_columns]
        digits_of = digits if isinstance(digits, dict) else dict.fromkeys(df.columns, digits)
        self.cells = [
            [_cell(row, column, digits_of.get(column, 2)) for column in printed_columns]
            for row in printed_rows.to_dict("records")
        ]

        left_out = ""
        if len(printed_rows) < len(df):
            left_out = f"({len(printed_rows)} of {len(df)} rows; all are in {name}.csv)"
        elif len(printed_columns) < len(value_columns):
            count = f"{len(printed_columns)} of {len(value_columns)} columns"
            left_out = f"({count}; all are in {name}.csv)"
        self.below = " ".join(filter(None, [note, left_out]))

    def _select(self, rows) -> pd.DataFrame:
        """Return the rows that the Markdown table shows."""
        if isinstance(rows, int):
            return self.df.head(rows)
        if isinstance(rows, dict):
            [(column, names)] = rows.items()
            return self.df.set_index(column, drop=False).loc[names]
        return self.df.loc[rows]

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
    shown = df.filter(items=with_intervals)
    options = {"digits": digits or {}, "headers": headers, "rows": len(df), "columns": columns}
    print(Table(shown, "table", caption, note, **options).markdown())


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
        value = numbers.get(ending.strip("_"), math.nan)
        if not math.isnan(value):
            columns[f"{name}{ending}"] = value
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
    renamed = printed.rename(columns={column: f"{column}_printed" for column in shared})
    in_print = table.merge(renamed, "right", on=on, validate="one_to_one")
    only_ours = table.loc[~table[on].isin(printed[on]), :]
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
