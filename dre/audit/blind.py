"""How much of a decision needs no context: accuracies, and agreement with a model that reads the response alone."""

import numpy as np
import pandas as pd

from dre import stats
from dre.audit.subjects import over_seeds
from dre.classification import COLUMNS, accuracy_row, correct

ENDS = ("", "_low", "_high", "_sd")


def accuracies(subjects, resamples=1000, seed=0):
    """Return the accuracies of each subject's main score at its thresholds from dev, in percent.

    Returns
    -------
    DataFrame
        ``model, family, score`` and the columns of :func:`dre.classification.accuracy_row`.
    """
    rows = []
    for subject in subjects:
        right = decisions(subject, subject.scores[subject.main])
        row = accuracy_row(subject.model, "ours", subject.pairs, right, resamples, seed, slms=subject.scorer.slms)
        rows.append({"model": row.pop("model"), "family": subject.scorer.family, "score": subject.main} | row)
    return pd.DataFrame(rows).drop(columns="source")


def decisions(subject, scores):
    """Return whether each decision at the main score's thresholds is right: (seeds, n) of 0 and 1."""
    thresholds = subject.thresholds[subject.main]
    return np.stack([correct(subject.pairs, one, threshold) for one, threshold in zip(scores, thresholds)])


def agreement(subjects, reader, resamples=1000, seed=0):
    """Compare each subject with one that reads the response alone, on positive and adversarial responses.

    Parameters
    ----------
    subjects : list of Subject
    reader : Subject
        With one seed; it is left out of the table.

    Returns
    -------
    DataFrame
        ``model, score``; ``same``: share of equal decisions in percent; ``spearman`` of the two scores over positive
        and adversarial responses together, ``spearman_positive`` and ``spearman_adversarial`` within each kind, where
        the label cannot be what they share. Means over seeds with ``_low, _high, _sd``.
    """
    pairs, kinds = reader.pairs, reader.pairs["kind"].to_numpy()
    blind = reader.scores[reader.main][0]
    blind_accepts = reader.accepts(reader.main, reader.scores[reader.main])[0]
    wanted = {"spearman": "pa", "spearman_positive": "p", "spearman_adversarial": "a"}
    rows = []
    for subject in subjects:
        if subject is reader:
            continue
        for name, scores in subject.scores.items():
            keep = np.isin(kinds, list(COLUMNS["overall"]))
            same = 100.0 * (subject.accepts(name, scores) == blind_accepts)[:, keep]
            row = {"model": subject.model, "score": name}
            row |= over_seeds("same", same, pairs["context_id"][keep], resamples, seed)
            for column, kind in wanted.items():
                keep = np.isin(kinds, list(kind))
                row |= _spearman(column, scores[:, keep], blind[keep], pairs[keep], resamples, seed)
            rows.append(row)
    return pd.DataFrame(rows)


def _spearman(column, scores, blind, pairs, resamples, seed):
    table = pd.DataFrame(scores.T, index=pairs["pair_id"].to_numpy())
    table.columns = pd.MultiIndex.from_product([["score"], range(len(scores))])
    clusters = pairs["context_id"].to_numpy()
    found = stats.correlate(table, blind, clusters, statistics=("spearman",), resamples=resamples, seed=seed).iloc[0]
    return dict(zip([column + end for end in ENDS], found[["value", "low", "high", "sd"]]))
