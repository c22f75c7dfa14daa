"""Reading JSON, JSON Lines and CSV so that every fault names its file and line."""

import csv
import io
import json
import re

from dre.errors import DreError

_SPACE = re.compile(r"[ \t\r\n]*")


def read_text(path):
    """Return the text of a UTF-8 file."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DreError(f"{path}:{line}: not UTF-8 text: get the file again") from None


def read_bytes(path):
    """Return the content of a file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise DreError(f"cannot read {path}: {error.strerror}") from None


def read_lines(path):
    r"""Yield (where, line) for every line, ``where`` being ``path:line``; only ``\n`` ends a line."""
    lines = read_text(path).split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield f"{path}:{number}", line


def read_jsonl(path):
    """Yield (where, object) for every line of a JSON Lines file."""
    for where, line in read_lines(path):
        yield where, check(_json(line, where), dict, "record", where)


def read_json_array(path):
    """Yield (where, object) for every element of a JSON array of objects; ``where`` is its first line."""
    text = read_text(path)
    position, line, seen = _skip(text, 0), 1, 0
    if text[position : position + 1] != "[":
        raise DreError(f"{path}:1: expected a JSON array: get the file again")
    separator = "["
    while True:
        position = _skip(text, position + 1)
        line, seen = line + text.count("\n", seen, position), position
        where = f"{path}:{line}"
        if text[position : position + 1] == "]" and separator == "[":
            return
        item, position = _decode(text, position, where, path)
        yield where, check(item, dict, "element", where)
        position = _skip(text, position)
        separator = text[position : position + 1]
        if separator == "]":
            return
        if separator != ",":
            line = text.count("\n", 0, position) + 1
            raise DreError(f"{path}:{line}: the JSON array ends or breaks here: the file is truncated, get it again")


def read_json_object(path):
    """Return the one JSON object a file holds."""
    return check(_json(read_text(path), f"{path}:1", path), dict, "content", f"{path}:1")


def read_csv(path):
    """Yield (where, row as dict) for every row of a CSV file with a header line."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for row in reader:
            where = f"{path}:{reader.line_num}"
            if None in row or None in row.values():
                raise DreError(f"{where}: the row has not the {len(reader.fieldnames)} columns of the header")
            yield where, row
    except csv.Error as error:
        raise DreError(f"{path}:{reader.line_num}: malformed CSV ({error}): get the file again") from None


def field(record, name, kind, where):
    """Return ``record[name]`` and check its type."""
    if name not in record:
        raise DreError(f"{where}: field {name!r} is missing")
    return check(record[name], kind, f"field {name!r}", where)


def texts(record, name, where, least=1):
    """Return ``record[name]`` as a tuple of at least `least` strings."""
    values = field(record, name, list, where)
    if len(values) < least:
        raise DreError(f"{where}: field {name!r} has {len(values)} texts, expected at least {least}")
    return tuple(check(value, str, f"field {name!r}[{i}]", where) for i, value in enumerate(values))


def number(value, what, where):
    """Return `value` (a number or its decimal text) as a finite float."""
    try:
        result = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        result = None
    if result is None or result - result != 0:  # not a number, or an infinite one
        raise DreError(f"{where}: {what} is {str(value)[:60]!r}, expected a number")
    return result


def check(value, kind, what, where):
    """Return `value` if it is of type `kind` (and, if text, can be written as UTF-8)."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DreError(f"{where}: {what} is {type(value).__name__}, expected {_names(kind)}")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise DreError(f"{where}: {what} holds half a surrogate pair, which is no Unicode text") from None
    return value


def _names(kind):
    return " or ".join(k.__name__ for k in kind) if isinstance(kind, tuple) else kind.__name__


def _skip(text, position):
    return _SPACE.match(text, position).end()


def _json(text, where, path=None):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}" if path else where
        raise DreError(f"{place}: malformed JSON ({error.msg}, column {error.colno}): get the file again") from None
    except (ValueError, RecursionError):
        raise DreError(f"{where}: malformed JSON (nested too deeply, or a number too long)") from None


def _decode(text, position, where, path):
    try:
        return json.JSONDecoder().raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise DreError(f"{path}:{error.lineno}: malformed JSON ({error.msg}): get the file again") from None
    except (ValueError, RecursionError):
        raise DreError(f"{where}: malformed JSON (nested too deeply, or a number too long)") from None
