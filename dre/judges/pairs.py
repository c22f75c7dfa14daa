"""The pairs to judge: a JSONL file or a pandas table, as a list of rows."""

import json
from pathlib import Path

from dre.errors import DreError


def read(path):
    """Read ``pairs.jsonl``: an object a line with ``pair_id``, ``context``, ``response`` and what a prompt asks for.

    ``context`` is a list of turns, oldest first, or one text of turns on lines of their own.

    Raises
    ------
    DreError
        With the line number, if a line is not such an object or repeats a ``pair_id``.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DreError(f"{path}: cannot be read ({reason}): give a JSONL file of pairs") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DreError(f"{path}:{number}: not JSON ({error}): write one JSON object a line") from None
            rows.append((f"{path}:{number}", row))
    return _checked(rows)


def rows(pairs):
    """Return the rows of a pandas table (or of a list of mappings), checked like a file's."""
    if hasattr(pairs, "columns"):
        names = list(pairs.columns)
        pairs = [dict(zip(names, values)) for values in zip(*(pairs[name].tolist() for name in names))]
    return _checked([(f"row {number}", row) for number, row in enumerate(pairs)])


def _checked(found):
    if not found:
        raise DreError("there are no pairs: give at least one, with pair_id, context and response")
    seen, checked = {}, []
    for where, row in found:
        if not isinstance(row, dict):
            raise DreError(f"{where}: {type(row).__name__}, expected an object with pair_id, context, response")
        pair_id = row.get("pair_id")
        if not isinstance(pair_id, str) or not pair_id:
            raise DreError(f"{where}: pair_id is {pair_id!r}, expected a text that names the pair")
        if pair_id in seen:
            raise DreError(f"{where}: pair_id {pair_id!r} was at {seen[pair_id]} already: make it unique")
        seen[pair_id] = where
        checked.append(_normal(row, where))
    return checked


def _normal(row, where):
    context = row.get("context")
    if isinstance(context, str):
        context = tuple(line for line in context.split("\n") if line.strip())
    if isinstance(context, list):
        context = tuple(context)
    if context is not None:
        if not isinstance(context, tuple) or not context or not all(isinstance(turn, str) for turn in context):
            raise DreError(f"{where}: context is {row['context']!r:.60}, expected a list of turns, or a text")
        if context is not row["context"]:
            row = row | {"context": context}
    response = row.get("response")
    if response is not None and not isinstance(response, str):
        raise DreError(f"{where}: response is {response!r:.60}, expected a text")
    return row
