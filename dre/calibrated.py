"""A fusion that should not hurt: one weight, learned on sets that people have rated, used where nobody has.

Both scores become normal scores z, by fixed maps; w weighs them, from the judge alone (0) to the SLM alone (1):

    score = (1 - w) z_LLM + w z_SLM

In a resample (over contexts) of a rated training set, score correlates with people by r(w). What w may cost there is
its distance from the better of the two parts, r(w) - max(r(0), r(1)), and the weight is the one that keeps even a bad
case good: with Q the 5 % quantile over all resamples of all training sets,

    w* = argmax_w Q[r(w) - max(r(0), r(1))]

A judge that is clearly better keeps w near 0, one that is clearly worse gets w near 1, and where a mixture helps in
nearly all resamples of all sets, w is where it helps most surely. The score of a pair depends on no other pair.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm, rankdata

from dre import fusion
from dre.errors import DreError
from dre.stats.bootstrap import cluster_codes, resample_weights

#: Q: the level at which a loss would be called significant
LEVEL = 0.05
GRID = np.linspace(0, 1, 101)
#: a scale is kept as at most so many points
KNOTS = 101
COLUMNS = ("pair_id", "context_id", "score_slm", "score_llm", "human")
TINY = 1e-12


@dataclass(frozen=True)
class Scale:
    """A fixed, strictly rising map from scores to normal scores.

    Attributes
    ----------
    at, z : tuple of float
        Scores and their normal scores, both rising; between them the map is linear, and beyond them it goes on with
        its mean slope.
    """

    at: tuple
    z: tuple

    @classmethod
    def fit(cls, scores):
        """Learn the map: a score goes to the normal quantile of the share of ``scores`` below it (ties by half)."""
        scores = np.asarray(scores, dtype=float)
        values, counts = np.unique(scores[~np.isnan(scores)], return_counts=True)
        if len(values) < 2:
            raise DreError(f"found {len(values)} distinct scores; a scale needs at least two")
        z = norm.ppf((np.cumsum(counts) - counts / 2) / counts.sum())
        kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), KNOTS)).round().astype(int))
        return cls(tuple(values[kept].tolist()), tuple(z[kept].tolist()))

    def __call__(self, scores):
        """Return the normal scores, shape as given; NaN stays NaN."""
        scores = np.asarray(scores, dtype=float)
        low, high = self.at[0], self.at[-1]
        slope = (self.z[-1] - self.z[0]) / (high - low)
        beyond = np.minimum(scores - low, 0) + np.maximum(scores - high, 0)
        return np.interp(scores, self.at, self.z) + slope * beyond


@dataclass(frozen=True)
class Calibrated:
    """A fitted fusion.

    Attributes
    ----------
    weight : float
        w in [0, 1]: 0 is the judge alone, 1 the SLM alone.
    slm, llm : Scale
    slope_slm, slope_fused : float
        Expected normal score of people for each unit of z_SLM, and of the fused score; 0 or more. They bring a pair
        whose judge was not asked, and one whose judge was, to one scale.
    """

    weight: float
    slm: Scale
    llm: Scale
    slope_slm: float
    slope_fused: float

    @classmethod
    def fit(cls, tables, llm_scores=None, level=LEVEL, resamples=1000, seed=0):
        """Learn the weight and the scales from rated sets.

        Parameters
        ----------
        tables : sequence of DataFrame
            One a rated set and judge: ``pair_id, context_id, score_slm, score_llm`` (0-5), ``human`` (any unit), and
            ``status`` where there is one. Pairs that lack a number are left out. Give those of the judge to be fused,
            or, where it was never rated beside people, those of other judges.
        llm_scores : array-like, optional
            Scores of the judge to be fused, no ratings, from which its scale is learned; default: those in ``tables``.
            Needed where the tables are other judges'.
        level : float
            Of the quantile Q.
        resamples, seed : int
            Of contexts, for each table.

        Raises
        ------
        DreError
            No table, a column missing, fewer than three complete pairs, or a score or rating that does not vary.
        """
        tables = [_complete(table) for table in tables]
        if not tables:
            raise DreError("found no rated table to learn from; expected at least one")
        covariances = [_covariances(table, resamples, seed) for table in tables]
        weight = _weight(np.concatenate([drawn for _, drawn in covariances]), level)
        seen = [whole for whole, _ in covariances]
        scores = pd.concat([table["score_llm"] for table in tables]) if llm_scores is None else llm_scores
        return cls(
            weight,
            Scale.fit(pd.concat([table["score_slm"] for table in tables])),
            Scale.fit(scores),
            _slope(seen, 1.0),
            _slope(seen, weight),
        )

    def fuse(self, table):
        """Return the table with ``z_slm, z_llm`` and ``score`` = (1 - w) z_LLM + w z_SLM.

        Parameters
        ----------
        table : DataFrame with pair_id, score_slm, score_llm (0-5) and, if it has one, status

        Returns
        -------
        DataFrame : ``score`` in standard deviations, 0 an ordinary pair of the training sets; NaN where the judge or
        the SLM gave none.
        """
        llm = fusion.non_dre(table)
        if "score_slm" not in table:
            raise DreError(f"the table lacks 'score_slm'; it has {', '.join(map(str, table.columns))}")
        z_slm, z_llm = self.slm(table["score_slm"]), self.llm(llm["score"])
        return llm.assign(z_slm=z_slm, z_llm=z_llm, score=(1 - self.weight) * z_llm + self.weight * z_slm)

    def unsure(self, table, share):
        """Return which pairs to ask the judge about: the ``share`` (0-1) whose z_SLM lies nearest to the middle, 0.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        if not 0 <= share <= 1:
            raise DreError(f"the share to ask is {share}; expected a number from 0 to 1")
        order = np.argsort(np.abs(self.slm(table["score_slm"])), kind="stable")
        chosen = np.zeros(len(table), bool)
        chosen[order[: round(share * len(table))]] = True
        return chosen

    def cascade(self, table, asked):
        """Return the table with ``asked`` and ``score``: fused where the judge was asked, else of the SLM alone.

        Both are brought to the normal score that people are expected to give. A score of the judge is looked at only
        where ``asked`` (bool, shape (n,)) holds; where it is missing there, ``score`` is NaN.
        """
        fused = self.fuse(table)
        score = np.where(asked, self.slope_fused * fused["score"], self.slope_slm * fused["z_slm"])
        return fused.assign(asked=asked, score=score)

    def save(self, path):
        """Write the fusion as JSON."""
        path = Path(path)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, path):
        """Read a fusion that `save` wrote."""
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            scales = {name: Scale(*(tuple(found.pop(name)[side]) for side in ("at", "z"))) for name in ("slm", "llm")}
            return cls(**found, **scales)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DreError(
                f"{path} is no saved fusion ({type(error).__name__}: {error}); write one with save"
            ) from None


def rank_average(table):
    """Return the table with ``score``: the mean of the two scores' ranks among its pairs, as shares in (0, 1].

    The plain way to add two scales. Pairs that lack a score have none and rank none; a score depends on all pairs.
    """
    llm = fusion.non_dre(table)
    both = llm["score"].notna() & table["score_slm"].notna()
    ranks = [scores.where(both).rank(pct=True) for scores in (table["score_slm"], llm["score"])]
    return llm.assign(score=(ranks[0] + ranks[1]) / 2)


def _complete(table):
    """The rated pairs of a table that lack nothing."""
    absent = [name for name in COLUMNS if name not in table]
    if absent:
        raise DreError(f"a rated table lacks {absent[0]!r}; expected {', '.join(COLUMNS)}")
    table = table.assign(score_llm=fusion.non_dre(table)["score"])
    table = table[table[["score_slm", "score_llm", "human"]].notna().all(axis=1)]
    for name in ("score_slm", "score_llm", "human"):
        if len(table) < 3 or table[name].nunique() < 2:
            raise DreError(f"a rated table has {len(table)} complete pairs whose {name!r} varies too little to fit")
    return table


def _covariances(table, resamples, seed):
    """Covariance matrices (k, 3, 3) of z_SLM, z_LLM, z_human: of the whole set (k = 1), and of each resample."""
    ranks = rankdata(table[["score_slm", "score_llm", "human"]].to_numpy(float), axis=0)
    z = norm.ppf((ranks - 0.5) / len(table))
    codes, n_clusters = cluster_codes(table["context_id"])
    sums = np.zeros((n_clusters, 13))
    np.add.at(sums, codes, np.column_stack([np.ones(len(z)), z, (z[:, :, None] * z[:, None, :]).reshape(-1, 9)]))
    drawn = np.vstack([np.ones((1, n_clusters)), resample_weights(n_clusters, resamples, seed)]) @ sums
    mean, square = drawn[:, 1:4] / drawn[:, :1], (drawn[:, 4:] / drawn[:, :1]).reshape(-1, 3, 3)
    covariance = square - mean[:, :, None] * mean[:, None, :]
    return covariance[:1], covariance[1:]


def _with_people(covariance, weight):
    """Covariance with people and variance of (1 - w) z_LLM + w z_SLM: two arrays of shape (k, weights)."""
    mix = np.array([weight, 1 - np.asarray(weight)]).reshape(2, -1)
    return covariance[:, 2, :2] @ mix, np.einsum("kij,iw,jw->kw", covariance[:, :2, :2], mix, mix)


def _weight(covariance, level):
    """The w of `GRID` with the best bad case; of equals the one nearest the judge."""
    shared, variance = _with_people(covariance, GRID)
    scale = np.sqrt(variance * covariance[:, 2, 2, None])
    # where parts cancel out (or a resample holds one rating only) nothing correlates
    r = np.divide(shared, scale, out=np.zeros_like(shared), where=scale > TINY)
    gain = r - np.maximum(r[:, :1], r[:, -1:])
    # rounding noise must not decide between equals
    return float(GRID[np.argmax(np.quantile(gain, level, axis=0).round(9))])


def _slope(covariance, weight):
    """Mean over sets of the least-squares slope of people on the score of a weight, at least 0."""
    shared, variance = _with_people(np.concatenate(covariance), weight)
    return float(max(np.mean(shared / np.maximum(variance, TINY)), 0.0))
