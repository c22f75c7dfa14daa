"""``dre score``."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
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
from dre.datasets import formats, readers
from dre.errors import DreError
from dre.files import replace, write
from dre.score import report, systems
from dre.score.notes import notes
from dre.signature import Signature, summary_path
from dre.tables import counted, show

#: Replies on which it is said what ``--accepted`` is worth: kinds of `dre.audit.kinds`.
_KINDS_IN_WORDS = {
    "other_context": "good replies to another context",
    "generic": "replies that fit anywhere",
    "adversarial": "wrong replies that borrow words of the context",
}

#: The score of each reply is printed where there are at most so many.
_FEW = 20
_LONGEST_SHOWN = 60  # characters of a reply that is printed


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre score``."""
    text = (
        "score the responses of your own dialogue systems; after an interruption run the same "
        "command again"
    )
    parser = subparsers.add_parser("score", help=text, description=text)
    option = parser.add_argument
    inputs.add_options(parser)
    option(
        "-o",
        "--output",
        metavar="FILE",
        help="write the scores there: .csv, .jsonl or .parquet (default: only print the means)",
    )
    option("--json", action="store_true", help="print JSON instead of tables")
    option(
        "--accepted",
        action="store_true",
        help="also say for each response whether it reaches the model's threshold",
    )
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
            "product: both multiplied; calibrated: both, weighted by your ratings; as in the "
            "papers: slide, in_dre, dre. The papers' names ex_dre and non_dre are taken, too"
        ),
    )
    add_prompt_options(option, "ask the judge with another prompt than the method's own")
    option(
        "--accuracies",
        type=accuracies,
        metavar="SLM,LLM",
        help="accuracies of the small model and the judge, for methods in_dre and dre: 0.88,0.98",
    )
    option("--fusion", metavar="FILE", help="file that dre calibrate wrote, for method calibrated")
    option(
        "--bf16",
        action="store_true",
        help="embed in bfloat16: faster where the hardware has it, and less exact",
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


def accuracies(text: str) -> list[float]:
    """Read the accuracies of SLM and LLM, written as 0.88,0.98."""
    return [float(accuracy) for accuracy in text.split(",")]


def score(args: argparse.Namespace) -> int:
    """Score a file, write the scores if an output is named, and print what came out.

    Returns the exit status: 0 when there are scores, 1 if the judge could not be asked, 2 if none
    of its replies can be read.
    """
    from dre.score import metric as metrics
    from dre.score import ray, threads

    # Check everything that can be checked before a model is loaded or a judge is asked.
    check_output(args.output, (".csv", ".jsonl", ".parquet"), args.input)
    check_output(args.report, (".html",), args.input)
    if args.criterion and not args.judge:
        raise DreError("--criterion is a question for a judge: give --judge as well")
    if args.workers and args.engine != "ray":
        raise DreError("--workers is of --engine ray: leave it out")
    options = {
        "method": args.method,
        "prompt": prompt_from(args),
        "accuracies": args.accuracies,
        "fusion": args.fusion,
        "bf16": args.bf16,
        "slm": args.slm,
    }
    options["method"] = metrics.check_options(judge=args.judge, **options)
    file = inputs.read(args)
    bad_records = file.bad_records
    options["judge"] = open_from(args)
    metric = metrics.DRE.load(**options)
    if args.accepted and metric.threshold is None:
        raise DreError(
            "--accepted needs a small model that stores a threshold: train it with --dev"
        )
    signature = metric.signature(file.sha256)
    if args.limit:
        signature = Signature({**signature.fields, "limit": args.limit})

    # An output of the same command is shown again, and no other file is written over.
    settings = {**inputs.form_settings(args), "skip_bad": bool(args.skip_bad)}
    if args.accepted:
        settings["with_accepted"] = True
    if args.output:
        earlier_summary = own_output(args.output, signature, args.force, settings)
        if earlier_summary is not None:
            table = _load_table(args.output)
            return _present(earlier_summary, signature, args, file, table)
    bad_path = f"{args.output}.bad.jsonl"
    bad_lines = "".join(json.dumps(record, default=str) + "\n" for record in bad_records)
    if bad_records and args.output:
        refuse_to_replace(bad_path, args.force, bad_lines)
    refuse_to_replace(args.report, args.force)

    if metric.slm is not None:
        threads.set_threads()
    if args.engine == "ray":
        table = ray.score_pairs(options, file.pairs, args.workers)
    else:
        table = metric.score_pairs(file.pairs, progress=True, keep=True)
    if args.accepted:
        table["accepted"] = metric.accepted(table)
    table = table.assign(**systems.baselines(file.pairs))
    summary = {
        **settings,
        "scale": metric.scale,
        "threshold": metric.threshold,
        "input": Path(args.input).name,
        **systems.summarise(table),
    }
    summary["notes"] = [*file.notes, *notes(table, file.pairs, summary, metric.slm)]
    if np.all(table["score"].isna()):
        print(f"error: nothing was written: {'; '.join(summary['notes'])}", file=sys.stderr)
        # Replies that did not come may come later; those that cannot be read stay as they are.
        is_for_later = bool({"missing", "error"} & set(table["status"]))
        return TRY_LATER if is_for_later else WRONG
    if args.accepted:
        summary["notes"].append(_worth_of_accepted(metric))
    if bad_records:
        summary["notes"].append(_note_on(bad_records, bad_path if args.output else ""))
    if args.output:
        if bad_records:
            replace(bad_path, bad_lines)
        write_summary(args.output, signature, summary)
        write(table, args.output)
    return _present(summary, signature, args, file, table)


def _note_on(bad_records, bad_path):
    """Return the sentence on records that were left out."""
    count = f"{len(bad_records):,} bad record(s) not scored"
    if bad_path:
        return f"{count}; they are in {bad_path}, with lines and reasons"
    first = bad_records[0]
    return f"{count}, the first in line {first['line']}: {first['reason']}"


def _worth_of_accepted(metric):
    """Say what a decision by the threshold is worth, on replies that are known."""
    from dre.audit import kinds
    from dre.score.metric import DRE

    cases = [case for case in kinds.corpus() if case.kind in _KINDS_IN_WORDS]
    records = [
        {"context": list(pair.context), "response": pair.response, "system": name}
        for case in cases
        for name, pair in (("good", case.right), (case.kind, case.rival))
    ]
    pairs, _ = readers.pairs(enumerate(records, 1))
    small = DRE("small", slm=metric.slm, bf16=metric.bf16)
    table = small.score_pairs(pairs, keep=True).drop_duplicates(["system", "context_id", "score"])
    shares = metric.accepted(table).astype(float).groupby(table["system"]).mean()
    others = ", ".join(f"{shares[kind]:.0%} of {text}" for kind, text in _KINDS_IN_WORDS.items())
    return (
        f"accepted: score_slm of {metric.threshold:.3f} or more. On contexts written for this "
        f"project it accepts {shares['good']:.0%} of good replies, {others}"
    )


def _load_table(path):
    """Return the table that an earlier run wrote."""
    if path.endswith(".jsonl"):
        return pd.read_json(path, lines=True)
    if path.endswith(".csv"):
        table = pd.read_csv(path)
        for column in formats.NAME_COLUMNS:
            if column in table:
                table[column] = table[column].map(formats.without_apostrophe)
        return table
    return pd.read_parquet(path)


def _present(summary, signature, args, file, table):
    """Write the page and print the summary; what its reader has to know goes to standard error.

    Returns the exit status, 0.
    """
    content = {"signature": "", **summary}
    content["signature"] = str(signature)  # in the summary of an earlier run it is an object
    if args.report:
        html = report.page(table, file.pairs, content)
        refuse_to_replace(args.report, args.force, html)
        replace(args.report, html)
    for note in summary["notes"]:
        if note not in file.notes:
            print(note, file=sys.stderr)
    if not args.json:
        _print_tables(summary, signature, args, file, table)
        return 0
    if not args.output:
        content["scores"] = json.loads(table.to_json(orient="records"))
    print(json.dumps(content, indent=1, ensure_ascii=False))
    return 0


def _print_tables(summary, signature, args, file, table):
    """Print the means, the comparisons, and the score of each reply where there are few."""
    means = pd.DataFrame(summary["systems"])
    means["system"] = means["system"].replace("", "(no name)")
    ranks = [dict.fromkeys([row["rank"], row["rank_last"]]) for row in summary["systems"]]
    means["rank"] = ["–".join(map(str, first_and_last)) for first_and_last in ranks]
    note = f"Score: {summary['scale']}."
    if summary["contexts"] > 1:
        contexts = counted(summary["contexts"], "context")
        note += f" Intervals: 95 %, over {contexts}."
    if len(means) > 1:
        note += " Systems that no test separates share ranks."
    if any(row.get("fits") is not None for row in summary["systems"]):
        note += " The small model does not notice a reply that contradicts its context."
    columns = ["rank", "system", "n", "n_missing", *systems.MEASURES]
    columns = systems.without_repeats(summary["systems"], columns)
    print(f"{signature}\n")
    if len(table) <= _FEW:
        _print_scores(table, file.pairs)
    show(means, "Mean scores", note, columns, digits=systems.DIGITS)
    if summary["comparisons"]:
        systems.show(summary)
    scores = counted(summary["rows"], "score")
    if args.output:
        print(f"{scores} written to {args.output}, this summary to {summary_path(args.output)}")
    else:
        print(f"{scores}; nothing was written: give -o FILE.csv to have them")
    if args.report:
        print(f"a page to read: {args.report}")


def _print_scores(table, pairs):
    """Print the score of each reply, with the beginning of the reply and what was not read."""
    replies = [" ".join(response.split()) for response in pairs["response"]]
    shown = [
        reply if len(reply) <= _LONGEST_SHOWN else f"{reply[:_LONGEST_SHOWN].rstrip()} ..."
        for reply in replies
    ]
    rows = table.assign(reply=shown)
    columns = [
        column
        for column in ("id", "system", "reply", "score", "left_out", "reason")
        if column in rows and not rows[column].map(readers.absent).all()
    ]
    note = "Not read: what repeats the context." if "left_out" in columns else ""
    show(rows, "Scores", note, columns, {"left_out": "Not read"})
