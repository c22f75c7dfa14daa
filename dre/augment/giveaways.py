"""What tells positives from adversarial negatives without understanding either: shared words, length, wording."""

import numpy as np

from dre import classification
from dre.augment.retrieval import content_words

FOLDS = 5


def overlap(table):
    """Share of a response's distinct content words that stand in its context; NaN for a response without any."""
    values = []
    for turns, response in zip(table["context"], table["response"]):
        words = set(content_words(response))
        values.append(len(words & set(content_words(" ".join(turns)))) / len(words) if words else np.nan)
    return np.array(values), table["context_id"].to_numpy()


def overlap_only(train, dev, test):
    """Score responses by the share of their content words that stand in the context; none shared where there is none.

    The sign is learned on training pairs. Parameters and returns as `dre.classification.length_only`.
    """
    shares = [np.nan_to_num(overlap(table)[0]) for table in (train, dev, test)]
    kinds = train["kind"].to_numpy()
    sign = 1.0 if shares[0][kinds == "p"].mean() > shares[0][kinds == "a"].mean() else -1.0
    return sign * shares[1], sign * shares[2]


#: What tells positives from adversarials without understanding either.
GIVE_AWAYS = {
    "overlap_only": overlap_only,
    "length_only": classification.length_only,
    "response_only": classification.response_only,
}


def give_away(table, scorer, seed=0, folds=FOLDS):
    """Return whether a classifier that understands nothing is right about each pair, cross-validated by context.

    In each of `folds` turns one part of the contexts is judged, the threshold is chosen on another, and the
    classifier learns from the rest.

    Parameters
    ----------
    table : DataFrame of pairs
    scorer : callable
        One of `GIVE_AWAYS`.
    """
    names = list(dict.fromkeys(table["context_id"]))
    if len(names) < folds:
        return np.full(len(table), np.nan)
    place = np.random.default_rng(seed).permutation(len(names)) % folds
    fold = table["context_id"].map(dict(zip(names, place))).to_numpy()
    right = np.empty(len(table))
    for k in range(folds):
        dev = (k + 1) % folds
        parts = [table[(fold != k) & (fold != dev)], table[fold == dev], table[fold == k]]
        on_dev, on_test = scorer(*parts)
        threshold = classification.choose_threshold(on_dev, parts[1]["kind"])
        right[fold == k] = classification.correct(parts[2], on_test, threshold)
    return right


def slm_right(table, slm, threshold, seen=()):
    """Return whether an SLM is right about each pair at a threshold of Score_SLM (Eq. 19).

    NaN for pairs of contexts it has `seen`, and for all where `slm` is None.
    """
    right = np.full(len(table), np.nan)
    fresh = ~table["context_id"].isin({context.context_id for context in seen}).to_numpy()
    if slm is not None and fresh.any():
        scores = slm.score(table[fresh])["score_slm"]
        right[fresh] = classification.correct(table[fresh], scores, threshold)
    return right


def balanced(right, table):
    """Weight decisions so that their mean is the mean of the accuracies on positives and on adversarials."""
    known = table.loc[~np.isnan(right), "kind"].value_counts(normalize=True)
    return right * 0.5 / table["kind"].map(known).to_numpy(float), table["context_id"].to_numpy()
