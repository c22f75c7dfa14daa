"""Tables of the notebooks: columns for a value with its interval, and the printed numbers beside ours."""

import pandas as pd

from dre.tables import PARTS


def named(name, found):
    """Return a number and its spread, but for what is NaN, as columns that `Table` prints as one.

    ``found``: what a function of `dre.stats` returned, ``r, mean`` or ``difference`` and, of
    ``low, high, sd``, what there is. Gives ``<name>, <name>_low, <name>_high, <name>_sd``.
    """
    value = next(found[key] for key in ("r", "mean", "difference") if key in found)
    parts = {f"{name}{end}": found[end[1:]] for end in PARTS if end[1:] in found}
    return {name: value} | {column: part for column, part in parts.items() if not pd.isna(part)}


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
