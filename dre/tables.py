"""Tables as CSV and Markdown, which a notebook and the report page show; files that are written whole or not at all."""

import math
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from numbers import Integral, Real
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.files import replace

EMPTY = "—"
PARTS = ("_low", "_high", "_sd")  # columns that belong to the column without that ending
ROWS, COLUMNS = 15, 7  # what is shown where nothing else is said
ESCAPED = str.maketrans({each: f"\\{each}" for each in "\\|<*$"})  # read as markup in a cell


def number(value, form=2):
    """Return a number as text, halves rounded up as they read: 85.65 to 85.7, and 85.649999999999991, too.

    `form` is a number of decimals, which whole numbers have none of, or a format such as ``+.1f``.
    """
    whole = isinstance(value, Integral)
    if isinstance(form, int):
        form = ",d" if whole else f".{form}f"
    with localcontext(rounding=ROUND_HALF_UP):
        text = format(int(value) if whole else Decimal(f"{float(value):.10g}"), form)
    return re.sub(r"^[-+](?=[0.,]*%?$)", "", text).replace(
        "-", "−"
    )  # a true minus, but none for zero


class Table:
    """A table in both forms, as `dre.paper.notebook.Book.table` explains; an unknown column is a DreError."""

    def __init__(
        self, df, name, caption, note="", *, digits=2, headers=None, rows=None, columns=None
    ):
        self.df, self.name, self.caption, headers = (
            df.reset_index(drop=True),
            name,
            caption,
            headers or {},
        )
        parts = {f"{column}{end}" for column in df.columns for end in PARTS}
        own = [column for column in df.columns if column not in parts]
        shown = own[:COLUMNS] if columns is None else list(columns)
        digits = digits if isinstance(digits, dict) else dict.fromkeys([*own, *shown], digits)
        if unknown := sorted({*headers, *digits, *shown} - set(df.columns)):
            raise DreError(
                f"table {name} has no column {unknown[0]!r}: its columns are {', '.join(own)}"
            )
        rows = (
            self._named(*rows.items()) if isinstance(rows, dict) else ROWS if rows is None else rows
        )
        part = self.df.head(rows) if isinstance(rows, int) else self.df.loc[rows]
        self.headers = [_markdown(headers.get(column, _title(column))) for column in shown]
        records = part.to_dict("records")
        self.cells = [
            [_cell(row, column, digits.get(column, 2)) for column in shown] for row in records
        ]
        self.right = [any(_is_number(value) for value in part[column]) for column in shown]
        cut = f"{len(part)} of {len(df)} rows" if len(part) < len(df) else ""
        cut = cut or (f"{len(shown)} of {len(own)} columns" if len(shown) < len(own) else "")
        self.below = " ".join(filter(None, [note, cut and f"({cut}; all are in {name}.csv)"]))

    def _named(self, names_in):
        """Return the rows that have one of some names in a column, in the order of the names; each must be there."""
        column, names = names_in
        found = [self.df.index[self.df[column] == name] for name in names]
        if unknown := [name for name, rows in zip(names, found) if rows.empty]:
            raise DreError(f"table {self.name} has no row whose {column} is {unknown[0]!r}")
        return [row for rows in found for row in rows]

    def csv(self):
        """Return all rows and columns as CSV text, six significant digits."""
        return self.df.to_csv(index=False, float_format="%.6g", lineterminator="\n")

    def markdown(self):
        """Return what is shown as a Markdown table with caption and note."""
        rows = [self.headers, ["--:" if right else ":--" for right in self.right], *self.cells]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return (
            "\n\n".join(filter(None, [f"**{self.caption}**", "\n".join(lines), self.below])) + "\n"
        )

    def save(self, folder):
        """Write ``<name>.csv`` and ``<name>.md`` into `folder` and return their paths."""
        paths = [Path(folder) / f"{self.name}.{ending}" for ending in ("csv", "md")]
        for path, text in zip(paths, (self.csv(), self.markdown())):
            replace(path, text)
        return paths

    __repr__ = _repr_markdown_ = markdown


def show(df, caption, note, columns):
    """Print those of `columns` that a table has, with what belongs to them, in four digits."""
    columns = [name for name in columns if name in df]
    df = df[[name for name in df if name.removesuffix("_low").removesuffix("_high") in columns]]
    print(Table(df, "table", caption, note, digits=4, rows=len(df), columns=columns).markdown())


def _title(column):
    text = str(column).replace("_", " ")
    return (
        text if len(text) == 1 else text[:1].upper() + text[1:]
    )  # a symbol such as n stays as it is


def _is_number(value):
    """Tell whether a value is a number that can be printed: finite, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _cell(row, column, digits):
    """Return what is printed for one column of a row: its value, and what is known of its spread."""
    value, low, high, sd = row[column], *(row.get(f"{column}{end}") for end in PARTS)
    if not _is_number(value):
        missing = value is None or value is pd.NA or value == "" or isinstance(value, float)
        return EMPTY if missing else _markdown(value)
    spread = f" ± {number(sd, digits)}" if _is_number(sd) else ""
    bounded = _is_number(low) and _is_number(high)
    return (
        number(value, digits)
        + spread
        + (f" [{number(low, digits)}, {number(high, digits)}]" if bounded else "")
    )


def _markdown(text):
    return " ".join(str(text).translate(ESCAPED).split())
