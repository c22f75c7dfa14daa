"""Options for a file of responses, and how commands read it."""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import dialogues, readers
from dre.datasets.readers import Form
from dre.errors import DreError
from dre.files import sha256

HELP = (
    "file of pairs: JSONL, JSON, CSV, TSV or Parquet, or - for standard input. Each record has "
    "context (a list of turns) and response, or messages that end with the response; it may have "
    "id, system and reference. `dre data show` shows how a file is read"
)
_FIRST_BAD = 5  # bad records that an error names


class Input(NamedTuple):
    """What was read of a file.

    Attributes
    ----------
    pairs : the pairs to use, as `dre.datasets.readers.Reading` has them.
    notes : sentences on what was left out.
    made_of : what decides the pairs, as fields of a signature: the hash ``data``, how it was read
        (``reading``, where options say so), and ``limit``.
    """

    pairs: pd.DataFrame
    notes: list[str]
    made_of: dict[str, Any]


def add_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add a file of responses, or several, and the options that say how they are read."""
    text = f"{HELP}. Of several files each is a system" if several else HELP
    parser.add_argument("input", help=text, nargs="+" if several else None)
    form = parser.add_argument_group("form of the file")
    option = form.add_argument
    option(
        "--field",
        action="append",
        type=_field,
        metavar="NAME=PATH",
        help="the column of a field, where it has another name: context=history; a path such as "
        "response=choices.0.text; nothing behind = means that no column has it. messages is a "
        "whole dialogue, role and text are keys of its messages",
    )
    of_text = form.add_mutually_exclusive_group().add_argument
    text = "what stands between the turns of a context that is one text: __eou__, \\n"
    of_text("--separator", metavar="TEXT", default="", type=_separator, help=text)
    of_text("--one-turn", action="store_true", help="a context that is one text is one turn")
    of_dialogue = form.add_mutually_exclusive_group().add_argument
    text = "the last turn of each dialogue is its response, whoever says it"
    of_dialogue("--last-turn", action="store_true", help=text)
    text = "the last reply of the assistant is the response, whatever follows"
    of_dialogue("--last-reply", action="store_true", help=text)
    text = "take pairs that do not look as dialogues do"
    option("--as-it-is", action="store_true", help=text)
    text = "leave out records that cannot be used, and go on"
    option("--skip-bad", action="store_true", help=text)
    add_limit(parser, "take only the first N pairs, for a first look")


def add_limit(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--limit``, a number above 0."""
    parser.add_argument("--limit", type=_number, metavar="N", help=text)


def _number(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0")
    return int(text)


def _field(text):
    """Return the name and the path of a field."""
    names = (*readers.FIELDS, *readers.OF_MESSAGES)
    name, equals, path = text.partition("=")
    if name not in names or not equals:
        expected = f"NAME=PATH with one of {', '.join(names)}"
        raise argparse.ArgumentTypeError(f"{text}: expected {expected}")
    return name, path


def _separator(text):
    r"""Return a separator; a shell passes \n and \t on as two signs."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def tell(note: str) -> None:
    """Print a note on a file."""
    print(f"note: {note}", file=sys.stderr)


def read_contexts(name: str) -> list[dialogues.Context]:
    """Read contexts by a name of `dre.datasets.dialogues.contexts_by_name`, and print its notes."""
    return dialogues.contexts_by_name(name, Form(as_it_is=True), tell)


def read(
    args: argparse.Namespace,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
    path: str = "",
    show: Callable[[pd.DataFrame], None] | None = None,
) -> Input:
    """Read the file that the options of `add_options` name, and print what there is to note.

    Parameters
    ----------
    args : the options.
    needs, whole : those of `dre.datasets.readers.read`.
    path : another file than ``args.input``.
    show : a function that looks at the pairs before anything is refused.

    Raises
    ------
    DreError
        If there is no pair, if what was read does not look like dialogues or, without
        ``--skip-bad``, if a record cannot be used.
    """
    path = path or args.input
    form = Form(
        fields=dict(args.field or ()),
        separator=args.separator,
        one_turn=args.one_turn,
        last_turn=args.last_turn,
        last_reply=args.last_reply,
        as_it_is=args.as_it_is,
    )
    data = readers.content(path)
    pairs, bad_records, notes, doubts = readers.read(
        readers.records(path, data), form, needs, whole
    )
    if show:
        show(pairs)
    if bad_records:
        about = _about_bad_records(path, bad_records, len(pairs) + len(bad_records))
        if not args.skip_bad:
            raise DreError(about)
        notes = [*notes, about]
    for note in notes:
        tell(note)
    if not len(pairs):
        raise DreError(f"{path}: there is no pair in it: expected at least one")
    readers.refuse_doubts(doubts, path)
    reading = vars(form) | {"skip_bad": args.skip_bad}
    made_of = {
        "data": hashlib.sha256(data).hexdigest(),
        "reading": {name: value for name, value in reading.items() if value} or None,
        "limit": args.limit,
    }
    return Input(pairs.head(args.limit or len(pairs)), notes, made_of)


def read_systems(args: argparse.Namespace) -> Input:
    """Read the files that ``args.input`` lists as one; of several files each is a system.

    Where replies name their systems, these names stay, after the file's name if two files have one.
    """
    files = [read(args, path=path) for path in args.input]
    if len(files) == 1:
        return files[0]
    names = [Path(path.removesuffix(".gz")).stem for path in args.input]
    if len(set(names)) < len(names):
        names = args.input
    tables = []
    for name, file in zip(names, files):
        systems = file.pairs["system"]
        tables.append(file.pairs.assign(system=systems if any(systems) else name))
    all_systems = [system for table in tables for system in table["system"].unique()]
    if len(set(all_systems)) < len(all_systems):
        tables = [
            table.assign(system=f"{name}/" + table["system"]) for name, table in zip(names, tables)
        ]
    hashes = [f"{name} {file.made_of['data']}" for name, file in zip(names, files)]
    return Input(
        readers.with_pair_ids(pd.concat(tables, ignore_index=True)),
        list(dict.fromkeys(note for file in files for note in file.notes)),
        files[0].made_of | {"data": sha256("\n".join(hashes))},
    )


def _about_bad_records(path, bad_records, n_records):
    """Say how many records cannot be used, and why the first few."""
    reasons = [
        f"{path}:{record['line']}: {record['reason']}" for record in bad_records[:_FIRST_BAD]
    ]
    first = f"{len(bad_records):,} of {n_records:,} records cannot be used; --skip-bad leaves them"
    return "\n  ".join([f"{first} out", *reasons])


def one_line(pair: Any) -> str:
    """Return the end of a pair as it was read, on one line: turns and response."""
    turns = " | ".join(short(turn, 60) for turn in pair["context"][-3:])
    return f"{turns} → {short(pair['response'], 60)}"


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
