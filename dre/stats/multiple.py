"""Corrections for testing several hypotheses at once."""

import numpy as np
from scipy.stats import false_discovery_control

from dre.errors import DreError

#: an adjusted p below it counts as shown
LEVEL = 0.05


def holm(p_values):
    """Holm's step-down adjusted p-values (Holm 1979): controls the family-wise error rate.

    Parameters
    ----------
    p_values : array-like of shape (m,)
        NaN is a test that was not run: it stays NaN and does not count towards m.

    Returns
    -------
    ndarray of shape (m,), in [0, 1], never below ``p_values``.
    """
    p = _checked(p_values)
    out = np.full_like(p, np.nan)
    run = np.flatnonzero(~np.isnan(p))
    order = run[np.argsort(p[run], kind="stable")]
    steps = p[order] * (len(order) - np.arange(len(order)))
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out


def benjamini_hochberg(p_values):
    """Benjamini-Hochberg adjusted p-values: controls the false discovery rate. NaN as in :func:`holm`."""
    p = _checked(p_values)
    out = np.full_like(p, np.nan)
    run = ~np.isnan(p)
    if run.any():
        out[run] = false_discovery_control(p[run], method="bh")
    return out


def verdicts(difference, p_adjusted, better="better", worse="worse"):
    """Say what each comparison shows at :data:`LEVEL`.

    Parameters
    ----------
    difference : array-like of shape (m,)
    p_adjusted : array-like of shape (m,)
        Of a test that the difference is 0, after a correction.

    Returns
    -------
    ndarray of str, shape (m,) : `better` or `worse` where p is below the level, else ``not shown``; empty where p is
    NaN, a test that was not run.
    """
    difference, p = np.asarray(difference, dtype=float), _checked(p_adjusted)
    found = np.where(p < LEVEL, np.where(difference > 0, better, worse), "not shown").astype(object)
    found[np.isnan(p)] = ""
    return found


def _checked(p_values):
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1 or ((p < 0) | (p > 1)).any():
        raise DreError("p-values must be a list of numbers in [0, 1] or NaN for a test not run")
    return p
