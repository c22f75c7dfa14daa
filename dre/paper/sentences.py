"""Numbers in sentences, filled in from a table in ``results/``."""

import string
from itertools import product

import pandas as pd

from dre.errors import DreError
from dre.tables import PARTS, number


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
