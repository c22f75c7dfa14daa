"""Bring scores, human ratings and contexts into one order by pair_id."""

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.stats.bootstrap import cluster_codes


def align(scores, human, clusters):
    """Check and align the three inputs by pair_id.

    Returns
    -------
    scores : DataFrame of float, shape (n, m)
    human : ndarray of float, shape (n,)
    codes : ndarray of int, shape (n,)
    n_clusters : int
    """
    scores = scores.to_frame() if isinstance(scores, pd.Series) else pd.DataFrame(scores)
    if scores.empty:
        raise DreError(f"scores have shape {scores.shape}; expected at least one pair and one method")
    for axis, what in ((scores.index, "pair_id"), (scores.columns, "method")):
        if axis.has_duplicates:
            raise DreError(f"{what} {axis[axis.duplicated()][0]!r} occurs twice in scores; make it unique")
    scores = pd.DataFrame({name: _floats(scores[name], name) for name in scores}, index=scores.index)
    if np.isinf(scores.to_numpy()).any():
        raise DreError("scores hold an infinite number; expected finite numbers or NaN for missing")
    human = _floats(pd.Series(_matched(human, scores.index, "human")), "human").to_numpy()
    codes, n_clusters = cluster_codes(_matched(clusters, scores.index, "clusters"))
    return scores, human, codes, n_clusters


def _matched(values, index, name):
    """Values in the order of index: a Series is matched by key, anything else by position."""
    if isinstance(values, pd.Series):
        if values.index.has_duplicates:
            raise DreError(f"{name} holds a pair_id twice; expected one value a pair")
        absent = index.difference(values.index)
        if len(absent):
            raise DreError(f"{name} lacks {len(absent)} of {len(index)} pairs, first {absent[0]!r}; add them")
        return values.loc[index].to_numpy()
    values = np.asarray(values)
    if values.shape != (len(index),):
        raise DreError(f"{name} has shape {values.shape}; expected ({len(index)},), one value a pair")
    return values


def _floats(values, name):
    """Numbers as float; pandas' missing values become NaN."""
    try:
        return values.astype("Float64").astype(float)
    except (TypeError, ValueError):
        raise DreError(f"{name} holds text; expected numbers, or NaN where missing") from None
