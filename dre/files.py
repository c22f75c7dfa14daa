"""Files that are written whole or not at all."""

import csv
import hashlib
import math
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from dre.errors import DreError

#: How a text begins that a spreadsheet runs as a formula, or that was kept from it.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def replace(path, content):
    """Write a file (text or bytes) and its folder: a reader sees the old one or the whole new one.

    Others who write it at the same time have another temporary file, and none stays behind. A
    file that cannot be written is a DreError.
    """
    path = Path(path)
    content = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise DreError(
            f"{path}: cannot be written ({error.strerror}): free space or give another place"
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def sha256(text: str) -> str:
    """Return the sha256 of a text in UTF-8, in hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def without_nan(value):
    """Return a value of dicts, lists and numbers as JSON has it: None in place of NaN."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def without_formulas(table):
    """Return a DataFrame in which no text is a formula of a spreadsheet.

    Such texts begin with =, +, -, @, a tab or a carriage return. They get an apostrophe, which
    spreadsheets take for the sign of a text. `dre.datasets.readers.scores` takes it off names.
    """
    escaped = {}
    for column in table:
        texts = table[column]
        if texts.dtype.kind in "iufb":
            continue
        is_formula = [isinstance(text, str) and bool(_FORMULA.match(text)) for text in texts]
        if any(is_formula):
            escaped[column] = [
                f"'{text}" if marked else text for text, marked in zip(texts, is_formula)
            ]
    return table.assign(**escaped) if escaped else table


def content_of(table, path):
    """Return a DataFrame as the ending of a name says: .csv, .parquet (bytes), else JSON Lines.

    In CSV a text that a spreadsheet would run as a formula has an apostrophe before it.
    """
    ending = Path(path).suffix
    if ending == ".parquet":
        return table.to_parquet(None, index=False)
    if ending == ".csv":
        table = without_formulas(table)
        text = table.to_csv(index=False, lineterminator="\n")
        if "\r" in text:  # which pandas does not quote by itself, and which would end a row
            text = table.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        return text
    return table.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)


def write(table, path):
    """Write a DataFrame as the ending of the name says; see `content_of`."""
    replace(path, content_of(table, path))
