"""``dre audit``: how often is a good reply preferred to an echo, a shuffle, another context's, ...?"""

import importlib
import io
import json
import sys

import pandas as pd

from dre.audit import kinds, scorers
from dre.audit import measures as audit
from dre.commands import inputs
from dre.commands.judge import add_options, open_from
from dre.commands.outputs import FAILED, check_output
from dre.errors import DreError
from dre.files import replace, write
from dre.tables import Table


def add(subparsers):
    """Add the command ``dre audit``."""
    text = "how often does a judge, a metric or an SLM prefer a good reply to one made to fool it?"
    parser = subparsers.add_parser("audit", help=text, description=text)
    option = parser.add_argument
    inputs.add_options(parser, optional=True)
    option("--method", help=f"{', '.join(scorers.METHODS[:-1])} or {scorers.METHODS[-1]}")
    option("--slm", metavar="NAME", help="of method slm: another than the one that comes with dre")
    option(
        "--metric",
        metavar="MODULE:FUNCTION",
        help="a function of (context, response) that returns a number",
    )
    option(
        "--scores",
        metavar="FILE",
        help="scores that you made of the pairs that --write gave: id, score",
    )
    option(
        "--write",
        metavar="FILE",
        help="write the pairs, to be scored elsewhere: .jsonl, .csv or .parquet",
    )
    option(
        "--prompt",
        default="llm_only",
        help="of a judge: a prompt's name, or a template file of your own",
    )
    option(
        "--public",
        action="store_true",
        help="also replies to public dialogues (fetches 70 MB once)",
    )
    option(
        "--n", type=int, default=100, metavar="N", help="contexts of a kind, at most (default: 100)"
    )
    option("--seed", type=int, default=0, help="of what is drawn from your file (default: 0)")
    option("--json", action="store_true", help="print JSON instead of a table")
    option("--figure", metavar="FILE", help="draw the table: .png, .svg or .pdf")
    option(
        "--fail-under", type=float, metavar="PERCENT", help="exit status 3 if a kind falls below it"
    )
    add_options(parser, required=False)
    parser.set_defaults(run=run)


def run(args):
    """Score the pairs and print how often the good reply is preferred; 3 if a kind falls below ``--fail-under``."""
    ways = [
        name for name in ("judge", "method", "metric", "scores", "write") if getattr(args, name)
    ]
    if len(ways) != 1 or args.n < 1:
        given = (
            f"found {', '.join(f'--{name}' for name in ways) or 'none'}"
            if args.n > 0
            else f"--n is {args.n}"
        )
        raise DreError(
            f"{given}: expected one of --judge, --method, --metric, --scores, --write, and --n from 1 on"
        )
    for path, endings in (
        (args.write, (".jsonl", ".csv", ".parquet")),
        (args.figure, (".png", ".svg", ".pdf")),
    ):
        if path:
            check_output(path, endings, *filter(None, [args.input]))
    if args.figure:
        importlib.import_module("dre.paper.plots")  # before anything is asked: it may be missing
    judge = open_from(args)
    cases = kinds.corpus() + (kinds.graded() if args.public else [])
    if args.input:
        every = inputs.read(args)[0]
        good = every.drop_duplicates("context_id")
        if len(good) < len(every):
            of = ", ".join(dict.fromkeys(filter(None, good["system"]))) or "one system"
            print(
                f"note: of {len(every):,} replies the first to each context is taken ({of})",
                file=sys.stderr,
            )
        own = kinds.made(good.sample(min(args.n, len(good)), random_state=args.seed), args.seed)
        cases = own + [case for case in cases if case[0] not in {kind for kind, *_ in own}]
    cases, pairs = kinds.tables(cases, args.n)
    if args.write:
        write(pairs.rename(columns={"pair_id": "id"}), args.write)
        print(
            f"{len(pairs):,} pairs are in {args.write}: score them, and give the scores with --scores FILE"
        )
        return 0
    scores, made = _scored(args, judge, pairs)
    if judge and judge.last.stopped:
        print(
            f"stopped ({judge.last.stopped}); what was answered is stored: the same command goes on",
            file=sys.stderr,
        )
        return 1
    table = audit.preferred(cases, scores)
    if not table["n"].any():
        raise DreError(f"{made} has no score of any pair: nothing can be said")
    silent, low = table["n"] == 0, pd.Series(dtype=object)
    if (
        args.fail_under is not None
    ):  # a recording knows some kinds alone; what is made of a user's file must be seen
        unseen = silent & ((table["source"] == "own") | (not args.judge))
        low = table.loc[
            (table["expected"] == 100) & ((table["share"] < args.fail_under) | unseen), "kind"
        ]
    if args.json:
        found = json.loads(table.to_json(orient="records"))
        print(json.dumps({"audited": made, "kinds": found, "failed": list(low)}, indent=1))
    else:
        print(as_table(table, made))
    if args.figure:
        draw(table, made, args.figure)
    lacking = int(scores.reindex(pairs["pair_id"]).isna().sum())
    if lacking:
        which = f"; no case of {', '.join(table.loc[silent, 'kind'])}" if silent.any() else ""
        print(f"note: {lacking:,} of {len(pairs):,} pairs have no score{which}", file=sys.stderr)
    if len(low):
        print(f"below {args.fail_under:g} %, or without a score: {', '.join(low)}", file=sys.stderr)
    return FAILED if len(low) else 0


def _scored(args, judge, pairs):
    if judge:
        if not args.judge.startswith("recorded:"):
            print(judge.estimate(pairs, args.prompt), file=sys.stderr)
        return scorers.by_judge(judge, pairs, args.prompt, args.public)
    if args.method:
        return scorers.by_method(args.method, pairs, args.slm)
    return (
        scorers.by_function(args.metric, pairs)
        if args.metric
        else scorers.by_file(args.scores, pairs)
    )


def as_table(table, made):
    """Return the table as it is printed."""
    note = "Share of contexts whose good reply is preferred, in percent; a tie counts half, so that 50 is chance. "
    note += "Where 50 is expected both are equally right. Use: what a kind may do besides being reported."
    columns = ["kind", "what", "share", "expected", "n", "source", "use"]
    headers = {"what": "Against a good reply", "share": "Preferred (%)"}
    caption, digits = f"Is the good reply preferred? {made}", {"share": 0}
    return Table(
        table,
        "audit",
        caption,
        note,
        digits=digits,
        headers=headers,
        rows=len(table),
        columns=columns,
    )


def draw(table, made, path):
    """Draw the shares with their intervals."""
    import matplotlib.pyplot as plt

    from dre.paper import plots

    plots.style()
    table = table[table["n"] > 0].reset_index(drop=True)
    fig, ax = plt.subplots(figsize=(6.4, 0.24 * len(table) + 1.1))
    colours = [plots.BLUE if expected == 100 else "0.6" for expected in table["expected"]]
    plots.whiskers(ax, table, table.index, colours, "share")
    ax.axvline(50, color="0.4", linestyle="--", linewidth=1)
    ax.set_yticks(table.index, table["what"])
    ax.set(
        xlabel="good reply preferred (%); grey: both are equally right",
        xlim=(-2, 102),
        title=made[:60],
    )
    ax.set_ylim(len(table) - 0.4, -0.6)
    fig.savefig(file := io.BytesIO(), format=str(path).rpartition(".")[2], dpi=200)
    replace(path, file.getvalue())
