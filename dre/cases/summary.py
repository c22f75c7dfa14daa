"""In how many cases a metric does what the design asks of it, counted and in words."""

import pandas as pd
from scipy.stats import binom

from dre.cases.written import DESIGNS

TITLES = {
    "creative": "Two valid answers, one of them the reference",
    "contradiction": "A fluent answer that contradicts its context",
    "slide": "A valid reply far from the reference, and an adversarial one",
}
SHORT = {"creative": "creative (both fit)", "contradiction": "contradiction", "slide": "SLIDE's designs"}


def summary(long):
    """Count, for each design and metric, the cases in which it is right.

    Parameters
    ----------
    long : DataFrame
        From `dre.cases.written.scored`.

    Returns
    -------
    pandas.DataFrame
        Columns ``design, metric, n`` (cases in which both responses have a score), ``first_higher`` (response 1 is
        scored strictly above response 2), ``first_accepted``, ``second_accepted`` (half of the scale or more), and
        ``both_right`` (each accepted if it fits, else not).
    """
    rows = []
    for (design, metric), part in long.groupby(["design", "metric"], sort=False):
        scores, accepted = (part.pivot(index="case", columns="number", values=v) for v in ("score", "accepted"))
        kept = scores.notna().all(axis=1)
        scores, accepted = scores[kept], accepted[kept] > 0
        second = accepted[2] if DESIGNS[design][1] else ~accepted[2]
        rows.append(
            {
                "design": design,
                "metric": metric,
                "n": len(scores),
                "first_higher": int((scores[1] > scores[2] + 1e-9).sum()),
                "first_accepted": int(accepted[1].sum()),
                "second_accepted": int(accepted[2].sum()),
                "both_right": int((accepted[1] & second).sum()),
            }
        )
    return pd.DataFrame(rows)


def reading(table):
    """Return what `summary` shows, as Markdown."""
    return "\n\n".join(_design(name, rows) for name, rows in table.groupby("design", sort=False))


def _design(name, rows):
    n, title = rows["n"].max(), f"**{TITLES[name]}** ({rows['n'].max()} cases)."
    if DESIGNS[name][1]:
        return (
            f"{title} Both are accepted {_counts(rows, 'both_right')}. The second answer, no worse than the first, is "
            f"scored below it {_counts(rows, 'first_higher')}."
        )
    best = rows["first_higher"].max()
    return (
        f"{title} The response that fits is scored above the other {_counts(rows, 'first_higher')}. It is accepted and "
        f"the other rejected {_counts(rows, 'both_right')}. At best, {best} of {n} cases are ordered rightly; "
        f"tossing a coin, one orders at least as many with probability {binom.sf(best - 1, n, 0.5):.2f}."
    )


def _counts(rows, column):
    """Say which metrics count how many cases, the most first: ``in 5 of 5 cases by A and B, in 3 by C``."""
    groups = rows.groupby([column, "n"])["metric"].agg(list).sort_index(ascending=False)
    if len(groups) == 1:
        count, n = groups.index[0]
        return f"in {count} of {n} cases by every metric" if count else "in no case by any metric"
    parts = [f"in {count} of {n} by {_listed(names)}" for (count, n), names in groups.items()]
    return ", ".join(parts)


def _listed(names):
    bleu = [name for name in names if name.startswith("BLEU-")]
    if len(bleu) > 1:
        orders = "/".join(name.removeprefix("BLEU-") for name in bleu)
        names = [f"BLEU-{orders}", *(name for name in names if name not in bleu)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
