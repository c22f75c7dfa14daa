"""``dre calibrate``: learn how much a small model and a judge count, from people's ratings."""

import hashlib
import json
from pathlib import Path

import pandas as pd

from dre.calibrated import MADE_WITH, Calibrated
from dre.commands.outputs import check_output, own_output
from dre.datasets import readers
from dre.datasets.readers import rating
from dre.errors import DreError
from dre.stats import correlate
from dre.tables import show


def add(subparsers):
    """Add the command ``dre calibrate``."""
    text = "learn from people's ratings how much your SLM and judge count in dre score --method calibrated"
    parser = subparsers.add_parser("calibrate", help=text, description=text)
    option, two = parser.add_argument, {"nargs": 2, "metavar": ("RATED", "SCORES")}
    text = "a file of rated pairs, and what dre score --method ex_dre made of it; give two or more sets if you can"
    option("--set", dest="sets", action="append", required=True, help=text, **two)
    option("-o", "--output", required=True, metavar="FILE", help="write the fusion there (.json)")
    option("--force", action="store_true", help="write over a file that is there")
    option(
        "--human", default="human", metavar="COLUMN", help="what the rated files call the rating"
    )
    parser.set_defaults(run=_calibrate)


def _calibrate(args):
    """Learn a fusion from rated files and their scores, write it, and print what one learned on the others gains."""
    check_output(args.output, [".json"], *sum(args.sets, []))
    own_output(args.output, force=args.force)
    made, tables = zip(*(_evidence(*pair, args.human) for pair in args.sets))
    if any(one != made[0] for one in made):
        raise DreError(
            f"the sets were scored with different models, judges or prompts: {made}: expected the same"
        )
    rows = []
    for i, table in enumerate(tables):
        scores, row = (
            table[["score_slm", "score_llm"]].set_axis(["slm", "judge"], axis=1),
            {"set": args.sets[i][0]},
        )
        row |= {"pairs": len(table), "contexts": table["context_id"].nunique()}
        if len(tables) > 1:
            other = Calibrated.fit(tables[:i] + tables[i + 1 :])
            scores["fused"], row["weight"] = (
                other.fuse(table["score_slm"], table["score_llm"]),
                other.weight,
            )
        for name, one in correlate(scores, table["human"], table["context_id"]).iterrows():
            row |= {name: one["r"], f"{name}_low": one["low"], f"{name}_high": one["high"]}
        rows.append(row)
    fusion = Calibrated.fit(tables, made_with=made[0])
    fusion.save(args.output)
    note = "Intervals: 95 %, bootstrap over contexts. The fused score of a set comes from the other sets alone."
    columns = ["set", "pairs", "contexts", "slm", "judge", "fused", "weight"]
    show(pd.DataFrame(rows), "Spearman correlation with people", note, columns)
    weight = f"weight {fusion.weight:.2f} (0: the judge alone, 1: the SLM alone)"
    print(f"{weight}, learned from {sum(map(len, tables)):,} rated pairs; written to {args.output}")


def _evidence(rated, scores, human):
    """What made the scores, and ``context_id, score_slm, score_llm, human`` of each pair that has them all."""
    data, parts = readers.content(rated), ["context_id", "score_slm", "score_llm"]
    try:
        line = json.loads(Path(f"{scores}.summary.json").read_text(encoding="utf-8"))["signature"]
        made = dict(part.split(":", 1) for part in line.split("|"))
        same = hashlib.sha256(data).hexdigest().startswith(made["data"])
        table = pd.DataFrame([row for _, row in readers.records(scores)])[["line", *parts]]
        lines = table["line"].astype(int)
        table[parts[1:]] = table[parts[1:]].apply(pd.to_numeric)
    except (OSError, ValueError, LookupError, TypeError) as error:
        what = "expected what dre score wrote, with the summary beside it"
        raise DreError(f"{scores}: {what} ({' '.join(str(error).split()):.80})") from None
    if not same or made["dre"] not in ("ex_dre", "slide", "calibrated"):
        what = f"by method {made['dre']} from data {made['data']}"
        raise DreError(
            f"{scores} was made {what}: expected ex_dre, slide or calibrated, from {rated} as it is now"
        )
    ratings = {
        line: rating(record, human, f"{rated}:{line}")
        for line, record in readers.records(rated, data)
    }
    table = (
        table[parts].assign(human=lines.map(ratings).astype(float)).dropna().reset_index(drop=True)
    )
    if len(table) < 3:
        raise DreError(
            f"{rated}: {len(table)} pairs have both scores and a rating {human!r} (--human): expected 3"
        )
    return {part: made[part] for part in MADE_WITH}, table
