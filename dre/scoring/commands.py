"""What ``dre score`` and ``dre calibrate`` do."""

import sys
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.report import Table
from dre.scoring.rows import FIELDS
from dre.scoring.run import score_file
from dre.scoring.scorer import Settings
from dre.scoring.summary import MEASURES


def score(args):
    """Score a file, and print signature, means, comparisons and what was left out."""
    options = {"base_url": args.base_url, "key_env": args.key_env, "store": args.store}
    options |= {"max_usd": args.max_usd, "concurrency": args.concurrency}
    settings = Settings(
        args.slm,
        args.judge,
        args.method,
        args.prompt,
        _accuracies(args.accuracies),
        {name: value for name, value in options.items() if value is not None},
        args.fusion,
        args.bf16,
    )
    engine = None
    if args.engine == "ray":
        from dre.scoring import ray_engine

        engine = ray_engine.engine(settings, args.workers)
    elif args.workers is not None:
        raise DreError("--workers is for --engine ray")
    summary = score_file(args.input, args.output, settings, _names(args.field), args.skip_bad, engine)
    show(summary, args.output)


def calibrate(args):
    """Learn a fusion, write it, and print its weight and what it does to each set when learned on the others."""
    from dre.calibrated.learning import learn

    output = Path(args.output)
    if output.exists():
        raise DreError(f"{output} exists already: name another file or delete it")
    if not output.resolve().parent.is_dir():
        raise DreError(f"{output}: its folder is not there: create it first")
    fusion, measured = learn(args.sets, args.human, _names(args.field))
    fusion.save(output)
    note = "Intervals: 95 %, bootstrap over contexts. The fused score of a set comes from the other sets alone."
    why = {"*": "one set alone: nothing is left to measure the fusion on"}
    headers = {"slm": "SLM", "fused": "fused", "weight": "weight"}
    print(
        Table(
            "sets", measured, "Spearman correlation with people", note, digits=3, headers=headers, empty=why
        ).markdown()
    )
    weight = f"weight {fusion.weight:.2f} (0: the judge alone, 1: the SLM alone)"
    print(f"{weight}, learned from {measured['pairs'].sum():,} rated pairs; written to {output}")


def show(summary, output):
    """Print a summary."""
    print(f"{summary['signature']}\n")
    for table in report(summary):
        print(table.markdown())
    print(f"{summary['rows']:,} scores written to {output}, this summary to {output}.summary.json")
    for what, count in left_out(summary, output):
        print(f"{count:,} {what}", file=sys.stderr)


def report(summary):
    """Return the tables of a summary: the systems, and where there are several their comparisons."""
    systems = pd.DataFrame(summary["systems"])
    several = len(systems) > 1
    systems["rank"] = [_rank(row) for row in summary["systems"]]
    systems["system"] = systems["system"].replace("", "(no name)" if several else "all")
    measured = [f"{measure}{ending}" for measure in MEASURES for ending in ("", "_low", "_high")]
    order = [*(["rank"] if several else []), "system", "n", "n_missing", "accepted", *measured]
    over = f"{summary['contexts']:,} contexts" if summary["contexts"] else f"{summary['groups']:,} groups of contexts"
    note = f"Intervals: 95 %, bootstrap over {over}."
    if several:
        note += " Systems that no test separates share ranks."
    systems = systems[[name for name in order if name in systems]]
    if "score_slm" in systems and systems["score_slm"].equals(systems["score"]):  # method slm: once is enough
        systems = systems.drop(columns=[name for name in systems if name.startswith("score_slm")])
    headers = {name: name for name in (*MEASURES, "n_missing")}
    tables = [Table("systems", systems, "Mean scores", note, digits=3, headers=headers)]
    if several:
        bounds = {"low": "difference_low", "high": "difference_high"}  # printed as the interval of the difference
        pairs = pd.DataFrame(summary["comparisons"])[list(COMPARED)].rename(columns=bounds)
        note = "Difference a - b on the contexts of both; paired permutation test by context, Holm-corrected."
        note = " ".join([note, *_caveats(summary)])
        headers = {"p_permutation": "p", "p_holm": "p (Holm)", "n_contexts": "contexts of both"}
        tables.append(Table("comparisons", pairs, "Comparisons", note, digits=_P_DIGITS, headers=headers, why="reason"))
    return tables


def _caveats(summary):
    """What a reader of the comparisons might be misled by."""
    shared = [row["n_contexts"] for row in summary["comparisons"]]
    if min(shared) < summary["groups"]:
        yield (
            "Some contexts were not answered by both: a difference need not be that of the means above, which are over "
            "each system's own contexts."
        )
    # Of 2^n sign patterns two are as extreme as the most extreme one, so p is at least 2 / 2^n.
    if 0 < min(shared) <= FEW:
        yield f"With {FEW} contexts or fewer no such test can find a difference, and an interval says little."


FEW = 5
COMPARED = ("a", "b", "difference", "low", "high", "p_permutation", "p_holm", "n_contexts", "reason")
_P_DIGITS = {"difference": 3, "p_permutation": 4, "p_holm": 4}


def _rank(row):
    return str(row["rank"]) if row["rank"] == row["rank_last"] else f"{row['rank']}–{row['rank_last']}"


def left_out(summary, output):
    """Yield what a reader of the means has to know: (what, how many)."""
    if summary["bad"]:
        yield (
            f"bad record(s) not scored; they are in {output}.bad.jsonl, with their lines and reasons",
            summary["bad"],
        )
    if summary["cut"]:
        yield "responses are longer than the encoder reads; only their beginning counts", summary["cut"]
    statuses = {}
    for row in summary["systems"]:
        for status, count in row["statuses"].items():
            statuses[status] = statuses.get(status, 0) + count
    for status, count in statuses.items():
        if status != "ok":
            yield f"pairs have no score: the judge's reply is {status}", count


def _names(given):
    names = {}
    for text in given:
        name, equals, column = text.partition("=")
        if name not in FIELDS or not equals or not column:
            raise DreError(f"--field {text!r}: expected NAME=COLUMN with one of {', '.join(FIELDS)}")
        names[name] = column
    return names


def _accuracies(text):
    if text is None:
        return None
    try:
        slm, llm = map(float, text.split(","))
    except ValueError:
        slm = llm = -1.0
    if not (0 <= slm <= 1 and 0 <= llm <= 1):
        raise DreError(f"--accuracies {text!r}: expected two numbers in [0, 1], such as 0.88,0.98")
    return slm, llm
