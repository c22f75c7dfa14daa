"""``dre compare``: did a system become worse?"""

import argparse
import sys

from dre.commands.outputs import FAILED
from dre.score import systems
from dre.score.gate import compare_scores, failures


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre compare``."""
    text = "compare new scores with old ones on the contexts that both have"
    parser = subparsers.add_parser("compare", help=text, description=text)
    option = parser.add_argument
    text = "what dre score wrote; or any file with score, context_id (or context) and system"
    option("new", help=text)
    option("old", help="the same for an earlier version")
    text = "exit status 3 if a system is significantly worse than before, or is gone"
    option("--fail-if", choices=("worse",), help=text)
    text = "significance level of the test, after Holm's correction (default: 0.05)"
    option("--alpha", type=_level, default=0.05, metavar="LEVEL", help=text)
    text = "exit status 3 if a larger share of contexts has no new score: 5%% or 0.05"
    option("--max-missing", type=_share, metavar="SHARE", help=text)
    parser.set_defaults(run=run)


def _level(text):
    """Return a level; ValueError for one at which nothing could fail, or all would."""
    level = float(text)
    if not 0.001 <= level < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 0.001 to 1, such as 0.05")
    return level


def _share(text):
    """Return a share in [0, 1] that is written as 5% or 0.05."""
    share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a share such as 5% or 0.05")
    return share


def run(args: argparse.Namespace) -> int:
    """Print the comparison of two files; return 3 if it fails, else 0."""
    comparison = compare_scores(args.new, args.old)
    systems.show(comparison.comparisons, args.alpha)
    notes = [f"note: {note}" for note in comparison.notes]
    alpha = args.alpha if args.fail_if else None
    sentences = failures(comparison, alpha, args.max_missing)
    for line in notes + sentences:
        print(line, file=sys.stderr)
    return FAILED if sentences else 0
