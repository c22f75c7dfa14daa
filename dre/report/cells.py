"""From raw numbers to what is printed: intervals joined to their value, numbers rounded, reasons for gaps."""

import math
import string
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from numbers import Integral, Real

import pandas as pd

EMPTY = "—"
PARTS = ("_low", "_high", "_sd")  # columns that belong to the column without that ending


@dataclass(frozen=True)
class Cell:
    """One printed cell: text, the interval after it, the mark of its footnote, whether it is a number."""

    text: str
    interval: str = ""
    mark: str = ""
    number: bool = False

    def __str__(self):
        return f"{self.text} {self.interval}".strip()


@dataclass(frozen=True)
class Grid:
    """A printed table: headers, whether each column is right-aligned, rows of cells, footnotes by mark."""

    headers: tuple
    right: tuple
    rows: tuple
    footnotes: dict


def grid(df, digits, headers, empty, why, signature=None):
    """Return the printed form of `df`; the arguments are those of `dre.report.Table`."""
    columns = [name for name in df.columns if name not in (why, signature) and not _is_part(name, df.columns)]
    marks, rows = {}, []
    for i in range(len(df)):
        row = {name: df[name].iloc[i] for name in df.columns}  # df.iloc[i] would turn whole numbers to floats
        reasons = _Reasons(empty, row[df.columns[0]], row.get(why, ""), marks)
        rows.append(tuple(_cell(row, name, digits, reasons) for name in columns))
    numeric = [any(row[i].number for row in rows) for i in range(len(columns))]
    titles = tuple(headers.get(name, _title(name)) for name in columns)
    return Grid(titles, tuple(numeric), tuple(rows), {mark: reason for reason, mark in marks.items()})


def _is_part(name, columns):
    return any(name.endswith(part) and name.removesuffix(part) in columns for part in PARTS)


def _title(name):
    text = str(name).replace("_", " ")
    return text if len(text) == 1 else text[:1].upper() + text[1:]  # a symbol such as n stays as it is


@dataclass(frozen=True)
class _Reasons:
    """Why cells of one row are empty; `marks` (footnote mark by reason) is shared by the rows of a table."""

    empty: dict
    label: object
    row: str
    marks: dict

    def mark(self, column):
        """Return the footnote mark of an empty cell; the most particular reason that was given counts."""
        given = (self.empty.get(key) for key in ((self.label, column), self.label, column))
        reason = next(filter(None, (*given, self.row, self.empty.get("*"))), None)
        return self.marks.setdefault(reason, _letter(len(self.marks))) if reason else ""


def _cell(row, name, digits, reasons):
    value = row[name]
    if _missing(value):
        return Cell(EMPTY, mark=reasons.mark(name))
    if not _is_number(value):
        return Cell(str(value))
    text = number(value, _digits(digits, name))
    if not _missing(row.get(f"{name}_sd")):
        text += f" ± {number(row[f'{name}_sd'], _digits(digits, name))}"
    bounds = [row.get(f"{name}{part}") for part in ("_low", "_high")]
    interval = ""
    if not any(map(_missing, bounds)):
        interval = "[{}, {}]".format(*(number(bound, _digits(digits, name)) for bound in bounds))
    return Cell(text, interval, number=True)


def number(value, digits):
    """Return a number as text: whole numbers with thousands separated, others with `digits` decimals.

    Halves are rounded up as they read (79.35 to 79.4), not as binary fractions happen to fall: a mean that should be
    85.65 and is 85.649999999999991 reads 85.7, as it does once it has been through a file.
    """
    if isinstance(value, Integral):
        return f"{int(value):,}"
    text = f"{Decimal(f'{float(value):.10g}').quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def signed(value, digits):
    """Return a difference as :func:`number` does, with its sign; none for what is rounded to zero."""
    text = number(float(value), digits)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"


def with_interval(row, column, digits, form=number, unit=""):
    """Return a row's value with its interval as words, ``+0.18 [+0.11, +0.24]``; ``form`` is `number` or `signed`."""
    value, low, high = (form(float(row[f"{column}{end}"]), digits) for end in ("", "_low", "_high"))
    return f"{value}{unit} [{low}, {high}]"


def percent(row, column):
    """Return a row's percentage with its interval as words: ``88.0 % [87.3, 88.7]``."""
    return with_interval(row, column, 1, unit=" %")


def _digits(digits, name):
    return digits.get(name, 2) if isinstance(digits, dict) else digits


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool)


def _missing(value):
    return value is None or value is pd.NA or value == "" or (_is_number(value) and not math.isfinite(value))


def _letter(i):
    return string.ascii_lowercase[i] if i < 26 else str(i + 1)
