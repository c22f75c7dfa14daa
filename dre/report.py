"""Tables as CSV and Markdown; a notebook and the report page show the Markdown."""

import math
import os
import re
import string
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import product
from numbers import Integral, Real
from pathlib import Path

import pandas as pd

from dre.errors import DreError

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
    return re.sub(r"^[-+](?=[0.,]*%?$)", "", text).replace("-", "−")  # a true minus, but none for zero


def replace(path, text):
    """Write a file, and its folder, so that a reader sees the old text or the whole new one; DreError if it cannot."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise DreError(f"{path}: cannot be written ({error.strerror}): free space or give another place") from None


class Table:
    """A table in both forms, as `dre.notebook.Book.table` explains; an unknown column is a DreError."""

    def __init__(self, df, name, caption, note="", *, digits=2, headers=None, rows=None, columns=None):
        self.df, self.name, self.caption, headers = df.reset_index(drop=True), name, caption, headers or {}
        parts = {f"{column}{end}" for column in df.columns for end in PARTS}
        own = [column for column in df.columns if column not in parts]
        shown = own[:COLUMNS] if columns is None else list(columns)
        digits = digits if isinstance(digits, dict) else dict.fromkeys([*own, *shown], digits)
        if unknown := sorted({*headers, *digits, *shown} - set(df.columns)):
            raise DreError(f"table {name} has no column {unknown[0]!r}: its columns are {', '.join(own)}")
        rows = self._named(*rows.items()) if isinstance(rows, dict) else ROWS if rows is None else rows
        part = self.df.head(rows) if isinstance(rows, int) else self.df.loc[rows]
        self.headers = [_markdown(headers.get(column, _title(column))) for column in shown]
        records = part.to_dict("records")
        self.cells = [[_cell(row, column, digits.get(column, 2)) for column in shown] for row in records]
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
        return "\n\n".join(filter(None, [f"**{self.caption}**", "\n".join(lines), self.below])) + "\n"

    def save(self, folder):
        """Write ``<name>.csv`` and ``<name>.md`` into `folder` and return their paths."""
        paths = [Path(folder) / f"{self.name}.{ending}" for ending in ("csv", "md")]
        for path, text in zip(paths, (self.csv(), self.markdown())):
            replace(path, text)
        return paths

    __repr__ = _repr_markdown_ = markdown


def _title(column):
    text = str(column).replace("_", " ")
    return text if len(text) == 1 else text[:1].upper() + text[1:]  # a symbol such as n stays as it is


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
    return number(value, digits) + spread + (f" [{number(low, digits)}, {number(high, digits)}]" if bounded else "")


def _markdown(text):
    return " ".join(str(text).translate(ESCAPED).split())


def in_words(path, values, form):
    """Return `form` filled from the row of a CSV that has all these `values`, each in any column; or DreError.

    A list among the values takes a row for each of its own, joined by " / ". Numbers are rounded as in tables, and
    ``{x:.2f[]}`` adds the interval of column ``x``: ``0.85 [0.82, 0.88]``.
    """
    if not path.is_file():
        raise DreError(f"there is no {path.name} in {path.parent}: say a number after the cell that writes its table")
    table, said = pd.read_csv(path, dtype=str, keep_default_na=False), []
    for wanted in product(*(each if isinstance(each, list) else [each] for each in values)):
        rows = table[[set(wanted) <= set(row) for row in table.to_numpy()]].to_dict("records")
        if len(rows) != 1:
            raise DreError(f"{path.name}: {len(rows)} of {len(table)} rows have {', '.join(wanted)}, expected one")
        try:
            said.append(_Words().vformat(form, (), rows[0]))
        except KeyError as error:
            raise DreError(f"{path.name} has no column {error}, but {', '.join(table.columns)}") from error
        except (ValueError, IndexError, AttributeError) as error:
            raise DreError(f"{path.name}, {', '.join(wanted)}: cannot say {form}: {error}") from error
    return " / ".join(said)


class _Words(string.Formatter):
    """Formats the cells of a row, which are text: numbers as in tables, anything else as it is."""

    def get_value(self, key, args, row):
        return row[key], *(row.get(f"{key}{end}", "") for end in PARTS[:2])

    def format_field(self, value, form):
        shown = value if form.endswith("[]") else value[:1]
        if "" in shown:
            raise ValueError("a value is missing in the table")
        form = form.removesuffix("[]")
        value, *ends = (number(each, form) if form else each for each in shown)
        return f"{value} [{', '.join(ends)}]" if ends else value
