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

from dre.calibrated.fusion import Calibrated, rank_average
from dre.calibrated.scale import Scale

__all__ = ["Calibrated", "Scale", "rank_average"]
