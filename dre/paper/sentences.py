"""Numbers in sentences, and the words that follow from the sign of an effect."""

import functools
import io
import math
import string
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from dre.errors import DreError
from dre.tables import ENDINGS, counted, number


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
def _rows(content):
    """Return the rows of a CSV, whose cells are texts."""
    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    return table.to_dict("records")


def _row_with(rows, values, path):
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


def by_interval(
    row: Mapping[str, Any], column: str, above: str, below: str, neither: str, none: float = 0.0
) -> str:
    """Return what is said of an effect, by its sign and its 95 % interval.

    Parameters
    ----------
    row : mapping, such as a row of a table
        With ``<column>``, ``<column>_low`` and ``<column>_high``.
    column : str
        The column of the effect.
    above, below, neither : str
        What is said of an effect that is clearly above no effect, or below it, and of one whose
        interval holds no effect, or is not known.
    none : float
        The value of no effect.
    """
    ends = [float(row[f"{column}{ending}"]) - none for ending in ("", *ENDINGS[:2])]
    value, low, high = ends
    if low > 0 and value > 0:
        return above
    if high < 0 and value < 0:
        return below
    return neither


def by_value(value: float, above: str, below: str, neither: str, digits: int = 2) -> str:
    """Return what is said of a number without an interval, by its sign as it is printed.

    Parameters
    ----------
    value : float
    above, below, neither : str
        What is said of a number above zero, below it, and of one that is printed as zero, or is
        not known.
    digits : int
        With how many decimals it is printed.
    """
    rounded = number(float(value), digits)
    if math.isnan(value) or float(rounded.replace("−", "-")) == 0:
        return neither
    return above if value > 0 else below


#: What others had taught the encoders that profiles name.
_TAUGHT_BEFORE = {
    "minilm": "others had fine-tuned it on a billion pairs, most of them Reddit comments with "
    "their replies, so it is no blank",
    "distilbert": "it had learned from running text alone, and never saw a pair",
}


def taught_before(encoder: str) -> str:
    """Return what others had taught an encoder before our training, as a sentence in Markdown.

    Parameters
    ----------
    encoder : str
        As a profile or a provenance names it: a short name, a Hub id or a path.
    """
    name = Path(encoder).name
    taught = _TAUGHT_BEFORE.get(name, "what others had taught it is not known here")
    return f"The encoder is `{name}`: {taught}."


def training(provenances: Sequence[Mapping[str, Any]]) -> str:
    """Return how small models of one recipe were trained, as a sentence in Markdown.

    Parameters
    ----------
    provenances : list of dict
        Of models, or of their recorded scores: several seeds, and perhaps several sets.
    """
    provenance = provenances[0]
    recipe = provenance["recipe"]
    stages = recipe["stages"]
    epochs = []
    for stage in stages:
        n_epochs = counted(stage["epochs"], "epoch")
        epochs.append(n_epochs if len(stages) == 1 else f"{stage['name']} {n_epochs}")
    kept = "of which the last one is kept"
    if recipe.get("keep") == "best":
        kept = "of which the one with the best held-out triplets is kept"
    rates = f"{recipe['learning_rate']:g} (encoder) and {recipe['head_learning_rate']:g} (head)"
    parts = [
        f"{', '.join(epochs)}, {kept}",
        f"learning rates of at most {rates}",
        f"{counted(recipe['batch_contexts'], 'context')} in a step, with all responses",
        f"at most {recipe['max_seq_length']} tokens of a text",
    ]
    sizes = dict.fromkeys(f"{one['contexts']['train']:,}" for one in provenances)
    n_seeds = len({one["seed"] for one in provenances})
    encoder = Path(provenance["encoder"]).name
    return (
        f"Recipe `{recipe['name']}`, encoder `{encoder}`, {' / '.join(sizes)} contexts, "
        f"{counted(n_seeds, 'seed')}: {'; '.join(parts)}."
    )
