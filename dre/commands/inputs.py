"""Options for a file of responses, and how commands read it."""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import readers
from dre.datasets.readers import Form
from dre.errors import DreError
from dre.files import sha256

HELP = (
    "file of pairs: JSONL, JSON, CSV, TSV or Parquet, or - for standard input. Each record has "
    "context (a list of turns) and response, or messages that end with the response; it may have "
    "id, system and reference. `dre data show` shows how a file is read"
)
_FIRST_BAD = 5  # bad records that an error names
_FORM_OPTIONS = {
    "separator": "what stands between the turns of a context that is one text: __eou__, \\n",
    "one_turn": "a context that is one text is one turn",
    "last_turn": "the last turn of each dialogue is its response, whoever says it",
    "last_reply": "the last reply of the assistant is the response, whatever follows",
    "as_it_is": "take pairs that do not look as dialogues do",
}


class Input(NamedTuple):
    """What was read of a file, and the sha256 of the file."""

    pairs: pd.DataFrame
    bad_records: list[dict[str, Any]]
    notes: list[str]
    sha256: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a file of responses and the options that say how it is read."""
    parser.add_argument("input", help=HELP)
    add_reading_options(parser)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a file of responses is read, and how much of it."""
    add_form_options(parser)
    text = "leave out records that cannot be used, and go on"
    parser.add_argument("--skip-bad", action="store_true", help=text)
    text = "take only the first N pairs, for a first look"
    parser.add_argument("--limit", type=number_of_pairs, metavar="N", help=text)


def number_of_pairs(text: str) -> int:
    """Read a number above 0; ValueError if it is something else."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return int(text)


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say of what form the dialogues of a file are."""
    option = parser.add_argument_group("form of the file").add_argument
    option(
        "--field",
        action="append",
        metavar="NAME=PATH",
        help="the column of a field, where it has another name: context=history; a path such as "
        "response=choices.0.text; nothing behind = means that no column has it. messages is a "
        "whole dialogue, role and text are keys of its messages",
    )
    option(
        "--role",
        action="append",
        metavar="NAME=SIDE",
        help="who speaks in messages: wizard=assistant (user, assistant, system or tool)",
    )
    for name, text in _FORM_OPTIONS.items():
        kind: dict[str, Any] = {"action": "store_true"}
        if name == "separator":
            kind = {"metavar": "TEXT", "default": ""}
        option(f"--{name.replace('_', '-')}", help=text, **kind)


def form_of(args: argparse.Namespace, more_fields: Sequence[str] = ()) -> Form:
    """Return what the options of `add_form_options` say; DreError if one cannot be read.

    ``more_fields`` are names that ``--field`` may give besides those of pairs.
    """
    names = (*readers.FIELDS, *readers.OF_MESSAGES, *more_fields)
    options = {name: getattr(args, name) for name in _FORM_OPTIONS}
    # A shell passes \n and \t on as two signs.
    options["separator"] = args.separator.replace("\\n", "\n").replace("\\t", "\t")
    if sum(options[name] for name in ("last_turn", "last_reply")) > 1:
        raise DreError("--last-turn and --last-reply are two replies: give one of them")
    return Form(
        fields=_by_name("--field", args.field, "NAME=PATH", names),
        roles=_by_name("--role", args.role, "NAME=SIDE", (), readers.SIDES),
        **options,
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


def read(
    args: argparse.Namespace,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
    path: str = "",
) -> Input:
    """Read the file that the options of `add_options` name, and print what there is to note.

    ``path`` is another file than ``args.input``; ``needs`` and ``whole`` are those of
    `dre.datasets.readers.read`. Raises DreError if there is no pair, if what was read does not look
    like dialogues or, without ``--skip-bad``, if a record cannot be used.
    """
    path = path or args.input
    form = form_of(args)
    data = readers.content(path)
    reading = readers.read(readers.records(path, data), form, needs, whole)
    pairs, bad_records = reading.pairs, reading.bad_records
    if bad_records and not args.skip_bad:
        raise DreError(about_bad_records(path, bad_records, len(pairs) + len(bad_records)))
    if not len(pairs):
        raise DreError(f"{path}: there is no pair in it: expected at least one")
    readers.refuse_doubts(reading.doubts, path)
    for note in reading.notes:
        tell(note)
    digest = hashlib.sha256(data).hexdigest()
    return Input(pairs.head(args.limit or len(pairs)), bad_records, reading.notes, digest)


def read_systems(args: argparse.Namespace) -> Input:
    """Read the files that ``args.input`` lists as one; of several files each is a system.

    Where the replies of a file name their systems, these names stay. If two files name the same
    ones, the file's name goes before them.
    """
    if len({Path(path).resolve() for path in args.input}) < len(args.input):
        raise DreError(f"{' '.join(args.input)}: a file is named twice")
    files = [read(args, path=path) for path in args.input]
    if len(files) == 1:
        return files[0]
    names = [Path(path.removesuffix(".gz")).stem for path in args.input]
    if len(set(names)) < len(names):
        names = [str(path) for path in args.input]
    tables = []
    for name, file in zip(names, files):
        systems = file.pairs["system"]
        tables.append(file.pairs.assign(system=systems if any(systems) else name))
    n_files = Counter(system for table in tables for system in table["system"].unique())
    for k, name in enumerate(names):
        systems = tables[k]["system"]
        is_shared = (systems.map(n_files) > 1) & (systems != name)
        tables[k]["system"] = systems.mask(is_shared, f"{name}/" + systems)
    return Input(
        readers.with_pair_ids(pd.concat(tables, ignore_index=True)),
        [record for file in files for record in file.bad_records],
        list(dict.fromkeys(note for file in files for note in file.notes)),
        sha256("".join(file.sha256 for file in files)),
    )


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return those options on how a file is read that were given, for a summary."""
    names = ("field", "role", *_FORM_OPTIONS, "skip_bad")
    return {name: getattr(args, name) for name in names if getattr(args, name)}


def about_bad_records(path, bad_records, n_records):
    """Say which records cannot be used: how many, and the first few with their reasons."""
    reasons = [
        f"{path}:{record['line']}: {record['reason']}" for record in bad_records[:_FIRST_BAD]
    ]
    if len(bad_records) == 1:
        return f"{reasons[0]}; --skip-bad leaves it out"
    first = f"{len(bad_records):,} of {n_records:,} records cannot be used; --skip-bad leaves them"
    more = [f"and {len(bad_records) - len(reasons):,} more"]
    return "\n  ".join([f"{first} out", *reasons, *more[: len(bad_records) > len(reasons)]])


def one_line(pair: Any) -> str:
    """Return a pair as it was read, on one line: turns and response."""
    turns = " | ".join(short(turn, 60) for turn in (pair["context"] or ())[-3:])
    n_more = len(pair["context"] or ()) - 3
    before = f"({n_more} turns) | " if n_more > 0 else ""
    return f"{before}{turns} → {short(pair['response'] or '', 60)}"


def short(text: str, longest: int = 300) -> str:
    """Return a text on one line, without its middle if it is long."""
    line = " ".join(text.split())
    half = longest // 2
    return line if len(line) <= longest else f"{line[:half]} [...] {line[-half:]}"


def filled(table: pd.DataFrame, columns: Iterable[str]) -> list[str]:
    """Return those of some columns that a table has, and that are not empty in every row."""
    return [
        name
        for name in columns
        if name in table and any(not readers.absent(value) for value in table[name])
    ]
