"""A sheet on which people check a set of positives and adversarials, as Algorithm 1 ends, and what they answered.

Run ``python experiments/annotation_sheet.py write mini:test -o sheet.csv -n 100``, give each annotator a copy of the
sheet (and nobody the key), then ``python experiments/annotation_sheet.py read ANNA.csv BEN.csv --key sheet.key.csv``.
"""

import argparse
import sys
from itertools import combinations
from pathlib import Path

import pandas as pd
from sklearn.metrics import cohen_kappa_score

from dre import stats
from dre.datasets import dialogues, readers
from dre.datasets.dialogues import pairs
from dre.errors import DreError
from dre.files import replace

# What may stand in column ``fits``, the columns of a sheet, and those of its key.
ANSWERS = {"yes": 1.0, "y": 1.0, "1": 1.0, "no": 0.0, "n": 0.0, "0": 0.0}
SHEET, KEY = (
    ["item", "context", "response", "fits", "note"],
    ["item", "pair_id", "context_id", "kind"],
)


def write_sheet(contexts, path, n=100, seed=0):
    """Write a sheet on which people check a set: `n` pairs, as many positives as adversarials, blind and shuffled.

    Algorithm 1 ends with a human check of a sample. People answer in the column ``fits``, with any spreadsheet program.
    The sheet's `path` ends in ``.csv``; the key, which annotators must not see, goes to ``<name>.key.csv``, and its
    path is returned. Neither is written over another file.
    """
    path, key = Path(path), Path(path).with_suffix(".key.csv")
    if path.suffix != ".csv" or path.exists() or key.exists():
        raise DreError(
            f"{path}: expected a name that ends in .csv and is new (with answers it may be there already)"
        )
    table, wanted = pairs(contexts), {"p": n - n // 2, "a": n // 2}
    if n < 2 or any((table["kind"] == kind).sum() < count for kind, count in wanted.items()):
        raise DreError(
            f"a sheet of {n} pairs, half of either kind, cannot be drawn from {len(table)}: ask for fewer"
        )
    parts = [
        table[table["kind"] == kind].sample(count, random_state=seed)
        for kind, count in wanted.items()
    ]
    drawn = (
        pd.concat(parts)
        .sample(frac=1, random_state=seed)
        .assign(item=range(1, n + 1), fits="", note="")
    )
    spoken = [
        (f"{'AB'[i % 2]}: {turn.strip()}" for i, turn in enumerate(turns))
        for turns in drawn["context"]
    ]
    drawn["context"] = ["\n".join(lines) for lines in spoken]
    # A spreadsheet program would run a text that begins so as a formula.
    drawn["response"] = [
        f"'{text}" if text.startswith(("=", "+", "-", "@")) else text for text in drawn["response"]
    ]
    replace(key, drawn[KEY].to_csv(index=False, lineterminator="\n"))
    text = drawn[SHEET].to_csv(index=False, lineterminator="\n")
    replace(path, f"\ufeff{text}")  # the mark makes spreadsheet programs read UTF-8
    return key


def read_sheets(paths, key, n=1000, seed=0):
    """Read filled sheets, copies of the one that was written, each named for its annotator; returns two tables.

    Answers: ``item, pair_id, context_id, kind``, then one column per annotator, 1 fits, 0 does not. Summary:
    ``annotator, measure, value, low, high`` (95 %, over contexts), of each annotator the answers that agree with the
    design in percent (``positive, adversarial, overall``) and Cohen's ``kappa with the design``; of each two ``kappa``.
    Kappa has no interval, and is NaN where all answers are the same.
    """
    paths = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    names, answers = [path.stem for path in paths], _table(key, KEY)
    if len(set(names)) < len(names):
        raise DreError(
            f"sheets named {', '.join(names)}: give one file per annotator, each of another name"
        )
    for name, path in zip(names, paths):
        answers[name] = _answers(path, answers)
    contexts, design = answers["context_id"], (answers["kind"] == "p").astype(float)
    rows = []
    for name in names:
        right = 100.0 * (answers[name] == design)
        for measure, kinds in {
            "positive": ["p"],
            "adversarial": ["a"],
            "overall": ["p", "a"],
        }.items():
            found = stats.mean(right.where(answers["kind"].isin(kinds)), contexts, n, seed)
            rows.append((name, measure, found["mean"], found["low"], found["high"]))
        rows.append((name, "kappa with the design", _kappa(answers[name], design), None, None))
    for one, other in combinations(names, 2):
        rows.append((f"{one}, {other}", "kappa", _kappa(answers[one], answers[other]), None, None))
    return answers, pd.DataFrame(rows, columns=["annotator", "measure", "value", "low", "high"])


def _kappa(a, b):
    return cohen_kappa_score(a, b) if len({*a, *b}) > 1 else float("nan")


def _answers(path, key):
    """Return the answers of one sheet in the order of the key."""
    table = _table(path, SHEET[:4])
    answers = dict(zip(table["item"], table["fits"].str.strip().str.lower().map(ANSWERS)))
    wrong = [item for item in key["item"] if answers.get(item) not in (0.0, 1.0)]
    if wrong or len(table) != len(key):
        what = f"{len(table)} rows for {len(key)} items, without yes or no: {', '.join(wrong[:5]) or 'none'}"
        raise DreError(f"{path}: {what}: expected every item of the sheet once, answered yes or no")
    return key["item"].map(answers)


def _table(path, columns):
    """Read a CSV file as spreadsheet programs write it."""
    table = pd.DataFrame([row for _, row in readers.records(path) if isinstance(row, dict)])
    if lacking := set(columns) - set(table):
        raise DreError(
            f"{path}: expected columns {', '.join(columns)}, but there is no {min(lacking)}"
        )
    return table[columns].assign(item=table["item"].str.strip())


def main(argv=None):
    """Write a sheet, or print accuracy against the design and agreement between annotators."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True, metavar="step")
    step = steps.add_parser("write", help="draw pairs and write the sheet and its key")
    step.add_argument("contexts", help="as of dre augment report")
    step.add_argument("-o", "--output", required=True, metavar="FILE", help="the sheet: .csv")
    step.add_argument("-n", type=int, default=100, metavar="N", help="pairs (default: 100)")
    step.add_argument(
        "--seed", type=int, default=0, metavar="S", help="of the sample and its order (default: 0)"
    )
    step = steps.add_parser(
        "read", help="compare filled sheets with the design and with each other"
    )
    step.add_argument("sheets", nargs="+", help="one file per annotator")
    step.add_argument(
        "--key", required=True, metavar="FILE", help="the key that was written with the sheet"
    )
    args = parser.parse_args(argv)
    if args.step == "write":
        key = write_sheet(dialogues.contexts_by_name(args.contexts), args.output, args.n, args.seed)
        print(
            f"{args.n} pairs to answer with yes or no in column fits: {args.output}; keep the key apart: {key}"
        )
        return
    for row in read_sheets(args.sheets, args.key)[1].itertuples():
        interval = "" if row.low != row.low else f" [{row.low:.2f}, {row.high:.2f}]"
        print(f"{row.annotator}: {row.measure} {row.value:.2f}{interval}")


if __name__ == "__main__":
    try:
        main()
    except DreError as error:
        sys.exit(f"error: {error}")
