"""Files of responses, read alike by every command: JSON Lines, a JSON array, CSV or TSV, Parquet.

The form is told by a name's ending, also before ``.gz``; of standard input, ``-``, by how it begins.
"""

import ast
import codecs
import csv
import gzip
import hashlib
import io
import json
import numbers
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet

from dre.errors import DreError

FIELDS = ("context", "response", "reference", "id", "system")
ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
HALF = re.compile("[\ud800-\udfff]")  # of a character, which no tokeniser takes
UNSPOKEN = ("system", "developer", "tool", "function")  # roles of chat messages that are no turn


def content(path: str | Path) -> bytes:
    """Return the bytes of a file, of standard input for ``-``; DreError if it cannot be read."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise DreError(f"{path}: cannot be read ({error.strerror})") from None


def records(path: str | Path, data: bytes | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (line, record) of a file: a dict, or what stands there instead; DreError if it cannot be read.

    ``data`` are its bytes, if they are known. Where there are no lines, as in Parquet, records are counted from 1.
    """
    data = content(path) if data is None else data
    ending = Path(str(path).removesuffix(".gz")).suffix
    if str(path) != "-" and ending not in ENDINGS:
        raise DreError(
            f"{path}: expected a file whose name ends in {', '.join(ENDINGS)}, or - for standard input"
        )
    try:
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        if ending == ".parquet" or data.startswith(b"PAR1"):
            yield from enumerate(
                pyarrow.parquet.read_table(pyarrow.BufferReader(data)).to_pylist(), 1
            )
            return
        utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
        ending = ending or {"[": ".json", "{": ".jsonl"}.get(text.lstrip()[:1], ".csv")
        if ending == ".json" and not text.lstrip().startswith(
            "{"
        ):  # else it holds lines, whatever it is called
            yield from enumerate(json.loads(text), 1)
        else:
            yield from _jsonl(text) if ending in (".jsonl", ".json") else _csv(text)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DreError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None
    except (
        OSError,
        EOFError,
        ValueError,
        TypeError,
        RecursionError,
        csv.Error,
        zlib.error,
    ) as error:
        raise DreError(f"{path}: cannot be read ({error})") from None


def _jsonl(text):
    for number, line in enumerate(
        text.split("\n"), 1
    ):  # only there a line ends: texts hold other ends of lines
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                yield number, line


def _csv(text):
    """Records of CSV with commas, semicolons or tabs, as spreadsheet programs write it; one may be several lines."""
    separator = max(",;\t", key=text.lstrip().partition("\n")[0].count)
    reader, names, end = (
        csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True),
        None,
        0,
    )
    for cells in reader:
        start, end = end + 1, reader.line_num
        if names is None and any(cells):
            names = [name.strip() for name in cells]
        elif any(cells):  # no blank line
            yield start, dict(zip(names, cells)) if len(cells) == len(names) else cells


def scores(given: pd.DataFrame | str | Path, ids: Iterable, others: Iterable = ()) -> pd.DataFrame:
    """Return ``id`` (the first of ``ids`` there is), ``system`` and the numbers ``score`` and ``others`` of a file.

    Or of a table; ``score`` may be called ``score_llm``, ``others`` may be absent. DreError if there are no such.
    """
    table = (
        given
        if isinstance(given, pd.DataFrame)
        else pd.DataFrame([record for _, record in records(given)])
    )
    id, score = (
        next((name for name in names if name in table), None)
        for names in (ids, ("score", "score_llm"))
    )
    try:
        found = {"score": table[score]} | {name: table[name] for name in others if name in table}
        found = {
            name: pd.to_numeric(column.replace("", None)).astype(float)
            for name, column in found.items()
        }
        found |= {
            "id": table[id].astype(str),
            "system": table["system"].fillna("") if "system" in table else "",
        }
    except (KeyError, ValueError, TypeError) as error:
        name = "the table" if given is table else given
        what = f"expected score, a number or nothing, and {' or '.join(ids)}"
        raise DreError(
            f"{name}: found columns {', '.join(map(str, table))} ({error}): {what}"
        ) from None
    return pd.DataFrame(found)


def pairs(
    records: Iterable[tuple[int, Any]],
    fields: dict[str, str] | None = None,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> tuple[pd.DataFrame, list[dict]]:
    """Return (pairs, bad) of what `records` yields; ``fields`` says which of `FIELDS` has which other name there.

    ``pairs`` is a table with ``line``, `FIELDS`, ``context_id`` (equal for equal turns) and ``pair_id`` (the id, with
    the system's name before it where systems share ids), with ``whole`` also every other column; ``bad`` has
    ``line, reason, content`` of each record that cannot be used, because it lacks what it ``needs``, for example.
    """
    rows, bad, seen, named, columns = [], [], {}, set((fields or {}).values()), {}
    for line, record in records:
        columns |= record if isinstance(record, dict) else {}
        try:
            row = _pair(record, line, fields or {}, needs)
            first = seen.setdefault((row["system"], row["id"]), line)
            if first != line:
                raise ValueError(
                    f"id {row['id']!r} is line {first}'s: make ids unique in a system, or leave them out"
                )
            rows.append((record if whole else {}) | row)
        except ValueError as error:
            bad.append({"line": line, "reason": str(error), "content": record})
    if unknown := named - {*columns}:
        has = ", ".join(map(str, columns)) or "nothing"
        raise DreError(
            f"--field names {', '.join(sorted(unknown))}: expected a column, the records have {has:.200}"
        )
    found = pd.DataFrame(rows) if rows else pd.DataFrame(columns=["line", *FIELDS])
    found["context_id"] = [
        hashlib.sha256(json.dumps(turns).encode()).hexdigest()[:16] for turns in found["context"]
    ]
    shared = found["id"].duplicated(keep=False)
    found["pair_id"] = found["id"].mask(shared, found["system"] + "/" + found["id"])
    return found, bad


def _pair(record, line, fields, needs):
    """The pair of a record; ValueError says what was found and expected."""
    if not isinstance(record, dict):
        raise ValueError(
            "no record: expected one JSON object per line, or as many cells as the header has"
        )
    given = {field: record.get(fields.get(field, field)) for field in FIELDS}
    if absent(given["context"]) and isinstance(record.get("messages"), list):
        given |= _of_chat(record["messages"], given["response"])
    if absent(given["id"]):
        given["id"] = record.get("pair_id")
    turns = turns_of(given["context"])
    fits = {
        "context": isinstance(turns, tuple)
        and all(isinstance(t, str) for t in turns)
        and _is_text("".join(turns))
    }
    fits["response"] = _is_text(given["response"])
    for field, expected in (
        ("context", "turns, oldest first, or chat messages"),
        ("response", "a text"),
    ):
        if not fits[field] and (field in needs or not absent(given[field])):
            has = ", ".join(map(str, record)) or "nothing"
            raise ValueError(
                f"{field} is {given[field]!r:.60}: expected {expected}; the record has {has:.200}"
            )
    instead = {"reference": None, "id": str(line), "system": ""}
    names = {field: _name(field, given[field], default) for field, default in instead.items()}
    return {"line": line, "context": turns, "response": given["response"], **names}


def _name(field, value, default):
    """A text that may be absent; a whole number is one, too."""
    value = str(value) if isinstance(value, numbers.Integral) else value
    if not absent(value) and not _is_text(value):
        raise ValueError(f"{field} is {value!r:.60}: expected a text, or nothing")
    return default if absent(value) else value


def _is_text(value):
    return isinstance(value, str) and bool(value.strip()) and not HALF.search(value)


def absent(value: object) -> bool:
    """Nothing, an empty cell, or the NaN that pandas puts into one."""
    return value is None or value == "" or (isinstance(value, float) and value != value)


def turns_of(value: Any) -> Any:
    """Return the turns of a list, of chat messages, of either written out, or of a text with one turn per line.

    Of messages, several of one role in a row are one turn, and instructions and tools are none. Else what was given.
    """
    if isinstance(value, str):
        written = _written(value)
        value = (
            [turn.strip() for turn in value.split("\n") if turn.strip()]
            if written is None
            else written
        )
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        spoken = [(one.get("role"), _said(one)) for one in value if one.get("role") not in UNSPOKEN]
        value = [
            " ".join(text for _, text in group)
            for _, group in groupby(spoken, key=lambda one: one[0])
        ]
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _written(text):
    """The list of texts or messages that a text is, as JSON or Python writes it; else None."""
    for load in (json.loads, ast.literal_eval) if text.startswith("[") else ():
        try:
            found = load(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and {type(one) for one in found} in ({str}, {dict}):
            return found
    return None


def _of_chat(messages, response):
    """Context and response of a chat: the response is the last that the assistant says, if none is given."""
    own = [
        i
        for i, one in enumerate(messages)
        if isinstance(one, dict) and one.get("role") == "assistant"
    ]
    if absent(response) and own:
        return {"context": messages[: own[-1]], "response": _said(messages[own[-1]])}
    return {"context": messages}


def _said(message):
    """What a message of a chat says, whole or in parts."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [content]
    return " ".join(
        str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts
    )


def rating(record: object, human: str, where: str) -> float | None:
    """The mean rating of a record, None if nobody rated it."""
    value = record.get(human) if isinstance(record, dict) else None
    try:
        given = json.loads(value) if isinstance(value, str) and value else value
        numbers = [
            float(one) for one in (given if isinstance(given, list) else [given]) if not absent(one)
        ]
    except (ValueError, TypeError):
        what = f"{human} is {value!r:.60}: expected a number, a list of numbers, or nothing"
        raise DreError(f"{where}: {what}") from None
    return sum(numbers) / len(numbers) if numbers else None
