"""Tables of the notebooks: values with intervals, and the printed numbers beside ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dre.tables import PARTS, number


def named(name: str, statistics: Mapping[str, Any] | pd.Series) -> dict[str, Any]:
    """Return a number and its spread as columns that `dre.tables.Table` prints as one.

    Parameters
    ----------
    name : str
        The name of the number.
    statistics : mapping
        What a function of `dre.stats` returned: ``r, mean`` or ``difference`` and, of
        ``low, high, sd``, what there is.

    Returns
    -------
    dict
        ``<name>, <name>_low, <name>_high, <name>_sd``, without what is missing or NaN.
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
    """Return a number of a row as text with its interval: ``+0.09 [+0.06, +0.13]``."""
    low, high = (number(row[f"{column}{ending}"], form) for ending in PARTS[:2])
    return f"{number(row[column], form)} [{low}, {high}]"


def beside_print(table: pd.DataFrame, printed: pd.DataFrame, on: str) -> pd.DataFrame:
    """Return our table with the printed numbers beside ours, the rows of the paper first.

    Parameters
    ----------
    table, printed : DataFrame
        Ours, and what a paper prints, with some columns of the same names.
    on : str
        The column that names a row in both.

    Returns
    -------
    DataFrame
        With ``x_printed`` beside each column ``x`` that both have.
    """
    shared = [column for column in printed if column in table and column != on]
    printed_names = {column: f"{column}_printed" for column in shared}
    renamed = printed.rename(columns=printed_names)
    in_print = table.merge(renamed, "right", on=on, validate="one_to_one")
    is_printed = table[on].isin(printed[on])
    only_ours = table.loc[~is_printed, :]
    return pd.concat([in_print, only_ours], ignore_index=True)


def spread(table: pd.DataFrame, names: Sequence[str], across: str, value: str) -> pd.DataFrame:
    """Return a long table as a wide one.

    Parameters
    ----------
    table : DataFrame
    names : list of str
        The columns that name a row.
    across : str
        The column whose entries become columns.
    value : str
        The column that stands in them. What belongs to it keeps its ending: ``r_low`` of set X
        becomes ``X_low``.
    """
    is_value = [column == value or str(column).startswith(f"{value}_") for column in table]
    value_columns = list(table.columns[is_value])
    by_row = table.set_index([*names, across])
    wide = by_row[value_columns].unstack(across, sort=False)

    # Each column is named by its entry, and keeps the ending of what it holds.
    headers = []
    for column, entry in wide.columns:
        ending = column.removeprefix(value)
        headers.append(f"{entry}{ending}")
    wide.columns = headers
    return wide.reset_index()


def printed(root: Path, table: str, rows: str, method: str = "spearman") -> pd.Series:
    """Return the correlations that a paper prints, by set, such as ``personachat``.

    Parameters
    ----------
    root : Path
        The folder of the project.
    table : str
        A file of ``data/paper`` with columns ``metric, <set>_<method>``.
    rows : str
        A pattern that names of metrics begin with. The result is the mean of these rows; it is NaN
        for a set where none does.
    method : str
        ``spearman`` or ``pearson``.
    """
    path = root / "data" / "paper" / f"{table}.csv"
    in_print = pd.read_csv(path)
    is_chosen = in_print["metric"].str.match(rows)
    ending = f"_{method}"
    correlations = in_print[is_chosen].filter(regex=f"{ending}$")
    means = correlations.mean()
    return means.rename(lambda column: column.removesuffix(ending))
