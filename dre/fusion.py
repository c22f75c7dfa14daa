"""The small and the large model's scores become one: SLIDE (Eq. 23), Ex-DRE and DRE (Eq. 24-26).

Functions of numbers, arrays or Series of one length: s_d and s_p in [0, 1], score_slm = 1 - s_d + s_p in [0, 2],
score_llm in [0, 5], s_inf 0 or more. A missing number makes the result NaN. Non-DRE is score_llm with the LLM-only
prompt, In-DRE (Eq. 24) with the prompt that shows the small model's numbers: neither changes it, so neither is here.
"""

from typing import TypeVar

import numpy as np
import pandas as pd

from dre.errors import DreError

SLM_MAX, LLM_MAX = 2.0, 5.0
Numbers = TypeVar("Numbers", float, np.ndarray, pd.Series)


def to_llm_scale(score_llm: Numbers, low: float, high: float) -> Numbers:
    """Bring a judge's scores from its scale, low to high (P(yes): 0-1, Likert: 1-5), to [0, 5]."""
    return (_within(score_llm, low, high) - low) / (high - low) * LLM_MAX


def to_slm_scale(score_llm: Numbers) -> Numbers:
    """Bring score_llm from [0, 5] to the small model's range [0, 2]."""
    return _within(score_llm) * (SLM_MAX / LLM_MAX)


def s_c(s_d: Numbers, s_p: Numbers) -> Numbers:
    """Eq. 25: the small model's coefficient, 1 - s_d + s_p, in [0, 2]; it equals score_slm (Eq. 19)."""
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
    """DRE, Eq. 24-26: interior refinement, then the coefficient of exterior refinement, in [0, 10] for "s_c".

    ``score_llm`` and ``s_inf`` come from the prompt that shows the small model's numbers. Eq. 26 as printed is
    s_c * score_llm; the sentence before it and the caption of Table 4 speak of ``coefficient="c"``, c = s_c * s_inf.
    """
    return ex_dre(s_d, s_p, score_llm) * {"s_c": 1, "c": s_inf}[coefficient]


def slide(
    score_slm: Numbers, score_llm: Numbers, threshold: float = SLM_MAX / 2, overlap: str = "slm"
) -> Numbers:
    """SLIDE, Eq. 23: the small model where it says positive, the large one where negative, else their mean; in [0, 2].

    Score = Score_SLM if Score_SLM >= t; Score_LLM if Score_LLM < t; (Score_SLM + Score_LLM) / 2 otherwise. As printed
    the rule is not monotone: with Score_SLM just below t and a high Score_LLM the mean exceeds what Score_SLM = t has.

    ``score_slm`` is in [0, 2], ``score_llm`` in [0, 5], brought to [0, 2] here; ``threshold`` t is half of the range,
    the printed 0.5 another reading; ``overlap``: what holds where both cases do, "slm" as printed, "llm" or "mean".
    """
    case, llm = slide_case(score_slm, score_llm, threshold, overlap), to_slm_scale(score_llm)
    mean = (score_slm + llm) / 2
    score = np.where(
        pd.isna(mean), np.nan, np.select([case == "slm", case == "llm"], [score_slm, llm], mean)
    )
    return pd.Series(score, index=mean.index) if isinstance(mean, pd.Series) else score[()]


def slide_case(
    score_slm: Numbers, score_llm: Numbers, threshold: float = SLM_MAX / 2, overlap: str = "slm"
) -> np.ndarray:
    """Return which case of Eq. 23 each pair is: "slm", "llm", "mean", or None where a score is missing; see `slide`."""
    if overlap not in ("slm", "llm", "mean"):
        raise DreError(f"overlap is {overlap!r}; choose 'slm', 'llm' or 'mean'")
    slm, llm = np.asarray(score_slm, float), np.asarray(to_slm_scale(score_llm), float)
    positive, negative = slm >= threshold, llm < threshold
    case = np.select([positive & negative, positive, negative], [overlap, "slm", "llm"], "mean")
    return np.where(np.isnan(slm) | np.isnan(llm), None, case)


def _within(score_llm, low=0.0, high=LLM_MAX):
    score = np.asarray(score_llm, float)
    if ((score < low) | (score > high)).any():
        found = f"{np.nanmin(score):g} to {np.nanmax(score):g}"
        raise DreError(f"found score_llm {found}; expected {low:g} to {high:g}, the judge's scale")
    return (
        pd.Series(score, index=score_llm.index) if isinstance(score_llm, pd.Series) else score[()]
    )
