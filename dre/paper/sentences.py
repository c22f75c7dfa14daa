"""Numbers in sentences, filled in from a table in ``results/``."""

import functools
import io
import string
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.tables import ENDINGS, number


def in_words(path: Path, values: Sequence[str | Sequence[str]], form: str) -> str:
    """Return a format filled from one row of a CSV.

    Parameters
    ----------
    path : Path
        The CSV.
    values : sequence of str or of lists of str
        The row is the one that has all these values, each in any column. A list means several
        rows, one for each of its values; their texts are joined by " / ".
    form : str
        As `str.format` takes it, with the columns as names. Numbers are rounded as in tables.
        ``{x:.2f[]}`` adds the interval of column ``x``: ``0.85 [0.82, 0.88]``.

    Raises
    ------
    DreError
        If there is no such file, row or column, or if a value is missing.
    """
    if not path.is_file():
        raise DreError(
            f"there is no {path.name} in {path.parent}: run the notebook that writes this table"
        )
    rows = _rows(path.read_bytes())
    choices = [[value] if isinstance(value, str) else value for value in values]
    texts = []
    for row_values in product(*choices):
        row = _row_with(rows, row_values, path)
        try:
            texts.append(_RowFormatter().vformat(form, (), row))
        except KeyError as error:
            raise DreError(
                f"{path.name} has no column {error}: its columns are {', '.join(row)}"
            ) from error
        except (ValueError, IndexError, AttributeError) as error:
            raise DreError(
                f"{path.name}, {', '.join(row_values)}: the row does not fit {form!r} ({error})"
            ) from error
    return " / ".join(texts)


@functools.lru_cache(maxsize=64)  # many sentences are filled from the same tables
def _rows(content: bytes) -> list[dict[str, str]]:
    """Return the rows of a CSV, whose cells are texts."""
    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    return table.to_dict("records")


def _row_with(rows, values, path) -> dict[str, str]:
    """Return the one row of a table that has all these values."""
    matches = [row for row in rows if set(values) <= set(row.values())]
    if len(matches) != 1:
        raise DreError(
            f"{path.name}: {len(matches)} of {len(rows)} rows have {', '.join(values)}, "
            "expected one"
        )
    return matches[0]


class _RowFormatter(string.Formatter):
    """Formats the cells of a row, which are text: numbers as in tables, anything else as it is."""

    def get_value(self, key, args, row):
        """Return the cell of a column, and the ends of its interval, "" where it has none."""
        low, high = ENDINGS[:2]
        return row[key], row.get(f"{key}{low}", ""), row.get(f"{key}{high}", "")

    def format_field(self, value, format_spec):
        """Format a cell, with its interval if the format ends in ``[]``."""
        has_interval = format_spec.endswith("[]")
        cells = value if has_interval else value[:1]
        if "" in cells:
            raise ValueError("a value is missing in the table")
        form = format_spec.removesuffix("[]")
        texts = [number(cell, form) if form else cell for cell in cells]
        if not has_interval:
            return texts[0]
        text, low, high = texts
        return f"{text} [{low}, {high}]"
