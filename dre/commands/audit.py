"""``dre audit``: how often is a good reply preferred to an echo, a shuffle, and other rivals?"""

import argparse
import importlib
import io
import json
import sys
from typing import Any

import numpy as np
import pandas as pd

from dre.audit import kinds, measures, scorers
from dre.commands import inputs
from dre.commands.judge_options import add_options, open_from
from dre.commands.outputs import FAILED, check_output, refuse_to_replace, stopped_early
from dre.errors import DreError
from dre.files import content_of, replace, without_formulas
from dre.judges import is_recording
from dre.tables import Table

_PAIR_ENDINGS = (".jsonl", ".csv", ".parquet")
_FIGURE_ENDINGS = (".png", ".svg", ".pdf")


def add(subparsers: Any) -> None:
    """Add the command ``dre audit``."""
    text = (
        "count how often a judge, a metric or a small model prefers a good reply to one made to "
        "fool it"
    )
    parser = subparsers.add_parser("audit", help=text, description=text)
    option = parser.add_argument
    inputs.add_options(parser, optional=True)
    named = ", ".join(name for name in scorers.METHODS if name != "slm")
    option("--method", help=f"{named}, or small (the small model; slm is the same)")
    option(
        "--slm",
        metavar="NAME",
        help="with --method small: another small model than the one of the package",
    )
    option(
        "--metric",
        metavar="MODULE:FUNCTION",
        help="your function of (context, response) that returns a number",
    )
    option(
        "--scores",
        metavar="FILE",
        help="file with id and score: your scores of the pairs that --write gave",
    )
    option(
        "--write",
        metavar="FILE",
        help="write the pairs, to be scored elsewhere (.jsonl, .csv or .parquet)",
    )
    option(
        "--prompt",
        default="llm_only",
        metavar="NAME|FILE",
        help="with --judge: the name of a prompt, or a template file (default: llm_only)",
    )
    option(
        "--public",
        action="store_true",
        help="also audit on replies to public dialogues (fetches 14 MB once)",
    )
    option("--n", type=int, default=100, metavar="N", help="most contexts of a kind (default: 100)")
    option(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of what is drawn from your file (default: 0)",
    )
    option("--json", action="store_true", help="print JSON instead of a table")
    option("--figure", metavar="FILE", help="also draw the table (.png, .svg or .pdf)")
    option("--force", action="store_true", help="write over a file that is there already")
    option(
        "--fail-under",
        type=float,
        metavar="PERCENT",
        help="exit status 3 if a kind falls below this share",
    )
    add_options(parser, required=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Score the pairs and print how often the good reply is preferred.

    Returns the exit status: 3 if a kind falls below ``--fail-under``, 1 if a judge stopped early.
    """
    _check_options(args)
    judge = open_from(args)
    cases, pairs = kinds.tables(_cases(args), args.n)
    if args.write:
        _write_pairs(args, pairs)
        return 0
    scores, audited = _score(args, judge, pairs)
    if judge and judge.last.stopped:
        return stopped_early(judge.last.stopped)
    table = measures.preferred(cases, scores)
    if not np.any(table["n"]):
        raise DreError(f"{audited} has no score of any pair: nothing can be said")
    failed = _failed_kinds(args, table)
    if args.json:
        rows = json.loads(str(table.to_json(orient="records")))
        print(json.dumps({"audited": audited, "kinds": rows, "failed": failed}, indent=1))
    else:
        print(as_table(table, audited))
    if args.figure:
        draw(table, audited, args.figure)
    _note_missing_scores(table, pairs, scores)
    if failed:
        print(
            f"below {args.fail_under:g} %, or without a score: {', '.join(failed)}", file=sys.stderr
        )
    return FAILED if failed else 0


def _check_options(args):
    """Raise DreError if options contradict each other or an output cannot be written."""
    scorers_and_write = ("judge", "method", "metric", "scores", "write")
    flags = [f"--{name}" for name in scorers_and_write if getattr(args, name)]
    if not flags:
        raise DreError(
            "whose scores are audited? give one of --method small, --judge SPEC, "
            "--metric MODULE:FUNCTION and --scores FILE, or --write FILE for the pairs alone"
        )
    if len(flags) > 1:
        raise DreError(
            f"{' and '.join(flags)}: one thing is audited at a time, so give one of them"
        )
    inputs.refuse_without_file(args, "; --n takes fewer contexts of each kind")
    if args.n < 1:
        raise DreError(f"--n is {args.n}: expected a number of contexts from 1 on")
    if args.fail_under is not None and not 0 <= args.fail_under <= 100:
        raise DreError(f"--fail-under is {args.fail_under:g}: expected percent, from 0 to 100")
    for path, endings in ((args.write, _PAIR_ENDINGS), (args.figure, _FIGURE_ENDINGS)):
        check_output(path, endings, args.input, args.scores)
    refuse_to_replace(args.figure, args.force)
    if args.figure:
        importlib.import_module("dre.paper.plots")  # before anything is asked: it may be missing


def _cases(args):
    """Return what is to be compared: the embedded corpus, public dialogues, one's own replies."""
    cases = kinds.corpus()
    if args.public:
        cases += kinds.graded()
    if not args.input:
        return cases
    responses = inputs.read(args).pairs
    good = responses.drop_duplicates("context_id")
    if len(good) < len(responses):
        systems = [system for system in good["system"].unique() if system]
        inputs.tell(
            f"of {len(responses):,} replies the first to each context is taken "
            f"({', '.join(systems) or 'one system'})"
        )
    sample = good.sample(min(args.n, len(good)), random_state=args.seed)
    own_cases = kinds.make_cases(sample, args.seed)
    own_kinds = {case.kind for case in own_cases}
    return own_cases + [case for case in cases if case.kind not in own_kinds]


def _write_pairs(args, pairs):
    """Write the pairs, to be scored elsewhere; the same command may write the same pairs again."""
    table = pairs.rename(columns={"pair_id": "id"})
    content = content_of(table, args.write)
    refuse_to_replace(args.write, args.force, content)
    replace(args.write, content)
    if args.write.endswith(".csv") and without_formulas(table) is not table:
        inputs.tell(
            "texts that a spreadsheet would run as formulas (they begin with =, +, - or @) "
            "have an apostrophe before them; .jsonl and .parquet have them as they are"
        )
    print(
        f"{len(pairs):,} pairs are in {args.write}: "
        "score them, and give the scores with --scores FILE"
    )


def _score(args, judge, pairs):
    """Return the scores by pair id, and what made them."""
    if judge:
        if not is_recording(args.judge):
            print(judge.estimate(pairs, args.prompt), file=sys.stderr)
        return scorers.by_judge(judge, pairs, args.prompt, args.public)
    if args.method:
        method = "slm" if args.method == "small" else args.method
        return scorers.by_method(method, pairs, args.slm, progress=True)
    if args.metric:
        return scorers.by_function(args.metric, pairs, progress=True)
    return scorers.by_file(args.scores, pairs)


def _failed_kinds(args, table):
    """Return the kinds that fall below ``--fail-under``, or that nothing can be said of.

    A recording knows only some kinds; but what is made of a user's own file must have a score.
    """
    if args.fail_under is None:
        return []
    has_no_score = table["n"] == 0
    must_have_score = (table["source"] == "own") | (not args.judge)
    falls_below = table["share"] < args.fail_under
    is_counted = table["expected"] == 100
    failed = is_counted & (falls_below | (has_no_score & must_have_score))
    return list(table.loc[failed, "kind"])


def _note_missing_scores(table, pairs, scores):
    """Say how many pairs have no score, and which kinds none at all."""
    missing = int(scores.reindex(pairs["pair_id"]).isna().sum())
    if not missing:
        return
    silent_kinds = list(table.loc[table["n"] == 0, "kind"])
    about_kinds = f"; no case of {', '.join(silent_kinds)}" if silent_kinds else ""
    inputs.tell(f"{missing:,} of {len(pairs):,} pairs have no score{about_kinds}")


def as_table(preferred: pd.DataFrame, audited: str) -> Table:
    """Return what `dre.audit.measures.preferred` returns as a table to print.

    ``audited`` says what gave the scores.
    """
    note = (
        "Share of contexts whose good reply is preferred to its rival, in percent. A tie counts "
        "half, so that 50 is chance; of injection_gain it counts as right. Where 50 is expected, "
        "both replies are equally right. Gain: by how much the rival scores higher on average, in "
        "the score's own unit. Use: what a kind may do besides being reported."
    )
    columns = ["kind", "what", "share", "expected", "gain", "n", "source", "use"]
    return Table(
        preferred,
        "audit",
        f"Is the good reply preferred? {audited}",
        note,
        digits={"share": 0, "gain": 2},
        headers={"what": "Against a good reply", "share": "Preferred (%)"},
        rows=len(preferred),
        columns=columns,
    )


def draw(preferred: pd.DataFrame, audited: str, path: str) -> None:
    """Draw the shares of `dre.audit.measures.preferred` with their intervals into a file."""
    import matplotlib.pyplot as plt

    from dre.paper import plots

    plots.style()
    table = preferred.loc[preferred["n"] > 0].reset_index(drop=True)
    fig, ax = plt.subplots(figsize=(6.4, 0.24 * len(table) + 1.1))
    colours = [plots.BLUE if expected == 100 else "0.6" for expected in table["expected"]]
    plots.whiskers(ax, table, table.index, colours, "share")
    ax.axvline(50, color="0.4", linestyle="--", linewidth=1)
    ax.set_yticks(table.index, table["what"])
    ax.set(
        xlabel="good reply preferred (%); grey: both are equally right",
        xlim=(-2, 102),
        title=audited[:60],
    )
    ax.set_ylim(len(table) - 0.4, -0.6)
    image = io.BytesIO()
    fig.savefig(image, format=str(path).rpartition(".")[2], dpi=200)
    replace(path, image.getvalue())
