"""Table 3 and Figure 6: who tells positive from adversarial negative responses, and at what price.

A response counts as accepted when its score reaches a threshold. Thresholds are chosen on dev contexts and
reported on test contexts. Besides the paper's two accuracies every row carries the share of *random* negatives
rejected at the same threshold: a metric that accepts replies to other conversations has not read the context.
"""

import hashlib

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.report.cells import number, percent, signed, with_interval
from dre.report.signature import named, signature
from dre.slm.provenance import versions
from dre.stats.bootstrap import cluster_mean_interval

#: Table 3's columns, and the kinds of response each is computed from.
COLUMNS = {"positive": "p", "adversarial": "a", "overall": "pa", "random_rejected": "r"}

#: ends the name of a row whose SLM was trained on the profile's other sets, too
AUGMENTED = ", + augmented sets"
#: ends the name of a row whose SLM was trained without disentanglement
PLAIN = ", not disentangled"


def variants(slm_table):
    """Return the three scores of Table 3: Dis (1 - s_d), Prob (s_p), Prob & Dis (Eq. 19), as a dict of Series."""
    return {
        "SLM (Dis)": 1 - slm_table["s_d"],
        "SLM (Prob)": slm_table["s_p"],
        "SLM (Prob & Dis)": slm_table["score_slm"],
    }


def choose_threshold(scores, kinds, negatives="a"):
    """Return the threshold with the best mean of positive and negative accuracy.

    Candidates lie halfway between neighbouring scores; of equally good ones the middle one is taken, so that the
    choice does not sit on the edge of a plateau.

    Parameters
    ----------
    scores : (n,) array
        Higher is better.
    kinds : (n,) array of "p", "a", "r"
    negatives : "a" or "ar"
        Adversarial negatives alone, as in Table 3, or random ones, too, each kind with equal weight.

    Raises
    ------
    DreError
        If a kind is missing or a score is not finite.
    """
    scores, kinds = np.asarray(scores, float), np.asarray(kinds)
    by_kind = {kind: np.sort(scores[kinds == kind]) for kind in f"p{negatives}"}
    if not all(len(values) for values in by_kind.values()):
        names = {"p": "positive", "a": "adversarial", "r": "random"}
        found = " and ".join(f"{len(values)} {names[kind]}" for kind, values in by_kind.items())
        raise DreError(f"found {found} scores: a threshold needs all of them")
    if not all(np.isfinite(values).all() for values in by_kind.values()):
        raise DreError("some scores are missing or infinite: leave those pairs out before choosing a threshold")
    levels = np.unique(np.concatenate(list(by_kind.values())))
    candidates = np.concatenate([[levels[0]], (levels[1:] + levels[:-1]) / 2])
    below = {kind: np.searchsorted(v, candidates, side="left") / len(v) for kind, v in by_kind.items()}
    accepted, rejected = 1 - below["p"], np.mean([below[kind] for kind in negatives], axis=0)
    best = np.flatnonzero(np.isclose(accepted + rejected, (accepted + rejected).max(), rtol=0, atol=1e-12))
    return float(candidates[best[len(best) // 2]])


def correct(pairs, scores, threshold):
    """Return, for each pair, 1.0 where the decision is right and 0.0 where it is not; NaN where there is no score.

    Right means: score >= threshold for a positive, score < threshold for an adversarial or random negative.
    """
    scores = np.asarray(scores, float)
    accepted = scores >= threshold
    right = np.where(pairs["kind"].to_numpy() == "p", accepted, ~accepted).astype(float)
    return np.where(np.isnan(scores), np.nan, right)


def accuracy_row(model, source, pairs, decisions, resamples=2000, seed=0, slms=(), **parts):
    """Return one row of Table 3, in percent, with 95 % intervals from a bootstrap over contexts.

    Parameters
    ----------
    model, source : str
        ``source`` is ``ours`` or ``recorded``.
    pairs : DataFrame
        ``context_id`` and ``kind``.
    decisions : (n,) or (seeds, n) array
        Of :func:`correct`, one row a training seed. The point is the mean over seeds; the interval speaks of the
        sampling of contexts, and the columns ``_sd`` of the spread over seeds (empty for one seed).
    slms, parts
        The SLMs behind the decisions, and whatever else the row's signature names, such as ``judge``.

    Returns
    -------
    dict
        ``model, source``, for each of ``positive, adversarial, overall, random_rejected`` the value, ``_low``,
        ``_high`` and ``_sd``, then ``n`` (pairs judged), ``seeds`` and ``signature``.
    """
    decisions = np.atleast_2d(np.asarray(decisions, float))
    kinds, contexts = pairs["kind"].to_numpy(), pairs["context_id"].to_numpy()
    row = {"model": model, "source": source}
    for column, wanted in COLUMNS.items():
        keep = np.isin(kinds, list(wanted)) & ~np.isnan(decisions).any(axis=0)
        row |= _with_interval(column, decisions[:, keep], contexts[keep], resamples, seed)
    row["n"] = int((~np.isnan(decisions).any(axis=0)).sum())
    row["seeds"] = len(decisions)
    row["signature"] = _signature(pairs, slms, parts)
    return row


def _signature(pairs, slms, parts):
    """The signature of a row: the pairs, the SLMs, further parts, and versions."""
    if slms:
        from dre.slm.runs import identity

        parts = identity(slms) | parts
    ids = hashlib.sha256("\n".join(f"{one}\t{kind}" for one, kind in zip(pairs["pair_id"], pairs["kind"])).encode())
    name = pairs["set"].iloc[0] if "set" in pairs else "pairs"
    return signature(data=named(name, ids.hexdigest()), **parts, versions=versions())


def with_published(rows):
    """Return Table 3: the published rows, then `rows` of :func:`accuracy_row`; counts are whole numbers."""
    from dre.published import table3

    table = pd.concat([table3(), pd.DataFrame(rows)], ignore_index=True)
    return table.astype({"n": "Int64", "seeds": "Int64"})


def _with_interval(column, decisions, contexts, resamples, seed):
    if decisions.shape[1] == 0:
        return {column: np.nan, f"{column}_low": np.nan, f"{column}_high": np.nan, f"{column}_sd": np.nan}
    interval = cluster_mean_interval(decisions.mean(axis=0), contexts, resamples=resamples, seed=seed).iloc[0]
    spread = decisions.mean(axis=1).std(ddof=1) if len(decisions) > 1 else np.nan
    return {
        column: 100 * interval["mean"],
        f"{column}_low": 100 * interval["low"],
        f"{column}_high": 100 * interval["high"],
        f"{column}_sd": 100 * spread,
    }


def threshold_curve(pairs, scores, thresholds):
    """Return the accuracies in percent at each threshold (Figure 6): ``threshold`` and the :data:`COLUMNS`."""
    scores, kinds = np.asarray(scores, float), pairs["kind"].to_numpy()
    rows = []
    for threshold in thresholds:
        right = correct(pairs, scores, threshold)
        means = {name: 100 * right[np.isin(kinds, list(wanted))].mean() for name, wanted in COLUMNS.items()}
        rows.append({"threshold": threshold} | means)
    return pd.DataFrame(rows)


def length_only(train, dev, test):
    """Score responses by their number of words alone; the sign is learned on training pairs.

    Parameters
    ----------
    train, dev, test : DataFrame of pairs

    Returns
    -------
    (dev scores, test scores) : two (n,) arrays
    """
    tables = {"t": train, "d": dev, "e": test}
    words = {name: table["response"].str.split().str.len() for name, table in tables.items()}
    mean = words["t"].groupby(train["kind"]).mean()
    sign = 1.0 if mean["p"] > mean["a"] else -1.0
    return (sign * words["d"]).to_numpy(float), (sign * words["e"]).to_numpy(float)


def response_only(train, dev, test):
    """Score responses by TF-IDF (words and word pairs) and logistic regression, never seeing a context.

    Parameters and returns as :func:`length_only`; scores are probabilities of being positive.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    used = train[train["kind"].isin(["p", "a"])]
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2), LogisticRegression(C=10))
    model.fit(used["response"], used["kind"] == "p")
    return model.predict_proba(dev["response"])[:, 1], model.predict_proba(test["response"])[:, 1]


def recorded_rows(pairs, resamples=2000, seed=0):
    """Return the rows of Table 3 that recordings give for these test pairs.

    DEB and RUBER-Large: their authors' released scores on the whole DailyDialog++ test set, at 0.5. LLM labels: the
    classification prompt's recorded replies, on whichever pairs they were asked about. A recording that knows none of
    the pairs gives no row.
    """
    from dre.data import recorded, thirdparty

    rows = []
    if pairs["pair_id"].str.startswith("dailydialog++-test/").any():
        for name in ("DEB", "RUBER-Large"):
            known = thirdparty.classifier_scores(name).set_index("pair_id")["score"]
            decisions = correct(pairs, pairs["pair_id"].map(known), threshold=0.5)
            rows.append(
                accuracy_row(f"{name}, released scores", "recorded", pairs, decisions, resamples, seed, judge=name)
            )
    labels = recorded.judgements()
    labels = labels[labels["prompt"] == "classify"].set_index("pair_id")["label"]
    scores = pairs["pair_id"].map(labels).map({"Positive": 1.0, "Negative": 0.0}).astype(float)
    if scores.notna().any():
        rows.append(
            accuracy_row(
                f"LLM labels, {recorded.NAME}",
                "recorded",
                pairs,
                correct(pairs, scores, 0.5),
                resamples,
                seed,
                judge=recorded.NAME,
                prompt="classify",
            )
        )
    return rows


def reading(table, label):
    """Say in Markdown what Table 3 shows, from its numbers alone."""
    ours = table[(table["source"] == "ours") & table["model"].str.contains("SLM")]
    best = ours.loc[ours["overall"].idxmax()]
    paper = table[(table["source"] == "published") & (table["model"] == "SLM (Prob & Dis)")].iloc[0]
    blind = table[table["model"].str.startswith("response only")].iloc[0]
    length = table[table["model"] == "length only"].iloc[0]
    both = ours[ours["model"].str.startswith("SLM (Prob & Dis)")]
    lines = [
        f"- **Best of our SLM rows on {label}:** {best['model']} with {percent(best, 'overall')} overall "
        f"({best['seeds']} seed{'s' * int(best['seeds'] != 1)}); the paper reports {paper['overall']:.2f} % for "
        "SLM (Prob & Dis), trained on 9,259 contexts.",
        *_order(table[table["source"] == "published"], ours),
        f"- **Without any context:** counting words gives {percent(length, 'overall')}, and a linear model on the "
        f"response's words {percent(blind, 'overall')}. That much of the task can be solved without reading what the "
        "response answers.",
    ]
    for _, row in both.iterrows():
        lines.append(
            f"- **Random negatives:** {row['model']} rejects {percent(row, 'random_rejected')} of them at the "
            f"threshold where it rejects {number(row['adversarial'], 1)} % of the adversarials."
        )
    lines += _augmented(ours)
    for _, row in table[table["source"] == "recorded"].iterrows():
        randoms = (
            "" if np.isnan(row["random_rejected"]) else f", random negatives rejected {percent(row, 'random_rejected')}"
        )
        lines.append(f"- **{row['model']}** (n = {row['n']:,}): {percent(row, 'overall')} overall{randoms}.")
    return "\n".join(lines)


def _order(published, ours):
    """Say whether the three scores of the first recipe come in the order in which the paper has them."""
    printed = published[published["model"].str.startswith("SLM")].set_index("model")["overall"]
    recipe = ours["model"].iloc[0].partition(", ")[2]
    found = ours.set_index("model")["overall"].reindex([f"{name}, {recipe}" for name in printed.index])
    if found.isna().any():
        return []
    found.index = printed.index
    there, here = (values.sort_values(ascending=False) for values in (printed, found))
    order = "the same order" if list(there.index) == list(here.index) else "another order"
    both = "SLM (Prob & Dis)"
    gains = [values[both] - values.drop(both).max() for values in (printed, found)]
    return [
        f"- **The three scores, recipe {recipe}:** {_listed(here)} here, {_listed(there)} in the paper: {order}. "
        f"Adding up the two changes the better of them by {signed(gains[1], 1)} points here, by "
        f"{signed(gains[0], 1)} there."
    ]


def disentangling(gains):
    """Say in Markdown what disentangling changes, from rows of differences made by :func:`accuracy_row`."""
    lines = []
    for column, words in {"overall": "Accuracy", "random_rejected": "Random negatives rejected"}.items():
        told = ", ".join(
            f"{_short(row['score'])} {with_interval(row, column, 1, signed)}" for _, row in gains.iterrows()
        )
        better = int((gains[f"{column}_low"] > 0).sum())
        worse = int((gains[f"{column}_high"] < 0).sum())
        lines.append(
            f"- **{words}, with disentangling less without:** {told} points. By the interval over contexts it is "
            f"higher with it for {better} and lower for {worse} of the {len(gains)} scores."
        )
    return "\n".join(lines)


def _listed(values):
    return ", ".join(f"{_short(name)} {number(value, 1)} %" for name, value in values.items())


def _short(name):
    """A score's name without the model's: ``SLM (Dis)`` is ``Dis``."""
    return name.removeprefix("SLM ").strip("()")


def _augmented(rows):
    """Say what the augmented sets added to the training data change, where a row was trained with them."""
    by_name = rows.set_index("model")
    return [
        f"- **Augmented sets:** added to the training data, {name} goes from {percent(by_name.loc[name], 'overall')} "
        f"to {percent(by_name.loc[name + AUGMENTED], 'overall')} overall, and from "
        f"{percent(by_name.loc[name], 'random_rejected')} to "
        f"{percent(by_name.loc[name + AUGMENTED], 'random_rejected')} of the random negatives rejected."
        for name in by_name.index
        if name + AUGMENTED in by_name.index
    ]
