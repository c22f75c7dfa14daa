"""Options for a file of responses, and how commands read it."""

import hashlib

from dre.datasets.readers import FIELDS, content, pairs, records
from dre.errors import DreError


def add_options(parser, optional=False):
    """Add a file of responses and the options that say how it is read."""
    about = "context (turns or chat messages), response, and if there are any: id (or pair_id), system, reference; "
    about += "JSONL, JSON, CSV, TSV or Parquet, - for standard input"
    parser.add_argument("input", help=about, nargs="?" if optional else None)
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="context=history: its name",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave records out that cannot be read, and go on"
    )


def read(args, needs=("context", "response"), whole=False):
    """Return (pairs, bad, sha256 of the file) for the options of `add_options`, see `pairs`; DreError if there is none.

    Without ``--skip-bad`` a bad record is a DreError, too.
    """
    fields, data = dict(text.partition("=")[::2] for text in args.field), content(args.input)
    if fields.keys() - set(FIELDS) or not all(fields.values()):
        raise DreError(
            f"--field {' '.join(args.field)}: expected NAME=COLUMN with one of {', '.join(FIELDS)}"
        )
    found, bad = pairs(records(args.input, data), fields, needs, whole)
    if bad and not args.skip_bad:
        more = f" (and {len(bad) - 1:,} more bad)" if len(bad) > 1 else ""
        what = "--field says which column is which, --skip-bad leaves bad records out"
        raise DreError(f"{args.input}:{bad[0]['line']}: {bad[0]['reason']}{more}; {what}")
    if not len(found):
        raise DreError(
            f"{args.input}: there is no pair ({len(bad)} bad record(s)): expected at least one"
        )
    return found, bad, hashlib.sha256(data).hexdigest()
