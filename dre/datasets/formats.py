"""The formats of files: JSON Lines, JSON, CSV, TSV and Parquet, from bytes to records.

The end of a file's name tells its format (that before ``.gz``, if it ends so). For standard input,
``-``, the first character tells it.
"""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet

from dre.datasets import aliases
from dre.datasets.chats import PLAIN, Form, in_small_letters, looks_like_data, names, quote
from dre.errors import DreError

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
#: Most bytes of a file, also unpacked. What is larger is refused before it is held in memory.
LARGEST_FILE = 500 * 10**6
#: Most characters of a text. No model reads more.
LARGEST_TEXT = 10**6

_GZIP_START = b"\x1f\x8b"
_PARQUET_START = b"PAR1"
#: A record of JSON Lines may have so many characters: some texts, and much beside them.
_LONGEST_LINE = 50 * LARGEST_TEXT
_LINE_END = re.compile(r"\r\n|\r|\n")  # old spreadsheets end a line of CSV by \r alone
#: What is neither white space nor a comma between two JSON values.
_VALUE_START = re.compile(r"[^\s,]")
#: A first line such as ``sep=;``.
_SEPARATOR_LINE = re.compile(r'\s*"?sep=([^\r\n])"?(?:\r\n|\r|\n|\Z)', re.IGNORECASE)
_PARQUET_ROWS = 1000
#: Columns of a record that no message has.
_RECORD_COLUMNS = {"context", "response", *aliases.DIALOGUES, *aliases.HISTORIES} - {
    *aliases.TEXT_KEYS,
    "input",
}
#: What a spreadsheet would run as a formula, and how `dre.files.write` keeps it from that.
_KEPT_FORMULA = re.compile(r"'+[=+\-@\t\r]")
#: Columns of names. Only there the apostrophe before a formula is taken off again.
NAME_COLUMNS = ("id", "pair_id", "context_id", "system")


class NoRecord(NamedTuple):
    """What is in a file where a record was expected, and why it is not a record."""

    content: Any
    reason: str


def content(path: str | Path) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``.

    DreError if it cannot be read, or is larger than `LARGEST_FILE`.
    """
    try:
        if str(path) == "-":
            return _read(sys.stdin.buffer)
        with Path(path).open("rb") as file:
            return _read(file)
    except OSError as error:
        raise DreError(f"{path}: cannot be read ({error.strerror})") from None
    except _Unreadable as error:
        raise DreError(f"{path}{error}") from None


def _read(stream, verb="is"):
    """Return the bytes of a stream; _Unreadable if there are more than `LARGEST_FILE`."""
    # Read by the MiB: one read would take the room for the largest file at once.
    blocks = iter(lambda: stream.read(2**20), b"")
    data = b"".join(islice(blocks, LARGEST_FILE // 2**20 + 2))
    _refuse_large(len(data), verb)
    return data


def _refuse_large(size, verb):
    """Raise _Unreadable if there are more bytes than `LARGEST_FILE`."""
    if size > LARGEST_FILE:
        megabytes = LARGEST_FILE // 10**6
        raise _Unreadable(f": {verb} more than {megabytes} MB: split it into smaller files")


def records(
    path: str | Path, data: bytes | None = None, form: Form = PLAIN
) -> Iterator[tuple[int, Any]]:
    """Yield all records of a file with their lines.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    data
        The bytes of the file, if they have been read already.
    form
        What the user says about the file. Field ``records`` is the key of a JSON object whose list
        has the records; by default it is the only one there is.

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
    ending = Path(str(path).removesuffix(".gz")).suffix.lower()
    if str(path) != "-" and ending not in ENDINGS:
        raise DreError(
            f"{path}: expected a file whose name ends in {', '.join(ENDINGS)}, or - for standard "
            'input. A line for each reply is enough: {"context": ["Is the shop open?"], '
            '"response": "Until noon."}; docs/files.md has other forms'
        )
    try:
        if data.startswith(_GZIP_START):
            data = _read(gzip.GzipFile(fileobj=io.BytesIO(data)), "unpacks to")
        if ending == ".parquet" or data.startswith(_PARQUET_START):
            yield from _parquet_rows(data)
        else:
            yield from _text_records(_decoded(data), ending, form)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DreError(f"{path}:{line}: not UTF-8: save the file as UTF-8") from None
    except _Unreadable as error:
        raise DreError(f"{path}{error}") from None
    except EOFError:
        raise DreError(f"{path}: cannot be read (the gzip file ends before its end)") from None
    except (OSError, ValueError, TypeError, RecursionError, zlib.error) as error:
        raise DreError(f"{path}: cannot be read ({error})") from None


class _Unreadable(Exception):
    """Why a file cannot be read, as it follows its name: ``:3: ...`` or ``: ...``."""


def _decoded(data):
    """Return bytes as text; _Unreadable where it has NUL characters, as UTF-16 has."""
    text = data.decode("utf-8-sig")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise _Unreadable(
            f":{line}: a NUL character, which no text has: save the file as UTF-8 (is it UTF-16?)"
        )
    return text


def _parquet_rows(data):
    """Yield number and record of a Parquet file, up to the largest size."""
    number = 0
    size = 0
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
    for batch in file.iter_batches(_PARQUET_ROWS):
        size += batch.nbytes
        _refuse_large(size, "unpacks to")
        yield from enumerate(batch.to_pylist(), number + 1)
        number += len(batch)


def _text_records(text, ending, form):
    """Yield the records of a text. Without an ending, its first character tells the format."""
    start = text.lstrip()[:1]
    if not ending:
        ending = {"[": ".json", "{": ".jsonl"}.get(start, ".csv")
    if ending == ".json" and start != "{":
        yield from _json_records(_JSON.decode(text), form)
    elif ending in (".jsonl", ".ndjson", ".json"):
        # JSON Lines may be in a file called .json, too.
        yield from _json_lines(text, form)
    else:
        yield from _csv_rows(text)


def _json_lines(text, form):
    """Yield line and record of JSON Lines, with a `NoRecord` for a line that is not JSON.

    A text that is one JSON value, or several that have lines of their own, is read as well.
    """
    # Only \n ends a line. Texts may contain other line ends, at which str.splitlines would split.
    numbered_lines = enumerate(text.split("\n"), 1)
    lines = [(i, line) for i, line in numbered_lines if line.strip()]
    first_line = lines[0][1] if lines else ""
    if len(lines) < 2 or not _is_json(first_line):
        values = _json_values(text, first_line.strip() in ("{", "["))
        if values is not None:
            if len(values) == 1:
                yield from _json_records(values[0][1], form, values[0][0])
            else:
                yield from values
            return
    for number, line in lines:
        try:
            if len(line) > _LONGEST_LINE:
                record = NoRecord(
                    line[:100],
                    f"the line has {len(line):,} characters: expected at most {_LONGEST_LINE:,}",
                )
            else:
                record = _JSON.decode(line)
        except _KeyTwice as error:
            record = NoRecord(line, str(error))
        except json.JSONDecodeError as error:
            record = NoRecord(line, f"no JSON: {error.msg} at column {error.colno}")
        except (ValueError, RecursionError) as error:
            record = NoRecord(line, f"no JSON: {error}")
        yield number, record


def _is_json(line):
    """Return whether a line alone is JSON."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


class _KeyTwice(ValueError):
    """A key stands twice in one JSON object, with two values."""


def _object(items):
    """Return the object of keys and values, unless a key has two values: which one is meant?"""
    values = dict(items)
    if len(values) < len(items):
        for key, value in items:
            if value != values[key]:
                raise _KeyTwice(f"the key {key!r} stands twice in one object, with two values")
    return values


_JSON = json.JSONDecoder(object_pairs_hook=_object)


def _json_values(text, is_pretty):
    """Return line and value of each JSON value in a text; None if something else is in it.

    Where values have several lines (``is_pretty``), what cannot be read is _Unreadable.
    """
    values = []
    position = 0
    line = 1
    start = 0
    while match := _VALUE_START.search(text, position):
        line += text.count("\n", start, match.start())
        start = match.start()
        try:
            value, position = _JSON.raw_decode(text, start)
        except _KeyTwice as error:
            raise _Unreadable(f":{line}: {error}") from None
        except json.JSONDecodeError as error:
            if is_pretty:
                reason = f"no JSON: {error.msg} at column {error.colno}"
                raise _Unreadable(f":{error.lineno}: {reason}") from None
            return None
        except (ValueError, RecursionError):
            return None
        values.append((line, value))
    return values


def _json_records(value, form, line=1):
    """Yield number and record of a JSON value: a list, an object with a list, or one record."""
    key = form.fields.get("records", "")
    if isinstance(value, list):
        if key:
            raise _Unreadable(": is a JSON list without keys: leave --field records=... out")
        if value and not form.fields and all(_is_message(item) for item in value):
            raise _Unreadable(
                f": its {len(value)} records are messages of one dialogue: expected a record for "
                'each dialogue, such as {"messages": [...]}'
            )
        yield from enumerate(value, 1)
        return
    if not isinstance(value, dict):
        raise _Unreadable(f": is {quote(value)}: expected a list of records")
    if not key:
        key = _key_of_records(value, form)
    if key is None:
        yield line, value
        return
    if key == "":
        for number, (name, record) in enumerate(value.items(), 1):
            yield number, {"id": name, **record}
        return
    entry = at(value, key)
    if not isinstance(entry, list):
        raise _Unreadable(
            f": {key} is {quote(entry)}: expected a list of records; the object has {names(value)}"
        )
    yield from enumerate(entry, 1)


def at(record: dict, column: str) -> Any:
    """Return the value of a column, or of a path of keys such as ``annotations.Overall``."""
    if column in record or "." not in column:
        return record.get(column)
    entry: Any = record
    for key in column.split("."):
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def _key_of_records(value, form):
    """Return the key of an object whose list has the records.

    None if the object is a record, "" if its values are records by their names.
    """
    has_own_column = any(at(value, column) is not None for column in form.fields.values())
    if has_own_column or _is_record(value):
        return None
    lists = [name for name, entry in value.items() if _is_list_of_records(entry)]
    if len(lists) == 1:
        return lists[0]
    entries = list(value.values())
    if entries and all(isinstance(entry, dict) and _is_record(entry) for entry in entries):
        return ""
    explanation = _about_object(value, lists)
    if explanation:
        raise _Unreadable(f": {explanation}")
    return None


def _about_object(value, lists):
    """Say what a JSON object is, and where records may be; "" if it may be a record itself."""
    description = (
        f"is one JSON object with {len(value):,} keys ({names(value)}), not a list of records"
    )
    if lists:
        return f"{description}: --field records=KEY says which of {names(lists)} has them"
    nested = []
    for name, entry in value.items():
        if isinstance(entry, dict):
            keys = [key for key, inner in entry.items() if _is_list_of_records(inner)]
            nested += [f"{name}.{key}" for key in keys]
    if nested:
        return f"{description}: --field records={nested[0]} takes those under {names(nested[:5])}"
    entries = list(value.values())
    if not entries or not all(isinstance(entry, (list, dict)) for entry in entries):
        return ""
    if {"columns", "data"} <= {*value} or len({len(entry) for entry in entries}) == 1:
        return (
            f"{description}: a table by columns? write it with pandas' to_json(orient='records', "
            "lines=True)"
        )
    return f"{description}: write a list of objects, or one object a line"


def _is_record(value):
    """Return whether an object has a dialogue or a response of its own."""
    columns = in_small_letters(value)
    if any(isinstance(columns.get(name), (str, list)) for name in ("context", "response")):
        return True
    for name in (*aliases.DIALOGUES, *aliases.HISTORIES):
        entry = columns.get(name)
        is_dialogue = isinstance(entry, (str, list)) and looks_like_data(entry)
        if is_dialogue and entry and not _is_list_of_records(entry):
            return True
    return False


def _is_list_of_records(value):
    """Return whether a value is a list of objects, and these are no messages."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, dict) and not _has_text(item) for item in value[:100])


def _has_text(item):
    """Return whether an object has the text of a message, and no dialogue of its own."""
    keys = in_small_letters(item).keys()
    has_text = not keys.isdisjoint((*aliases.TEXT_KEYS, *aliases.WRAPPERS))
    return has_text and keys.isdisjoint(_RECORD_COLUMNS)


def _is_message(item):
    """Return whether a value is one message, and has no dialogue of its own."""
    if not isinstance(item, dict) or not _has_text(item):
        return False
    keys = in_small_letters(item).keys()
    return not keys.isdisjoint((*aliases.ROLE_KEYS, *aliases.NAME_KEYS))


def _csv_rows(text):
    """Yield line and record of CSV with commas, semicolons or tabs, as spreadsheets write it.

    The line of a record with several lines is its first. Blank lines are left out. A first line
    such as ``sep=;``, which is Excel's, names the separator.
    """
    named = _SEPARATOR_LINE.match(text)
    n_lines_above = 0
    if named:
        separator = named[1]
        n_lines_above = len(_LINE_END.findall(named[0]))
        text = text[named.end() :]
    else:
        first_line = _LINE_END.split(text.lstrip(), 1)[0]
        separator = max(",;\t", key=first_line.count)
    csv.field_size_limit(LARGEST_FILE)
    columns = None
    rows = _tsv_cells(text) if separator == "\t" else _cells(text, separator)
    for line, cells in rows:
        line += n_lines_above
        if isinstance(cells, NoRecord):
            yield line, cells
        elif columns is None:
            columns = [name.strip() for name in cells]
            twice = [name for name in columns if name and columns.count(name) > 1]
            if twice:
                raise _Unreadable(f":{line}: two columns are called {twice[0]!r}: rename one")
            name_positions = [i for i, name in enumerate(columns) if name in NAME_COLUMNS]
        elif len(cells) == len(columns):
            for i in name_positions:
                cells[i] = without_apostrophe(cells[i])
            yield line, dict(zip(columns, cells))
        else:
            count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            reason = f"found {count}, expected {len(columns)}, as many as the header has"
            if len(cells) > len(columns):
                character = "tab" if separator == "\t" else f"{separator!r}"
                reason += f"; a text that holds a {character} needs quotation marks around it"
            yield line, NoRecord(cells, reason)


def without_apostrophe(name: Any) -> Any:
    """Return a name as it was before `dre.files.write` kept it from being a formula."""
    if isinstance(name, str) and name.startswith("'") and _KEPT_FORMULA.match(name):
        return name[1:]
    return name


def _cells(text, separator):
    """Yield the first line and the cells of each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    last_line = 0
    try:
        for cells in reader:
            line = last_line + 1
            last_line = reader.line_num
            if any(cells):
                yield line, cells
    except csv.Error as error:
        reason = str(error)
        if reason == "unexpected end of data":
            reason = "a quotation mark opens and is never closed"
        raise _Unreadable(f":{last_line + 1}: cannot be read as CSV: {reason}") from None


def _tsv_cells(text):
    """Yield the first line and the cells of each row of TSV that is not blank.

    A quotation mark that does not enclose a whole cell is a character. One that joins lines which
    are rows by themselves is a `NoRecord`.
    """
    lines = io.StringIO(text, newline="").readlines()
    n_columns = 0
    i = 0
    while i < len(lines):
        line = lines[i].rstrip("\r\n")
        cells = line.split("\t")
        n_lines = 1
        if any(cell.startswith('"') for cell in cells):
            enclosed, n_enclosed = _enclosed_cells(lines, i)
            by_lines = [
                len(next_line.rstrip("\r\n").split("\t")) for next_line in lines[i : i + n_enclosed]
            ]
            is_row = len(cells) == n_columns
            if enclosed and n_enclosed > 1 and set(by_lines) == {n_columns}:
                reason = (
                    f"a quotation mark opens in {quote(line)} and closes in line {i + n_enclosed}; "
                    "each of these lines is a row by itself: double the quotation marks within "
                    "texts, and put one before and behind the text"
                )
                yield i + 1, NoRecord(cells, reason)
                i += n_enclosed
                continue
            if enclosed and (len(enclosed) == n_columns or not n_columns or not is_row):
                cells = enclosed
                n_lines = n_enclosed
        if any(cells):
            n_columns = n_columns or len(cells)
            yield i + 1, cells
        i += n_lines


def _enclosed_cells(lines, i):
    """Return the cells of a row that marks enclose, or None, and its number of lines."""
    following = (lines[k] for k in range(i, len(lines)))
    reader = csv.reader(following, delimiter="\t", strict=True)
    try:
        cells = next(reader)
    except (csv.Error, StopIteration):
        return None, 1
    return cells, reader.line_num
