"""Options for a file of responses, and how commands read it."""

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import chats, formats, readers
from dre.datasets.chats import Form
from dre.errors import DreError

_INPUT_HELP = (
    "file of pairs: JSONL, JSON, CSV, TSV or Parquet, or - for standard input. Each record has "
    "context (turns or chat messages) and response, or messages that end with the response; it may "
    "have id (or pair_id), system and reference. `dre data show` shows how a file is read"
)

_FIRST_BAD = 5  # bad records that an error names
_FORM_OPTIONS = ("field", "role", "separator", "last_turn", "keep_tags")


class Input(NamedTuple):
    """What was read of a file, and the sha256 of the file."""

    pairs: pd.DataFrame
    bad_records: list[dict[str, Any]]
    notes: list[str]
    sha256: str


def add_options(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add a file of responses and the options that say how it is read.

    An option that is not given is None.
    """
    option = parser.add_argument
    option("input", help=_INPUT_HELP, nargs="?" if optional else None)
    add_form_options(parser)
    option(
        "--skip-bad",
        action="store_true",
        default=None,
        help="leave out records that cannot be used, and go on",
    )
    option("--limit", type=int, metavar="N", help="take only the first N pairs, for a first look")


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say of what form the dialogues of a file are; None if not given."""
    option = parser.add_argument
    option(
        "--field",
        action="append",
        metavar="NAME=COLUMN",
        help="name the column that holds a field, where it has another name: context=history. "
        "messages=COLUMN is a whole dialogue, records=KEY the list in a JSON object; nothing "
        "behind = means that no column has it",
    )
    option(
        "--role",
        action="append",
        metavar="NAME=SIDE",
        help="say who speaks in messages: wizard=assistant (user, assistant, system or tool)",
    )
    option(
        "--separator",
        metavar="TEXT",
        help="what stands between turns that are one text: __eou__ (default: line ends)",
    )
    option(
        "--last-turn",
        action="store_true",
        default=None,
        help="the last turn of each dialogue is its response, whoever says it",
    )
    option(
        "--keep-tags",
        action="store_true",
        default=None,
        help="read speakers' tags (User:) and separators as text that was said",
    )


def refuse_without_file(args: argparse.Namespace, advice: str = "") -> None:
    """Raise DreError if an option says how a file is read, and no file is named.

    Such an option would have no effect: ``--limit 5`` would not keep a judge from being asked more.
    """
    if args.input:
        return
    for name in (*_FORM_OPTIONS, "skip_bad", "limit"):
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise DreError(
                f"{option} says how a file is read, and no file is named: name one, or leave "
                f"{option} out{advice}"
            )


def form_of(args: argparse.Namespace, more_fields: Sequence[str] = ()) -> Form:
    """Return what the options of `add_form_options` say; DreError if one cannot be read.

    ``more_fields`` are names that ``--field`` may give besides those of pairs.
    """
    names = (*readers.FIELDS, *readers.PLACES, *more_fields)
    return Form(
        fields=_by_name("--field", args.field, "NAME=COLUMN", names),
        roles=_by_name("--role", args.role, "NAME=SIDE", (), chats.SIDES),
        separator=args.separator or "",
        last_turn=bool(args.last_turn),
        keep_tags=bool(args.keep_tags),
    )


def _by_name(option, texts, form, names=(), allowed_values=()):
    """Return the values of an option by name, as in ``--field context=history``."""
    values = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        is_known = name in names if names else bool(name)
        if not is_known or not equals or (allowed_values and value not in allowed_values):
            expected = f"{form} with one of {', '.join(names or allowed_values)}"
            raise DreError(f"{option} {text}: expected {expected}")
        values[name] = value
    return values


def tell(note: str) -> None:
    """Print a note on a file."""
    print(f"note: {note}", file=sys.stderr)


def form_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return those options on the form of a file that were given, for a summary."""
    given = {name: getattr(args, name) for name in _FORM_OPTIONS[1:] if getattr(args, name)}
    return {"fields": args.field or [], **given}


def form_of_summary(summary: dict[str, Any]) -> Form:
    """Return the form with which the input of an output was read, as its summary says."""
    given = {name: summary.get(name) for name in _FORM_OPTIONS}
    return form_of(argparse.Namespace(**given | {"field": summary.get("fields")}))


def read(
    args: argparse.Namespace,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> Input:
    """Read the file that the options of `add_options` name, and print what there is to note.

    ``needs`` and ``whole`` are those of `dre.datasets.readers.pairs`. Raises DreError if there is
    no pair or, without ``--skip-bad``, if a record cannot be used.
    """
    form = form_of(args)
    data = formats.content(args.input)
    reading = readers.read(readers.records(args.input, data, form), form, needs, whole)
    pairs, bad_records = reading.pairs, reading.bad_records
    if bad_records and not args.skip_bad:
        raise DreError(about_bad_records(args.input, bad_records, len(pairs) + len(bad_records)))
    if not len(pairs):
        raise DreError(about_no_pair(args.input, len(bad_records)))
    if args.limit is not None:
        if args.limit < 1:
            raise DreError(f"--limit is {args.limit}: expected a number of pairs above 0")
        pairs = pairs.head(args.limit)
    for note in reading.notes:
        tell(note)
    sha256 = hashlib.sha256(data).hexdigest()
    return Input(pairs, bad_records, reading.notes, sha256)


def refuse_one_value(table: pd.DataFrame, columns: Mapping[str, str], path: str | Path) -> None:
    """Raise DreError if nothing can be learned from rated pairs.

    ``columns`` says of each column that must vary what it is called in the message, with its file.
    """
    for column, name in columns.items():
        if len(set(table[column])) < 2:
            raise DreError(
                f"{name} is {table[column].iloc[0]:g} in all {len(table):,} pairs: expected two "
                "values or more, since nothing agrees with a constant"
            )
    if len(set(table["context_id"])) < 2:
        raise DreError(
            f"{path}: all {len(table):,} rated pairs have the same context: expected two contexts "
            "or more, since they are resampled"
        )


def about_no_pair(path, n_bad):
    """Say that a file has no pair to work on."""
    counted = f", and {readers.counted_kind(n_bad, 'records that cannot be used')}"
    return f"{path}: there is no pair in it{counted if n_bad else ''}: expected at least one"


def about_bad_records(path, bad_records, n_records):
    """Say which records cannot be used: how many, the first few with reasons, and what helps."""
    advice = "--skip-bad leaves bad records out"
    if any("; the record has " in record["reason"] for record in bad_records):
        advice = f"--field says which column is which, {advice}"
    reasons = [
        f"{path}:{record['line']}: {record['reason']}" for record in bad_records[:_FIRST_BAD]
    ]
    if len(bad_records) == 1:
        return f"{reasons[0]}; {advice}"
    lines = [f"{len(bad_records):,} of {n_records:,} records cannot be used; {advice}", *reasons]
    n_more = len(bad_records) - len(reasons)
    if n_more:
        lines.append(f"and {n_more:,} more")
    return "\n  ".join(lines)
