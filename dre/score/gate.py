"""Did a system become worse? New scores against old ones, for ``dre compare`` and pytest."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dre import stats
from dre.datasets import readers
from dre.errors import DreError
from dre.score import systems
from dre.signature import load_summary
from dre.tables import number, with_interval

#: The fields in which the signatures of two files may differ: their scores are comparable still.
_MAY_DIFFER = ("data", "limit", "version", "torch", "sentence-transformers", "transformers")
#: What a context is known by in both files: the first of these columns that there is.
_CONTEXT_COLUMNS = ("context_id", "context", "id", "pair_id")


@dataclass(frozen=True)
class Comparison:
    """What became of systems between an old and a new file of scores.

    Attributes
    ----------
    comparisons, baselines
        As `dre.score.systems.summarise` has them, where a is new and b is old.
    missing
        The share of the contexts of either file without a new score, in [0, 1]. Those of a system
        that is gone count as missing; those of a system that was added do not count.
    removed
        The names of systems that only the old file has.
    added
        The names of systems that only the new file has.
    notes
        Sentences that a reader has to know besides.
    """

    comparisons: list[dict]
    baselines: list[dict]
    missing: float
    removed: list[str]
    added: list[str]
    notes: list[str]


def assert_not_worse(
    new: pd.DataFrame | str | Path,
    old: pd.DataFrame | str | Path,
    alpha: float = 0.05,
    max_missing: float | None = None,
) -> None:
    """Raise AssertionError, with a sentence that says how, if a system became worse; for pytest.

    Parameters
    ----------
    new, old
        Tables that `dre.DRE.score` returned, or files of scores; see `compare_scores`.
    alpha
        The level of the test, corrected over systems.
    max_missing
        The largest share of contexts without a new score that passes, in [0, 1]; None for any.
    """
    comparison = compare_scores(new, old)
    for note in comparison.notes:
        warnings.warn(note, stacklevel=2)
    sentences = failures(comparison, alpha, max_missing)
    if sentences:
        raise AssertionError("; ".join(sentences))


def compare_scores(new: pd.DataFrame | str | Path, old: pd.DataFrame | str | Path) -> Comparison:
    """Compare two tables or files of scores, on the contexts of both.

    Systems are compared by name. If the files share no name and each has one system, these two are
    compared. Raises DreError if there is nothing to compare, or if the summaries beside the files
    say that their scores were made by different models, judges or prompts.
    """
    notes = _check_makers(new, old)
    new_table = readers.scores(new, _CONTEXT_COLUMNS, systems.BASELINES)
    old_table = readers.scores(old, _CONTEXT_COLUMNS, systems.BASELINES)
    new_names = _match_systems(new_table, old_table)
    if not new_names or set(new_table["id"]).isdisjoint(old_table["id"]):
        new_name = "new" if isinstance(new, pd.DataFrame) else new
        old_name = "old" if isinstance(old, pd.DataFrame) else old
        lacking = "context" if new_names else "system"
        raise DreError(
            f"{new_name} and {old_name} share no {lacking}: score the same contexts, with the same "
            "names"
        )

    # From here on, systems have the names of the old file.
    old_names = {new: old for old, new in new_names.items()}
    new_table["system"] = new_table["system"].map(lambda name: old_names.get(name, name))
    is_matched = new_table["system"].isin(new_names)
    matched = new_table[is_matched]
    scored = new_table[is_matched & new_table["score"].notna()]
    old_pairs = zip(old_table["system"], old_table["id"])
    matched_pairs = zip(matched["system"], matched["id"])
    expected = {*old_pairs, *matched_pairs}
    n_scored = len({*zip(scored["system"], scored["id"])})
    baselines = []
    for measure in systems.BASELINES:
        if measure in new_table and measure in old_table:
            baselines += _differences(new_table, old_table, new_names, measure)
    return Comparison(
        comparisons=_differences(new_table, old_table, new_names, "score"),
        baselines=baselines,
        missing=1 - n_scored / len(expected),
        removed=sorted(set(old_table["system"]) - set(new_names)),
        added=sorted(set(new_table["system"]) - set(new_names)),
        notes=notes,
    )


def _match_systems(new_table, old_table) -> dict[str, str]:
    """Return the systems of both tables, or the only one of each: old name to new name."""
    new_systems = list(new_table["system"].unique())
    old_systems = list(old_table["system"].unique())
    new_names = {name: name for name in new_systems if name in old_systems}
    if not new_names and len(new_systems) == len(old_systems) == 1:
        return dict(zip(old_systems, new_systems))
    return new_names


def _differences(new_table, old_table, new_names, measure):
    """Compare new with old in one measure: a row per system, p-values corrected over them."""
    new_means, old_means = (
        table.groupby(["system", "id"])[measure].mean() for table in (new_table, old_table)
    )
    rows = []
    for old_name, new_name in new_names.items():
        of_both = {
            f"{new_name} (new)".strip(): new_means[old_name],
            f"{old_name} (old)".strip(): old_means[old_name],
        }
        (row,) = systems.compare_systems(pd.concat(of_both, axis=1))
        rows.append({"measure": measure, **row})
    p_holm = stats.holm([row["p_permutation"] for row in rows])
    return [{**row, "p_holm": p} for row, p in zip(rows, p_holm)]


def failures(
    comparison: Comparison, alpha: float | None = 0.05, max_missing: float | None = None
) -> list[str]:
    """Return a sentence for each way in which a comparison fails.

    Parameters
    ----------
    comparison
        What `compare_scores` returned.
    alpha
        The level of the test. A system that is significantly worse fails, and so does one that is
        gone. With None or 0 neither does.
    max_missing
        The largest share of contexts without a new score that passes, in [0, 1]; None for any.

    Raises
    ------
    DreError
        If so few contexts are in both files that no difference could fail.
    """
    sentences = []
    if alpha:
        rows = comparison.comparisons
        enough = systems.least_contexts(len(rows), alpha)
        for row in rows:
            if row["n_contexts"] < enough:
                raise DreError(
                    f"{row['a']}: {row['n_contexts']} contexts are in both, on which no test can "
                    f"fail at {alpha:g}: score {enough} or more"
                )
        sentences += [
            f"{name} is gone: the old scores have it, and the new ones do not"
            for name in comparison.removed
        ]
        sentences += [
            _is_worse(row) for row in rows if row["difference"] < 0 and row["p_holm"] < alpha
        ]
    if max_missing is not None and comparison.missing > max_missing:
        sentences.append(
            f"{comparison.missing:.1%} of the contexts have no new score, more than "
            f"{max_missing:.1%}"
        )
    return sentences


def _is_worse(row):
    """Return the sentence on a system that became worse."""
    sentence = (
        f"{row['a']} is worse than {row['b']}: its score differs by "
        f"{with_interval(row, 'difference', '.3f')} on {row['n_contexts']:,} shared contexts "
        f"(p = {row['p_holm']:.4f})"
    )
    if math.isnan(row["visible"]):
        return sentence
    return f"{sentence}; with so many a difference of {number(row['visible'], 3)} can be seen"


def _check_makers(new, old):
    """Raise DreError where the summaries beside two files say that their scores are not comparable.

    Returns the notes there are on files of which only one has a summary.
    """
    if isinstance(new, pd.DataFrame) or isinstance(old, pd.DataFrame):
        return []
    new_summary = load_summary(new)
    old_summary = load_summary(old)
    if new_summary is None and old_summary is None:
        return []
    if new_summary is None or old_summary is None:
        return [
            f"{old if new_summary else new} has no summary beside it, so nothing says whether both "
            "files were made by the same model, judge and prompt"
        ]
    differences = new_summary.signature.differences(old_summary.signature, _MAY_DIFFER)
    for difference in differences:
        raise DreError(
            f"{new} was made {_with(difference.field, difference.value)}, {old} "
            f"{_with(difference.field, difference.other_value)}: such scores are not comparable. "
            "Score both in the same way"
        )
    return []


def _with(field, value):
    """Say that something was made with the value of a field, which may be absent."""
    if value in ("None", ""):
        return f"without a {field}"
    return f"with {field} {value}"
