"""The numbers the papers print (``data/paper/*.csv``), with the column names used here."""

import pandas as pd

from dre.errors import DreError
from dre.pipeline.profile import root

SOURCE = "published"


def published(name):
    """Return the published table `name` as it lies in ``data/paper/<name>.csv``.

    Parameters
    ----------
    name : str
        Such as ``dre_table3`` or ``slide_table2``.

    Raises
    ------
    DreError
        If there is no such file; the message lists those there are.
    """
    folder = root() / "data" / "paper"
    path = folder / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.csv"))) or "none"
        raise DreError(f"no published table '{name}' in data/paper: found {known}")
    return pd.read_csv(path)


def table3():
    """Return the published rows of Table 3 in the columns of ours, in percent.

    Returns
    -------
    pandas.DataFrame
        Columns ``model, source, positive, adversarial, overall``; the papers report neither intervals, nor
        random negatives, nor seeds.
    """
    table = published("dre_table3").rename(columns=lambda name: name.removesuffix("_accuracy"))
    table["model"] = table["model"].str.replace("& ", " & ").str.replace("  ", " ")
    table.insert(1, "source", SOURCE)
    return table
