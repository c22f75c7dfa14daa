"""A fixed map from a score to a normal score, so that a score depends on no other pair."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from dre.errors import DreError

#: a scale is kept as at most so many points
KNOTS = 101


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
        kept = np.arange(len(z))
        if len(z) > KNOTS:  # evenly in z, so that the tails are kept as well as the middle
            kept = np.unique(np.searchsorted(z, np.linspace(z[0], z[-1], KNOTS)))
        return cls(tuple(values[kept].tolist()), tuple(z[kept].tolist()))

    def __call__(self, scores):
        """Return the normal scores, shape as given; NaN stays NaN."""
        scores = np.asarray(scores, dtype=float)
        low, high = self.at[0], self.at[-1]
        slope = (self.z[-1] - self.z[0]) / (high - low)
        beyond = np.minimum(scores - low, 0) + np.maximum(scores - high, 0)
        return np.interp(scores, self.at, self.z) + slope * beyond
