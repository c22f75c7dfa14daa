"""A fusion whose single weight is learned on rated sets, for sets that nobody has rated.

Fixed maps turn both scores into normal scores z, so that a pair's score depends on no other pair:
score = (1 - w) z_LLM + w z_SLM.

How is the weight w chosen? In a resample (over contexts) of a rated set, the fused score correlates
with people by r(w). The gain of w there is r(w) minus the correlation of the better of judge and
SLM. A bad case of w is the 5 % quantile Q of its gains over all resamples of all sets. The weight
whose bad case is best is chosen: w* = argmax_w Q[r(w) - max(r(0), r(1))]. So w stays near 0 if the
judge is clearly better than the SLM, and gets near 1 if it is clearly worse.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre.errors import DreError
from dre.stats import LEVEL, draws, normal_scores

#: The weights from which one is chosen.
GRID = np.linspace(0, 1, 101)
#: A scale has at most so many knots.
_MAX_KNOTS = 101
#: A rated table needs at least so many complete pairs.
_MIN_PAIRS = 3


@dataclass(frozen=True)
class Scale:
    """A fixed, rising map from scores to normal scores, which is linear between its knots.

    Attributes
    ----------
    at
        The scores at the knots, rising.
    z
        The normal scores at the knots, rising. Outside of the knots the map has its mean slope.
    """

    at: tuple[float, ...]
    z: tuple[float, ...]

    @classmethod
    def fit(cls, scores: ArrayLike) -> Self:
        """Learn the map from scores of any shape; NaN is left out.

        A score goes to the normal quantile of the share of scores below it, where equal scores
        count half.
        """
        from scipy.special import ndtri  # half a second of imports

        known_scores = np.asarray(scores, float)
        known_scores = known_scores[~np.isnan(known_scores)]
        distinct_scores, counts = np.unique(known_scores, return_counts=True)
        share_below = (counts.cumsum() - counts / 2) / counts.sum()
        z = ndtri(share_below)

        # Where there are many scores, knots are at even distances in z, so that the tails have
        # some, too.
        if len(z) > _MAX_KNOTS:
            even_z = np.linspace(z[0], z[-1], _MAX_KNOTS)
            knots = np.unique(np.searchsorted(z, even_z))
            distinct_scores = distinct_scores[knots]
            z = z[knots]
        return cls(tuple(distinct_scores.tolist()), tuple(z.tolist()))

    def __call__(self, scores: ArrayLike) -> np.ndarray:
        """Return the normal scores, in the shape of the scores; NaN stays NaN."""
        scores = np.asarray(scores, float)
        lowest = self.at[0]
        highest = self.at[-1]
        mean_slope = (self.z[-1] - self.z[0]) / (highest - lowest)
        below = np.minimum(scores - lowest, 0)
        above = np.maximum(scores - highest, 0)
        return np.interp(scores, self.at, self.z) + mean_slope * (below + above)


@dataclass(frozen=True)
class Calibrated:
    """A fusion with a learned weight.

    Attributes
    ----------
    weight
        w in [0, 1]: 0 is the judge alone, 1 the SLM alone.
    slm, llm
        The scales of their scores.
    """

    weight: float
    slm: Scale
    llm: Scale

    @classmethod
    def fit(
        cls,
        tables: Iterable[pd.DataFrame],
        llm_scores: ArrayLike | None = None,
        resamples: int = 1000,
        seed: int = 0,
    ) -> Self:
        """Learn the weight and the scales from rated sets.

        Parameters
        ----------
        tables
            A table for each rated set and judge, with ``context_id``, ``score_slm``, ``score_llm``
            (0 to 5) and ``human`` (in any unit). Pairs that lack a number are left out. Give the
            tables of the judge to be fused, or those of other judges if it has scored no rated set.
        llm_scores
            Scores of the judge to be fused, where the tables are those of other judges. Its scale
            is learned from them.
        resamples, seed
            How many resamples of the contexts of each table are drawn, and their seed.

        Raises
        ------
        DreError
            If a table has too few pairs, or only one score or rating.
        """
        columns = ["context_id", "score_slm", "score_llm", "human"]
        tables = [table.loc[:, columns].dropna() for table in tables]
        for table in tables:
            is_constant = (table.drop(columns="context_id").nunique() < 2).any()
            if len(table) < _MIN_PAIRS or is_constant:
                raise DreError(
                    f"a rated table has {len(table)} complete pairs: expected {_MIN_PAIRS} or "
                    "more, not all with one score or rating"
                )
        gains = np.concatenate([_gains(table, resamples, seed) for table in tables])
        bad_case = np.quantile(gains, LEVEL, axis=0)
        # Rounding makes equal what differs in the last digit alone. Of equal weights the first one
        # is chosen, which is the nearest to the judge alone.
        weight = float(GRID[bad_case.round(9).argmax()])

        pooled = pd.concat(tables)
        slm_scale = Scale.fit(pooled["score_slm"])
        llm_scale = Scale.fit(pooled["score_llm"] if llm_scores is None else llm_scores)
        return cls(weight, slm_scale, llm_scale)

    def fuse(self, score_slm: ArrayLike, score_llm: ArrayLike) -> np.ndarray:
        """Return (1 - w) z_LLM + w z_SLM, in the shape of the scores; NaN stays NaN.

        An ordinary pair of the rated sets has 0, and the unit is one standard deviation.
        """
        z_llm = self.llm(score_llm)
        z_slm = self.slm(score_slm)
        return (1 - self.weight) * z_llm + self.weight * z_slm


def _gains(table, resamples, seed):
    """Return the gain of each weight in each resample, (resamples, weights).

    It is the correlation of the fused score with people, minus that of the judge or the SLM alone,
    whichever is higher in the resample.
    """
    columns = ["score_slm", "score_llm", "human"]
    slm, llm, human = normal_scores(table[columns].to_numpy(float)).T
    fused = slm[:, None] * GRID + llm[:, None] * (1 - GRID)
    r = draws(fused, human, table["context_id"], "pearson", resamples, seed)[1:]
    # Where the two scores cancel out, or a resample has a single rating, there is no correlation.
    r = np.nan_to_num(r)
    judge_alone = r[:, :1]
    slm_alone = r[:, -1:]
    return r - np.maximum(judge_alone, slm_alone)
