"""The audit in one table, a row a model, and in words made of its numbers."""

import numpy as np
import pandas as pd

from dre.audit.alter import OTHER, OWN
from dre.audit.logits import NONE
from dre.report.cells import number, percent, signed, with_interval

ENDS = ("", "_low", "_high", "_sd")
#: a mean fall of fewer standard deviations is less than what Cohen calls a small effect
SMALL = 0.2
#: where each column of the table comes from: part -> {its column: our column}
PARTS = {
    "accuracies": {"overall": "overall", "random_rejected": "random_rejected"},
    "agreement": {"same": "same"},
    "swaps": {"falls": "falls", "fall": "fall", "other": "swapped_accepted"},
    "altered": {"overall": "other_context"},
    "variance": {"interaction": "interaction"},
}


def table(accuracies, agreement, swaps, altered, variance, ratings=None):
    """Return one row a model, by its main score.

    Parameters
    ----------
    accuracies, agreement, swaps, altered, variance, ratings : DataFrame
        Of `dre.audit.blind`, `swap`, `alter`, `variance` and `ratings`; None without ratings.

    Returns
    -------
    DataFrame
        ``model, family, score``, the columns of `PARTS`, ``spearman_<domain>``, each with ``_low, _high, _sd``;
        ``seeds, signature``.
    """
    altered = altered[altered["shown"] == OTHER]
    parts = {"accuracies": accuracies, "agreement": agreement, "swaps": swaps, "altered": altered, "variance": variance}
    rows = []
    for _, first in accuracies.iterrows():
        row = {name: first[name] for name in ("model", "family", "score")}
        for part, columns in PARTS.items():
            found = _row(parts[part], row)
            for theirs, ours in columns.items():
                row |= {ours + end: found.get(theirs + end, np.nan) for end in ENDS}
        for key in [] if ratings is None else dict.fromkeys(ratings["key"]):
            found = _row(ratings[ratings["key"] == key], row)
            row |= {f"spearman_{key}{end}": found.get(f"spearman{end}", np.nan) for end in ENDS}
        rows.append(row | {"seeds": first["seeds"], "signature": first["signature"]})
    return pd.DataFrame(rows)


def _row(part, wanted):
    """The row of a model's main score in one of the tables, {} where it has none."""
    same = part["model"] == wanted["model"]
    if "score" in part:
        same &= part["score"] == wanted["score"]
    return part[same].iloc[0] if same.any() else {}


def reading(audit, swaps, altered, variance, logits, ratings=None):
    """Say in Markdown what the audit found, from its numbers alone."""
    slms = audit[audit["family"] == "slm"]
    lines = [_without_context(audit[audit["family"] == "blind"], slms)]
    untrained = swaps[swaps["family"] == "untrained"].iloc[0]
    lines += [_swapped(swaps[swaps["model"] == row["model"]], row, untrained) for _, row in slms.iterrows()]
    lines += [_disorder(altered[altered["model"] == model]) for model in slms["model"]]
    lines += _interaction(variance, logits)
    lines += [] if ratings is None else [_rated(ratings, model) for model in slms["model"]]
    return "\n".join(f"- {line}" for line in lines)


def _without_context(blind, slms):
    best = blind.loc[blind["overall"].idxmax()]
    told = "; ".join(
        f"{row['model']} {percent(row, 'overall')} overall, {number(row['same'], 1)} % of its decisions being "
        f"those of the response alone, {number(row['random_rejected'], 1)} % of random negatives rejected"
        for _, row in slms.iterrows()
    )
    return (
        f"**Without any context**, {best['model']} is right in {percent(best, 'overall')} of cases. The SLMs: {told}."
    )


def _swapped(rows, row, untrained):
    told = ", ".join(f"{one['score']} {percent(one, 'falls')}" for _, one in rows.iterrows())
    main = rows[rows["score"] == row["score"]].iloc[0]
    if main["falls_low"] > 50:
        verdict = "it notices the exchange" + (", but barely" if main["fall"] < SMALL else "")
    elif main["falls_high"] < 50:
        verdict = "it prefers the other context"
    else:
        verdict = "no sign that it notices the exchange"
    return (
        f"**Another conversation's context, {row['model']}:** the share of scores that fall is {told}; 50 % would mean "
        f"that the context is not read. {row['score']}: {verdict}, with a mean fall of {number(main['fall'], 2)} "
        f"standard deviations (untrained encoder: {number(untrained['fall'], 2)}); {number(main['own'], 1)} % of the "
        f"positives are accepted in their own conversation, {number(main['other'], 1)} % in the wrong one. With all "
        f"contexts exchanged, its accuracy against the labels is {number(row['other_context'], 1)} %, with the true "
        f"ones {number(row['overall'], 1)} %."
    )


def _disorder(rows):
    told = ", ".join(f"{row['shown']} {number(row['change'], 2)}" for _, row in rows[rows["shown"] != OWN].iterrows())
    return f"**Disorder, {rows['model'].iloc[0]}:** mean change of the score, in its standard deviations: {told}."


def _interaction(variance, logits):
    told = ", ".join(
        f"{row['model']} ({row['score']}) {percent(row, 'interaction')}"
        for _, row in variance[variance["family"] != "blind"].iterrows()
    )
    lines = [f"**Fit is interaction.** Its share of the score's variance on a grid of responses and contexts: {told}."]
    additive = list(logits.loc[logits["interaction"] == NONE, "model"])
    if additive:
        lines.append(
            f"**The logits of Eq. 15** have no interaction beyond rounding ({', '.join(additive)}): in another "
            "conversation the logits of all responses move by the same amount, so their order is the same in each."
        )
    return lines


def _rated(ratings, model):
    told = "; ".join(
        f"{row['domain']} {number(row['spearman'], 2)} ({with_interval(row, 'difference', 2, signed)}, {row['answer']})"
        for _, row in ratings[ratings["model"] == model].drop_duplicates("key").iterrows()
    )
    return (
        f"**With people, {model}** (Spearman; in brackets the difference to the untrained encoder, and whether it is "
        f"shown after Holm's correction, which an interval does not have): {told}."
    )
