"""The small and the large model's scores become one: SLIDE (Eq. 23), Ex-DRE and DRE (Eq. 24-26).

The functions take numbers, arrays or Series of one length: s_d and s_p in [0, 1], score_slm =
1 - s_d + s_p in [0, 2], score_llm in [0, 5], s_inf 0 or more. A missing number gives NaN.

Two methods are not here, since neither changes the judge's score: Non-DRE is score_llm with the
LLM-only prompt, In-DRE (Eq. 24) is score_llm with the prompt that shows the small model's numbers.
"""

from typing import Any, TypeVar

import numpy as np
import pandas as pd

from dre.errors import DreError

#: The highest score of the small model, and of the judge.
_SLM_MAX = 2.0
_LLM_MAX = 5.0
Numbers = TypeVar("Numbers", float, np.ndarray, pd.Series)


def to_llm_scale(score_llm: Numbers, low: float, high: float) -> Numbers:
    """Bring a judge's scores from its scale, low to high (P(yes): 0-1, Likert: 1-5), to [0, 5].

    DreError if a score lies outside of the judge's scale.
    """
    return (_within(score_llm, low, high) - low) * (_LLM_MAX / (high - low))


def s_c(s_d: Numbers, s_p: Numbers) -> Numbers:
    """Eq. 25: the small model's coefficient, 1 - s_d + s_p, in [0, 2]; it is score_slm, Eq. 19."""
    return 1 - s_d + s_p


def ex_dre(s_d: Numbers, s_p: Numbers, score_llm: Numbers) -> Numbers:
    """Ex-DRE, Eq. 25-26 with the LLM-only prompt: s_c * score_llm, in [0, 10]."""
    return s_c(s_d, s_p) * _within(score_llm)


def dre(
    s_d: Numbers,
    s_p: Numbers,
    score_llm: Numbers,
    s_inf: Numbers | None = None,
    coefficient: str = "s_c",
) -> Numbers:
    """DRE, Eq. 24-26: interior refinement, then the coefficient of exterior refinement.

    Parameters
    ----------
    s_d, s_p : the small model's numbers.
    score_llm, s_inf : from the prompt that shows these numbers to the judge.
    coefficient : "s_c" for Eq. 26 as printed, s_c * score_llm, in [0, 10]. "c" for what the
        sentence before it and the caption of Table 4 say: c * score_llm, where c = s_c * s_inf.
    """
    refined = ex_dre(s_d, s_p, score_llm)
    if coefficient == "s_c":
        return refined
    if coefficient == "c":
        if s_inf is None:
            raise DreError("coefficient 'c' needs s_inf: give it, or choose 's_c'")
        return refined * s_inf
    raise DreError(f"coefficient is {coefficient!r}: expected 's_c' or 'c'")


def slide(
    score_slm: Numbers,
    score_llm: Numbers,
    threshold: float = _SLM_MAX / 2,
    overlap: str = "slm",
    highest: float = _SLM_MAX,
) -> Numbers:
    """SLIDE, Eq. 23, in [0, 2], from a judge whose scores are brought to [0, 2].

    It is the small model's score where that is at least a threshold t, the judge's score where
    that is below t, and else the mean of both. As printed the rule is not monotone: with a small
    model's score just below t and a high score of the judge, the mean exceeds what the small
    model's score t has.

    Parameters
    ----------
    score_slm : in [0, 2].
    score_llm : in [0, 5].
    threshold : t, half of the range; the printed 0.5 is another reading.
    overlap : what holds where both cases do: "slm" as printed, "llm" or "mean".
    highest : the score that the judge's highest one is brought to. 1 with ``threshold=0.5`` is
        SLIDE to the letter: its judge is asked for 0 to 1, and nothing is brought to another scale.
    """
    case = slide_case(score_slm, score_llm, threshold, overlap, highest)
    llm = _within(score_llm) * (highest / _LLM_MAX)
    mean = (score_slm + llm) / 2
    score = np.select([case == "slm", case == "llm"], [score_slm, llm], mean)
    score = np.where(pd.isna(mean), np.nan, score)
    return _as_given(score, mean)


def slide_case(
    score_slm: Numbers,
    score_llm: Numbers,
    threshold: float = _SLM_MAX / 2,
    overlap: str = "slm",
    highest: float = _SLM_MAX,
) -> np.ndarray:
    """Return the case of Eq. 23 of each pair: "slm", "llm", "mean", or None if a score is missing.

    Takes what `slide` takes. DreError for another ``overlap``.
    """
    if overlap not in ("slm", "llm", "mean"):
        raise DreError(f"overlap is {overlap!r}: expected 'slm', 'llm' or 'mean'")
    slm = np.asarray(score_slm, float)
    llm = np.asarray(_within(score_llm), float) * (highest / _LLM_MAX)
    slm_says_positive = slm >= threshold
    llm_says_negative = llm < threshold
    conditions = [slm_says_positive & llm_says_negative, slm_says_positive, llm_says_negative]
    case = np.select(conditions, [overlap, "slm", "llm"], "mean")
    return np.where(np.isnan(slm) | np.isnan(llm), np.array(None), case)


def _within(score_llm: Numbers, low: float = 0.0, high: float = _LLM_MAX) -> Numbers:
    """Return a judge's scores, after a check that they lie in its scale."""
    score = np.asarray(score_llm, float)
    if ((score < low) | (score > high)).any():
        raise DreError(
            f"found score_llm {np.nanmin(score):g} to {np.nanmax(score):g}; "
            f"expected {low:g} to {high:g}, the judge's scale"
        )
    return _as_given(score, score_llm)


def _as_given(score: Any, argument: Numbers) -> Numbers:
    """Return an array in the form of an argument: Series with its index, array, or number."""
    if isinstance(argument, pd.Series):
        return pd.Series(score, index=argument.index)
    return score[()]
