"""Did a system become worse? Two files of scores are compared on the contexts of both: ``dre compare``, and pytest."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from dre import readers
from dre.errors import DreError
from dre.report import EMPTY, number
from dre.score import compare

FAILED = 3  # exit status where a limit of the user's is not kept
MAY_DIFFER = ("data", "version", "torch", "sentence-transformers", "transformers")  # in two signatures


def add(subparsers):
    """Add the command ``dre compare``."""
    text = "compare new scores with old ones on the contexts of both"
    parser = subparsers.add_parser("compare", help=text, description=text)
    option = parser.add_argument
    option("new", help="what dre score wrote, or a file with score, context_id (or context, or id) and system")
    option("old", help="the same, of an earlier version")
    option("--fail-if", choices=("worse",), help="exit status 3 if a system is significantly worse than before")
    option("--alpha", type=float, default=0.05, help="level of the test, after Holm (default: 0.05)")
    option("--max-missing", metavar="PERCENT", help="exit status 3 if more of the new pairs have no score: 5%%")
    option("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args):
    """Print the comparison; 3 if it fails."""
    if not 0.001 <= args.alpha < 1:  # below, no number of contexts could fail after Holm
        raise DreError(f"--alpha is {args.alpha:g}: expected a level from 0.001 to 1, such as 0.05")
    found = compared(args.new, args.old)
    if args.json:
        print(pd.Series(found).to_json(indent=1))
    else:
        compare.show(found)
    failed = failures(found, args.alpha if args.fail_if else 0, _share(args.max_missing))
    print(*failed, sep="\n", end="\n" * bool(failed), file=sys.stderr)
    return FAILED if failed else 0


def assert_not_worse(new, old, alpha=0.05, max_missing=None):
    """Raise AssertionError, with a sentence that says how, if a system is significantly worse than before; for pytest.

    ``new, old``: tables that `dre.DRE.score` returned, or files of scores, compared as `compared` does; ``alpha``: level
    of the test; ``max_missing``: the largest share of new pairs without a score, in [0, 1].
    """
    if failed := failures(compared(new, old), alpha, max_missing):
        raise AssertionError("; ".join(failed))


def compared(new, old):
    """Compare two tables or files of scores: by system where they share names, else the one system of each.

    Returns ``comparisons`` and ``baselines`` as `dre.score.compare.summarise`, where a is new and b is old, and
    ``missing``, the share of new pairs without a score.
    """
    names = [str(one) if isinstance(one, str | os.PathLike) else name for one, name in ((new, "new"), (old, "old"))]
    _check_made(new, old)
    a, b = (_table(one, name) for one, name in zip((new, old), names))
    shared = [name for name in a["system"].unique() if name in set(b["system"])]
    if not shared and (a["system"].nunique(), b["system"].nunique()) == (1, 1):
        a, b, shared = a.assign(system=""), b.assign(system=""), [""]
    if not shared or not set(a["context_id"]) & set(b["context_id"]):
        what = "context" if shared else "system"
        raise DreError(f"{names[0]} and {names[1]} share no {what}: score the same contexts, with the same names")
    found = {"comparisons": [], "baselines": [], "missing": float(a["score"].isna().mean())}
    for measure in ("score", *(name for name in compare.BASELINES if name in a and name in b)):
        rows = []
        for name in shared:
            sides = [one[one["system"] == name].groupby("context_id")[measure].mean() for one in (a, b)]
            labels = [f"{name} ({which})".strip() for which in ("new", "old")]
            (row,) = compare.compare(pd.concat(sides, axis=1, keys=labels))
            rows.append({"measure": measure} | row)
        for row, p in zip(rows, compare.stats.holm([row["p_permutation"] for row in rows])):
            row["p_holm"] = float(p)
        found["comparisons" if measure == "score" else "baselines"] += rows
    return found


def failures(found, alpha=0.05, max_missing=None):
    """Return a sentence for each way in which what `compared` found fails; nothing is worse at an ``alpha`` of 0."""
    said, rows = [], found["comparisons"]
    for row in rows:
        if alpha and 2.0 ** (1 - row["n_contexts"]) * len(rows) >= alpha:
            few = f"{row['n_contexts']} contexts are in both, on which no test can fail at {alpha:g}"
            raise DreError(f"{row['a']}: {few}: score {int(2 - np.log2(alpha / len(rows)))} or more")
        if row["difference"] < 0 and row["p_holm"] < alpha:
            gap = {end: number(row[f"difference{end}"], 3) for end in ("", "_low", "_high")}
            what = f"differs by {gap['']} [{gap['_low']}, {gap['_high']}] on {row['n_contexts']:,} shared contexts"
            seen = f"with so many a difference of {number(row['visible'], 3)} can be seen"
            said.append(f"{row['a']} is worse than {row['b']}: its score {what} (p = {row['p_holm']:.4f}); {seen}")
    if max_missing is not None and found["missing"] > max_missing:
        said.append(f"{found['missing']:.1%} of the new pairs have no score, more than {max_missing:.1%}")
    return said


def _table(given, name):
    """``system, context_id, score`` and the baselines of a table or file."""
    table = given if isinstance(given, pd.DataFrame) else pd.DataFrame([row for _, row in readers.records(given)])
    keys = [key for key in ("context_id", "context", "id", "pair_id") if key in table]
    score = next((key for key in ("score", "score_llm") if key in table), None)
    try:
        columns = {key: pd.to_numeric(table[key].replace("", None)) for key in compare.BASELINES if key in table}
        numbers = pd.to_numeric(table[score].replace("", None)).astype(float)
        contexts = table[keys[0]].astype(str)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        what = f"found columns {', '.join(map(str, table))} ({error})"
        raise DreError(f"{name}: {what}: expected score, and context_id, context or id") from None
    system = table["system"].fillna("").astype(str) if "system" in table else ""
    return pd.DataFrame(columns | {"score": numbers, "context_id": contexts}).assign(system=system)


def _check_made(*files):
    """Raise DreError where summaries beside files say that their scores are not on one scale."""
    made = []
    for path in files:
        summary = None if isinstance(path, pd.DataFrame) else Path(f"{path}.summary.json")
        if summary is None or not summary.is_file():
            return
        line = json.loads(summary.read_text(encoding="utf-8"))["signature"]
        made.append(dict(part.split(":", 1) for part in line.split("|")))
    for part in made[0].keys() | made[1].keys():
        there = [one.get(part, EMPTY) for one in made]
        if part not in MAY_DIFFER and there[0] != there[1]:
            found = f"{part} {there[0]} and {there[1]}"
            raise DreError(f"{files[0]} and {files[1]} were made with {found}: scores of two makers are not comparable")


def _share(text):
    """5% or 0.05 as a share."""
    try:
        share = text and (float(text.rstrip("%")) / 100 if text.endswith("%") else float(text))
    except ValueError:
        share = -1
    if share is not None and not 0 <= share <= 1:
        raise DreError(f"--max-missing is {text}: expected a share such as 5% or 0.05")
    return share
