"""Let people check a set of positive and adversarial responses, and compare their answers.

Algorithm 1 of the paper ends with such a check of a sample. This tool for sets of your own makes no
committed file:

1. ``python experiments/annotation/annotation_sheet.py write mini:test -o sheet.csv -n 100``
2. Give each annotator a copy of the sheet, and nobody the key. They answer with any spreadsheet
   program.
3. ``python experiments/annotation/annotation_sheet.py read ANNA.csv BEN.csv --key sheet.key.csv``

Both commands take seconds.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from sklearn.metrics import cohen_kappa_score

from dre import stats
from dre.datasets import dialogues, readers
from dre.datasets.dialogues import Context, pairs
from dre.errors import DreError
from dre.files import replace

#: What may stand in column ``fits``.
ANSWERS = {"yes": 1.0, "y": 1.0, "1": 1.0, "no": 0.0, "n": 0.0, "0": 0.0}
SHEET_COLUMNS = ["item", "context", "response", "fits", "note"]
ANSWERED_COLUMNS = SHEET_COLUMNS[:4]
KEY_COLUMNS = ["item", "pair_id", "context_id", "kind"]
#: By measure, the kinds of responses that it is about.
MEASURES = {"positive": ["p"], "adversarial": ["a"], "overall": ["p", "a"]}
#: A text that begins so would be run as a formula by a spreadsheet program.
FORMULA_SIGNS = ("=", "+", "-", "@")
#: Spreadsheet programs read a file as UTF-8 if it begins with this mark.
BYTE_ORDER_MARK = "\ufeff"


def write_sheet(contexts: Sequence[Context], path: str | Path, n: int = 100, seed: int = 0) -> Path:
    """Write a blind and shuffled sheet, half of it positives and half adversarials, and its key.

    Parameters
    ----------
    contexts : the contexts with their responses.
    path : of the sheet; it ends in ``.csv``. The key, which annotators must not see, goes to
        ``<name>.key.csv``. Neither is written over another file.
    n : how many pairs.
    seed : of the sample and its order.

    Returns
    -------
    The path of the key.

    Raises
    ------
    DreError
        If a file is there already, or there are too few responses of a kind.
    """
    path = Path(path)
    key_path = path.with_suffix(".key.csv")
    if path.suffix != ".csv" or path.exists() or key_path.exists():
        raise DreError(
            f"{path}: expected a name that ends in .csv and is new, since answers may be there"
        )
    table = pairs(contexts)
    counts = {"p": n - n // 2, "a": n // 2}
    available = table["kind"].value_counts()
    if n < 2 or any(available.get(kind, 0) < count for kind, count in counts.items()):
        raise DreError(
            f"a sheet of {n} pairs, half of each kind, cannot be drawn from {len(table)}: "
            "ask for fewer"
        )
    samples = []
    for kind, count in counts.items():
        samples.append(table[table["kind"] == kind].sample(count, random_state=seed))
    sheet = pd.concat(samples).sample(frac=1, random_state=seed)
    sheet = sheet.assign(item=range(1, n + 1), fits="", note="")
    sheet["context"] = sheet["context"].map(_spoken)
    sheet["response"] = sheet["response"].map(_harmless)

    replace(key_path, sheet[KEY_COLUMNS].to_csv(index=False, lineterminator="\n"))
    text = sheet[SHEET_COLUMNS].to_csv(index=False, lineterminator="\n")
    replace(path, BYTE_ORDER_MARK + text)
    return key_path


def _spoken(turns):
    """Return the turns as lines, with the letters of two speakers before them."""
    lines = []
    for i, turn in enumerate(turns):
        speaker = "AB"[i % 2]
        lines.append(f"{speaker}: {turn.strip()}")
    return "\n".join(lines)


def _harmless(text):
    """Return a text that no spreadsheet program takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text


class Comparison(NamedTuple):
    """What filled sheets say.

    Attributes
    ----------
    answers : columns ``item, pair_id, context_id, kind``, and one for each annotator: 1 where the
        response fits, 0 where it does not.
    summary : columns ``annotator, measure, value, low, high``. For each annotator, the answers that
        agree with the design in percent (``positive, adversarial, overall``, with 95 % intervals
        over contexts) and Cohen's ``kappa with the design``; for each two annotators, ``kappa``.
        Kappa has no interval, and is NaN where all answers are the same.
    """

    answers: pd.DataFrame
    summary: pd.DataFrame


def read_sheets(
    paths: Sequence[str | Path], key_path: str | Path, n: int = 1000, seed: int = 0
) -> Comparison:
    """Read filled sheets, each named for its annotator, and compare them.

    Parameters
    ----------
    paths : copies of the sheet, filled in.
    key_path : the key that was written with the sheet.
    n, seed : of the bootstrap resamples of contexts.
    """
    paths = [Path(path) for path in paths]
    annotators = [path.stem for path in paths]
    if len(set(annotators)) < len(annotators):
        raise DreError(
            f"sheets named {', '.join(annotators)}: "
            "give one file for each annotator, each with another name"
        )
    answers = _read_columns(key_path, KEY_COLUMNS)
    for annotator, path in zip(annotators, paths):
        answers[annotator] = _read_answers(path, answers["item"])

    design = (answers["kind"] == "p").astype(float)
    rows = []
    for annotator in annotators:
        agrees = 100.0 * (answers[annotator] == design)
        for measure, kinds in MEASURES.items():
            agrees_of_kinds = agrees.where(answers["kind"].isin(kinds))
            share = stats.mean(agrees_of_kinds, answers["context_id"], n, seed)
            row = {
                "annotator": annotator,
                "measure": measure,
                "value": share["mean"],
                "low": share["low"],
                "high": share["high"],
            }
            rows.append(row)
        rows.append(_kappa_row(annotator, "kappa with the design", answers[annotator], design))
    for first, second in combinations(annotators, 2):
        names = f"{first}, {second}"
        rows.append(_kappa_row(names, "kappa", answers[first], answers[second]))
    return Comparison(answers, pd.DataFrame(rows))


def _kappa_row(annotator, measure, answers, reference):
    """Return a row of the summary with Cohen's kappa of two columns of answers."""
    all_are_the_same = len({*answers, *reference}) == 1
    kappa = float("nan") if all_are_the_same else cohen_kappa_score(answers, reference)
    return {
        "annotator": annotator,
        "measure": measure,
        "value": kappa,
        "low": None,
        "high": None,
    }


def _read_answers(path, items):
    """Return the answers of one sheet in the order of the items."""
    table = _read_columns(path, ANSWERED_COLUMNS)
    fits = table["fits"].str.strip().str.lower().map(ANSWERS)
    answer_by_item = dict(zip(table["item"], fits))
    unanswered = [item for item in items if answer_by_item.get(item) not in (0.0, 1.0)]
    if unanswered or len(table) != len(items):
        examples = ", ".join(unanswered[:5]) or "none"
        raise DreError(
            f"{path}: {len(table)} rows for {len(items)} items, without yes or no: {examples}: "
            "expected every item of the sheet once, answered yes or no"
        )
    return items.map(answer_by_item)


def _read_columns(path, columns):
    """Read columns of a CSV file as spreadsheet programs write it."""
    records = [record for _, record in readers.records(path) if isinstance(record, dict)]
    table = pd.DataFrame(records)
    missing = set(columns) - set(table)
    if missing:
        raise DreError(
            f"{path}: expected columns {', '.join(columns)}, but there is no {min(missing)}"
        )
    return table[columns].assign(item=table["item"].str.strip())


def main(argv: Sequence[str] | None = None) -> None:
    """Write a sheet, or print how far the answers agree with the design and with each other."""
    args = _parser().parse_args(argv)
    if args.step == "write":
        contexts = dialogues.contexts_by_name(args.contexts)
        key_path = write_sheet(contexts, args.output, args.n, args.seed)
        print(
            f"{args.n} pairs to answer with yes or no in column fits: {args.output}; "
            f"keep the key apart: {key_path}"
        )
        return
    for row in read_sheets(args.sheets, args.key).summary.itertuples():
        interval = "" if pd.isna(row.low) else f" [{row.low:.2f}, {row.high:.2f}]"
        print(f"{row.annotator}: {row.measure} {row.value:.2f}{interval}")


def _parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True, metavar="step")
    write = steps.add_parser("write", help="draw pairs and write the sheet and its key")
    write.add_argument("contexts", help="contexts, named as for dre augment generate")
    write.add_argument("-o", "--output", required=True, metavar="FILE", help="the sheet (.csv)")
    write.add_argument("-n", type=int, default=100, metavar="N", help="pairs (default: 100)")
    write.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the sample and its order (default: 0)",
    )
    read = steps.add_parser(
        "read", help="compare filled sheets with the design and with each other"
    )
    read.add_argument("sheets", nargs="+", help="one file for each annotator")
    read.add_argument(
        "--key", required=True, metavar="FILE", help="the key that was written with the sheet"
    )
    return parser


if __name__ == "__main__":
    try:
        main()
    except DreError as error:
        sys.exit(f"error: {error}")
