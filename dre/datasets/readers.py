"""How every command reads files of responses, and what an error or a note says of them.

The formats of files are in `dre.datasets.formats`, forms of dialogues in `dre.datasets.chats`.
"""

import functools
import json
import math
import numbers
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import aliases, chats, tags
from dre.datasets.chats import PLAIN, Form, looks_like_data, names, quote
from dre.datasets.formats import LARGEST_TEXT, NoRecord, at, records
from dre.errors import DreError
from dre.files import sha256

FIELDS = ("context", "response", "reference", "id", "system")
#: What ``--field`` may name besides: a whole dialogue, and the list of a JSON object.
PLACES = ("messages", "records")
#: Half of a character (a surrogate), which no tokeniser accepts.
HALF = re.compile("[\ud800-\udfff]")
#: Thoughts of a model, which some servers leave in its reply.
_THOUGHTS = re.compile(r"</?think(?:ing)?>|\[/?THINK\]", re.IGNORECASE)
_NEXT_SPEAKER = re.compile(r"\n\s*(?:User|Human|Assistant|Bot|Customer|System|AI):")
#: Columns with one turn each, as PolyAI's sets have them.
_NUMBERED = re.compile(r"context[/_.\- ]?\d+", re.IGNORECASE)
#: Texts that often stand for a value that is missing.
_MISSING = ("nan", "none", "null", "<na>", "n/a", "[]", "{}")
#: A system's name of so many words is a sentence.
_SENTENCE = 8


class Reading(NamedTuple):
    """What was read of a file.

    Attributes
    ----------
    pairs : the pairs, as `pairs` returns them.
    bad_records : ``line, reason, content`` of each record that cannot be used.
    notes : sentences on what was left out, taken off or may be meant otherwise.
    left_out : what was left out of each pair, by its pair id, with counts.
    """

    pairs: pd.DataFrame
    bad_records: list[dict]
    notes: list[str]
    left_out: dict[str, Counter]


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
    score_columns = ("score", "score_llm")
    score_column = next((column for column in score_columns if column in table), None)
    try:
        columns: dict = {"score": _as_numbers(table[score_column])}
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
                f"{path}:{line}: found {quote(record)}: expected an object with named fields"
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
    form: Form = PLAIN,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
    tell: Callable[[str], None] | None = None,
) -> tuple[pd.DataFrame, list[dict]]:
    """Return the pairs of context and response in records, and the records that have none.

    Parameters
    ----------
    records
        Line and record, as `records` yields them.
    form
        What the user says about the form of the records.
    needs
        The fields that every record must have.
    whole
        Whether to keep all other columns as well.
    tell
        Takes the notes there are; by default each is a warning.

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
        If the form names a column that no record has, or two pairs would get the same ``pair_id``.
    """
    reading = read(records, form, needs, whole)
    for note in reading.notes:
        if tell:
            tell(note)
        else:
            warnings.warn(note, stacklevel=2)
    return reading.pairs, reading.bad_records


def read(
    records: Iterable[tuple[int, Any]],
    form: Form = PLAIN,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> Reading:
    """Return what `pairs` does, with the notes and what was left out of each pair."""
    rows = []
    bad = []
    left_out_by_row = []  # what was left out, row by row
    note_counts = Counter()  # records and responses that a note is about
    # The first line of each (system, id), and the names of all columns in order.
    line_of_id = {}
    columns = {}
    for line, whole_record in records:
        for record, default_id in records_of_one(whole_record, line, form, note_counts):
            if isinstance(record, dict):
                columns.update(dict.fromkeys(record))
            left_out = Counter()
            try:
                row = _pair(record, line, default_id, form, needs, left_out, note_counts)
                first = line_of_id.setdefault((row["system"], row["id"]), (line, default_id))
                if first != (line, default_id):
                    raise ValueError(
                        f"id {row['id']!r} is line {first[0]}'s: make ids unique in a system, or "
                        "leave them out"
                    )
            except ValueError as error:
                bad_content = record.content if isinstance(record, NoRecord) else record
                bad.append({"line": line, "reason": str(error), "content": bad_content})
                continue
            if whole and isinstance(record, dict):
                row = record | row
            rows.append(row)
            left_out_by_row.append(left_out)

    _refuse_unknown_columns(form, columns)
    untagged = None if form.keep_tags else tags.take_off(rows)
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=["line", *FIELDS])
    table["context_id"] = [_context_id(turns) for turns in table["context"]]
    is_shared_id = table["id"].duplicated(keep=False)
    table["pair_id"] = table["id"].mask(is_shared_id, table["system"] + "/" + table["id"])
    _refuse_equal_pair_ids(table)
    left_out_by_id = {
        pair_id: left_out
        for pair_id, left_out in zip(table["pair_id"], left_out_by_row)
        if left_out
    }
    notes = _notes(left_out_by_row, untagged, note_counts, rows)
    return Reading(table, bad, notes, left_out_by_id)


def _refuse_unknown_columns(form, columns):
    """Raise DreError if the form names a column that no record has."""
    named = [column for field, column in form.fields.items() if column and field != "records"]
    unknown = []
    for column in named:
        outer = column.partition(".")[0]
        if column not in columns and outer not in columns:
            unknown.append(column)
    if unknown:
        raise DreError(
            f"--field names {', '.join(sorted(unknown))}: expected a column, the records have "
            f"{names(columns)}"
        )


def _notes(left_out_by_row, untagged, note_counts, rows):
    """Return the sentences on what was left out, taken off or may be meant otherwise."""
    notes = []
    total = sum(left_out_by_row, Counter())
    n_lists = total.pop(chats.WITHOUT_COMMAS, 0)
    if n_lists:
        notes.append(f"{n_lists:,} lists have no commas, as numpy writes them: read as lists")
    if total:
        n_pairs = sum(1 for left_out in left_out_by_row if {*left_out} - {chats.WITHOUT_COMMAS})
        notes.append(f"left out of {counted_kind(n_pairs, 'dialogues')}: {in_words(total)}")
    if untagged and untagged.tags:
        first_tags = ", ".join(untagged.tags[:3])
        ellipsis = ", ..." if len(untagged.tags) > 3 else ""
        notes.append(
            f"speakers' tags ({first_tags}{ellipsis}) were taken off {untagged.turns:,} turns and "
            f"{untagged.responses:,} responses; --keep-tags keeps them"
        )
    if untagged and untagged.unsure:
        notes.append(
            f"all turns of {counted_kind(untagged.unsure, 'dialogues')} begin with a word and a "
            "colon; these may be speakers' tags, and are read as text"
        )
    for sentence, count in note_counts.items():
        note = sentence.format(n=f"{count:,}")
        if count == 1:
            note = note.replace("1 records have", "1 record has").replace("1 records", "1 record")
        notes.append(note)
    return notes + _notes_on_responses(rows)


def in_words(left_out: Counter) -> str:
    """Return what was left out, with counts: ``1 tool call, 2 system prompts``."""
    counts = {kind: count for kind, count in left_out.items() if kind != chats.WITHOUT_COMMAS}
    return ", ".join(counted_kind(count, kind) for kind, count in counts.items())


def counted_kind(count: int, kind: str) -> str:
    """Return a count of things, whose name is given in the plural."""
    if count == 1:
        kind = re.sub(r"s\b(?=$| that| behind| without)", "", kind, count=1)
    return f"{count:,} {kind}"


def _notes_on_responses(rows):
    """Return the sentences on responses that hold something else than what was said."""
    lines_by_kind = defaultdict(list)
    for row in rows:
        for kind in _oddities(row["context"] or (), row["response"]):
            lines_by_kind[kind].append(row["line"])
    return [
        f"{counted_kind(len(lines), 'responses')} with {kind} (first in line {lines[0]})"
        for kind, lines in lines_by_kind.items()
    ]


def _oddities(turns, response):
    """Yield what a context or a response holds that may not be what was said."""
    if len(turns) == 1 and len(turns[0]) < 6:
        only_word = turns[0].strip()
        if only_word.lower() in _MISSING:
            yield f"a context of nothing but {only_word!r}: is a value missing?"
    if tags.may_be_several(turns):
        yield "a context in one turn of which several speakers may have their say"
    if not isinstance(response, str):
        return
    if ("<" in response or "[" in response) and _THOUGHTS.search(response):
        yield "the thoughts of a model (<think>), which are read as part of the reply"
    separator = tags.separator_in(response)
    if separator:
        yield f"{separator.strip()!r}, which is read as part of the reply"
    if ":" in response and _NEXT_SPEAKER.search(response):
        yield "what another speaker says next, which is read as part of the reply"
    if response[:1] in "[{" and looks_like_data(response):
        yield "a list or an object, which is read as text"
    if len(response) < 6 and response.strip().lower() in _MISSING:
        yield f"nothing but {response.strip()!r}: is a value missing?"
    if response[:2] in ("b'", 'b"') and response[-1] == response[1]:
        yield "bytes that were written as text (b'...')"


def _context_id(turns):
    """Return a hash of the turns, so that equal contexts have the same id."""
    return sha256(json.dumps(turns))[:16]


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


class _Layout(NamedTuple):
    """Which columns of a record have what. Records of a file mostly share one."""

    fields: dict[str, str | None]  # the column of each field
    by_small: dict[str, str]  # all columns by their names in small letters
    numbered: tuple[str, ...]  # columns such as context/0

    def columns(self, kind: Iterable[str]) -> list[str]:
        """Return the columns that have one of the names of a kind, such as `aliases.DIALOGUES`."""
        return [self.by_small[name] for name in kind if name in self.by_small]


@functools.lru_cache(maxsize=256)
def _layout(columns, own_columns):
    """Return the layout of records with these columns; ``own_columns`` are the user's by field."""
    by_small = {}
    for column in columns:
        name = str(column).strip().lower()
        if name in by_small and name in FIELDS and name not in columns:
            raise ValueError(f"{by_small[name]!r} and {column!r} are both {name}: rename one")
        by_small.setdefault(name, column)
    fields = {}
    user_columns = dict(own_columns)
    for field in FIELDS:
        name = user_columns.get(field, field)
        is_there = name in columns or field in user_columns
        fields[field] = name if is_there else by_small.get(field)

    numbered = tuple(column for column in columns if _NUMBERED.fullmatch(str(column)))
    return _Layout(fields, by_small, numbered)


def records_of_one(
    record: Any, line: int, form: Form = PLAIN, note_counts: Counter | None = None
) -> Iterator[tuple[Any, str]]:
    """Yield a record with the id that it has by default, or one for each of its responses.

    A list of messages becomes a record. ``about`` counts records with several responses.
    """
    if isinstance(record, list) and record and all(isinstance(item, dict) for item in record):
        record = {"messages": record}
    responses: Any = record.get("responses") if isinstance(record, dict) else None
    has_several = isinstance(responses, (list, tuple)) or hasattr(responses, "tolist")
    has_own = isinstance(record, dict) and not absent(record.get("response"))
    if not isinstance(record, dict) or not has_several or has_own or "response" in form.fields:
        yield record, str(line)
        return

    # USR has a record for each context, with the responses of several systems.
    if note_counts is not None:
        note_counts["{n} records have several responses: each of them is a pair"] += 1
    shared = {column: value for column, value in record.items() if column != "responses"}
    own_id = at(shared, form.fields.get("id", "id"))
    first_id = str(line) if absent(own_id) else str(own_id)
    for k, entry in enumerate(list(responses)):
        own_columns = entry if isinstance(entry, dict) else {"response": entry}
        yield {**shared, "id": f"{first_id}.{k}", **own_columns}, f"{line}.{k}"


def _pair(record, line, default_id, form, needs, left_out, note_counts):
    """Return the pair of a record, or raise a ValueError that names its fault."""
    if isinstance(record, NoRecord):
        raise ValueError(record.reason)
    if not isinstance(record, dict):
        raise ValueError(f"found {quote(record)}, expected an object with {' and '.join(needs)}")
    own_columns = tuple(form.fields.items()) if form.fields else ()
    layout = _layout(tuple(record), own_columns)
    values = {}
    for field, column in layout.fields.items():
        values[field] = record[column] if column in record else at(record, column or "")
    if absent(values["id"]):
        values["id"] = record.get("pair_id")

    dialogue = _dialogue_of(record, layout, values, form)
    turns, response = _turns_and_response(
        record, layout, values, dialogue, form, needs, left_out, note_counts
    )
    if not _are_turns(turns) and ("context" in needs or not absent(values["context"])):
        raise ValueError(_about_context(values["context"], turns, record, layout))
    if not _is_text(response) and ("response" in needs or not absent(response)):
        unusable = values["response"] if response is None else response
        raise ValueError(_about_response(unusable, dialogue, record, layout))
    if turns and not form.keep_tags:
        reason = tags.several_turns_in_one(turns) or tags.mixed_tags(turns)
        if reason:
            raise ValueError(f"{dialogue.column if dialogue else 'context'}: {reason}")
    return {
        "line": line,
        "context": turns,
        "response": response,
        "reference": _reference(values["reference"], note_counts),
        "id": _optional_text("id", values["id"], default_id),
        "system": _system(values["system"], dialogue, form, left_out, note_counts),
    }


class _Dialogue(NamedTuple):
    """A column with a dialogue, and whether it holds only what was said before the response."""

    column: str
    value: Any
    is_history: bool


def _dialogue_of(record, layout, values, form):
    """Return the column that has a dialogue in the place of a context; None if there is none.

    ValueError if several columns may be meant.
    """
    own_column = form.fields.get("messages")
    if own_column:
        return _Dialogue(own_column, at(record, own_column), False)
    if "context" in form.fields:
        return None
    dialogues = []
    has_context = not absent(values["context"])
    for column in layout.columns(aliases.DIALOGUES):
        value = record[column]
        is_detail = has_context and isinstance(value, dict)
        if not is_detail and _is_dialogue(column, value):
            dialogues.append(_Dialogue(column, value, False))
    for column in layout.columns(aliases.HISTORIES):
        value = record[column]
        is_text = isinstance(value, str) and value.strip()
        if is_text or (looks_like_data(value) and len(value)):
            dialogues.append(_Dialogue(column, value, True))
    if has_context and layout.numbered:
        raise ValueError(
            f"{names(layout.numbered)} stand beside context: are they turns before it? write all "
            "turns as one list, or take context alone with --field context=context"
        )
    if not dialogues:
        if has_context:
            _refuse_facts(record, layout, values)
        return None
    columns = [dialogue.column for dialogue in dialogues]
    if has_context:
        raise ValueError(
            f"the record has both {columns[0]} and a context: leave one of them out, or name "
            f"the one that counts: --field context=context or --field messages={columns[0]}"
        )
    if len(dialogues) > 1:
        raise ValueError(
            f"the record has {' and '.join(columns)}: --field messages=COLUMN says which is the "
            "dialogue, --field context=COLUMN which are the turns before the response"
        )
    return dialogues[0]


def _is_dialogue(column, value):
    """Return whether the value of a column with the name of a dialogue may be one."""
    if isinstance(value, str):
        return looks_like_data(value) or "\n" in value.strip()
    if str(column).lower() == "input":  # a list of messages, and not what a test is about
        return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return looks_like_data(value) and len(value) > 0


def _refuse_facts(record, layout, values):
    """Raise ValueError if a context stands beside a question, and may be facts."""
    for column in layout.columns((*aliases.QUESTIONS, *aliases.LONG_QUESTIONS)):
        question = record[column]
        is_text = isinstance(question, str) and bool(question.strip())
        if str(column).lower() in aliases.LONG_QUESTIONS:
            is_text = is_text and len(question.split()) >= _SENTENCE
        if is_text and column not in layout.fields.values():
            raise ValueError(
                f"context stands beside {column}: is it the dialogue, or what the reply may draw "
                f"on? --field context=context takes {quote(values['context'])}, --field "
                f"context={column} takes {quote(question)}"
            )


def _turns_and_response(record, layout, values, dialogue, form, needs, left_out, note_counts):
    """Return the turns before the response, and the response, as far as they are there."""
    response = values["response"]
    value = values["context"] if dialogue is None else dialogue.value
    if not absent(response):
        response = chats.reply_in(response, "response", left_out)
    column = dialogue.column if dialogue else layout.fields["context"] or "context"
    if absent(value):
        return None, response
    _refuse_long(column, len(value) if isinstance(value, str) else 0)
    try:
        messages = chats.messages_of(value, form, left_out)
    except ValueError as error:
        raise ValueError(f"{column}: {error}; the record has {names(record)}") from None

    if absent(response) and dialogue and not dialogue.is_history:
        for answer in layout.columns(aliases.ANSWERS):
            if answer != column and looks_like_data(record[answer]):
                response = chats.reply_in(record[answer], answer, left_out)
    if absent(response):
        messages, response = _split(record, layout, messages, dialogue, form, needs, left_out)
    elif messages and messages[-1].side == "assistant":
        is_same = isinstance(response, str) and messages[-1].text.strip() == response.strip()
        if dialogue and is_same:
            # A chat often ends with the response that stands in a column of its own as well.
            left_out["last messages that are the response"] += 1
            messages = messages[:-1]
        else:
            note_counts[
                "{n} records have messages that end with the assistant, and another response: it "
                "is read as what is said next, and not in their last message's place"
            ] += 1
    turns = tuple(message.text for message in messages)
    _refuse_long(column, sum(map(len, turns)))
    if isinstance(response, str):
        _refuse_long("response", len(response))
        response = _one_turn(response, form)
    return turns or None, response


def _one_turn(response, form):
    """Return a response without a separator at its end; ValueError if it has several turns."""
    if not form.separator:
        return response
    pieces = [piece.strip() for piece in chats.pieces_of(response, form) if piece.strip()]
    if len(pieces) > 1:
        raise ValueError(f"response is {quote(response)}: expected one turn, found {len(pieces)}")
    return pieces[0] if pieces else response


def _refuse_long(column, n_characters):
    """Raise ValueError if a text, or the turns of a dialogue, are longer than any model reads."""
    if n_characters > LARGEST_TEXT:
        raise ValueError(
            f"{column} has {n_characters:,} characters: expected at most {LARGEST_TEXT:,}"
        )


def _split(record, layout, messages, dialogue, form, needs, left_out):
    """Return the messages before a response that stands in the dialogue itself, and the response.

    Without a response the messages are returned as they are, and None.
    """
    if form.last_turn:
        return chats.split(messages, form, left_out)
    if dialogue is None or dialogue.is_history:
        return messages, None
    ends_with_reply = bool(messages) and messages[-1].side == "assistant"
    if "response" not in needs and not ends_with_reply:
        return messages, None
    if not ends_with_reply:
        for column in layout.columns(aliases.LIKE_RESPONSE):
            entry = record[column]
            if column != dialogue.column and isinstance(entry, str) and entry.strip():
                raise ValueError(
                    f"{dialogue.column} does not end with the assistant, and there is {column}: "
                    f"--field response={column} takes it as the response"
                )
    return chats.split(messages, form, left_out)


def _about_context(value, turns, record, layout):
    """Say why a context cannot be used."""
    is_message = layout.columns(chats.SPEAKER_KEYS) and layout.columns(aliases.TEXT_KEYS)
    if is_message and absent(value):
        return (
            f"the record is one message ({names(record)}): expected a record for each dialogue, "
            'such as {"messages": [...]}'
        )
    unusable = value if turns is None else turns
    reason = (
        f"context is {quote(unusable)}: expected turns, oldest first, or chat messages; "
        f"the record has {names(record)}"
    )
    return reason + _advice("context", layout.columns(aliases.LIKE_CONTEXT))


def _about_response(response, dialogue, record, layout):
    """Say why a response cannot be used."""
    reason = f"response is {quote(response)}: expected a text; the record has {names(record)}"
    if dialogue and dialogue.is_history:
        reason += f"; {dialogue.column} has what was said before it"
    return reason + _advice("response", layout.columns(aliases.LIKE_RESPONSE))


def _advice(field, columns):
    """Return the options that may be meant."""
    options = " or ".join(f"--field {field}={column}" for column in columns[:3])
    return f"; perhaps {options}" if columns else ""


def _system(value, dialogue, form, left_out, note_counts):
    """Return the name of a system. A prompt beside messages is none."""
    text = value
    if dialogue and isinstance(value, (list, dict)):
        text = chats.text_of_content(value, "system", Counter())
    is_sentence = isinstance(text, str) and _is_sentence(text)
    is_prompt = "system" not in form.fields and (is_sentence or text is not value)
    if is_prompt and dialogue:
        left_out["system prompts"] += 1
        note_counts[
            "system of {n} records is a prompt beside messages, and not the name of a system: "
            "--field system=COLUMN names the column that has it"
        ] += 1
        return ""
    if is_prompt:
        note_counts[
            "system of {n} records is a sentence, and is read as the name of a system: "
            "--field system=COLUMN names another column, --field system= none"
        ] += 1
    return _optional_text("system", value, "")


def _is_sentence(text):
    """Return whether a text is a sentence, and no name."""
    words = text.split()
    ends = text.strip().endswith((".", "!", "?")) and len(words) > 1
    return ends or len(words) >= _SENTENCE or text.lower().startswith("you are ")


def _reference(value, note_counts):
    """Return a reference as text: of several the first, None if there is none that can be read."""
    if absent(value):
        return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str) and looks_like_data(value):
        with suppress(ValueError):
            value = chats.unpacked(value, Counter())
    if isinstance(value, (list, tuple, dict)):
        texts = list(value)
        if isinstance(value, dict) or not texts or not all(map(_is_text, texts)):
            note_counts["{n} records have a reference that is no text, and was left out"] += 1
            return None
        if len(texts) > 1:
            note_counts["{n} records have several references: prompts are shown the first"] += 1
        return texts[0]
    return _optional_text("reference", value, None)


def _optional_text(field, value, default):
    """Return a text or a whole number as text, or the default where it is absent."""
    if absent(value):
        return default
    if _is_whole_number(value):
        value = str(int(value))
    if not _is_text(value):
        raise ValueError(f"{field} is {quote(value)}: expected a text, a whole number, or nothing")
    return value


def _are_turns(value):
    """Return whether a value is a tuple of texts that are not all blank."""
    if not isinstance(value, tuple) or not all(isinstance(turn, str) for turn in value):
        return False
    return _is_text("".join(value))


def _is_text(value):
    """Return whether a value is a text that is not blank, without half characters."""
    return isinstance(value, str) and not chats.is_blank(value) and not HALF.search(value)


def absent(value: object) -> bool:
    """Return whether a value is absent: None, an empty text, or the NaN of an empty cell."""
    is_empty = isinstance(value, str) and not value
    return value is None or is_empty or (isinstance(value, float) and value != value)


def rating(record: object, human: str, record_name: str) -> float | None:
    """Return the mean rating of a record.

    Parameters
    ----------
    record
        A record of a file.
    human
        The column with the ratings, or a path of keys: a number, a list of numbers, or the text
        of one of them.
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
    value: Any = at(record, human) if isinstance(record, dict) else None
    try:
        ratings: Any = json.loads(value) if isinstance(value, str) and value else value
        if hasattr(ratings, "tolist"):
            ratings = ratings.tolist()
        if not isinstance(ratings, list):
            ratings = [ratings]
        known_ratings = [float(rating) for rating in ratings if not absent(rating)]
    except (ValueError, TypeError):
        raise DreError(
            f"{record_name}: {human} is {quote(value)}: "
            "expected a number, a list of numbers, or nothing"
        ) from None
    infinite = [rating for rating in known_ratings if math.isinf(rating)]
    if infinite:
        raise DreError(f"{record_name}: {human} is {infinite[0]}: expected a finite number")
    if not known_ratings:
        return None
    return sum(known_ratings) / len(known_ratings)
