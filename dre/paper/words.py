"""Numbers in prose: places in README and docs that name a cell of a table of ``results/public``.

A place is enclosed by two comments that no reader sees. It names a table, values that choose its
one row (in any columns, with "; " between them), a column, and how the number is printed::

    agrees with people at <!--table4: SLM (Prob & Dis), ours: DailyDialog .2f-->0.39<!--/-->

The format is one of `dre.tables.number`. With ``[]`` behind it, the interval is printed as well;
without a format, the cell is printed as it is. A place that names a table alone has all its rows,
or those of some columns, as in ``verdicts: claim, verdict``. A table of another folder is named by
its path, such as ``results/trust_memory.csv``.

Comments that begin with a space are no places.
"""

import re
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.files import replace
from dre.paper.profile import COMMITTED
from dre.tables import ENDINGS, Table, number, with_interval

_MARK = re.compile(r"<!--(\S[^<>]*)-->")
_PLACE = re.compile(r"<!--([^\s/][^<>]*)-->(?:(?!<!--).)*<!--/-->", re.DOTALL)
_COLUMN = re.compile(r"^(.+?)(?: ([+,]*\.\df)(\[\])?)?$")


def fill(root: Path) -> list[Path]:
    """Fill all places of README and docs, and return the files that this has changed.

    Raises
    ------
    DreError
        If there is no such table, row or column, if a value is missing, or if a place has only one
        of its two comments. The message names file and place.
    """
    changed = []
    for path in [*sorted(root.glob("docs/*.md")), *root.glob("README.md")]:
        before = path.read_text(encoding="utf-8")
        for mark in _MARK.findall(_PLACE.sub("", before)):
            raise DreError(
                f"{path.name}: <!--{mark}--> is half a place: expected <!--table: row: column-->, "
                "a number, and <!--/-->"
            )
        try:
            after = _PLACE.sub(lambda place: _filled(root, place[1]), before)
        except DreError as error:
            raise DreError(f"{path.name}: {error}") from error
        if after != before:
            replace(path, after)
            changed.append(path)
    return changed


def cell(folder: Path, place: str) -> tuple[dict[str, str], str]:
    """Return the row of a place, whose cells are texts, and what the place says of its column.

    Parameters
    ----------
    folder : Path
        The folder of the tables, such as ``results/public``.
    place : str
        As in ``table: value; value: column``.

    Raises
    ------
    DreError
        If there is no such table, or if not exactly one of its rows has all these values.
    """
    table, _, rest = place.partition(": ")
    values, _, column = rest.rpartition(": ")
    rows = _read(folder / f"{table}.csv", place, dtype=str, keep_default_na=False)
    matches = [row for row in rows.to_dict("records") if {*values.split("; ")} <= {*row.values()}]
    if len(matches) != 1:
        raise DreError(f"{place}: {len(matches)} of {len(rows)} rows have these values, not one")
    return matches[0], column


def _read(path, place, **options):
    """Return a table; a DreError that names the place if there is none."""
    if not path.is_file():
        raise DreError(f"{place}: there is no table {path.name}")
    return pd.read_csv(path, **options)


def _filled(root, place):
    """Return the two comments of a place, with what belongs between them."""
    folder = root / "results" / COMMITTED
    if place.count(": ") > 1:
        return f"<!--{place}-->{_number(folder, place)}<!--/-->"
    table, _, columns = place.partition(": ")
    df = _read(root / table if table.endswith(".csv") else folder / f"{table}.csv", place)
    if columns:
        df = df[columns.split(", ")]
    return f"<!--{place}-->\n\n{_rows(df)}\n<!--/-->"


def _number(folder, place):
    """Return the number or the text of a cell as it is printed."""
    row, printed_column = cell(folder, place)
    [(column, form, has_interval)] = _COLUMN.findall(printed_column)
    endings = ("", *ENDINGS[:2]) if has_interval else ("",)
    for end in (f"{column}{ending}" for ending in endings):
        if not row.get(end):
            raise DreError(f"{place}: the row has no value in {end!r}, of {', '.join(row)}")
    if has_interval:
        return with_interval(row, column, form)
    return number(row[column], form) if form else row[column]


def _rows(df):
    """Return all rows of a table in Markdown, without a caption."""
    columns = [column for column in df if not column.endswith(ENDINGS)]
    table = Table(df, "rows", "", rows=len(df), columns=columns)
    return table.markdown().partition("\n\n")[2]
