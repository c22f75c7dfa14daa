"""``dre score``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from dre.commands import inputs
from dre.commands.judge_options import add_options, add_prompt_options, open_from, prompt_from
from dre.commands.outputs import (
    TRY_LATER,
    WRONG,
    check_output,
    own_output,
    refuse_to_replace,
    write_summary,
)
from dre.errors import DreError
from dre.files import replace, write
from dre.score import language, report, systems
from dre.signature import Signature, summary_path
from dre.tables import counted, show

#: The score of each reply is printed where there are at most so many.
_FEW = 20


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre score``."""
    text = "score the replies of your dialogue systems, and compare the systems"
    parser = subparsers.add_parser("score", help=text, description=text)
    option = parser.add_argument
    option("input", nargs="+", help=f"{inputs.HELP}. Of several files each is a system")
    inputs.add_reading_options(parser)
    option(
        "-o",
        "--output",
        metavar="FILE",
        help="write the scores there: .csv, .jsonl or .parquet (default: only print the means)",
    )
    option("--json", action="store_true", help="print JSON instead of tables")
    option("--report", metavar="FILE", help="also write a page to read (.html)")
    option("--force", action="store_true", help="write over files that are there already")
    option(
        "--slm",
        metavar="NAME",
        help="use another small model than the one that comes with dre: a folder, or a Hub id",
    )
    option(
        "--method",
        help=(
            "small: the small model (default); judge: the judge alone (default with --judge); "
            "product: both multiplied; as in the papers: slide, in_dre, dre. The papers' names "
            "ex_dre and non_dre are taken, too"
        ),
    )
    add_prompt_options(option, "ask the judge with another prompt than the method's own")
    option(
        "--accuracies",
        type=_accuracies,
        metavar="SLM,LLM",
        help="accuracies of the small model and the judge, for methods in_dre and dre: 0.88,0.98",
    )
    option(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray shares the work out over the cores or GPUs of a machine or cluster",
    )
    option(
        "--workers",
        type=int,
        metavar="N",
        help="workers of Ray (default: one per GPU, else one per core)",
    )
    add_options(parser, required=False)
    parser.set_defaults(run=score)


def _accuracies(text):
    return [float(accuracy) for accuracy in text.split(",")]


def score(args: argparse.Namespace) -> int:
    """Score files, write the scores if an output is named, and print what came out.

    Returns the exit status: 0 when there are scores, 1 if the judge could not be asked, 2 if none
    of its replies can be read.
    """
    from dre.score import metric as metrics
    from dre.score import ray

    # Check everything that can be checked before a model is loaded or a judge is asked.
    check_output(args.output, (".csv", ".jsonl", ".parquet"), *args.input)
    check_output(args.report, (".html",), *args.input)
    if args.criterion and not args.judge:
        raise DreError("--criterion is a question for a judge: give --judge as well")
    if args.workers and args.engine != "ray":
        raise DreError("--workers is of --engine ray: leave it out")
    options: dict[str, Any] = {
        "method": args.method,
        "prompt": prompt_from(args),
        "accuracies": args.accuracies,
        "slm": args.slm,
    }
    options["method"] = metrics.check_options(judge=args.judge, **options)
    file = inputs.read_systems(args)
    options["judge"] = open_from(args)
    metric = metrics.DRE.load(**options)
    signature = metric.signature(file.sha256)
    if args.limit:
        signature = Signature({**signature.fields, "limit": args.limit})
    names = [Path(path).name for path in args.input]
    settings = {"reading": inputs.settings(args), "input": names}
    earlier = own_output(args.output, signature, args.force, settings) if args.output else None
    is_own_page = bool(earlier) and earlier.get("report") == args.report
    refuse_to_replace(args.report, args.force or is_own_page)

    print(f"read as: {inputs.one_line(file.pairs.iloc[0])}", file=sys.stderr)
    if args.engine == "ray":
        table = ray.score_pairs(options, file.pairs, args.workers)
    else:
        table = metric.score_pairs(file.pairs, progress=True, keep=True)
    table = table.assign(**systems.baselines(file.pairs))
    summary = {
        **settings,
        "report": args.report,
        "scale": metric.scale,
        **systems.summarise(table),
    }
    notes = _notes(table, file, summary)
    if not table["score"].notna().to_numpy().any():
        print(f"error: nothing was written: {'; '.join(notes)}", file=sys.stderr)
        # Replies that did not come may come later; those that cannot be read stay as they are.
        is_for_later = bool({"missing", "error"} & set(table["status"]))
        return TRY_LATER if is_for_later else WRONG
    summary["notes"] = [*file.notes, *notes]
    written = table[inputs.filled(table, table)]
    if args.output:
        write_summary(args.output, signature, summary)
        write(written, args.output)
    if args.report:
        replace(args.report, report.page(metric, file.pairs, table, summary))
    for note in notes:
        print(note, file=sys.stderr)
    if args.json:
        content = {"signature": str(signature), **summary}
        if not args.output:
            content["scores"] = json.loads(str(written.to_json(orient="records")))
        print(json.dumps(content, indent=1, ensure_ascii=False))
    else:
        print(f"{signature}\n")
        _print_tables(summary, args, file, table)
    return 0


def _notes(table, file, summary):
    """Return the sentences that belong beside scores."""
    notes = []
    failed = table[table["status"] != "ok"]
    for (system, status), rows in failed.groupby(["system", "status"]):
        name = f" of {system!r}" if system else ""
        cause = f"the judge's reply is {status}"
        if status == language.STATUS:
            cause = "the small model cannot read them"
        first = file.pairs["pair_id"][rows.index[0]]
        reason = rows["reason"].iloc[0]
        pairs = counted(len(rows), "pair")
        notes.append(f"{pairs}{name} without a score: {cause} (first {first}: {reason})")
    shared, contexts = summary["shared_contexts"], summary["contexts"]
    if len(summary["systems"]) > 1 and shared < contexts:
        notes.append(
            f"only {shared:,} of {contexts:,} contexts have a score of every system, so means are "
            "of different ones: look at the comparisons, each on the contexts of both"
        )
    for text, used_end in (("response", "beginning"), ("context", "end")):
        n_cut = table["reason"].str.contains(f"the {text} is cut").sum()
        if n_cut:
            notes.append(
                f"{n_cut:,} {text}s are longer than the encoder reads; only their {used_end} counts"
            )
    if file.bad_records:
        first = file.bad_records[0]
        notes.append(
            f"{counted(len(file.bad_records), 'bad record')} not scored, the first in line "
            f"{first['line']}: {first['reason']}"
        )
    return notes


def _print_tables(summary, args, file, table):
    """Print the means, the comparisons, and the score of each reply where there are few."""
    means = pd.DataFrame(summary["systems"])
    means["system"] = means["system"].replace("", "(no name)")
    ranks = [dict.fromkeys([row["rank"], row["rank_last"]]) for row in summary["systems"]]
    means["rank"] = ["–".join(map(str, first_and_last)) for first_and_last in ranks]
    note = f"Score: {summary['scale']}."
    if summary["contexts"] > 1:
        note += f" Intervals: 95 %, over {counted(summary['contexts'], 'context')}."
    if len(means) > 1:
        note += " Systems that no test separates share ranks."
    if "fits" in means:
        note += " The small model does not notice a reply that contradicts its context."
    if len(table) <= _FEW:
        rows = table.assign(reply=[inputs.short(text, 60) for text in file.pairs["response"]])
        columns = inputs.filled(rows, ["id", "system", "reply", "score", "left_out", "reason"])
        about = "Not read: what repeats the context." if "left_out" in columns else ""
        show(rows, "Scores", about, columns, {"left_out": "Not read"})
    # The small model's or the judge's score is the score where the other has no part in it.
    measures = [
        name
        for name in systems.MEASURES
        if name not in ("score_slm", "score_llm")
        or (name in means and not means[name].equals(means["score"]))
    ]
    columns = ["rank", "system", "n", "n_missing", *measures]
    show(means, "Mean scores", note, columns, digits=systems.DIGITS)
    if summary["comparisons"]:
        systems.show([*summary["comparisons"], *summary["baselines"]])
        print("\n".join(systems.verdict(summary)))
    scores = counted(summary["rows"], "score")
    if args.output:
        print(f"{scores} written to {args.output}, this summary to {summary_path(args.output)}")
    else:
        print(f"{scores}; nothing was written: give -o FILE.csv to have them")
    if args.report:
        print(f"a page to read: {args.report}")
