"""Tables as CSV and Markdown, which a notebook and the report page show; files that are written whole or not at all."""

import json
import math
import os
import re
import secrets
import string
from contextlib import suppress
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
    return re.sub(r"^[-+](?=[0.,]*%?$)", "", text).replace(
        "-", "−"
    )  # a true minus, but none for zero


def replace(path, content):
    """Write a file (text or bytes), and its folder, so that a reader sees the old or the whole new one; else DreError.

    Others who write it at the same time have a temporary file of their own; none of them stays behind.
    """
    path = Path(path)
    content = content.encode("utf-8") if isinstance(content, str) else content
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        raise DreError(
            f"{path}: cannot be written ({error.strerror}): free space or give another place"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


def write(table, path):
    """Write a DataFrame as the ending of the name says: .csv, .parquet, else JSON Lines."""
    path = Path(path)
    if path.suffix == ".parquet":
        replace(path, table.to_parquet(None, index=False))
    elif path.suffix == ".csv":
        replace(path, table.to_csv(index=False, lineterminator="\n"))
    else:
        replace(
            path,
            table.to_json(orient="records", lines=True, force_ascii=False, double_precision=15),
        )


def check_output(path, endings, *inputs):
    """Refuse an output that could not be written, or is an input, before work is spent on it."""
    path = Path(path)
    if path.suffix not in endings or not os.access(path.resolve().parent, os.W_OK):
        raise DreError(
            f"{path}: expected a name that ends in {', '.join(endings)}, in a folder that can be written to"
        )
    if path.resolve() in [Path(one).resolve() for one in inputs]:
        raise DreError(f"{path} is an input: name another file to write")


def own_output(path, made=None, force=False):
    """Return the summary beside an output of this same run; None where there is no output, or by ``force``.

    ``made``, name -> value, is what decides the content: the summary has to say the same, else DreError; so without it.
    """
    if force or not Path(path).exists():
        return None
    what = "name another file, delete it, or write over it with --force"
    try:
        summary = json.loads(Path(f"{path}.summary.json").read_text(encoding="utf-8"))
        there = dict(part.split(":", 1) for part in summary["signature"].split("|")) | summary
        differ = [
            f"{name} {there.get(name)}, now {made[name]}"
            for name in made
            if there.get(name) != made[name]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise DreError(
            f"{path} is there, and nothing says that this command made it: {what}"
        ) from None
    if differ:
        raise DreError(f"{path} is of another run ({'; '.join(differ)}): {what}")
    return summary


def signature(made):
    """Return what made an output, name -> text, as one line."""
    return "|".join(f"{name}:{text}" for name, text in made.items())


def write_summary(path, summary):
    """Write beside an output, and before it, what made it (``signature``) and what it says."""
    replace(f"{path}.summary.json", json.dumps(summary, indent=1, ensure_ascii=False) + "\n")


class Table:
    """A table in both forms, as `dre.notebook.Book.table` explains; an unknown column is a DreError."""

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


def named(name, found):
    """Return a number and its spread, but for what is NaN, as columns that `Table` prints as one.

    ``found``: what a function of `dre.stats` returned, ``r, mean`` or ``difference`` and, of
    ``low, high, sd``, what there is. Gives ``<name>, <name>_low, <name>_high, <name>_sd``.
    """
    value = next(found[key] for key in ("r", "mean", "difference") if key in found)
    parts = {f"{name}{end}": found[end[1:]] for end in PARTS if end[1:] in found}
    return {name: value} | {column: part for column, part in parts.items() if not pd.isna(part)}


def show(df, caption, note, columns):
    """Print those of `columns` that a table has, with what belongs to them, in four digits."""
    columns = [name for name in columns if name in df]
    df = df[[name for name in df if name.removesuffix("_low").removesuffix("_high") in columns]]
    print(Table(df, "table", caption, note, digits=4, rows=len(df), columns=columns).markdown())


def beside_print(table, printed, on):
    """Put print beside ours: ``x_printed`` for each shared column ``x``, by the name ``on``; rows of print first."""
    shared = [column for column in printed if column in table and column != on]
    beside = printed.rename(columns={column: f"{column}_printed" for column in shared})
    rows = table.merge(beside, "right", on=on, validate="one_to_one")
    return pd.concat([rows, table[~table[on].isin(printed[on])]], ignore_index=True)


def spread(table, names, across, value):
    """Return a long table as a wide one: a row for each of ``names`` (columns), a column for each entry of ``across``.

    In it stands ``value``; what belongs to that keeps its ending: ``r_low`` of set X is ``X_low``.
    """
    own = [column for column in table if column == value or column.startswith(f"{value}_")]
    wide = table.set_index([*names, across])[own].unstack(across, sort=False)
    wide.columns = [f"{entry}{column.removeprefix(value)}" for column, entry in wide.columns]
    return wide.reset_index()


def printed(root, table, rows, method="spearman"):
    """Return the correlations that a paper prints, by set, such as ``personachat``: means of rows.

    ``table`` is a file of ``data/paper`` with columns ``metric, <set>_<method>``; ``rows`` is a
    pattern that metrics begin with. A set is NaN where none does.
    """
    found = pd.read_csv(root / "data" / "paper" / f"{table}.csv")
    found = found[found["metric"].str.match(rows)].filter(regex=f"_{method}$")
    return found.mean().rename(lambda column: column.removesuffix(f"_{method}"))


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


def in_words(path, values, form):
    """Return `form` filled from the row of a CSV that has all these `values`, each in any column; or DreError.

    A list among the values takes a row for each of its own, joined by " / ". Numbers are rounded as in tables, and
    ``{x:.2f[]}`` adds the interval of column ``x``: ``0.85 [0.82, 0.88]``.
    """
    if not path.is_file():
        raise DreError(
            f"there is no {path.name} in {path.parent}: say a number after the cell that writes its table"
        )
    table, said = pd.read_csv(path, dtype=str, keep_default_na=False), []
    for wanted in product(*(each if isinstance(each, list) else [each] for each in values)):
        rows = table[[set(wanted) <= set(row) for row in table.to_numpy()]].to_dict("records")
        if len(rows) != 1:
            raise DreError(
                f"{path.name}: {len(rows)} of {len(table)} rows have {', '.join(wanted)}, expected one"
            )
        try:
            said.append(_Words().vformat(form, (), rows[0]))
        except KeyError as error:
            raise DreError(
                f"{path.name} has no column {error}, but {', '.join(table.columns)}"
            ) from error
        except (ValueError, IndexError, AttributeError) as error:
            raise DreError(
                f"{path.name}, {', '.join(wanted)}: cannot say {form}: {error}"
            ) from error
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
