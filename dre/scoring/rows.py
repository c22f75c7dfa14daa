"""One pair to score: what a record of a file must hold, and what is wrong with one that does not."""

import ast
import hashlib
from typing import NamedTuple

#: what a record may hold; the first two it must
FIELDS = ("context", "response", "reference", "id", "system")


class Row(NamedTuple):
    """A pair to score.

    Attributes
    ----------
    line : int
        Of the file, from 1 (Parquet and Python: the row).
    id, system : str
        As given; ``id`` is the line where there is none, ``system`` is empty.
    context : tuple of str
        Turns, oldest first.
    response : str
    reference : str or None
    """

    line: int
    id: str
    system: str
    context: tuple[str, ...]
    response: str
    reference: str | None = None

    @property
    def context_id(self):
        """Sixteen hex digits that are the same for the same turns: the unit of resampling."""
        return hashlib.sha256("\x1f".join(self.context).encode()).hexdigest()[:16]


class Bad(NamedTuple):
    """A record that cannot be scored: where it is, why, and what it holds."""

    line: int
    reason: str
    content: object


class Unfit(ValueError):
    """Why a record is no pair."""


def row_of(record, line, names=None):
    """Return the `Row` of a record.

    Parameters
    ----------
    record : mapping
    line : int
    names : dict, optional
        Our field -> the record's, for the `FIELDS` that have another name there.

    Raises
    ------
    Unfit
        Saying what was found and what was expected.
    """
    names = dict.fromkeys(FIELDS) | (names or {})
    value = {field: record.get(names[field] or field) for field in FIELDS}
    for field in ("context", "response"):
        if value[field] is None:
            found = ", ".join(map(str, list(record)[:8])) or "nothing"
            raise Unfit(f"there is no {names[field] or field} (found {found}): expected {_WHAT[field]}")
    return Row(
        line,
        _label(value["id"], "id") or str(line),
        _label(value["system"], "system"),
        turns_of(value["context"]),
        _text(value["response"], "response"),
        None if absent(value["reference"]) else _text(value["reference"], "reference"),
    )


_WHAT = {
    "context": "a list of turns, oldest first, or a text with one turn a line",
    "response": "a text",
    "reference": "a text, or nothing",
}


def turns_of(value):
    """Return the turns of a context: a list of texts, such a list written out as text, or a text with a turn a line.

    Raises
    ------
    Unfit
    """
    turns = _written_list(value) if isinstance(value, str) else value
    turns = turns.tolist() if hasattr(turns, "tolist") else turns  # an array, as pandas reads a Parquet file
    if isinstance(turns, str):
        turns = [turn.strip() for turn in turns.replace("\r\n", "\n").split("\n") if turn.strip()]
    if not isinstance(turns, (list, tuple)):
        raise Unfit(f"context is of type {type(value).__name__}: expected {_WHAT['context']}")
    for turn in turns:
        if not isinstance(turn, str):
            raise Unfit(f"a turn of the context is of type {type(turn).__name__}: expected {_WHAT['context']}")
        _encodable(turn, "context")
    if not any(turn.strip() for turn in turns):
        raise Unfit(f"context is empty: expected {_WHAT['context']}")
    return tuple(turns)


def _written_list(text):
    """The list that a CSV cell such as ``['Hello.', 'Hi!']`` was written from, or the text itself."""
    if text[:1] == "[" and text.rstrip()[-1:] == "]":
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
        if isinstance(found, list) and found and all(isinstance(turn, str) for turn in found):
            return found
    return text


def _text(value, field):
    if not isinstance(value, str):
        raise Unfit(f"{field} is of type {type(value).__name__}: expected {_WHAT[field]}")
    if not value.strip():
        raise Unfit(f"{field} is empty: expected {_WHAT[field]}")
    return _encodable(value, field)


def _label(value, field):
    if absent(value):
        return ""
    if not isinstance(value, (str, int)):
        raise Unfit(f"{field} is of type {type(value).__name__}: expected a text or a whole number")
    return _encodable(str(value), field)


def absent(value):
    """Nothing, an empty cell, or the NaN that pandas puts into one."""
    return value is None or (isinstance(value, str) and not value) or (isinstance(value, float) and value != value)


def _encodable(text, field):
    """A lone surrogate is a byte that is no UTF-8, or half of a character: no tokeniser takes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit(f"{field} is not UTF-8 text: save the file as UTF-8") from None
    return text
