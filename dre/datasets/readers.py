"""How every command reads files of responses: JSON Lines, a JSON array, CSV or TSV, Parquet.

The end of a file's name tells its format (that before ``.gz``, if it ends so). For standard input,
``-``, the first character tells it.
"""

import ast
import csv
import gzip
import hashlib
import io
import json
import math
import numbers
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow
import pyarrow.parquet

from dre.errors import DreError

FIELDS = ("context", "response", "reference", "id", "system")
ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
#: Half of a character (a surrogate), which no tokeniser accepts.
HALF = re.compile("[\ud800-\udfff]")
#: Chat messages with these roles are not turns of the dialogue.
_UNSPOKEN = ("system", "developer", "tool", "function")

_GZIP_START = b"\x1f\x8b"
_PARQUET_START = b"PAR1"
#: An error shows at most so many characters of a wrong value.
_LONGEST_QUOTE = 60
#: An error shows at most so many characters of the names of columns.
_LONGEST_LIST = 200


class NoRecord(NamedTuple):
    """What is in a file where a record was expected, and why it is not a record."""

    content: Any
    reason: str


def content(path: str | Path) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``; DreError if it cannot be read."""
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        raise DreError(f"{path}: cannot be read ({error.strerror})") from None


def records(path: str | Path, data: bytes | None = None) -> Iterator[tuple[int, Any]]:
    """Yield all records of a file with their lines.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    data
        The bytes of the file, if they have been read already.

    Yields
    ------
    line : int
        The number of the line, from 1. In files without lines, such as Parquet, it is the number
        of the record.
    record
        A dict. It is a `NoRecord` where a line has no record, and in a JSON array it may be any
        other value.

    Raises
    ------
    DreError
        If the file cannot be read to its end.
    """
    if data is None:
        data = content(path)
    ending = Path(str(path).removesuffix(".gz")).suffix
    if str(path) != "-" and ending not in ENDINGS:
        raise DreError(
            f"{path}: expected a file whose name ends in {', '.join(ENDINGS)}, or - for standard "
            "input"
        )
    try:
        if data.startswith(_GZIP_START):
            data = gzip.decompress(data)
        if ending == ".parquet" or data.startswith(_PARQUET_START):
            table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
            yield from enumerate(table.to_pylist(), 1)
        else:
            yield from _text_records(data.decode("utf-8-sig"), ending)
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


def _text_records(text, ending):
    """Yield the records of a text. Without an ending, its first character tells the format."""
    start = text.lstrip()[:1]
    if not ending:
        ending = {"[": ".json", "{": ".jsonl"}.get(start, ".csv")
    if ending == ".json" and start != "{":
        yield from enumerate(json.loads(text), 1)
    elif ending in (".jsonl", ".json"):
        # JSON Lines may be in a file called .json, too.
        yield from _json_lines(text)
    else:
        yield from _csv_rows(text)


def _json_lines(text):
    """Yield line and record of JSON Lines, with a `NoRecord` for a line that is not JSON."""
    # Only \n ends a line. Texts may contain other line ends, at which str.splitlines would split.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            record = NoRecord(line, f"no JSON: {error.msg} at column {error.colno}")
        except (ValueError, RecursionError) as error:
            record = NoRecord(line, f"no JSON: {error}")
        yield number, record


def _csv_rows(text):
    """Yield line and record of CSV with commas, semicolons or tabs, as spreadsheets write it.

    The line of a record with several lines is its first. Blank lines are left out.
    """
    first_line = text.lstrip().partition("\n")[0]
    separator = max(",;\t", key=first_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    names = None
    last_line = 0
    for cells in reader:
        line = last_line + 1
        last_line = reader.line_num
        if not any(cells):
            continue
        if names is None:
            names = [name.strip() for name in cells]
        elif len(cells) == len(names):
            yield line, dict(zip(names, cells))
        else:
            count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            reason = f"found {count}, expected {len(names)}, as many as the header has"
            if len(cells) > len(names):
                character = "tab" if separator == "\t" else f"{separator!r}"
                reason += f"; a text that holds a {character} needs quotation marks around it"
            yield line, NoRecord(cells, reason)


def scores(
    source: pd.DataFrame | str | Path, ids: Sequence[str], measures: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the scores of a file or of a table.

    Parameters
    ----------
    source
        A table, or a file with one record for each score. ``score`` may be called ``score_llm``.
    ids
        Names of the column with the id. The first one that exists is used.
    measures
        Columns with further numbers. Those that exist are returned.

    Returns
    -------
    DataFrame
        ``id`` and ``system`` (texts), ``score`` and ``measures`` (finite numbers, or NaN).

    Raises
    ------
    DreError
        If a column is absent, or has something else than finite numbers and empty cells.
    """
    if isinstance(source, pd.DataFrame):
        name = "the table"
        table = source
    else:
        name = str(source)
        table = _read_table(source)
    id_column = next((column for column in ids if column in table), None)
    score_column = next((column for column in ("score", "score_llm") if column in table), None)
    try:
        columns: dict[str, Any] = {"score": _as_numbers(table[score_column])}
        for column in measures:
            if column in table:
                columns[column] = _as_numbers(table[column])
        columns["id"] = table[id_column].map(_id_text)
    except (KeyError, ValueError, TypeError) as error:
        names = ", ".join(map(str, table))
        expected = f"score, a number or nothing, and {' or '.join(ids)}"
        raise DreError(f"{name}: found columns {names} ({error}): expected {expected}") from None
    columns["system"] = table["system"].fillna("") if "system" in table else ""
    result = pd.DataFrame(columns)

    for column in ("score", *measures):
        if column not in result:
            continue
        infinite = result[result[column].abs() == math.inf]
        if len(infinite):
            row = infinite.iloc[0]
            raise DreError(
                f"{name}: {column} of {row['id']} is {row[column]}: expected a finite number or "
                "nothing"
            )
    return result


def _read_table(path):
    """Return the records of a file as a table; DreError at a line without a record."""
    rows = []
    for line, record in records(path):
        if isinstance(record, NoRecord):
            raise DreError(f"{path}:{line}: {record.reason}")
        if not isinstance(record, dict):
            raise DreError(
                f"{path}:{line}: found {record!r:.{_LONGEST_QUOTE}}: "
                "expected an object with named fields"
            )
        rows.append(record)
    return pd.DataFrame(rows)


def _id_text(value):
    """Return an id as text, without a decimal point if it is a whole number such as 1.0."""
    return str(int(value)) if _is_whole_number(value) else str(value)


def _is_whole_number(value):
    """Return whether a value is a whole number. In a column with a NaN, pandas makes it 1.0."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    return float(value).is_integer()


def _as_numbers(column):
    """Return a column of numbers, or of texts that are numbers, as floats. Empty cells are NaN."""
    return pd.Series(pd.to_numeric(column.replace("", None))).astype(float)


def pairs(
    records: Iterable[tuple[int, Any]],
    fields: dict[str, str] | None = None,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> tuple[pd.DataFrame, list[dict]]:
    """Return the pairs of context and response in records, and the records that have none.

    Parameters
    ----------
    records
        Line and record, as `records` yields them.
    fields
        The names of columns in the records, by the names in `FIELDS`, where they differ.
    needs
        The fields that every record must have.
    whole
        Whether to keep all other columns as well.

    Returns
    -------
    pairs : DataFrame
        ``line``, `FIELDS`, ``context_id`` (the same for the same turns) and ``pair_id``. That is
        the id, after the system's name where several systems have the same id.
    bad : list of dict
        ``line, reason, content`` of each record that cannot be used.

    Raises
    ------
    DreError
        If ``fields`` names a column that no record has, or two pairs would get the same
        ``pair_id``.
    """
    fields = fields or {}
    rows = []
    bad = []
    # The first line of each (system, id), and the names of all columns in order.
    line_of_id = {}
    columns = {}
    for line, record in records:
        if isinstance(record, dict):
            columns.update(dict.fromkeys(record))
        try:
            row = _pair(record, line, fields, needs)
            first_line = line_of_id.setdefault((row["system"], row["id"]), line)
            if first_line != line:
                raise ValueError(
                    f"id {row['id']!r} is line {first_line}'s: make ids unique in a system, or "
                    "leave them out"
                )
        except ValueError as error:
            bad_content = record.content if isinstance(record, NoRecord) else record
            bad.append({"line": line, "reason": str(error), "content": bad_content})
            continue
        rows.append({**record, **row} if whole else row)

    unknown = sorted(set(fields.values()) - set(columns))
    if unknown:
        raise DreError(
            f"--field names {', '.join(unknown)}: expected a column, the records have "
            f"{_names(columns)}"
        )
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=["line", *FIELDS])
    table["context_id"] = [_context_id(turns) for turns in table["context"]]
    is_shared_id = table["id"].duplicated(keep=False)
    table["pair_id"] = table["id"].mask(is_shared_id, table["system"] + "/" + table["id"])
    _refuse_equal_pair_ids(table)
    return table, bad


def _context_id(turns):
    """Return a hash of the turns, so that equal contexts have the same id."""
    return hashlib.sha256(json.dumps(turns).encode()).hexdigest()[:16]


def _refuse_equal_pair_ids(table):
    """Raise DreError if "system/id" is the same text for two pairs."""
    equal = table[table["pair_id"].duplicated(keep=False)]
    if not len(equal):
        return
    pair_id = equal["pair_id"].iloc[0]
    first, second, *_ = equal[equal["pair_id"] == pair_id].to_dict("records")
    raise DreError(
        f"lines {first['line']} and {second['line']}: system {first['system']!r} with id "
        f"{first['id']!r} and system {second['system']!r} with id {second['id']!r} would both be "
        f"the pair {pair_id!r}: give one of them another id"
    )


def _pair(record, line, fields, needs):
    """Return the pair of a record, or raise a ValueError that names its fault."""
    if isinstance(record, NoRecord):
        raise ValueError(record.reason)
    if not isinstance(record, dict):
        raise ValueError(f"found {_quote(record)}, expected an object with {' and '.join(needs)}")

    # Chat messages replace the context, and also the response if there is none.
    values = {field: record.get(fields.get(field, field)) for field in FIELDS}
    if isinstance(record.get("messages"), list):
        if not absent(values["context"]):
            raise ValueError(
                "the record has both messages and a context: leave one of them out, or name "
                "another column as context"
            )
        values.update(_split_chat(record["messages"], values["response"]))
    if absent(values["id"]):
        values["id"] = record.get("pair_id")

    turns = turns_of(values["context"])
    if not _are_turns(turns) and ("context" in needs or not absent(values["context"])):
        raise ValueError(
            f"context is {_quote(values['context'])}: expected turns, oldest first, or chat "
            f"messages; the record has {_names(record)}"
        )
    response = values["response"]
    if not _is_text(response) and ("response" in needs or not absent(response)):
        raise ValueError(
            f"response is {_quote(response)}: expected a text; the record has {_names(record)}"
        )
    return {
        "line": line,
        "context": turns,
        "response": response,
        "reference": _optional_text("reference", values["reference"], None),
        "id": _optional_text("id", values["id"], str(line)),
        "system": _optional_text("system", values["system"], ""),
    }


def _quote(value):
    """Return the beginning of a wrong value, for an error."""
    return repr(value)[:_LONGEST_QUOTE]


def _names(columns):
    """Return the names of columns, for an error."""
    names = ", ".join(map(str, columns)) or "nothing"
    return names[:_LONGEST_LIST]


def _optional_text(field, value, default):
    """Return a text or a whole number as text, or the default where it is absent."""
    if absent(value):
        return default
    if _is_whole_number(value):
        value = str(int(value))
    if not _is_text(value):
        raise ValueError(f"{field} is {_quote(value)}: expected a text, a whole number, or nothing")
    return value


def _are_turns(value):
    """Return whether a value is a tuple of texts that are not all blank."""
    if not isinstance(value, tuple) or not all(isinstance(turn, str) for turn in value):
        return False
    return _is_text("".join(value))


def _is_text(value):
    """Return whether a value is a text that is not blank, without half characters."""
    return isinstance(value, str) and bool(value.strip()) and not HALF.search(value)


def absent(value: object) -> bool:
    """Return whether a value is absent: None, an empty text, or the NaN of an empty cell."""
    return value is None or value == "" or (isinstance(value, float) and value != value)


def turns_of(value: Any) -> Any:
    """Return the turns of a context as a tuple of texts.

    A context is a list of texts, a list of chat messages, the JSON or Python text of such a list,
    or a text with one turn a line. Consecutive messages of one role are one turn, and messages of
    the system or a tool are left out. Any other value is returned unchanged.
    """
    if isinstance(value, str):
        parsed_list = _parse_list(value)
        if parsed_list is not None:
            value = parsed_list
        else:
            lines = [line.strip() for line in value.split("\n")]
            value = [line for line in lines if line]
    if hasattr(value, "tolist"):  # an array, as Parquet has them
        value = value.tolist()
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        value = _turns_of_messages(value)
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _turns_of_messages(messages):
    """Return the turns of chat messages. Consecutive messages of one role are one turn."""
    spoken = [message for message in messages if message.get("role") not in _UNSPOKEN]
    turns = []
    for _, same_role in groupby(spoken, key=lambda message: message.get("role")):
        turns.append(" ".join(_text_of_message(message) for message in same_role))
    return turns


def _parse_list(text):
    """Return a list of texts or messages that was written as JSON or Python text, else None."""
    if not text.startswith("["):
        return None
    for load in (json.loads, ast.literal_eval):
        try:
            value = load(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, list) and {type(item) for item in value} in ({str}, {dict}):
            return value
    return None


def _split_chat(messages, response):
    """Return the context of a chat, and its response if there is none yet.

    Then the response is the last message of the assistant, and the context is all before it.
    """
    if absent(response):
        for i in reversed(range(len(messages))):
            message = messages[i]
            if isinstance(message, dict) and message.get("role") == "assistant":
                return {"context": messages[:i], "response": _text_of_message(message)}
    return {"context": messages}


def _text_of_message(message):
    """Return the text of a chat message, whose content is a text or a list of texts."""
    message_content = message.get("content") or ""
    items = message_content if isinstance(message_content, list) else [message_content]
    texts = [str(item.get("text", "")) if isinstance(item, dict) else str(item) for item in items]
    return " ".join(texts)


def rating(record: object, human: str, record_name: str) -> float | None:
    """Return the mean rating of a record.

    Parameters
    ----------
    record
        A record of a file.
    human
        The column with the ratings: a number, a list of numbers, or the text of one of them.
    record_name
        The name of the record in errors, such as ``ratings.jsonl:3``.

    Returns
    -------
    float or None
        The mean of the ratings, in their own unit; None if nobody rated it.

    Raises
    ------
    DreError
        If the column has something else.
    """
    value: Any = record.get(human) if isinstance(record, dict) else None
    try:
        ratings: Any = json.loads(value) if isinstance(value, str) and value else value
        if not isinstance(ratings, list):
            ratings = [ratings]
        known_ratings = [float(rating) for rating in ratings if not absent(rating)]
    except (ValueError, TypeError):
        raise DreError(
            f"{record_name}: {human} is {_quote(value)}: "
            "expected a number, a list of numbers, or nothing"
        ) from None
    if not known_ratings:
        return None
    return sum(known_ratings) / len(known_ratings)
