"""How good must a small model be to help a judge?

Real numbers of a small model are dealt out anew, so that it agrees with people as well as one
likes. The rows (s_d, s_p) of a rated set keep their values and their joint distribution; only which
response gets which row changes.

The answer depends on two more things: whose rows are dealt out, and how large a share of its errors
the small model has in common with the judge (for real ones 0.1 to 0.35).
"""

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import ArrayLike

from dre import fusion, stats

#: Levels of agreement with people (Spearman) that are tried.
LEVELS = np.linspace(0, 0.9, 19)
#: Draws of the small model's errors, whose mean is taken.
SEEDS = 3


def as_good_as(
    level: float,
    human: ArrayLike,
    rows: ArrayLike,
    seed: int = 0,
    judge: ArrayLike | None = None,
    shared: float = 0.0,
) -> np.ndarray:
    """Deal out rows of s_d and s_p so that 1 - s_d + s_p agrees with people at a level (Spearman).

    With normal scores z, a response is placed by a z(human) + sqrt(1 - a^2) e, where e = shared
    z(judge's error) + sqrt(1 - shared^2) noise. The judge's error is what z(human) leaves of
    z(judge), and a is found by bisection.

    Parameters
    ----------
    level : Spearman correlation with people.
    human : (n,), people's ratings.
    rows : (n, 2), s_d and s_p.
    seed : of the noise.
    judge : (n,), the judge's scores, needed if errors are shared.
    shared : correlation of the small model's error with the judge's, 0 to 1.

    Returns
    -------
    (n, 2) array: the rows in another order.
    """
    from scipy.stats import rankdata

    z = stats.normal_scores(human)
    error = np.random.default_rng(seed).standard_normal(len(z))
    if shared:
        assert judge is not None, "shared errors are those of a judge: give its scores"
        # What people's ratings leave of the judge's scores, with standard deviation 1.
        z_judge = stats.normal_scores(judge)
        judge_error = z_judge - np.corrcoef(z_judge, z)[0, 1] * z
        judge_error = judge_error / max(judge_error.std(), 1e-12)
        error = shared * judge_error + np.sqrt(1 - shared**2) * error

    # The rows by their score, lowest first.
    rows = np.asarray(rows, float)
    score = fusion.s_c(rows[:, 0], rows[:, 1])
    order = np.argsort(score, kind="stable")
    rows = rows[order]
    score_ranks = rankdata(score[order])
    human_ranks = rankdata(human)

    low = -1.0
    high = 1.0
    for _ in range(40):
        a = (low + high) / 2
        quality = a * z + np.sqrt(1 - a**2) * error
        position = np.argsort(np.argsort(quality, kind="stable"))
        agreement = np.corrcoef(score_ranks[position], human_ranks)[0, 1]
        if agreement < level:
            low = a
        else:
            high = a
    return rows[position]


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
    """Return what a fusion gains over the judge alone, in Spearman correlation with people.

    Parameters
    ----------
    judge : (n,), the judge's scores, 0 to 5.
    human, rows, shared : as of `as_good_as`.
    contexts : (n,), ids of contexts, which are resampled.
    levels : how well the small model agrees with people.
    fuse : function of s_d, s_p and the judge's scores.
    n, seed : number of resamples, and the seed of their generator.

    Returns
    -------
    (1 + n, levels) array, the mean over `SEEDS` draws; the first line is of the data.
    """
    scores = [judge]
    for level in levels:
        for draw in range(SEEDS):
            dealt = as_good_as(level, human, rows, draw, judge, shared)
            scores.append(fuse(dealt[:, 0], dealt[:, 1], judge))
    columns = np.stack(scores, axis=1)
    r = stats.draws(columns, human, contexts, n=n, seed=seed)
    r_judge = r[:, :1]
    r_fusions = r[:, 1:].reshape(len(r), len(levels), SEEDS)
    return r_fusions.mean(axis=2) - r_judge


def gains_over_parts(
    judge: ArrayLike,
    human: ArrayLike,
    contexts: ArrayLike,
    rows: ArrayLike,
    level: float,
    shared: float = 0.0,
    fuse: Callable = fusion.ex_dre,
    n: int = 1000,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return what a fusion gains over each of its parts, in Spearman correlation with people.

    Parameters
    ----------
    judge, human, contexts, rows, shared, fuse, n, seed : as of `gains`.
    level : how well the small model agrees with people.

    Returns
    -------
    By part, a (1 + n, `SEEDS`) array with a column for each draw of errors; the first line is of
    the data. The parts are ``judge alone``, ``small model alone`` and ``better part``: whichever of
    the two agrees better in the data.
    """
    dealt_scores = []
    fused_scores = []
    for draw in range(SEEDS):
        dealt = as_good_as(level, human, rows, draw, judge, shared)
        dealt_scores.append(fusion.s_c(dealt[:, 0], dealt[:, 1]))
        fused_scores.append(fuse(dealt[:, 0], dealt[:, 1], judge))
    columns = np.column_stack([judge, *dealt_scores, *fused_scores])
    r = stats.draws(columns, human, contexts, n=n, seed=seed)
    r_judge = r[:, :1]
    r_small_model = r[:, 1 : 1 + SEEDS]
    r_fused = r[:, 1 + SEEDS :]
    small_model_is_better = r_small_model[0].mean() > r_judge[0, 0]
    r_better = r_small_model if small_model_is_better else r_judge
    return {
        "judge alone": r_fused - r_judge,
        "small model alone": r_fused - r_small_model,
        "better part": r_fused - r_better,
    }


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
    """Return the lowest of `LEVELS` at which a fusion gains, interpolated, with its interval.

    Takes what `gains` takes. Returns a dict: ``level, level_low, level_high`` (95 %); 1 where
    nothing up to 0.9 is enough, 0 where anything is.
    """
    gain = gains(judge, human, contexts, rows, shared, LEVELS, fuse, n, seed)
    return crossing(gain)


def crossing(gain: np.ndarray) -> dict[str, float]:
    """Return what `break_even` does, from the `gains` at `LEVELS` or from a mean of such arrays.

    A gain that wavers around zero counts from its first level above zero.
    """
    rising = np.maximum.accumulate(gain, axis=1)
    crossings = [np.interp(0, row, LEVELS, left=0, right=1) for row in rising]
    levels = np.array(crossings)
    levels[np.isnan(rising[:, 0])] = np.nan  # in some resamples a judge may not vary
    in_resamples = levels[1:][~np.isnan(levels[1:])]
    ends = [stats.LEVEL / 2, 1 - stats.LEVEL / 2]
    low = high = np.nan
    if len(in_resamples):
        low, high = np.quantile(in_resamples, ends, method="inverted_cdf")
    return {"level": float(levels[0]), "level_low": float(low), "level_high": float(high)}
