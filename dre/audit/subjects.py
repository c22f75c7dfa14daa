"""A scorer under examination: its scores of the test pairs and the thresholds it brings from dev."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dre.audit.scorers import Scorer
from dre.classification import choose_threshold
from dre.errors import DreError
from dre.stats import cluster_mean_interval

#: a difference below this share of the score's standard deviation is rounding
TIE = 1e-5


@dataclass(frozen=True, eq=False)
class Subject:
    """A scorer with what every test of it starts from.

    Attributes
    ----------
    scorer : Scorer
    pairs : DataFrame
        The test pairs: ``pair_id, context_id, context, response, kind``.
    scores : dict of str to (seeds, n) array
        Of the test pairs.
    thresholds : dict of str to (seeds,) array
        Chosen on dev, where the mean of positive and adversarial accuracy is highest.
    """

    scorer: Scorer
    pairs: pd.DataFrame
    scores: dict
    thresholds: dict

    @property
    def model(self):
        """The scorer's name in tables."""
        return self.scorer.model

    @property
    def main(self):
        """The name of its main score."""
        return next(iter(self.scores))

    def sd(self, name):
        """Return the standard deviation of a score over the test pairs, (seeds, 1); NaN where it is constant."""
        sd = self.scores[name].std(axis=1, keepdims=True)
        return np.where(sd > 0, sd, np.nan)

    def accepts(self, name, scores):
        """Return whether each of the (seeds, n) `scores` reaches its seed's threshold."""
        return scores >= self.thresholds[name][:, None]


def examine(scorer, dev, test):
    """Return the `Subject` of a scorer: thresholds from `dev` pairs, scores of `test` pairs.

    Parameters
    ----------
    dev, test : DataFrame of pairs with ``kind``
    """
    on_dev, kinds = scorer(dev), dev["kind"].to_numpy()
    thresholds = {name: np.array([choose_threshold(one, kinds) for one in values]) for name, values in on_dev.items()}
    return Subject(scorer, test.reset_index(drop=True), scorer(test), thresholds)


def sample(contexts, n, seed=0):
    """Return `n` of the contexts, drawn with `seed`, in their own order; all of them where there are no more."""
    if n < 2:
        raise DreError(f"{n} contexts asked for: expected at least 2, since a context is exchanged for another")
    if n >= len(contexts):
        return list(contexts)
    chosen = np.random.default_rng(seed).choice(len(contexts), n, replace=False)
    return [contexts[i] for i in sorted(chosen)]


def over_seeds(column, values, contexts, resamples=1000, seed=0):
    """Return the mean of values as columns of a table.

    Parameters
    ----------
    column : str
    values : (seeds, n) array
        NaN is missing.
    contexts : (n,) array
        The unit of resampling.

    Returns
    -------
    dict
        ``column`` (mean over seeds), ``_low`` and ``_high`` (95 %, bootstrap over contexts), ``_sd`` (standard
        deviation over seeds, NaN for one).
    """
    values = np.atleast_2d(np.asarray(values, float))
    found = cluster_mean_interval(values.mean(axis=0), contexts, resamples=resamples, seed=seed).iloc[0]
    known = len(values) > 1 and found["n"] > 0
    sd = np.nanmean(values, axis=1).std(ddof=1) if known else np.nan
    return {column: found["mean"], f"{column}_low": found["low"], f"{column}_high": found["high"], f"{column}_sd": sd}
