"""Table 3: who tells positive from adversarial responses, and at what price in random ones.

A response is accepted when its score reaches a threshold, which is chosen on dev contexts and
reported on test contexts. A metric that accepts replies to other conversations has not read the
context, so random negatives are counted, too.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre import stats
from dre.errors import DreError
from dre.metrics import length

#: Columns of Table 3, and the kinds of response (p, a, r) that each is computed from.
COLUMNS = {"positive": "p", "adversarial": "a", "overall": "pa", "random_rejected": "r"}


def choose_threshold(scores: ArrayLike, kinds: ArrayLike, negatives: str = "a") -> float:
    """Return the threshold with the best mean of positive and negative accuracy.

    Candidates are halfway between neighbouring scores. Of equally good ones the middle one is
    taken, so that the choice does not sit on the edge of a plateau.

    Parameters
    ----------
    scores : (n,); higher is better.
    kinds : (n,), "p" (positive), "a" (adversarial) or "r" (random).
    negatives : "a", as in Table 3, or "ar": random ones, too, each kind with equal weight.

    Raises
    ------
    DreError
        If there is no response of one of these kinds, or a score is not finite.
    """
    scores = np.asarray(scores, float)
    kinds = np.asarray(kinds)
    wanted = "p" + negatives
    scores_of_kind = {kind: np.sort(scores[kinds == kind]) for kind in wanted}
    levels = np.unique(np.concatenate(list(scores_of_kind.values())))
    counts = {kind: len(values) for kind, values in scores_of_kind.items()}
    if not all(counts.values()) or not np.isfinite(levels).all():
        raise DreError(
            f"found {counts} responses: a threshold needs responses of all kinds of {wanted!r}, "
            "each with a finite score"
        )

    between = (levels[1:] + levels[:-1]) / 2
    candidates = np.concatenate([levels[:1], between])

    # The share of the responses of a kind that each candidate rejects.
    rejected = {
        kind: np.searchsorted(values, candidates) / len(values)
        for kind, values in scores_of_kind.items()
    }
    positive_accuracy = 1 - rejected["p"]
    rejected_negatives = [rejected[kind] for kind in negatives]
    negative_accuracy = np.mean(rejected_negatives, axis=0)
    quality = positive_accuracy + negative_accuracy

    # The middle one of the best candidates.
    is_best = np.isclose(quality, quality.max(), rtol=0, atol=1e-12)
    best = np.flatnonzero(is_best)
    middle = best[len(best) // 2]
    return float(candidates[middle])


def correct(pairs: pd.DataFrame, scores: ArrayLike, threshold: float) -> np.ndarray:
    """Return for each pair 1.0 if the decision is right, 0.0 if it is wrong, NaN without a score.

    Right is a score of at least the threshold for a positive response (``kind`` p), and one below
    it for an adversarial or random one.
    """
    scores = np.asarray(scores, float)
    is_accepted = scores >= threshold
    is_positive = pairs["kind"] == "p"
    return np.where(np.isnan(scores), np.nan, is_accepted == is_positive)


def accuracy(pairs: pd.DataFrame, decisions: ArrayLike, n: int = 1000, seed: int = 0) -> dict:
    """Return the accuracies of Table 3 in percent, with intervals over contexts and training seeds.

    Parameters
    ----------
    pairs : table with ``context_id`` and ``kind``.
    decisions : (rows,) or (rows, seeds), of `correct`, or a difference of two such arrays.
    n, seed : number of resamples, and the seed of their generator.

    Returns
    -------
    dict: for each of `COLUMNS` the mean over seeds, ``_low, _high`` (95 %) and ``_sd`` over seeds
    (NaN for one seed; all NaN without such pairs); ``n`` pairs with a decision, and ``seeds``.
    """
    by_seed = np.asarray(decisions, float).reshape(len(pairs), -1)
    kinds = pairs["kind"].to_numpy()
    contexts = pairs["context_id"]
    row = {}
    for column, kinds_of_column in COLUMNS.items():
        is_used = np.isin(kinds, list(kinds_of_column))
        share = stats.mean(by_seed[is_used], contexts[is_used], n, seed)
        row[column] = 100 * share["mean"]
        row |= {f"{column}_{name}": 100 * share[name] for name in ("low", "high", "sd")}
    lacks_decision = np.isnan(by_seed).any(axis=1)
    row["n"] = int((~lacks_decision).sum())
    row["seeds"] = by_seed.shape[1]
    return row


def balanced(accuracies: Mapping[str, float] | pd.Series) -> float:
    """Return the mean of positive and negative accuracy; random negatives are half of the latter.

    Takes what `accuracy` returns.
    """
    shares: dict = dict(accuracies)
    negative = (shares["adversarial"] + shares["random_rejected"]) / 2
    return (shares["positive"] + negative) / 2


def by_two_thresholds(pairs: pd.DataFrame, distances: ArrayLike) -> np.ndarray:
    """Return which pairs the authors' notebook counts as right by the distance alone (1.0 or 0.0).

    It uses two thresholds: a positive is right at a distance of at most 1.0, a negative above 0.9.
    A response between them is right whichever class it has. So the mean is not the accuracy of one
    rule.

    Parameters
    ----------
    pairs : table with ``kind``.
    distances : (rows,), cosine distances from context to response.
    """
    distances = np.asarray(distances, float)
    is_positive = pairs["kind"] == "p"
    is_right = np.where(is_positive, distances <= 1.0, distances > 0.9)
    return is_right.astype(float)


def by_threshold(
    pairs: pd.DataFrame, scores_by_seed: Sequence[ArrayLike], thresholds: ArrayLike
) -> pd.DataFrame:
    """Return the accuracies of Table 3 in percent at each threshold, mean over seeds.

    Parameters
    ----------
    pairs : table with ``context_id`` and ``kind``.
    scores_by_seed : for each seed the scores (rows,).
    thresholds : (n,)

    Returns
    -------
    DataFrame: `COLUMNS`, indexed by threshold.
    """
    thresholds = np.asarray(thresholds, float)
    by_seed = np.column_stack(scores_by_seed).astype(float)
    has_scores = ~np.isnan(by_seed).any(axis=1)
    kinds = pairs["kind"].to_numpy()[has_scores]
    masks = {column: np.isin(kinds, list(of_column)) for column, of_column in COLUMNS.items()}
    rows = []
    for threshold in thresholds:
        is_accepted = by_seed[has_scores] >= threshold
        is_right = is_accepted == (kinds == "p")[:, None]
        percent = 100 * is_right.mean(axis=1)
        rows.append({column: percent[mask].mean() for column, mask in masks.items() if mask.any()})
    return pd.DataFrame(rows, index=thresholds, columns=list(COLUMNS))


def length_only(
    train: pd.DataFrame, dev: pd.DataFrame, test: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """Score responses by their number of words alone, longer or shorter as training pairs say.

    Takes three tables with ``response``, and train with ``kind``. Returns the scores of dev and of
    test.
    """
    words = length(train["response"])
    kinds = train["kind"].to_numpy()
    sign = 1.0 if words[kinds == "p"].mean() > words[kinds == "a"].mean() else -1.0
    return sign * length(dev["response"]), sign * length(test["response"])


def response_only(
    train: pd.DataFrame, dev: pd.DataFrame, test: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """Score responses by TF-IDF (words and word pairs) and logistic regression, without a context.

    A word counts if at least two training responses have it. Takes and returns what `length_only`
    does; scores are probabilities of being positive.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    labelled = train[train["kind"].isin(["p", "a"])]
    features = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    model = make_pipeline(features, LogisticRegression(C=10))
    model.fit(labelled["response"], labelled["kind"] == "p")
    dev_scores = model.predict_proba(dev["response"])[:, 1]
    test_scores = model.predict_proba(test["response"])[:, 1]
    return dev_scores, test_scores
