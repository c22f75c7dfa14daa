"""Options for a file of responses, and how commands read it."""

import argparse
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import readers
from dre.errors import DreError

_INPUT_HELP = (
    "file of pairs: JSONL, JSON, CSV, TSV or Parquet, or - for standard input. Each record has "
    "context (turns or chat messages) and response, and may have id (or pair_id), system and "
    "reference"
)

_FIRST_BAD = 5  # bad records that an error names


class Input(NamedTuple):
    """The pairs of a file, the records that could not be read, and the sha256 of the file."""

    pairs: pd.DataFrame
    bad_records: list[dict[str, Any]]
    sha256: str


def add_options(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add a file of responses and the options that say how it is read."""
    parser.add_argument("input", help=_INPUT_HELP, nargs="?" if optional else None)
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="name the column that holds a field, where it has another name: context=history",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out records that cannot be used, and go on"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="take only the first N pairs, for a first look"
    )


def read(
    args: argparse.Namespace,
    needs: Sequence[str] = ("context", "response"),
    whole: bool = False,
) -> Input:
    """Read the file that the options of `add_options` name.

    ``needs`` and ``whole`` are those of `dre.datasets.readers.pairs`. Raises DreError if there is
    no pair or, without ``--skip-bad``, if a record cannot be used.
    """
    fields = {}
    for text in args.field:
        name, _, column = text.partition("=")
        if name not in readers.FIELDS or not column:
            expected = f"NAME=COLUMN with one of {', '.join(readers.FIELDS)}"
            raise DreError(f"--field {text}: expected {expected}")
        fields[name] = column
    data = readers.content(args.input)
    records = readers.records(args.input, data)
    pairs, bad_records = readers.pairs(records, fields, needs, whole)
    if bad_records and not args.skip_bad:
        raise DreError(_about_bad_records(args.input, bad_records, len(pairs) + len(bad_records)))
    if not len(pairs):
        raise DreError(
            f"{args.input}: there is no pair ({len(bad_records)} bad record(s)): expected at least "
            "one"
        )
    if args.limit is not None:
        if args.limit < 1:
            raise DreError(f"--limit is {args.limit}: expected a number of pairs above 0")
        pairs = pairs.head(args.limit)
    return Input(pairs, bad_records, hashlib.sha256(data).hexdigest())


def _about_bad_records(path, bad_records, n_records):
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
