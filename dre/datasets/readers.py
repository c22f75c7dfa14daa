"""Files of responses, as every command, `dre.DRE.score` and the notebooks read them.

A record has one of three forms. Any other form takes a few lines of pandas (docs/files.md).

- ``context`` (a list of turns, oldest first) and ``response``, or several ``responses``;
- ``messages`` with who speaks (``role`` or ``speaker``) and a text (``content`` or ``text``);
- ``conversations`` with ``from`` and ``value``.

Messages end with the reply of the assistant, which is the response. What has another form is
refused with its line, and never guessed. What was read is looked at (`dre.datasets.look`).
"""

import csv
import gzip
import io
import json
import math
import re
import sys
import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import look
from dre.errors import DreError
from dre.files import sha256

FIELDS = ("context", "response", "reference", "id", "system")
#: What ``--field`` may name besides: a whole dialogue, and who speaks and what in its messages.
OF_MESSAGES = ("messages", "role", "text")
ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
RECIPES = "docs/files.md has recipes for other forms"
_DIALOGUES = ("messages", "conversations")
_SPEAKER_KEYS = ("role", "speaker", "from")
_TEXT_KEYS = ("content", "text", "value", "utterance")
SIDES = ("user", "assistant", "system", "tool")
#: The side of a message by its role.
_ROLES = {
    **{side: side for side in SIDES},
    **dict.fromkeys(("gpt", "model", "bot", "ai"), "assistant"),
    **{"human": "user", "developer": "system", "function": "tool"},
}
#: Half of a character (a surrogate), which no tokeniser accepts.
_HALF = re.compile("[\ud800-\udfff]")
#: Keys of a message that say when it was said, or as which one.
_ORDER_KEY = re.compile(
    r"ts|date|timestamp|datetime|(created|sent)_?(at|on|time)?|"
    r"(turn|message|utterance)_?(id|idx|index|no|num|number)|turn|index|idx|seq|sequence|position",
    re.IGNORECASE,
)
_LONGEST_NAME = 8  # words of a system's name; more are a prompt


@dataclass(frozen=True)
class Form:
    """What a user says about the form of a file.

    Attributes
    ----------
    fields : the column or the path of a field, such as ``response.choices.0.text``; "" for none.
    roles : the side (`SIDES`) of further roles.
    separator : what stands between the turns of a context that is one text.
    one_turn : whether a context that is one text is one turn.
    last_turn : whether the last turn of each dialogue is its response, whoever says it.
    last_reply : whether the last reply of the assistant is the response, whatever follows.
    as_it_is : whether pairs are taken that do not look as dialogues do.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    one_turn: bool = False
    last_turn: bool = False
    last_reply: bool = False
    as_it_is: bool = False


PLAIN = Form()


class NoRecord(NamedTuple):
    """What is in a file where a record was expected, and why it is none."""

    content: Any
    reason: str


class Reading(NamedTuple):
    """What was read of a file.

    Attributes
    ----------
    pairs : ``line``, `FIELDS`, ``context_id`` (the same for the same turns) and ``pair_id``. That
        is the id, after the system's name where several systems have the same id.
    bad_records : ``line, reason, content`` of each record that cannot be used.
    notes : sentences on what was left out, and on what may have been meant otherwise.
    doubts : sentences on pairs that do not look as dialogues do; a reason to stop.
    """

    pairs: pd.DataFrame
    bad_records: list[dict]
    notes: list[str]
    doubts: list[str]


class Turn(NamedTuple):
    """A turn: its side ("" if nobody says), who speaks, and the text, which may be empty."""

    side: str
    speaker: Any
    text: str


def content(path: str | Path) -> bytes:
    """Return the bytes of a file, unpacked if it is gzip; of standard input for ``-``."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as error:
        raise DreError(f"{path}: cannot be read ({error})") from None


def records(path: str | Path, data: bytes | None = None) -> Iterator[tuple[int, Any]]:
    """Yield the records of a file with their lines (from 1).

    Parameters
    ----------
    path : JSON Lines, a JSON list, CSV, TSV or Parquet; each also as .gz. ``-`` is JSON Lines.
    data : its bytes, if they were read already.

    Raises
    ------
    DreError
        If the file is of no such format. A single line that holds no record is a `NoRecord`.
    """
    ending = Path(str(path).removesuffix(".gz")).suffix.lower() or ".jsonl"
    if ending not in ENDINGS:
        expected = f"a name that ends in {', '.join(ENDINGS)}, also with .gz, or -"
        raise DreError(f"{path}: expected {expected}; {RECIPES}")
    data = content(path) if data is None else data
    try:
        if ending == ".parquet":
            import pyarrow.parquet

            yield from enumerate(pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist(), 1)
            return
        text = data.decode("utf-8-sig")
        if ending == ".json":
            value = json.loads(text, object_pairs_hook=_object)
            if not isinstance(value, list):
                raise ValueError(f"found {_names(value)}, expected a list of records; {RECIPES}")
            yield from enumerate(value, 1)
        elif ending == ".jsonl":
            # Only \n ends a line: texts contain other line ends, at which splitlines would split.
            for line, row in enumerate(text.split("\n"), 1):
                if row.strip():
                    yield line, _json(row)
        else:
            yield from _rows(text, is_tsv=ending == ".tsv")
    except (ValueError, ArithmeticError, RecursionError, OSError, csv.Error) as error:
        # Those of pyarrow are ValueErrors and OSErrors, too.
        advice = ""
        if isinstance(error, UnicodeDecodeError):
            advice = ": save it as UTF-8"
        elif "Extra data" in str(error):
            advice = ": a file of JSON Lines has a name that ends in .jsonl"
        raise DreError(f"{path}: cannot be read as UTF-8 {ending} ({error}){advice}") from None


def _json(row):
    try:
        return json.loads(row, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        return NoRecord(row, f"not JSON: {error}")


def _object(items):
    """Return a JSON object; ValueError if a key stands twice in it, with two values."""
    record = dict(items)
    for key, value in items:
        if record[key] is not value and record[key] != value:
            raise ValueError(f"the key {key!r} stands twice, with two values")
    return record


def _rows(text, is_tsv):
    """Yield line and record of a table with a header."""
    csv.field_size_limit(2**31 - 1)
    first, _, rest = text.partition("\n")
    n_before = 0
    if first.strip().startswith("sep="):  # as Excel writes it
        text, n_before = rest, 1
    header = text.partition("\n")[0]
    delimiter = "\t" if is_tsv else max(",;", key=header.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = [name.strip() for name in reader.fieldnames or ()]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two columns are called {twice[0]!r}: is the first line a header?")
    reader.fieldnames = names
    line = reader.line_num + 1
    for row in _with_line(reader):
        record: Any = row
        if None in row or None in row.values():
            record = NoRecord(row, f"expected {len(names)} cells, as in the header")
        elif list(row.values()) == names:
            record = NoRecord(row, "the header again")
        elif is_tsv and any("\n" in cell for cell in row.values()):
            record = NoRecord(row, "a quotation mark joins two lines")
        yield line + n_before, record
        line = reader.line_num + 1


def _with_line(reader):
    """Yield the rows of a table; an error names the line."""
    try:
        yield from reader
    except csv.Error as error:
        raise csv.Error(f"line {reader.line_num + 1}: {error}") from None


def read(
    records: Iterable[tuple[int, Any]],
    form: Form = PLAIN,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> Reading:
    """Return the pairs in records, and what there is to say of them.

    Parameters
    ----------
    records : line and record, as `records` yields them.
    form : what the user says about their form.
    needs : the fields that every record must have.
    whole : whether to keep all other columns as well.

    Raises
    ------
    DreError
        If the form names a column that no record has.
    """
    all_records, taken, rows, bad = [], [], [], []
    left_out = Counter()
    for line, whole_record in records:
        for record in _records_of(whole_record, form):
            all_records.append(record)
            try:
                row = _pair(record, line, form, needs, left_out)
            except ValueError as error:
                wrong = record.content if isinstance(record, NoRecord) else record
                bad.append({"line": line, "reason": str(error), "content": wrong})
            else:
                rows.append(record | row if whole else row)
                taken.append(record)
    _refuse_unused(form, all_records, taken)

    notes = []
    if left_out:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in left_out.items())
        notes.append(f"left out: {counts}")
    table = pd.DataFrame(rows, columns=None if rows else ["line", *FIELDS, "has_roles"])
    if "system" not in form.fields and not any(table["system"]):
        _name_systems(table, taken, notes)
    is_again = table.duplicated(["system", "id"]).to_numpy(bool)
    for k in is_again.nonzero()[0]:
        reason = (
            f"id {table['id'][k]!r} is there before: make ids unique in a system, or --field id="
        )
        bad.append({"line": table["line"][k], "reason": reason, "content": taken[k]})
    bad.sort(key=lambda record: record["line"])
    taken = list(compress(taken, ~is_again))
    table = pd.DataFrame(table[~is_again]).reset_index(drop=True)
    table["context_id"] = [_context_id(turns) for turns in table["context"]]
    table = with_pair_ids(table)
    doubts = []
    for finding in look.findings(table, taken):
        is_doubt = finding.stops and not form.as_it_is
        (doubts if is_doubt else notes).append(finding.sentence)
    return Reading(table.drop(columns="has_roles"), bad, notes, doubts)


def _refuse_unused(form, all_records, taken):
    """Raise DreError if the form names a column or a separator that no record has."""
    paths = [form.fields[name] for name in form.fields if name not in OF_MESSAGES[1:]]
    unknown = [
        path
        for path in filter(None, paths)
        if not any(at(record, path) is not None for record in all_records)
    ]
    objects = [record for record in all_records if isinstance(record, dict)]
    columns = dict.fromkeys(column for record in objects for column in record)
    if unknown and columns:
        raise DreError(
            f"--field names {', '.join(unknown)}: no record has it; they have {_names(columns)}"
        )
    column = form.fields.get("messages") or form.fields.get("context") or "context"
    texts = [text for record in taken if isinstance(text := at(record, column), str)]
    if form.separator and taken and not any(form.separator in text for text in texts):
        raise DreError(f"--separator {form.separator!r} stands in no {column} that is one text")


def _name_systems(table, taken, notes):
    """Take the column ``model`` as the systems where it has several values, and note it."""
    models = [str(record.get("model") or "").strip() for record in taken]
    if len(set(filter(None, models))) < 2:
        return
    if all(models):
        table["system"] = models
        notes.append("the column model names the systems; --field system= leaves it unread")
    else:
        notes.append(f"model is empty in {models.count('')} records, and names no systems")


def _context_id(turns):
    """Return a hash of the turns, the same whatever the blanks between words."""
    words = turns and [" ".join(turn.split()) for turn in turns]
    return sha256(json.dumps(words))[:16]


def with_pair_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of pairs with ``pair_id``; DreError if two would be called the same."""
    is_shared = table["id"].duplicated(keep=False)
    pair_id = table["id"].mask(is_shared, table["system"] + "/" + table["id"])
    equal = list(pair_id[pair_id.duplicated()])
    if equal:
        raise DreError(f"two pairs would be called {equal[0]!r}: change an id")
    return table.assign(pair_id=pair_id)


def pairs(
    records: Iterable[tuple[int, Any]],
    form: Form = PLAIN,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> tuple[pd.DataFrame, list[dict]]:
    """Return the pairs of `read` and its bad records. Notes are warnings, doubts a DreError."""
    reading = read(records, form, needs, whole)
    refuse_doubts(reading.doubts)
    for note in reading.notes:
        warnings.warn(note, stacklevel=2)
    return reading.pairs, reading.bad_records


def refuse_doubts(doubts: Sequence[str], place: str | Path = "") -> None:
    """Raise DreError if there are doubts about what was read."""
    if doubts:
        where = f"{place}: " if place else ""
        raise DreError(f"{where}{'; '.join(doubts)} --as-it-is takes it as it is; {RECIPES}")


def _records_of(record, form):
    """Yield a record, or one for each of its ``responses`` (texts, or objects with columns)."""
    responses: Any = record.get("responses") if isinstance(record, dict) else None
    has_own = not absent(at(record, form.fields.get("response") or "response"))
    if not isinstance(responses, list) or not responses or has_own:
        yield record
        return
    shared = {column: value for column, value in record.items() if column != "responses"}
    id_column = form.fields.get("id", "id")
    for number, entry in enumerate(responses):
        reply = entry if isinstance(entry, dict) else {"response": entry}
        first = at(record, id_column)
        number_id = {} if absent(first) else {id_column: f"{first}.{number}"}
        yield {**shared, "response_number": number, **number_id, **reply}


def _pair(record, line, form, needs, left_out):
    """Return the pair of a record, or raise a ValueError that says what is wrong."""
    if isinstance(record, NoRecord):
        raise ValueError(record.reason)
    if not isinstance(record, dict):
        raise ValueError(f"found {record!r:.60}, expected an object with {' and '.join(needs)}")
    values = {name: at(record, form.fields.get(name, name)) for name in FIELDS}
    column = _column_of_dialogue(record, values["context"], form)
    is_whole = column in (form.fields.get("messages"), *_DIALOGUES)
    left_out_here = Counter()
    all_turns = _all_turns(at(record, column), form, column, left_out_here)
    turns = _spoken(all_turns, left_out_here)
    response = values["response"]
    if absent(response):
        if isinstance(record.get("responses"), dict):
            raise ValueError(f"responses is an object: expected a list of replies; {RECIPES}")
        if is_whole and form.fields.get("response", "response") in record:
            raise ValueError("response is empty: --field response= says that none has one")
        is_answered = bool(all_turns) and all_turns[-1].side == "assistant"
        is_answered = is_answered and bool(all_turns[-1].text.strip())
        turns, response = _split(turns, column, form, is_whole and is_answered, left_out_here)
        if response is None and is_whole and turns and "response" in needs:
            raise ValueError(_about_end(column, all_turns[-1], record))
    elif form.last_turn or form.last_reply:
        raise ValueError("there is a response: --field response= says that none has one")
    elif record.get("responses") and "response" not in form.fields:
        raise ValueError("there are response and responses: --field response=COLUMN says which")
    elif turns and turns[-1].side == "assistant":
        raise ValueError(f"{column} ends with the assistant, and there is a response: which is it?")
    texts = tuple(turn.text for turn in turns)
    has_context = bool(texts) and is_text("".join(texts))
    if not has_context and (texts or "context" in needs):
        raise ValueError(_about("context", at(record, column), record))
    if not is_text(response) and ("response" in needs or not absent(response)):
        raise ValueError(_about("response", response, record))
    left_out.update(left_out_here)
    number = record.get("response_number")
    default_id = line if number is None else f"{line}.{number}"
    return {
        "line": line,
        "context": texts or None,
        "response": response,
        "reference": _reference(values["reference"]),
        "id": _name(values["id"], record.get("pair_id"), default_id),
        "system": _system(values["system"]),
        "has_roles": bool(turns) and turns[0].side != "",
    }


def _column_of_dialogue(record, context, form):
    """Return the column with the dialogue or the context; ValueError if several may be meant."""
    if form.fields.get("messages"):
        return form.fields["messages"]
    if form.fields.get("context"):
        return form.fields["context"]
    there = [name for name in _DIALOGUES if not absent(record.get(name))]
    there += [] if absent(context) else ["context"]
    if len(there) > 1:
        raise ValueError(
            f"the record has {' and '.join(there)}: --field messages=COLUMN or "
            "--field context=COLUMN says which it is"
        )
    return there[0] if there else "context"


def _split(turns, column, form, is_answered, left_out):
    """Return the turns before a response that stands in the dialogue itself, and the response."""
    if form.last_turn:
        return turns[:-1], turns[-1].text if turns else None
    sides = [turn.side for turn in turns]
    if form.last_reply and "assistant" in sides:
        place = len(sides) - 1 - sides[::-1].index("assistant")
        left_out["messages behind the last reply"] += len(turns) - 1 - place
        return turns[:place], turns[place].text
    if is_answered:
        return turns[:-1], turns[-1].text
    return turns, None


def _about_end(column, last, record):
    """Say that a dialogue does not end with a reply."""
    end = f"the {last.side}" if last.side else "a text without a role"
    end += "" if last.text.strip() else ", without a text"
    return (
        f"{column} ends with {end}: expected the assistant's reply. The record has "
        f"{_names(record)}: --field response=COLUMN names a reply beside it, --last-reply takes "
        "the last one there is, --last-turn the last turn of anybody"
    )


def _about(name, value, record):
    """Say that a record lacks a field."""
    found = "there is none" if absent(value) else f"found {value!r:.60}"
    expected = "a list of turns, or messages" if name == "context" else "a text"
    return (
        f"{name}: {found}, expected {expected}; the record has {_names(record)}: --field "
        f"{name}=COLUMN names it; {RECIPES}"
    )


def turns_of(value: Any) -> list[str]:
    """Return the texts of the turns of a dialogue; ValueError if it is none."""
    return [
        turn.text for turn in _spoken(_all_turns(value, PLAIN, "context", Counter()), Counter())
    ]


def _all_turns(value, form, column, left_out):
    """Return the turns of a dialogue, texts or messages, also those without a text.

    ValueError if the value is no dialogue, or if messages have a speaker that is not known.
    """
    if absent(value):
        return []
    if isinstance(value, str):
        value = _turns_of_text(value, form, column)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{column} is {value!r:.60}: expected a list of turns, oldest first")
    if len({isinstance(item, str) for item in value}) > 1:
        raise ValueError(f"{column} has texts beside {value!r:.60}: expected texts or messages")
    if not form.as_it_is:
        _refuse_other_order(value, column)
    turns = [
        _turn(item, f"{column}, turn {number}", number, form, left_out)
        for number, item in enumerate(value, 1)
    ]
    sides = [turn.side for turn in turns]
    if "system" in sides[1:] and "assistant" not in sides:
        raise ValueError(
            f"{column} has messages of the system, and none of the assistant: a dialogue system is "
            f"the assistant; {RECIPES}"
        )
    return turns


def _spoken(turns, left_out):
    """Return the turns that somebody spoke; messages of one speaker in a row are one turn.

    What nobody spoke is counted in ``left_out``, and so are messages that were joined.
    """
    spoken = []
    last_speaker = None
    for turn in turns:
        if turn.side in ("system", "tool"):
            left_out[f"{turn.side} messages"] += 1
        elif not turn.text.strip():
            left_out["turns without a text"] += 1
            last_speaker = None if turn.side == "user" else last_speaker
        elif turn.speaker == last_speaker:
            spoken[-1] = turn._replace(text=f"{spoken[-1].text} {turn.text}")
            left_out["messages joined to the one before, of the same speaker"] += 1
        else:
            spoken.append(turn)
            last_speaker = turn.speaker
    return spoken


def _turns_of_text(text, form, column):
    """Return the turns of a text: a JSON list, or what the user says of it."""
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    if form.separator:
        return [piece.strip() for piece in text.split(form.separator) if piece.strip()]
    if form.one_turn:
        return [text]
    raise ValueError(
        f"{column} is one text, {text!r:.60}: expected a list of turns; --separator TEXT says what "
        f"stands between its turns, --one-turn that it is one; {RECIPES}"
    )


def _refuse_other_order(messages, column):
    """Raise ValueError if times or numbers of messages, as numbers or ISO 8601, run backwards."""
    objects = [message for message in messages if isinstance(message, dict)]
    for key in dict.fromkeys(str(key) for message in objects for key in message):
        times = (
            [_time(message.get(key)) for message in objects] if _ORDER_KEY.fullmatch(key) else []
        )
        known = [time for time in times if time is not None]
        if known != sorted(known):
            raise ValueError(f"{column} is not in the order of {key}; {RECIPES}")


def _time(value):
    """Return the time that a number or a text in ISO 8601 means; None if it is neither."""
    with suppress(ValueError, TypeError, OverflowError):
        return float(value)
    with suppress(ValueError, TypeError, OverflowError):
        return datetime.fromisoformat(value).timestamp()
    return None


def _turn(item, place, number, form, left_out):
    """Return an entry of a dialogue, a text or a message, as a `Turn`."""
    if isinstance(item, str):
        return Turn("", number, item)
    if not isinstance(item, dict):
        raise ValueError(f"{place} is {item!r:.60}: expected a text or a message")
    speaker = _first(item, form.fields.get("role"), _SPEAKER_KEYS)
    text: Any = _first(item, form.fields.get("text"), _TEXT_KEYS)
    if absent(speaker):
        raise ValueError(
            f"{place} has {_names(item)}: expected who speaks ({', '.join(_SPEAKER_KEYS)}), or "
            "--field role=KEY"
        )
    role = str(speaker).lower()
    roles = {name.lower(): side for name, side in form.roles.items()}
    side = roles.get(role) or _ROLES.get(role) or (role if form.last_turn else None)
    if side is None:
        raise ValueError(
            f"{place} is by {speaker!r:.60}: expected {', '.join(SIDES)}; --last-turn takes the "
            f"last turn of anybody as the response; {RECIPES}"
        )
    if isinstance(text, list):  # the parts of OpenAI and Anthropic
        if not all(isinstance(part, dict) for part in text):
            raise ValueError(f"{place} has {text!r:.60}: expected a text, or parts with a text")
        spoken = [part["text"] for part in text if _is_spoken(part)]
        if len(text) > len(spoken):
            left_out["parts of messages that nobody spoke"] += len(text) - len(spoken)
        text = " ".join(spoken)
    if text is None and (side in ("system", "tool") or item.get("tool_calls")):
        text = ""
    if not isinstance(text, str):
        raise ValueError(f"{place} has {_names(item)}: expected its text, or --field text=KEY")
    return Turn(side, (side, item.get("name")), text)


def _is_spoken(part):
    """Return whether a part of a message is a text, and no image, call or thought."""
    is_thought = part.get("thought") or str(part.get("type")) in ("reasoning", "thinking")
    return isinstance(part.get("text"), str) and not is_thought


def _first(item, path, keys):
    """Return the value at a path, or the first there is of some keys."""
    if path:
        return at(item, path)
    return next((item[key] for key in keys if item.get(key) is not None), None)


def at(record: Any, path: str) -> Any:
    """Return the value at a path such as ``choices.0.text``; None if there is none.

    A number is a place in a list. A column whose name has dots goes before a path.
    """
    if isinstance(record, dict) and path in record:
        return record[path]
    value = record
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and re.fullmatch("[0-9]{1,9}", key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def _system(value):
    """Return the name of a system; ValueError if it is a prompt."""
    words = value.split() if isinstance(value, str) else []
    is_sentence = len(words) > 1 and value.strip()[-1] in ".!?"
    if isinstance(value, (list, dict)) or is_sentence or len(words) > _LONGEST_NAME:
        raise ValueError(
            f"system is {value!r:.60}: expected a name. --field system=COLUMN names the column "
            "that has it, --field system= none"
        )
    return _name(value, "").strip()


def _reference(value):
    """Return a reference as text: of several the first, None if there is none."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not absent(value) and not is_text(value):
        raise ValueError(f"reference is {value!r:.60}: expected a text or a list of texts")
    return None if absent(value) else value


def _name(*values):
    """Return the first value that is there as a name; a whole number such as 1.0 is "1"."""
    value = next(value for value in values if value == "" or not absent(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"a name is {value!r:.60}: expected a text or a whole number")
    if _HALF.search(str(value)):
        raise ValueError(f"a name is {value!r:.60}: it has half of a character")
    return str(value)


def _names(record):
    """Return the columns of a record, or what is in its place, in a few words."""
    if not isinstance(record, dict):
        return f"{record!r:.60}"
    names = ", ".join(map(str, record))
    return names if len(names) < 200 else f"{names[:200]} ..."


def absent(value: object) -> bool:
    """Return whether a value is absent: None, an empty text, or the NaN of an empty cell."""
    return value is None or value == "" or (isinstance(value, float) and value != value)


def is_text(value):
    """Return whether a value is a text in which something can be seen, without half characters."""
    if not isinstance(value, str) or _HALF.search(value):
        return False
    return any(unicodedata.category(sign)[0] not in "ZC" for sign in value)


def scores(source: pd.DataFrame | str | Path, ids: Sequence[str]) -> pd.DataFrame:
    """Return ``id``, ``system`` and ``score`` (finite, or NaN) of a table or a file of scores.

    The id is the first of the columns ``ids`` that exists; ``score`` may be called ``score_llm``.
    DreError if there is no score, or it is something else than finite numbers and empty cells.
    """
    if isinstance(source, pd.DataFrame):
        name, table = "the table", source
    else:
        name = str(source)
        table = pd.DataFrame([_score_record(name, *pair) for pair in records(source)])
    try:
        names = table[next(column for column in ids if column in table)].map(_context_key)
        score = table["score" if "score" in table else "score_llm"].replace("", None)
        score = pd.Series(pd.to_numeric(score), dtype=float)
        if (score.abs() == math.inf).any():
            raise ValueError(f"the score of {names[score.abs().idxmax()]} is infinite")
    except (StopIteration, LookupError, ValueError, TypeError) as error:
        found = _names(dict(table))
        expected = f"score (a finite number or nothing), and {' or '.join(ids)}"
        raise DreError(f"{name}: found {found} ({error}): expected {expected}") from None
    system = table["system"] if "system" in table else pd.Series("", table.index)
    result = pd.DataFrame({"id": names, "system": system.fillna("").map(_name), "score": score})
    if name.removesuffix(".gz").endswith(".csv"):
        for column in ("id", "system"):
            result[column] = result[column].map(_without_apostrophe)
    return result


def _context_key(value):
    """Return what a context is known by: an id, or the text of its turns."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return json.dumps(value) if isinstance(value, (list, tuple)) else _name(value)


def _score_record(name, line, record):
    """Return a record of a file of scores; DreError if the line holds none."""
    if not isinstance(record, dict):
        reason = record.reason if isinstance(record, NoRecord) else f"found {record!r:.60}"
        raise DreError(f"{name}:{line}: {reason}: expected an object with named fields")
    return record


def _without_apostrophe(name):
    """Return a name without the apostrophe that `dre.files.without_formulas` puts before it."""
    return name[1:] if re.match(r"'+[=+\-@\t\r]", str(name)) else name
