"""How many retrieved negatives fit after all: the acceptance of a fallible judge, corrected for its own errors.

A judge accepts a share t of retrieved responses. It also accepts a share v of responses known to fail, and only a share
s of those known to fit. If it errs on retrieved responses as it does on those, t = f s + (1 - f) v, so the share that
really fits is f = (t - v) / (s - v) (Rogan and Gladen 1978).

The assumption is strong. Retrieved responses are not written to be adversarial, so v is given twice, measured on
adversarials and on random negatives: the truth is likelier between the two than at either. Where s is hardly above
v the judge cannot tell, and the interval says so.
"""

import numpy as np
import pandas as pd

from dre import classification
from dre.data import pairs
from dre.errors import DreError
from dre.stats.bootstrap import cluster_codes, cluster_mean_draws, interval, resample_weights

ERRORS = {"adversarial": "a", "random": "r"}
MIDDLE = 2.5  # of the recorded scores' range, 0 to 5: no threshold is fitted


def by_slm(found, slm, threshold, labelled, resamples=1000, seed=0):
    """Estimate the share of lexical negatives that fit, judged by an SLM.

    Parameters
    ----------
    found : sequence of Context
        Of `dre.augment.lexical.negatives`; their adversarials are judged.
    slm, threshold
        A response is accepted when Score_SLM (Eq. 19) reaches the threshold.
    labelled : sequence of Context
        With positives, adversarials and randoms that people labelled (DailyDialog++), seen neither in training nor
        when choosing the threshold.

    Returns
    -------
    DataFrame
        See `rates`.
    """
    retrieved, known = pairs(found, "a"), pairs(labelled, "par")
    accepted = [(slm.score(table)["score_slm"] >= threshold).to_numpy(float) for table in (retrieved, known)]
    return rates(retrieved.assign(accepted=accepted[0]), known.assign(accepted=accepted[1]), resamples, seed)


def by_judge(scores, threshold=MIDDLE, resamples=1000, seed=0):
    """Estimate it from recorded LLM scores of retrieved, positive, adversarial and random responses.

    Parameters
    ----------
    scores : DataFrame
        Of `dre.data.recorded.training_scores`. Used are DailyDialog++ dev contexts with their own responses and with
        responses of other contexts, retrieved by similar context; elsewhere the recording does not say which of
        two responses was retrieved and which was drawn at random.

    Returns
    -------
    DataFrame
        See `rates`.
    """
    table = scores[scores["context_id"].str.startswith("dailydialog++-dev/")].copy()
    kinds = [_kind(*ids) for ids in zip(table["context_id"], table["response_id"])]
    table = table.assign(kind=kinds, accepted=(table["score"] >= threshold).astype(float))
    return rates(table[table["kind"] == "retrieved"], table[table["kind"].isin(["p", "a", "r"])], resamples, seed)


def _kind(context_id, response_id):
    if response_id.startswith("generic"):
        return "generic"
    own = response_id.removeprefix(context_id)
    return own[0] if own != response_id and own[:1] in ("p", "a", "r") else "retrieved"


def rates(retrieved, known, resamples=1000, seed=0):
    """Correct the acceptance of retrieved responses for the judge's errors.

    Parameters
    ----------
    retrieved : DataFrame
        ``context_id, accepted`` (0 or 1), one row a retrieved response.
    known : DataFrame
        ``context_id, kind`` (``p``, ``a``, ``r``), ``accepted``, one row a labelled response.

    Returns
    -------
    DataFrame
        Two rows, ``errors_on`` adversarial and random negatives; in percent ``accepted`` (t), ``fitting_accepted`` (s),
        ``failing_accepted`` (v) and ``false_negatives`` (f, cut to 0-100) with ``_low`` and ``_high`` of a bootstrap
        over contexts of both tables; ``n`` retrieved responses. f is NaN where s does not exceed v.
    """
    if retrieved.empty or not {"p", "a", "r"} <= set(known["kind"]):
        raise DreError("expected retrieved responses, and known ones of all three kinds (p, a, r)")
    t = _draws(retrieved, "accepted", resamples, seed)
    s = _draws(known, "p", resamples, seed + 1)
    rows = []
    for name, kind in ERRORS.items():
        v = _draws(known, kind, resamples, seed + 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            f = np.where(s > v, np.clip((t - v) / (s - v), 0, 1), np.nan)
        low, high = interval(f[1:, None])
        values = {"accepted": t[0], "fitting_accepted": s[0], "failing_accepted": v[0], "false_negatives": f[0]}
        values |= {"false_negatives_low": low[0], "false_negatives_high": high[0]}
        rows.append({"errors_on": name} | {k: 100 * value for k, value in values.items()} | {"n": len(retrieved)})
    return pd.DataFrame(rows)


def _draws(table, what, resamples, seed):
    """Return the mean acceptance, first as measured, then in each resample of contexts."""
    values = table["accepted"] if what == "accepted" else table["accepted"].where(table["kind"] == what)
    codes, n = cluster_codes(table["context_id"])
    weights = np.vstack([np.ones(n), resample_weights(n, resamples, seed)])
    return cluster_mean_draws(values, codes, weights)[:, 0]


def threshold(slm, dev):
    """Return the threshold of Score_SLM chosen on the positives and adversarials of held-out contexts."""
    table = pairs(dev)
    return classification.choose_threshold(slm.score(table)["score_slm"], table["kind"])


def reading(table):
    """Say in Markdown what a table of several `rates` (with columns ``set`` and ``judge``) shows."""
    lines = []
    for (name, judge), rows in table.groupby(["set", "judge"], sort=False):
        said = [f"{_rate(row)} if it errs on them as on {row['errors_on']} negatives" for _, row in rows.iterrows()]
        lines.append(
            f"- **{name}**, judged by {judge}: {rows['accepted'].iloc[0]:.1f} % of {rows['n'].iloc[0]:,} retrieved "
            f"responses are accepted. Fitting after all: {'; '.join(said)}."
        )
    return "\n".join(lines)


def _rate(row):
    if not np.isfinite(row["false_negatives"]):
        return "not to be told"
    bounds = [row["false_negatives_low"], row["false_negatives_high"]]
    spread = f" [{bounds[0]:.0f}, {bounds[1]:.0f}]" if np.isfinite(bounds).all() else ""
    return f"{row['false_negatives']:.0f} %{spread}"
