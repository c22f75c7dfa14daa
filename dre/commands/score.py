"""``dre score``."""

import json
import sys
from pathlib import Path

import pandas as pd

from dre.commands import inputs
from dre.commands.judge import add_options, open_from
from dre.commands.outputs import check_output, own_output, write_summary
from dre.errors import DreError
from dre.files import replace, write
from dre.score import page
from dre.score import systems as compare
from dre.score.notes import notes
from dre.tables import show


def add(subparsers):
    """Add ``score``."""
    text = "score the responses of your own dialogue systems; after an interruption run the same command again"
    parser = subparsers.add_parser("score", help=text, description=text)
    option = parser.add_argument
    inputs.add_options(parser)
    option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="write the scores there: .csv, .jsonl or .parquet",
    )
    option("--report", metavar="FILE", help="write a page to read as well: .html")
    option("--force", action="store_true", help="write over an output of another run")
    option(
        "--slm",
        metavar="NAME",
        help="another than the one that comes with dre: a folder, or a Hub id",
    )
    text = "slm (default), judge (default with --judge), slide, ex_dre, in_dre, dre or calibrated"
    option("--method", help=text)
    option(
        "--prompt",
        metavar="NAME|FILE",
        help="ask the judge with another prompt than the method's own",
    )
    option(
        "--accuracies",
        type=accuracies,
        metavar="SLM,LLM",
        help="of in_dre and dre: such as 0.88,0.98",
    )
    option("--fusion", metavar="FILE", help="of method calibrated: what dre calibrate wrote")
    option(
        "--bf16",
        action="store_true",
        help="embed in bfloat16: faster where the hardware has it, and less exact",
    )
    option(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: every core or GPU of a machine or cluster",
    )
    option(
        "--workers", type=int, metavar="N", help="of Ray (default: one per GPU, else one per core)"
    )
    add_options(parser, required=False)
    parser.set_defaults(run=score)


def accuracies(text):
    """Read the accuracies of SLM and LLM."""
    return [float(one) for one in text.split(",")]


def score(args):
    """Score a file and print what came out; returns 1 if there is no score at all."""
    from dre.score import metric as api  # load torch
    from dre.score import ray

    check_output(args.output, (".csv", ".jsonl", ".parquet"), args.input)
    if args.report:
        check_output(args.report, (".html",), args.input)
    options = {
        name: getattr(args, name) for name in ("method", "prompt", "accuracies", "fusion", "bf16")
    }
    options |= {"method": api.check(judge=args.judge, **options), "slm": args.slm}
    if args.workers and args.engine != "ray":
        raise DreError("--workers is of --engine ray: leave it out")
    pairs, bad, data = inputs.read(args)
    options["judge"] = open_from(args)
    metric = api.DRE.load(**options)
    told = {"fields": args.field, "skip_bad": args.skip_bad}
    if summary := own_output(args.output, metric.parts(data) | told, args.force):
        return _show(
            summary, args.output, args.report, _written(args.output) if args.report else None, pairs
        )
    try:
        on_ray = args.engine == "ray"
        table = (
            ray.score_pairs(options, pairs, args.workers)
            if on_ray
            else metric.score_pairs(pairs, progress=True)
        )
    except DreError as error:
        if metric.judge is None or not metric.judge.last.calls:
            raise
        print(
            f"error: {error}", file=sys.stderr
        )  # the judge was asked, and could not be asked to the end
        return 1
    summary = (
        {"signature": metric.signature(data)}
        | told
        | {"scale": metric.scale, "input": Path(args.input).name}
    )
    summary |= compare.summarise(table := table.assign(**compare.baselines(pairs)))
    summary["notes"] = notes(table, pairs, summary, metric.slm)
    if table["score"].isna().all():
        print(f"error: nothing was written: {'; '.join(summary['notes'])}", file=sys.stderr)
        return 1
    if bad:
        aside = f"{args.output}.bad.jsonl"
        summary["notes"].append(
            f"{len(bad):,} bad record(s) not scored; they are in {aside}, with lines and reasons"
        )
        replace(aside, "".join(json.dumps(one, default=str) + "\n" for one in bad))
    write_summary(args.output, summary)
    write(table, args.output)
    return _show(summary, args.output, args.report, table, pairs)


def _written(path):
    """The table that an earlier run wrote."""
    if path.endswith(".jsonl"):
        return pd.read_json(path, lines=True)
    return pd.read_csv(path) if path.endswith(".csv") else pd.read_parquet(path)


def _show(summary, output, report, table, pairs):
    """Print a summary; what a reader of the means has to know besides goes to standard error."""
    systems = pd.DataFrame(summary["systems"])
    systems["system"] = systems["system"].replace("", "(no name)")
    systems["rank"] = [
        str(a) if a == b else f"{a}–{b}" for a, b in zip(systems["rank"], systems["rank_last"])
    ]
    note = f"Score: {summary['scale']}. Intervals: 95 %, over {summary['contexts']:,} contexts. "
    note += "Systems that no test separates share ranks."
    print(f"{summary['signature']}\n")
    show(
        systems,
        "Mean scores",
        note,
        ["rank", "system", "n", "n_missing", "accepted", *compare.MEASURES],
    )
    if summary["comparisons"]:
        compare.show(summary)
    scores = "1 score" if summary["rows"] == 1 else f"{summary['rows']:,} scores"
    print(f"{scores} written to {output}, this summary to {output}.summary.json")
    if report:
        replace(report, page.page(table, pairs, summary))
        print(f"a page to read: {report}")
    print(*summary["notes"], sep="\n", end="\n" * bool(summary["notes"]), file=sys.stderr)
    return 0
