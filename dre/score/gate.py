"""Did a system become worse? New scores against old ones, for ``dre compare`` and pytest."""

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
_MAY_DIFFER = (
    "data",
    "reading",
    "limit",
    "version",
    "torch",
    "sentence-transformers",
    "transformers",
)
#: What a context is known by in both files: the first of these columns that there is.
_CONTEXT_COLUMNS = ("context_id", "context")


@dataclass(frozen=True)
class Comparison:
    """What became of systems between an old and a new file of scores.

    Attributes
    ----------
    comparisons : as `dre.score.systems.summarise` has them, where a is new and b is old.
    missing : the share of the contexts of either file without a new score, in [0, 1]. Those of a
        system that is gone count as missing; those of a system that was added do not count.
    removed : the names of systems that only the old file has.
    notes : sentences that a reader has to know besides.
    """

    comparisons: list[dict]
    missing: float
    removed: list[str]
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
    new, old : tables that `dre.DRE.score` returned, or files of scores; see `compare_scores`.
    alpha : the level of the test, corrected over systems.
    max_missing : the largest share of contexts without a new score that passes, in [0, 1]; None for
        any.
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
    of_new, of_old = _by_context(new), _by_context(old)
    new_names, old_names = (set(scores.index.unique("system")) for scores in (of_new, of_old))
    if len(new_names) == len(old_names) == 1 and new_names != old_names:
        # From here on, the system has the name of the old file.
        of_new = of_new.rename(dict(zip(new_names, old_names)), level="system")
        new_names = old_names
    shared = sorted(new_names & old_names)
    of_new = pd.Series(of_new[of_new.index.isin(shared, level="system")])
    if of_new.index.intersection(of_old.index).empty:
        raise DreError(
            "the new and the old scores share no context of a system: score the same contexts, "
            "with the same names of systems"
        )
    missing = float(of_new.reindex(of_new.index.union(of_old.index)).isna().mean())
    if missing:
        notes.append(f"{missing:.1%} of the systems' contexts in either file have no new score")
    removed, added = sorted(old_names.difference(shared)), sorted(new_names.difference(shared))
    if removed:
        notes.append(f"only the old file has: {', '.join(removed)}")
    if added:
        notes.append(f"not compared, since only the new file has: {', '.join(added)}")

    rows = []
    for name in shared:
        by_version = {
            f"{name} (new)".strip(): of_new.xs(name, level="system"),
            f"{name} (old)".strip(): of_old.xs(name, level="system"),
        }
        rows += systems.compare_systems(pd.DataFrame(by_version))
    p_holm = stats.holm([row["p_permutation"] for row in rows])
    comparisons = [{**row, "p_holm": p} for row, p in zip(rows, p_holm)]
    return Comparison(comparisons, missing, removed, notes)


def _by_context(source) -> pd.Series:
    """Return the mean score of each system in each context, NaN where it has none."""
    table = readers.scores(source, _CONTEXT_COLUMNS)
    return pd.Series(table.groupby(["system", "id"])["score"].mean())


def failures(
    comparison: Comparison, alpha: float | None = 0.05, max_missing: float | None = None
) -> list[str]:
    """Return a sentence for each way in which a comparison fails.

    Parameters
    ----------
    comparison : what `compare_scores` returned.
    alpha : the level of the test. A system that is significantly worse fails, and so does one that
        is gone. With None neither does.
    max_missing : the largest share of contexts without a new score that passes, in [0, 1]; None for
        any.

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
    return (
        f"{row['a']} is worse than {row['b']}: its score differs by "
        f"{with_interval(row, 'difference', '.3f')} on {row['n_contexts']:,} shared contexts "
        f"(p = {row['p_holm']:.4f}); with so many a difference of {number(row['visible'], 3)} can "
        "be seen"
    )


def _check_makers(new, old):
    """Raise DreError where the summaries beside two files say that their scores are not comparable.

    Returns the notes there are on files of which only one has a summary.
    """
    if isinstance(new, pd.DataFrame) or isinstance(old, pd.DataFrame):
        return []
    new_summary, old_summary = load_summary(new), load_summary(old)
    if new_summary and old_summary:
        for difference in new_summary.signature.differences(old_summary.signature, _MAY_DIFFER):
            field = difference.field
            raise DreError(
                f"{new} was made with {field} {difference.value}, {old} with {field} "
                f"{difference.other_value}: such scores are not comparable. Score both in the same "
                "way"
            )
    elif new_summary or old_summary:
        return [
            f"{old if new_summary else new} has no summary beside it, so nothing says whether both "
            "files were made by the same model, judge and prompt"
        ]
    return []
