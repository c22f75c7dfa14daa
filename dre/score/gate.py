"""Did a system become worse? Two files of scores are compared on the contexts of both: ``dre compare``, and pytest."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from dre.datasets import readers
from dre.errors import DreError
from dre.score import systems as compare
from dre.signature import load_summary
from dre.tables import number

MAY_DIFFER = (
    "data",
    "version",
    "torch",
    "sentence-transformers",
    "transformers",
)  # in two signatures


def assert_not_worse(
    new: pd.DataFrame | str | Path,
    old: pd.DataFrame | str | Path,
    alpha: float = 0.05,
    max_missing: float | None = None,
) -> None:
    """Raise AssertionError, with a sentence that says how, if a system is significantly worse than before; for pytest.

    ``new, old``: tables that `dre.DRE.score` returned, or files of scores, compared as `compared` does; ``alpha``:
    level of the test; ``max_missing``: the largest share of contexts without a new score, in [0, 1].
    """
    found = compared(new, old)
    for note in found["notes"]:
        warnings.warn(note, stacklevel=2)
    if failed := failures(found, alpha, max_missing):
        raise AssertionError("; ".join(failed))


def compared(new: pd.DataFrame | str | Path, old: pd.DataFrame | str | Path) -> dict:
    """Compare two tables or files of scores: by system where they share names, else the one system of each.

    Returns ``comparisons`` and ``baselines`` as `dre.score.systems.summarise`, where a is new and b is old,
    ``missing``, the share of the contexts of either that lack a new score, and ``alone``, the systems that one of them
    lacks.
    """
    notes = _check_makers(new, old)
    names = [
        name if isinstance(one, pd.DataFrame) else one for one, name in ((new, "new"), (old, "old"))
    ]
    a, b = (
        readers.scores(one, ("context_id", "context", "id", "pair_id"), compare.BASELINES)
        for one in (new, old)
    )
    shared = [name for name in a["system"].unique() if name in set(b["system"])]
    if not shared and a["system"].nunique() == b["system"].nunique() == 1:
        a, b, shared = a.assign(system=""), b.assign(system=""), [""]
    if not shared or set(a["id"]).isdisjoint(b["id"]):
        what = "context" if shared else "system"
        raise DreError(
            f"{names[0]} and {names[1]} share no {what}: score the same contexts, with the same names"
        )
    there = {key for one in (a, b) for key in zip(one["system"], one["id"]) if key[0] in shared}
    scored = set(zip(*(a.loc[a["score"].notna(), name] for name in ("system", "id"))))
    found = {
        "notes": notes,
        "comparisons": [],
        "baselines": [],
        "missing": 1 - len(scored & there) / len(there),
    }
    found["alone"] = sorted({*a["system"]} ^ {*b["system"]})
    for measure in ("score", *(name for name in compare.BASELINES if name in a and name in b)):
        rows = []
        for name in shared:
            sides = [one[one["system"] == name].groupby("id")[measure].mean() for one in (a, b)]
            labels = [f"{name} ({which})".strip() for which in ("new", "old")]
            (row,) = compare.compare(pd.concat(sides, axis=1, keys=labels))
            rows.append({"measure": measure} | row)
        for row, p in zip(rows, compare.stats.holm([row["p_permutation"] for row in rows])):
            row["p_holm"] = float(p)
        found["comparisons" if measure == "score" else "baselines"] += rows
    return found


def failures(found: dict, alpha: float = 0.05, max_missing: float | None = None) -> list[str]:
    """Return a sentence for each way in which what `compared` found fails; nothing is worse at an ``alpha`` of 0."""
    said, rows = [], found["comparisons"]
    for row in rows:
        if alpha and 2.0 ** (1 - row["n_contexts"]) * len(rows) >= alpha:
            few = (
                f"{row['n_contexts']} contexts are in both, on which no test can fail at {alpha:g}"
            )
            raise DreError(
                f"{row['a']}: {few}: score {int(2 - np.log2(alpha / len(rows)))} or more"
            )
        if row["difference"] < 0 and row["p_holm"] < alpha:
            gap = {end: number(row[f"difference{end}"], 3) for end in ("", "_low", "_high")}
            what = f"differs by {gap['']} [{gap['_low']}, {gap['_high']}] on {row['n_contexts']:,} shared contexts"
            seen = f"with so many a difference of {number(row['visible'], 3)} can be seen"
            said.append(
                f"{row['a']} is worse than {row['b']}: its score {what} (p = {row['p_holm']:.4f}); {seen}"
            )
    if max_missing is not None and found["missing"] > max_missing:
        said.append(
            f"{found['missing']:.1%} of the contexts have no new score, more than {max_missing:.1%}"
        )
    return said


def _check_makers(new, old):
    """Raise DreError where the summaries beside two files say that their scores are not comparable.

    Returns the notes there are about files of which only one has a summary.
    """
    if isinstance(new, pd.DataFrame) or isinstance(old, pd.DataFrame):
        return []
    summaries = {path: load_summary(path) for path in (new, old)}
    without = [str(path) for path, summary in summaries.items() if summary is None]
    if len(without) == len(summaries):
        return []
    if without:
        return [
            f"{without[0]} has no summary beside it, so nothing says whether both files were made "
            "by the same model, judge and prompt"
        ]
    differences = summaries[new].signature.differences(summaries[old].signature, MAY_DIFFER)
    for difference in differences:
        raise DreError(
            f"{new} and {old} were made with {difference.field} {difference.this} and "
            f"{difference.other}: scores of two makers are not comparable"
        )
    return []
