"""``dre score`` and ``dre calibrate``."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pandas as pd

from dre import stats
from dre.calibrated import MADE_WITH, Calibrated
from dre.errors import DreError
from dre.judges.cli import add_options, open_from
from dre.report import Table, replace
from dre.score import compare, io


def add(subparsers):
    """Add ``score`` and ``calibrate``."""
    text = "score the responses of your own dialogue systems; after an interruption run the same command again"
    parser = subparsers.add_parser("score", help=text, description=text)
    option = parser.add_argument
    option("input", help="context (turns), response, and if there are any: id, system, reference")
    option("-o", "--output", required=True, metavar="FILE", help="write the scores there: .csv, .jsonl or .parquet")
    option("--slm", metavar="NAME", help="a folder, a Hub id, or the beginning of a model trained by `make paper`")
    option("--method", default="slm", help="slm (default), slide, ex_dre, in_dre, dre, calibrated or non_dre")
    option("--prompt", metavar="NAME|FILE", help="ask the judge with another prompt than the method's own")
    two = {"type": lambda text: [*map(float, text.split(","))], "metavar": "SLM,LLM"}
    option("--accuracies", help="of in_dre and dre: such as 0.88,0.98", **two)
    option("--fusion", metavar="FILE", help="of method calibrated: what dre calibrate wrote")
    option("--skip-bad", action="store_true", help="write records that cannot be scored to <output>.bad.jsonl, go on")
    option("--bf16", action="store_true", help="embed in bfloat16: faster where the hardware has it, and less exact")
    option("--engine", choices=("local", "ray"), default="local", help="ray: every core or GPU of a machine or cluster")
    option("--workers", type=int, metavar="N", help="of Ray (default: one per GPU, else one per core)")
    option("--field", action="append", default=[], metavar="NAME=COLUMN", help="context=history: its name in the file")
    add_options(parser, required=False)
    parser.set_defaults(run=score)

    text = "learn from people's ratings how much your SLM and judge count in dre score --method calibrated"
    parser = subparsers.add_parser("calibrate", help=text, description=text)
    option, two = parser.add_argument, {"nargs": 2, "metavar": ("RATED", "SCORES")}
    text = "a file of rated pairs, and what dre score --method ex_dre made of it; give two or more sets if you can"
    option("--set", dest="sets", action="append", required=True, help=text, **two)
    option("-o", "--output", required=True, metavar="FILE", help="write the fusion there (.json)")
    option("--human", default="human", metavar="COLUMN", help="what the rated files call the rating")
    parser.set_defaults(run=calibrate)


def score(args):
    """Score a file and print what came out; returns 1 if there is no score at all."""
    from dre.score import api, ray  # load torch

    source, output = Path(args.input), Path(args.output)
    _check_output(output, io.ENDINGS)
    options = {name: getattr(args, name) for name in ("method", "slm", "prompt", "accuracies", "fusion", "bf16")}
    api.check(judge=args.judge, **options)
    fields = dict(text.partition("=")[::2] for text in args.field)
    if fields.keys() - set(io.FIELDS):
        raise DreError(f"--field {' '.join(args.field)}: expected NAME=COLUMN with one of {', '.join(io.FIELDS)}")
    pairs, bad = io.pairs(io.records(source), fields)
    if bad and not args.skip_bad:
        raise DreError(f"{source}:{bad[0]['line']}: {bad[0]['reason']}; --skip-bad leaves such records out")
    if not len(pairs):
        raise DreError(f"{source}: there is no pair to score ({len(bad)} bad record(s)): expected at least one")
    options["judge"] = open_from(args) if args.judge else None
    metric = api.DRE.load(**options)
    made = {"signature": metric.signature(hashlib.sha256(source.read_bytes()).hexdigest())}
    made |= {"fields": fields, "skip_bad": args.skip_bad}
    summary_file = Path(f"{output}.summary.json")
    if output.exists():
        summary = json.loads(summary_file.read_text(encoding="utf-8")) if summary_file.is_file() else {}
        there = {name: summary.get(name) for name in made}
        if there != made:
            raise DreError(f"{output} is of another run ({there} there, {made} now): name another file or delete it")
        return _show(summary, output)
    try:
        on_ray = args.engine == "ray"
        table = ray.score_pairs(options, pairs, args.workers) if on_ray else metric.score_pairs(pairs, progress=True)
    except DreError as error:
        if metric.judge is None or not metric.judge.last.calls:
            raise
        print(f"error: {error}", file=sys.stderr)  # the judge was asked, and could not be asked to the end
        return 1
    notes, cut = [], table["reason"].str.startswith("the response is cut").sum()
    for status, rows in table[table["status"] != "ok"].groupby("status"):
        reason = rows["reason"].iloc[0]
        notes.append(f"{len(rows):,} pairs have no score: the judge's reply is {status} ({reason})")
    if table["score"].isna().all():
        print(f"error: nothing was written: {'; '.join(notes)}", file=sys.stderr)
        return 1
    if cut:
        notes.append(f"{cut:,} responses are longer than the encoder reads; only their beginning counts")
    if bad:
        notes.append(f"{len(bad):,} bad record(s) not scored; they are in {output}.bad.jsonl, with lines and reasons")
        replace(Path(f"{output}.bad.jsonl"), "".join(json.dumps(one, default=str) + "\n" for one in bad))
    summary = made | {"input": source.name, "notes": notes} | compare.summarise(table)
    # the scores last: where they are, the summary is
    replace(summary_file, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    io.write(table, output)
    return _show(summary, output)


def _check_output(path, endings):
    """Refuse an output that cannot be written, before work is spent on it."""
    if path.suffix not in endings or not os.access(path.resolve().parent, os.W_OK):
        raise DreError(f"{path}: expected a name that ends in {', '.join(endings)}, in a folder that can be written to")


def _show(summary, output):
    """Print a summary; what a reader of the means has to know besides goes to standard error."""
    systems = pd.DataFrame(summary["systems"])
    systems["system"] = systems["system"].replace("", "(no name)")
    systems["rank"] = [str(a) if a == b else f"{a}–{b}" for a, b in zip(systems["rank"], systems["rank_last"])]
    note = f"Intervals: 95 %, over {summary['contexts']:,} contexts. Systems that no test separates share ranks."
    print(f"{summary['signature']}\n")
    _print(systems, "Mean scores", note, ["rank", "system", "n", "n_missing", "accepted", *compare.MEASURES])
    if summary["comparisons"]:
        note = "Difference a - b on the contexts of both; permutation test by context (which needs six), after Holm."
        columns = ["a", "b", "difference", "p_permutation", "p_holm", "n_contexts"]
        _print(pd.DataFrame(summary["comparisons"]), "Comparisons", note, columns)
    print(f"{summary['rows']:,} scores written to {output}, this summary to {output}.summary.json")
    print(*summary["notes"], sep="\n", end="\n" * bool(summary["notes"]), file=sys.stderr)
    return 0


def _print(table, caption, note, columns):
    columns = [name for name in columns if name in table]
    table = table[[name for name in table if name.removesuffix("_low").removesuffix("_high") in columns]]
    print(Table(table, "table", caption, note, digits=4, rows=len(table), columns=columns).markdown())


def calibrate(args):
    """Learn a fusion from rated files and their scores, write it, and print what one learned on the others gains."""
    output = Path(args.output)
    _check_output(output, [".json"])
    if output.exists():
        raise DreError(f"{output} exists already: name another file or delete it")
    made, tables = zip(*(_evidence(Path(rated), Path(scores), args.human) for rated, scores in args.sets))
    if any(one != made[0] for one in made):
        raise DreError(f"the sets were scored with different models, judges or prompts: {made}: expected the same")
    rows = []
    for i, table in enumerate(tables):
        scores, row = table[["score_slm", "score_llm"]].set_axis(["slm", "judge"], axis=1), {"set": args.sets[i][0]}
        row |= {"pairs": len(table), "contexts": table["context_id"].nunique()}
        if len(tables) > 1:
            other = Calibrated.fit(tables[:i] + tables[i + 1 :])
            scores["fused"], row["weight"] = other.fuse(table["score_slm"], table["score_llm"]), other.weight
        for name, one in stats.correlate(scores, table["human"], table["context_id"]).iterrows():
            row |= {name: one["r"], f"{name}_low": one["low"], f"{name}_high": one["high"]}
        rows.append(row)
    fusion = Calibrated.fit(tables, made_with=made[0])
    fusion.save(output)
    note = "Intervals: 95 %, bootstrap over contexts. The fused score of a set comes from the other sets alone."
    columns = ["set", "pairs", "contexts", "slm", "judge", "fused", "weight"]
    _print(pd.DataFrame(rows), "Spearman correlation with people", note, columns)
    weight = f"weight {fusion.weight:.2f} (0: the judge alone, 1: the SLM alone)"
    print(f"{weight}, learned from {sum(map(len, tables)):,} rated pairs; written to {output}")
    return 0


def _evidence(rated, scores, human):
    """What made the scores, and ``context_id, score_slm, score_llm, human`` of each pair that has them all."""
    try:
        line = json.loads(Path(f"{scores}.summary.json").read_text(encoding="utf-8"))["signature"]
        made = dict(part.split(":", 1) for part in line.split("|"))
        same = hashlib.sha256(rated.read_bytes()).hexdigest().startswith(made["data"])
    except (OSError, ValueError, KeyError) as error:
        raise DreError(f"{scores}: expected the rated file, and the summary beside its scores ({error})") from None
    if not same or made["dre"] not in ("ex_dre", "slide", "calibrated"):
        what = f"by method {made['dre']} from data {made['data']}"
        raise DreError(f"{scores} was made {what}: expected ex_dre, slide or calibrated, from {rated} as it is now")
    ratings = {}
    for line, record in io.records(rated):
        value = record.get(human) if isinstance(record, dict) else None
        try:
            given = json.loads(value) if isinstance(value, str) and value else value
            numbers = [float(one) for one in (given if isinstance(given, list) else [given]) if not io.absent(one)]
        except (ValueError, TypeError):
            what = f"{human} is {value!r:.60}: expected a number, a list of numbers, or nothing"
            raise DreError(f"{rated}:{line}: {what}") from None
        ratings[line] = sum(numbers) / len(numbers) if numbers else None
    table, columns = pd.DataFrame([row for _, row in io.records(scores)]), ["score_slm", "score_llm", "human"]
    table["human"] = table["line"].astype(int).map(ratings)
    table[columns] = table[columns].apply(pd.to_numeric)
    table = table[["context_id", *columns]].dropna().reset_index(drop=True)
    if len(table) < 3:
        raise DreError(f"{rated}: {len(table)} pairs have both scores and a rating {human!r} (--human): expected 3")
    return {part: made[part] for part in MADE_WITH}, table
