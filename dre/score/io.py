"""Pairs in, scores out: JSON Lines, CSV and Parquet, told apart by a name's ending."""

import ast
import csv
import hashlib
import json
import os
import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet

from dre.errors import DreError
from dre.fetch import read_lines
from dre.report import replace

FIELDS = ("context", "response", "reference", "id", "system")
ENDINGS = (".jsonl", ".csv", ".parquet")
HALF = re.compile("[\ud800-\udfff]")  # of a character, which no tokeniser takes


def pairs(records, fields=None):
    """Return (pairs, bad) of what `records` yields; ``fields`` says which of `FIELDS` has which other name there.

    ``pairs`` is a table with ``line``, `FIELDS`, ``context_id`` (equal for equal turns) and ``pair_id``; ``bad`` has
    ``line, reason, content`` of each record that cannot be scored.
    """
    rows, bad, seen = [], [], {}
    for line, record in records:
        try:
            row = _pair(record, line, fields or {})
            first = seen.setdefault((row["system"], row["id"]), line)
            if first != line:
                raise ValueError(f"id {row['id']!r} is line {first}'s: make ids unique in a system, or leave them out")
            rows.append(row)
        except ValueError as error:
            bad.append({"line": line, "reason": str(error), "content": record})
    found = pd.DataFrame(rows, columns=["line", *FIELDS])
    found["context_id"] = [hashlib.sha256("\x1f".join(turns).encode()).hexdigest()[:16] for turns in found["context"]]
    found["pair_id"] = [f"line {line}" for line in found["line"]]
    return found, bad


def _pair(record, line, fields):
    """The pair of a record; ValueError says what was found and expected."""
    if not isinstance(record, dict):
        raise ValueError("no record: expected one JSON object per line, or as many cells as the header has")
    found, instead = {"line": line}, {"reference": None, "id": str(line), "system": ""}
    for field in FIELDS:
        value = record.get(fields.get(field, field))
        value = turns_of(value) if field == "context" else value
        value = str(value) if field in ("id", "system") and isinstance(value, int) else value
        texts = value if field == "context" and isinstance(value, tuple) else [value]
        if absent(value) and field in instead:
            value = instead[field]
        elif not all(isinstance(text, str) and not HALF.search(text) for text in texts) or not "".join(texts).strip():
            expected = "turns, oldest first" if field == "context" else "a text"
            expected += f"; --field {field}=NAME names another column"
            raise ValueError(f"{field} is {value!r:.60}: expected {expected}")
        found[field] = value
    return found


def turns_of(value):
    """Return the turns of a list, of a list written out, or of a text with one turn per line; else what was given."""
    if isinstance(value, str):
        try:
            listed = ast.literal_eval(value) if value.startswith("[") else None
        except (ValueError, SyntaxError):
            listed = None
        written = isinstance(listed, list) and all(isinstance(turn, str) for turn in listed)
        value = listed if written else [turn.strip() for turn in value.split("\n") if turn.strip()]
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(value) if isinstance(value, (list, tuple)) else value


def absent(value):
    """Nothing, an empty cell, or the NaN that pandas puts into one."""
    return value is None or value == "" or (isinstance(value, float) and value != value)


def records(path):
    """Yield (line, record) of a file: a dict, or what stands there instead; DreError if it cannot be read."""
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise DreError(f"{path}: expected a file whose name ends in {', '.join(ENDINGS)}")
    try:
        if path.suffix == ".parquet":
            yield from enumerate(pyarrow.parquet.read_table(path).to_pylist(), 1)
            return
        lines = read_lines(path)
        lines[0] = lines[0].removeprefix("\ufeff")  # the mark of UTF-8 that spreadsheet programs write
        yield from _csv(lines) if path.suffix == ".csv" else _jsonl(lines)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DreError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None
    except (OSError, ValueError, csv.Error) as error:
        raise DreError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _jsonl(lines):
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, line


def _csv(lines):
    reader, start = csv.DictReader((f"{line}\n" for line in lines), strict=True), 2
    for record in reader:
        whole = None not in record and None not in record.values()  # as many cells as the header has
        yield start, record if whole else list(record.values())
        start = reader.line_num + 1  # a record may go on over several lines


def write(found, path):
    """Write a table by the ending of its name; the file appears only when it is complete."""
    if path.suffix == ".parquet":
        part = path.with_name(f"{path.name}.part")
        found.to_parquet(part, index=False)
        os.replace(part, path)
    elif path.suffix == ".csv":
        replace(path, found.to_csv(index=False, lineterminator="\n"))
    else:
        replace(path, found.to_json(orient="records", lines=True, force_ascii=False, double_precision=15))
