"""Helpers for tables in notebooks: intervals, the papers' numbers, and wide tables."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dre.tables import PARTS, number


def named(name: str, statistics: Mapping[str, Any] | pd.Series) -> dict[str, Any]:
    """Return a number and its interval as columns, which `dre.tables.Table` prints as one.

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
    numbers: dict[str, Any] = dict(statistics)
    value_key = next(key for key in ("r", "mean", "difference") if key in numbers)
    columns = {name: numbers[value_key]}
    for ending in PARTS:
        key = ending.removeprefix("_")
        if key in numbers and not pd.isna(numbers[key]):
            columns[f"{name}{ending}"] = numbers[key]
    return columns


def with_interval(row: Mapping[str, Any] | pd.Series, column: str, form: str = "+.2f") -> str:
    """Return a number of a row as text with its interval: ``+0.09 [+0.06, +0.13]``.

    What the row lacks is ``NaN``.
    """
    ends = [row.get(f"{column}{ending}", math.nan) for ending in ("", *PARTS[:2])]
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


def spread(table: pd.DataFrame, names: Sequence[str], across: str, value: str) -> pd.DataFrame:
    """Make a long table wide: the entries of one column become columns.

    Parameters
    ----------
    table : DataFrame
    names : list of str
        The columns that identify a row of the wide table.
    across : str
        The column whose entries become columns.
    value : str
        The column whose values fill them. Columns that belong to it keep their ending: ``r_low``
        of set X becomes ``X_low``.
    """
    is_value = [column == value or str(column).startswith(f"{value}_") for column in table]
    value_columns = list(table.columns[is_value])
    by_row = table.set_index([*names, across])
    wide = by_row[value_columns].unstack(across, sort=False)

    # The name of a column is its entry, with the ending of the column that its values come from.
    headers = []
    for column, entry in wide.columns:
        ending = column.removeprefix(value)
        headers.append(f"{entry}{ending}")
    wide.columns = headers
    return wide.reset_index()


def printed(root: Path, name: str, statistic: str = "spearman") -> pd.DataFrame:
    """Return the correlations in a table of the papers that belong to methods with a judge.

    Parameters
    ----------
    root : Path
        The folder of the project.
    name : str
        A file of ``data/paper`` with columns ``method, judge`` and ``<set>_<statistic>``.
    statistic : str
        ``spearman`` or ``pearson``.

    Returns
    -------
    DataFrame
        By ``method`` and ``judge``, as the paper calls them, a column for each set, such as
        ``personachat``.
    """
    table = pd.read_csv(root / "data" / "paper" / f"{name}.csv").dropna(subset="judge")
    by_key = table.set_index(["method", "judge"])
    ending = f"_{statistic}"
    correlations = by_key.filter(regex=f"{ending}$").astype(float)
    return correlations.rename(columns=lambda column: column.removesuffix(ending))
