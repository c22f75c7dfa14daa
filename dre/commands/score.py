"""``dre score``."""

import argparse
import json
import sys
from typing import Any

import pandas as pd

from dre.commands import inputs, judge_options, outputs
from dre.files import write
from dre.score import language, systems
from dre.signature import Signature, summary_path
from dre.tables import counted, show

#: The score of each reply is printed where there are at most so many.
_FEW = 20


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre score``."""
    text = "score the replies of your dialogue systems, and compare the systems"
    parser = subparsers.add_parser("score", help=text, description=text)
    option = parser.add_argument
    inputs.add_options(parser, several=True)
    text = "write the scores there, else only the means are printed"
    outputs.add_options(parser, text, ".csv", ".jsonl", ".parquet")
    option("--json", action="store_true", help="print JSON instead of tables")
    text = "use another small model than the one that comes with dre: a folder, or a Hub id"
    option("--slm", metavar="NAME", help=text)
    option(
        "--method",
        help=(
            "small: the small model (default); judge: the judge alone (default with --judge); "
            "product: both multiplied; as in the papers: slide, in_dre, dre. The papers' names "
            "ex_dre and non_dre are taken, too"
        ),
    )
    text = "accuracies of the small model and the judge, for methods in_dre and dre: 0.88,0.98"
    option("--accuracies", type=_accuracies, metavar="SLM,LLM", help=text)
    text = "ray shares the work out over the cores or GPUs of a machine or cluster"
    option("--engine", choices=("local", "ray"), default="local", help=text)
    text = "ask the judge with another prompt than the method's own"
    judge_options.add_options(parser, required=False, prompt=text)
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
    options: dict[str, Any] = {
        "method": args.method,
        "prompt": judge_options.prompt_from(args),
        "accuracies": args.accuracies,
        "slm": args.slm,
    }
    options["method"] = metrics.check_options(judge=args.judge, **options)
    file = inputs.read_systems(args)
    options["judge"] = judge_options.open_from(args)
    metric = metrics.DRE.load(**options)
    signature = Signature.of(**metric.signature().fields, **file.made_of)
    outputs.refuse_to_replace(args, signature, *args.input)

    print(f"read as: {inputs.one_line(file.pairs.iloc[0])}", file=sys.stderr)
    if args.engine == "ray":
        table = ray.score_pairs(options, file.pairs)
    else:
        table = metric.score_pairs(file.pairs, progress=True, keep=True)
    table = table.assign(**systems.baselines(file.pairs))
    summary = {"scale": metric.scale, **systems.summarise(table)}
    notes = _notes(table, file.pairs, summary)
    for note in notes:
        inputs.tell(note)
    if not table["score"].notna().to_numpy().any():
        print("error: no pair has a score, and nothing is written", file=sys.stderr)
        # Replies that did not come may come later; those that cannot be read stay as they are.
        is_for_later = bool({"missing", "error"} & set(table["status"]))
        return outputs.TRY_LATER if is_for_later else outputs.WRONG
    summary["notes"] = [*file.notes, *notes]
    written = table[inputs.filled(table, table)]
    if args.output:
        outputs.write_summary(args.output, signature, summary)
        write(written, args.output)
    if args.json:
        content = {"signature": str(signature), **summary}
        if not args.output:
            content["scores"] = json.loads(str(written.to_json(orient="records")))
        print(json.dumps(content, indent=1, ensure_ascii=False))
    else:
        print(f"{signature}\n")
        _print_tables(summary, file.pairs, table)
        end = "; nothing was written: give -o FILE.csv to have them"
        if args.output:
            end = f" written to {args.output}, this summary to {summary_path(args.output)}"
        print(f"{counted(len(table), 'score')}{end}")
    return 0


def _notes(table, pairs, summary):
    """Return the sentences that belong beside scores."""
    notes = []
    failed = table[table["status"] != "ok"]
    for (system, status), rows in failed.groupby(["system", "status"]):
        name = f" of {system!r}" if system else ""
        cause = f"the judge's reply is {status}"
        if status == language.STATUS:
            cause = "the small model cannot read them"
        first = f"{pairs['pair_id'][rows.index[0]]}: {rows['reason'].iloc[0]}"
        count = counted(len(rows), "pair")
        notes.append(f"{count}{name} without a score: {cause} (first {first})")
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
                f"{counted(n_cut, text)} longer than the encoder reads; only the {used_end} counts"
            )
    return notes


def _print_tables(summary, pairs, table):
    """Print the means, the comparisons, and the score of each reply where there are few."""
    if len(table) <= _FEW:
        rows = table.assign(reply=[inputs.short(text, 60) for text in pairs["response"]])
        columns = inputs.filled(rows, ["id", "system", "reply", "score", "left_out", "reason"])
        about = "Not read: what repeats the context." if "left_out" in columns else ""
        show(rows, "Scores", about, columns, {"left_out": "Not read"})

    means = pd.DataFrame(summary["systems"])
    means["system"] = means["system"].replace("", "(no name)")
    ranks = zip(means["rank"], means["rank_last"])
    means["rank"] = [f"{first}–{last}" if first < last else f"{first}" for first, last in ranks]
    note = f"Score: {summary['scale']}."
    if summary["contexts"] > 1:
        note += f" Intervals: 95 %, over {summary['contexts']:,} contexts."
    if len(means) > 1:
        note += " Systems that no test separates share ranks."
    if "fits" in means:
        note += " The small model does not notice a reply that contradicts its context."
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
        print("\n".join(systems.verdict(summary["comparisons"])))
