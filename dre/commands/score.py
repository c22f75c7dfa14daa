"""``dre score``."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from dre.commands import inputs
from dre.commands.judge_options import add_options, open_from
from dre.commands.outputs import check_output, own_output, refuse_to_replace, write_summary
from dre.errors import DreError
from dre.files import replace, write
from dre.score import page, systems
from dre.score.notes import notes
from dre.signature import summary_path
from dre.tables import show


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre score``."""
    text = (
        "score the responses of your own dialogue systems; after an interruption run the same "
        "command again"
    )
    parser = subparsers.add_parser("score", help=text, description=text)
    inputs.add_options(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="write the scores there: .csv, .jsonl or .parquet",
    )
    parser.add_argument("--report", metavar="FILE", help="write a page to read as well: .html")
    parser.add_argument(
        "--force", action="store_true", help="write over files that are there already"
    )
    parser.add_argument(
        "--slm",
        metavar="NAME",
        help="another SLM than the one that comes with dre: a folder, or a Hub id",
    )
    parser.add_argument(
        "--method",
        help=(
            "slm (default), judge (default with --judge), slide, ex_dre, in_dre, dre or calibrated"
        ),
    )
    parser.add_argument(
        "--prompt",
        metavar="NAME|FILE",
        help="ask the judge with another prompt than the method's own",
    )
    parser.add_argument(
        "--accuracies",
        type=accuracies,
        metavar="SLM,LLM",
        help="of in_dre and dre: such as 0.88,0.98",
    )
    parser.add_argument(
        "--fusion", metavar="FILE", help="of method calibrated: what dre calibrate wrote"
    )
    parser.add_argument(
        "--bf16",
        action="store_true",
        help="embed in bfloat16: faster where the hardware has it, and less exact",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: every core or GPU of a machine or cluster",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="of Ray (default: one per GPU, else one per core)"
    )
    add_options(parser, required=False)
    parser.set_defaults(run=score)


def accuracies(text: str) -> list[float]:
    """Read the accuracies of SLM and LLM, written as 0.88,0.98."""
    return [float(accuracy) for accuracy in text.split(",")]


def score(args: argparse.Namespace) -> int:
    """Score a file, write the scores and print what came out.

    Returns the exit status: 0 when scores were written, 1 if the judge gave none or could not be
    asked to the end.
    """
    from dre.score import metric as metrics
    from dre.score import ray

    # Check everything that can be checked before a model is loaded or a judge is asked.
    check_output(args.output, (".csv", ".jsonl", ".parquet"), args.input)
    if args.report:
        check_output(args.report, (".html",), args.input)
    if args.workers and args.engine != "ray":
        raise DreError("--workers is of --engine ray: leave it out")
    options = {
        "method": args.method,
        "prompt": args.prompt,
        "accuracies": args.accuracies,
        "fusion": args.fusion,
        "bf16": args.bf16,
        "slm": args.slm,
    }
    options["method"] = metrics.check_options(judge=args.judge, **options)
    pairs, bad_records, data_sha256 = inputs.read(args)
    options["judge"] = open_from(args)
    metric = metrics.DRE.load(**options)
    signature = metric.signature(data_sha256)

    # An output of the same command is shown again, and no other file is written over.
    settings = {"fields": args.field, "skip_bad": args.skip_bad}
    earlier_summary = own_output(args.output, signature, args.force, settings)
    if earlier_summary is not None:
        if args.report:
            printed = {**earlier_summary, "signature": str(signature)}
            html = page.page(_load_table(args.output), pairs, printed)
            refuse_to_replace(args.report, args.force, html)
            replace(args.report, html)
        _print_summary(earlier_summary, signature, args)
        return 0
    bad_path = f"{args.output}.bad.jsonl"
    bad_lines = "".join(json.dumps(record, default=str) + "\n" for record in bad_records)
    if bad_records:
        refuse_to_replace(bad_path, args.force, bad_lines)
    if args.report:
        refuse_to_replace(args.report, args.force)

    try:
        if args.engine == "ray":
            table = ray.score_pairs(options, pairs, args.workers)
        else:
            table = metric.score_pairs(pairs, progress=True)
    except DreError as error:
        if metric.judge is None or not metric.judge.last.calls:
            raise
        # The judge was asked, but not to the end: what it said is kept, so this is no mistake.
        print(f"error: {error}", file=sys.stderr)
        return 1

    table = table.assign(**systems.baselines(pairs))
    summary = {
        **settings,
        "scale": metric.scale,
        "threshold": metric.threshold,
        "input": Path(args.input).name,
        **systems.summarise(table),
    }
    summary["notes"] = notes(table, pairs, summary, metric.slm)
    if np.all(table["score"].isna()):
        print(f"error: nothing was written: {'; '.join(summary['notes'])}", file=sys.stderr)
        return 1
    if bad_records:
        summary["notes"].append(
            f"{len(bad_records):,} bad record(s) not scored; they are in {bad_path}, with lines "
            "and reasons"
        )
        replace(bad_path, bad_lines)
    write_summary(args.output, signature, summary)
    write(table, args.output)
    if args.report:
        replace(args.report, page.page(table, pairs, {**summary, "signature": str(signature)}))
    _print_summary(summary, signature, args)
    return 0


def _load_table(path):
    """Return the table that an earlier run wrote."""
    if path.endswith(".jsonl"):
        return pd.read_json(path, lines=True)
    if path.endswith(".csv"):
        return pd.read_csv(path)
    return pd.read_parquet(path)


def _print_summary(summary, signature, args):
    """Print a summary; what a reader of the means has to know besides goes to standard error."""
    table = pd.DataFrame(summary["systems"])
    table["system"] = table["system"].replace("", "(no name)")
    ranks = []
    for row in summary["systems"]:
        is_shared = row["rank"] != row["rank_last"]
        ranks.append(f"{row['rank']}–{row['rank_last']}" if is_shared else str(row["rank"]))
    table["rank"] = ranks
    note = (
        f"Score: {summary['scale']}. Intervals: 95 %, over {summary['contexts']:,} contexts. "
        "Systems that no test separates share ranks."
    )
    columns = ["rank", "system", "n", "n_missing", *systems.MEASURES]
    print(f"{signature}\n")
    show(table, "Mean scores", note, columns)
    if summary["comparisons"]:
        systems.show(summary)
    scores = "1 score" if summary["rows"] == 1 else f"{summary['rows']:,} scores"
    print(f"{scores} written to {args.output}, this summary to {summary_path(args.output)}")
    if args.report:
        print(f"a page to read: {args.report}")
    for note in summary["notes"]:
        print(note, file=sys.stderr)
