"""``dre compare``: did a system become worse?"""

import sys

from dre.commands.outputs import FAILED
from dre.errors import DreError
from dre.score import systems as compare
from dre.score.gate import compared, failures


def add(subparsers):
    """Add the command ``dre compare``."""
    text = "compare new scores with old ones on the contexts of both"
    parser = subparsers.add_parser("compare", help=text, description=text)
    option = parser.add_argument
    option(
        "new",
        help="what dre score wrote, or a file with score, context_id (or context, or id) and system",
    )
    option("old", help="the same, of an earlier version")
    option(
        "--fail-if",
        choices=("worse",),
        help="exit status 3 if a system is significantly worse than before",
    )
    option(
        "--alpha", type=float, default=0.05, help="level of the test, after Holm (default: 0.05)"
    )
    text = "exit status 3 if more of the contexts of either file have no new score: 5%% or 0.05"
    option("--max-missing", type=share, metavar="SHARE", help=text)
    parser.set_defaults(run=run)


def share(text: str) -> float:
    """Read 5% or 0.05."""
    found = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= found <= 1:
        raise ValueError
    return found


def run(args):
    """Print the comparison; 3 if it fails."""
    if not 0.001 <= args.alpha < 1:  # below, no number of contexts could fail after Holm
        raise DreError(f"--alpha is {args.alpha:g}: expected a level from 0.001 to 1, such as 0.05")
    found = compared(args.new, args.old)
    compare.show(found)
    for note in found["notes"]:
        print(f"note: {note}", file=sys.stderr)
    if found["missing"]:
        print(
            f"{found['missing']:.1%} of the contexts of either file have no new score",
            file=sys.stderr,
        )
    if found["alone"]:
        print(
            f"not compared, since only one of the files has them: {', '.join(found['alone'])}",
            file=sys.stderr,
        )
    failed = failures(found, args.alpha if args.fail_if else 0, args.max_missing)
    print(*failed, sep="\n", end="\n" * bool(failed), file=sys.stderr)
    return FAILED if failed else 0
