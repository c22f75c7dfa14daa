"""Table 3: who tells positive from adversarial responses, and at what price in random ones.

A response is accepted when its score reaches a threshold, chosen on dev contexts and reported on test contexts. A
metric that accepts replies to other conversations has not read the context, so random negatives are counted, too.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre import stats
from dre.errors import DreError
from dre.metrics import length

#: Table 3's columns, and the kinds of response (p, a, r) each is computed from
COLUMNS = {"positive": "p", "adversarial": "a", "overall": "pa", "random_rejected": "r"}


def choose_threshold(scores: ArrayLike, kinds: ArrayLike, negatives: str = "a") -> float:
    """Return the threshold with the best mean of positive and negative accuracy.

    Candidates lie halfway between neighbouring scores; of equally good ones the middle one is taken, so that the choice
    does not sit on the edge of a plateau. ``scores, kinds`` (n,): higher is better; "p", "a" or "r". ``negatives``:
    "a", as in Table 3, or "ar", random ones, too, each kind with equal weight.
    """
    scores, kinds = np.asarray(scores, float), np.asarray(kinds)
    by_kind = {kind: np.sort(scores[kinds == kind]) for kind in f"p{negatives}"}
    levels = np.unique(np.concatenate(list(by_kind.values())))
    if not all(map(len, by_kind.values())) or not np.isfinite(levels).all():
        raise DreError(
            f"a threshold needs responses of all kinds of {'p' + negatives!r}, each with a finite score"
        )
    candidates = np.concatenate([[levels[0]], (levels[1:] + levels[:-1]) / 2])
    below = {
        kind: np.searchsorted(values, candidates) / len(values) for kind, values in by_kind.items()
    }
    quality = 1 - below["p"] + np.mean([below[kind] for kind in negatives], axis=0)
    best = np.flatnonzero(np.isclose(quality, quality.max(), rtol=0, atol=1e-12))
    return float(candidates[best[len(best) // 2]])


def correct(pairs: pd.DataFrame, scores: ArrayLike, threshold: float) -> np.ndarray:
    """Return for each pair 1.0 where the decision is right, 0.0 where it is not, NaN where there is no score.

    Right is score >= threshold for a positive (``kind`` p), score < threshold for an adversarial or random negative.
    """
    scores = np.asarray(scores, float)
    right = (scores >= threshold) == (pairs["kind"].to_numpy() == "p")
    return np.where(np.isnan(scores), np.nan, right)


def accuracy(pairs: pd.DataFrame, decisions: ArrayLike, n: int = 1000, seed: int = 0) -> dict:
    """Return the accuracies of Table 3 in percent. Resampled: contexts and training seeds.

    ``pairs`` has ``context_id`` and ``kind``; ``decisions``, (rows,) or (rows, seeds), are of `correct` or a difference
    of two such arrays.

    Returns a dict: for each of `COLUMNS` the mean over seeds, ``_low, _high`` and ``_sd`` over seeds (NaN for one seed,
    all NaN without such pairs); ``n`` (pairs decided) and ``seeds``.
    """
    decisions = np.atleast_2d(np.asarray(decisions, float).T).T
    kinds, contexts = pairs["kind"].to_numpy(), pairs["context_id"].to_numpy()
    row = {}
    for column, wanted in COLUMNS.items():
        keep = np.isin(kinds, list(wanted))
        found = stats.mean(decisions[keep], contexts[keep], n, seed)
        ends = {"": "mean", "_low": "low", "_high": "high", "_sd": "sd"}
        row |= {column + end: 100 * found[name] for end, name in ends.items()}
    return row | {"n": int((~np.isnan(decisions).any(axis=1)).sum()), "seeds": decisions.shape[1]}


def length_only(
    train: pd.DataFrame, dev: pd.DataFrame, test: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """Score responses by their number of words alone; the sign is learned on training pairs.

    Takes three tables with ``response`` and (train) ``kind``; returns the scores of dev and of test, two arrays.
    """
    words = length(train["response"])
    sign = 1.0 if words[train["kind"] == "p"].mean() > words[train["kind"] == "a"].mean() else -1.0
    return sign * length(dev["response"]), sign * length(test["response"])


def response_only(
    train: pd.DataFrame, dev: pd.DataFrame, test: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """Score responses by TF-IDF (words and word pairs) and logistic regression, never seeing a context.

    Takes and returns as `length_only`; scores are probabilities of being positive.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    used = train[train["kind"].isin(["p", "a"])]
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2), LogisticRegression(C=10)
    )
    model.fit(used["response"], used["kind"] == "p")
    return model.predict_proba(dev["response"])[:, 1], model.predict_proba(test["response"])[:, 1]
