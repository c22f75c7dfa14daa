"""The parts of a score's variance, with intervals: what notebook 06 draws."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from dre.audit.measures import SHARES, shares
from dre.stats import LEVEL


def parts(matrices: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the shares of a score's variance in percent, with 95 % intervals.

    The intervals are of the jackknife: each conversation is left out once, with the reply that was
    written for it. A bootstrap would take some of them twice. A reply would then meet its own
    conversation more often than once, and two equal cells would never differ, so that the shares of
    resamples lie beside that of the data.

    Parameters
    ----------
    matrices : sequence of (n, n) arrays
        The scores of each training; reply i (row) was written for conversation i (column).

    Returns
    -------
    dict: for each of `dre.audit.measures.SHARES` its mean over trainings, ``<name>_low`` and
    ``<name>_high``. The interval is over conversations, and over trainings where there are several.
    """
    n = len(matrices[0])
    one_left_out = 1 - np.eye(n)
    in_data = 100 * np.stack([shares(matrix)[0] for matrix in matrices])  # (trainings, shares)
    left_out = [100 * shares(matrix, one_left_out) for matrix in matrices]
    without_one = np.mean(left_out, axis=0)  # (n, shares), mean over trainings

    variance = (n - 1) ** 2 / n * without_one.var(axis=0, ddof=1)
    n_trainings = len(matrices)
    if n_trainings > 1:
        variance += in_data.var(axis=0, ddof=1) / n_trainings
    half_width = t.ppf(1 - LEVEL / 2, n - 1) * np.sqrt(variance)

    row = {}
    means = in_data.mean(axis=0)
    for name, share, half in zip(SHARES, means.tolist(), half_width.tolist()):
        row[name] = share
        row[f"{name}_low"] = max(share - half, 0)
        row[f"{name}_high"] = min(share + half, 100)
    return row
