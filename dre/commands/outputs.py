"""Files that commands write: the options that name them, and what must not be written over."""

import argparse
import json
from pathlib import Path
from typing import Any

from dre.errors import DreError
from dre.files import replace
from dre.signature import Signature, load_summary, summary_path

# Exit statuses, the same for all commands.
TRY_LATER = 1  # not all could be done; the same command goes on later
WRONG = 2  # an option, a file or a key has to be mended first; `argparse` has the same
FAILED = 3  # a limit of the user's is not kept


def add_options(
    parser: argparse.ArgumentParser, what: str, *endings: str, required: bool = False
) -> None:
    """Add ``--output`` and ``--force``; the output has a name with one of ``endings``."""

    def output(text):
        if Path(text).suffix not in endings:
            expected = f"a name that ends in {' or '.join(endings)}"
            raise argparse.ArgumentTypeError(f"{text}: expected {expected}")
        return text

    text = f"{what} ({', '.join(endings)})"
    parser.add_argument("-o", "--output", type=output, required=required, metavar="FILE", help=text)
    text = "write over what another run or program made"
    parser.add_argument("--force", action="store_true", help=text)


def refuse_to_replace(args: argparse.Namespace, signature: Signature, *inputs: str | Path) -> None:
    """Refuse an output that is an input or, without ``--force``, that another run has made.

    ``signature`` is what would make the output now. Raises DreError before anything is written.
    """
    if not args.output:
        return
    output = Path(args.output)
    if output.resolve() in [Path(path).resolve() for path in inputs]:
        raise DreError(f"{output} is an input: name another file to write")
    if args.force:
        return
    summary = load_summary(output)  # a DreError if another program has made it
    if not output.exists():
        return
    reason = "is there, and nothing says what made it"
    if summary:
        changes = [
            f"{difference.field} {difference.value}, now {difference.other_value}"
            for difference in summary.signature.differences(signature)
        ]
        reason = f"is of another run ({'; '.join(changes)})" if changes else ""
    if reason:
        raise DreError(f"{output} {reason}: name another file, or give --force")


def write_summary(path: str | Path, signature: Signature, content: dict[str, Any]) -> None:
    """Write beside an output, and before it, what made it, and what else there is to say of it."""
    summary = {"signature": signature.fields, **content}
    replace(summary_path(path), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
