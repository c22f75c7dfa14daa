"""How good must an SLM be to help a judge? Real numbers of one, dealt out anew so that it is as good as one likes.

The rows (s_d, s_p) of a rated set keep their values and their joint distribution; only which response gets which row
changes. The answer depends on both arguments beside the level: whose rows are dealt, and what share of its errors the
SLM has in common with the judge (real ones 0.1 to 0.35).
"""

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import ArrayLike

from dre import fusion, stats

LEVELS = np.linspace(0, 0.9, 19)
SEEDS = 3  # draws of the SLM's errors, whose mean is taken


def as_good_as(
    level: float,
    human: ArrayLike,
    rows: ArrayLike,
    seed: int = 0,
    judge: ArrayLike | None = None,
    shared: float = 0.0,
) -> np.ndarray:
    """Deal ``rows`` (n, 2) of s_d, s_p out anew: 1 - s_d + s_p agrees with ``human`` (n,) at ``level`` (Spearman).

    A row's place is that of a z(human) + sqrt(1 - a^2) e, e = shared z(judge's error) + sqrt(1 - shared^2) noise, where
    z are normal scores, the judge's error is what z(human) leaves of z(judge), and a is found by bisection.
    """
    from scipy.stats import rankdata

    z, e = stats.normal_scores(human), np.random.default_rng(seed).standard_normal(len(human))
    if shared:
        error = stats.normal_scores(judge)
        error = error - np.corrcoef(error, z)[0, 1] * z
        e = shared * error / max(error.std(), 1e-12) + np.sqrt(1 - shared**2) * e
    rows = np.asarray(rows, float)
    score = fusion.s_c(*rows.T)
    order = np.argsort(score, kind="stable")
    rows, score, people = rows[order], rankdata(score[order]), rankdata(human)
    low, high = -1.0, 1.0
    for _ in range(40):
        a = (low + high) / 2
        place = np.argsort(np.argsort(a * z + np.sqrt(1 - a**2) * e, kind="stable"))
        low, high = (a, high) if np.corrcoef(score[place], people)[0, 1] < level else (low, a)
    return rows[place]


def gains(
    judge: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    rows: ArrayLike,
    shared: float = 0.0,
    levels: Collection[float] = LEVELS,
    fuse: Callable = fusion.ex_dre,
    n: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """What ``fuse(s_d, s_p, judge)`` gains over the judge (0-5) in Spearman with people, by level: (1 + n, levels).

    The mean over `SEEDS` draws; in the first line of the data, in the others of resamples of ``contexts``.
    """
    fused = [judge]
    for level in levels:
        for draw in range(SEEDS):
            s_d, s_p = as_good_as(level, human, rows, draw, judge, shared).T
            fused.append(fuse(s_d, s_p, judge))
    r = stats.draws(np.stack(fused, axis=1), human, contexts, n=n, seed=seed)
    return r[:, 1:].reshape(len(r), len(levels), SEEDS).mean(axis=2) - r[:, :1]


def break_even(
    judge: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    rows: ArrayLike,
    shared: float = 0.0,
    fuse: Callable = fusion.ex_dre,
    n: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Return the lowest level at which the fusion gains, with its interval: ``level, level_low, level_high``.

    As `gains`; 1 where nothing up to 0.9 is enough, 0 where anything is.
    """
    return crossing(gains(judge, human, contexts, rows, shared, LEVELS, fuse, n, seed))


def crossing(gain: np.ndarray) -> dict[str, float]:
    """Return what `break_even` does, of what `gains` returned at `LEVELS`, or of a mean of such arrays."""
    rising = np.maximum.accumulate(gain, axis=1)
    found = [
        np.interp(0, one, LEVELS, left=0, right=1) if one[0] == one[0] else np.nan for one in rising
    ]
    known = [one for one in found[1:] if one == one] or [
        np.nan
    ]  # in some resamples a judge may not vary
    low, high = np.quantile(known, [stats.LEVEL / 2, 1 - stats.LEVEL / 2], method="inverted_cdf")
    return dict(zip(("level", "level_low", "level_high"), map(float, (found[0], low, high))))
