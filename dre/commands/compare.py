"""``dre compare``: did a system become worse?"""

import argparse
import sys

from dre.commands.outputs import FAILED
from dre.errors import DreError
from dre.score import systems
from dre.score.gate import compare_scores, failures

_SMALLEST_ALPHA = 0.001  # below it no number of contexts could fail after Holm's correction


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre compare``."""
    text = "compare new scores with old ones on the contexts that both have"
    parser = subparsers.add_parser("compare", help=text, description=text)
    text = "what dre score wrote; or any file with score, context_id (or context) and system"
    parser.add_argument("new", help=text)
    parser.add_argument("old", help="the same for an earlier version")
    parser.add_argument(
        "--fail-if",
        choices=("worse",),
        help="exit status 3 if a system is significantly worse than before, or is gone",
    )
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        metavar="LEVEL",
        help="significance level of the test, after Holm's correction (default: 0.05)",
    )
    parser.add_argument(
        "--max-missing",
        type=share,
        metavar="SHARE",
        help="exit status 3 if a larger share of contexts has no new score: 5%% or 0.05",
    )
    parser.set_defaults(run=run)


def share(text: str) -> float:
    """Read a share in [0, 1] that is written as 5% or 0.05; ValueError if it is something else."""
    is_percentage = text.endswith("%")
    value = float(text.rstrip("%")) / (100 if is_percentage else 1)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def run(args: argparse.Namespace) -> int:
    """Print the comparison of two files; return 3 if it fails, else 0."""
    if not _SMALLEST_ALPHA <= args.alpha < 1:
        raise DreError(f"--alpha is {args.alpha:g}: expected a level from 0.001 to 1, such as 0.05")
    comparison = compare_scores(args.new, args.old)
    systems.show(comparison.comparisons, args.alpha)

    messages = [f"note: {note}" for note in comparison.notes]
    if comparison.missing:
        share_missing = f"{comparison.missing:.1%}"
        messages.append(f"{share_missing} of the contexts of either file have no new score")
    if comparison.removed:
        messages.append(f"only the old file has: {', '.join(comparison.removed)}")
    if comparison.added:
        messages.append(f"not compared, since only the new file has: {', '.join(comparison.added)}")
    alpha = args.alpha if args.fail_if else None
    sentences = failures(comparison, alpha, args.max_missing)
    for message in messages + sentences:
        print(message, file=sys.stderr)
    return FAILED if sentences else 0
