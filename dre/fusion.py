"""The small and the large model's scores become one: SLIDE (Eq. 23); Non-, In-, Ex-DRE and DRE (Eq. 24-26).

Each function takes a table keyed by ``pair_id`` with columns named as in the paper and returns a copy with
columns added; ``score`` is the method's score. Ranges: s_d and s_p in [0, 1] (s_d may leave it on data
whose distances lie outside the training range), score_slm = 1 - s_d + s_p in [0, 2], score_llm in [0, 5],
s_inf >= 0 (the papers give no range; the correlations do not depend on its unit).

A missing number stays missing: where score_llm is absent, malformed or refused, ``score`` is NaN, never 0
and never the small model's score in its place.
"""

import numpy as np

from dre.errors import DreError

SLM_MAX = 2.0
LLM_MAX = 5.0
#: the readings of Eq. 23 and 26 that change a score: method -> name -> options, the default first
READINGS = {
    "slide": {
        "half the range, first match": {},
        "half the range, LLM first": {"overlap": "llm"},
        "half the range, mean where both": {"overlap": "mean"},
        "0.5 as printed, LLM on [0, 2]": {"threshold": "printed"},
        "0.5 as printed, LLM on [0, 1]": {"threshold": "printed", "llm_scale": "unit"},
        "0.5 as printed, LLM on [0, 5]": {"threshold": "printed", "llm_scale": "none"},
    },
    "dre": {"s_c": {}, "c": {"coefficient": "c"}},
}


def non_dre(table):
    """Non-DRE: the large model alone, with the LLM-only prompt.

    Parameters
    ----------
    table : DataFrame with pair_id, score_llm (in [0, 5], LLM-only prompt) and, if it has one, status

    Returns
    -------
    DataFrame : the table with ``score`` = score_llm, in [0, 5].
    """
    out, score_llm = _llm(table)
    return out.assign(score=score_llm)


def in_dre(table):
    """In-DRE, Eq. 24: the large model's score when its prompt shows the small model's numbers.

    Parameters
    ----------
    table : DataFrame with pair_id, score_llm and s_inf, both from the interior-refinement prompt

    Returns
    -------
    DataFrame : the table with ``score`` = score_llm, in [0, 5]. A missing s_inf does not remove the score.
    """
    _need(table, "s_inf")
    return non_dre(table)


def ex_dre(table):
    """Ex-DRE, Eq. 25-26 with the LLM-only prompt: Score = s_c * Score_LLM, s_c = 1 - s_d + s_p.

    Parameters
    ----------
    table : DataFrame with pair_id, s_d, s_p and score_llm (LLM-only prompt)

    Returns
    -------
    DataFrame : the table with ``s_c`` in [0, 2] and ``score`` in [0, 10]. There is no s_inf here, so s_c is
    the only reading of the coefficient.
    """
    out, score_llm = _llm(_with_s_c(table))
    return out.assign(score=out["s_c"] * score_llm)


def dre(table, coefficient="s_c"):
    """DRE, Eq. 24-26: interior refinement, then the coefficient of exterior refinement.

    Parameters
    ----------
    table : DataFrame with pair_id, s_d, s_p, score_llm and s_inf (the last two from the interior prompt)
    coefficient : "s_c" or "c"
        Eq. 26 as printed is Score = s_c * Score_LLM; the sentence before it and the caption of Table 4
        speak of the coefficient c = s_c * s_inf.

    Returns
    -------
    DataFrame : the table with ``s_c``, ``c`` and ``score``, in [0, 10] (times the largest s_inf for "c").
    """
    if coefficient not in ("s_c", "c"):
        raise DreError(f"coefficient is {coefficient!r}; choose 's_c' (as printed) or 'c' (s_c * s_inf)")
    _need(table, "s_inf")
    s_inf = _numbers(table, "s_inf")
    if (s_inf < 0).any():
        raise DreError(f"s_inf of {table['pair_id'][s_inf < 0].iloc[0]} is negative; expected 0 or more")
    out, score_llm = _llm(_with_s_c(table))
    out = out.assign(c=out["s_c"] * s_inf)
    return out.assign(score=out[coefficient] * score_llm)


def slide(table, threshold="half", llm_scale="slm", overlap="slm"):
    """SLIDE, Eq. 23: the small model where it says positive, the large one where negative, else the mean.

    Score = Score_SLM if Score_SLM >= t; Score_LLM if Score_LLM < t; (Score_SLM + Score_LLM) / 2 otherwise.

    As printed the rule is not monotone: with Score_SLM just below t and a high Score_LLM the mean exceeds
    what Score_SLM = t gives, and raising Score_LLM from just below t to t lowers the score.

    Parameters
    ----------
    table : DataFrame with pair_id, score_llm and either score_slm or s_d and s_p
    threshold : "half" or "printed"
        t as half of each score's range, or the printed 0.5 on whatever the scales are.
    llm_scale : "slm", "unit" or "none"
        Score_LLM brought from [0, 5] to the small model's range [0, 2], to [0, 1], or left as it is.
    overlap : "slm", "llm" or "mean"
        Which case holds when both do: the first as printed, the second, or the mean of the two scores.

    Returns
    -------
    DataFrame : the table with ``case`` ("slm", "llm", "mean"; missing where a score is) and ``score``,
    which lies between Score_SLM and the scaled Score_LLM.
    """
    _choice("threshold", threshold, ("half", "printed"))
    _choice("overlap", overlap, ("slm", "llm", "mean"))
    tops = {"slm": SLM_MAX, "unit": 1.0, "none": LLM_MAX}
    _choice("llm_scale", llm_scale, tuple(tops))
    out, score_llm = _llm(table)
    score_slm = _numbers(table, "score_slm") if "score_slm" in table else _with_s_c(table)["s_c"]
    llm = score_llm / LLM_MAX * tops[llm_scale]
    cut_slm, cut_llm = (SLM_MAX / 2, tops[llm_scale] / 2) if threshold == "half" else (0.5, 0.5)
    positive, negative = score_slm >= cut_slm, llm < cut_llm
    both = {"slm": "slm", "llm": "llm", "mean": "mean"}[overlap]
    case = np.select([positive & negative, positive, negative], [both, "slm", "llm"], "mean")
    mean = (score_slm + llm) / 2
    known = score_slm.notna() & llm.notna()
    score = np.select([case == "slm", case == "llm"], [score_slm, llm], mean)
    out["case"] = np.where(known, case, None)
    out["score"] = np.where(known, score, np.nan)
    return out


def to_llm_scale(table, low, high):
    """Bring score_llm from a judge's scale [low, high] to [0, 5], linearly (P(yes): 0-1, Likert: 1-5).

    Parameters
    ----------
    table : DataFrame with pair_id and score_llm

    Returns
    -------
    DataFrame : a copy with score_llm in [0, 5]; missing stays missing.
    """
    if not low < high:
        raise DreError(f"the judge's scale is [{low}, {high}]; expected its lowest value first")
    score = _numbers(table, "score_llm")
    _refuse_outside(table, score, low, high, "give the scale the judge was asked for")
    return table.assign(score_llm=(score - low) / (high - low) * LLM_MAX)


def _with_s_c(table):
    """The table with s_c = 1 - s_d + s_p (Eq. 25)."""
    return table.assign(s_c=1 - _numbers(table, "s_d") + _numbers(table, "s_p"))


def _llm(table):
    """A copy of the table and its usable LLM scores: NaN unless ``status`` (where there is one) is ok."""
    score = _numbers(table, "score_llm")
    _refuse_outside(table, score, 0, LLM_MAX, "bring the judge's scale to 0-5 with to_llm_scale first")
    if "status" in table:
        score = score.where(table["status"] == "ok")
    return table.copy(), score


def _numbers(table, column):
    _need(table, column)
    try:
        return table[column].astype("Float64").astype(float)
    except (TypeError, ValueError):
        raise DreError(f"column {column!r} holds text; expected numbers, or NaN where missing") from None


def _need(table, column):
    if column not in table:
        raise DreError(f"the table lacks {column!r}; it has {', '.join(map(str, table.columns))}")
    if "pair_id" not in table or table["pair_id"].duplicated().any():
        raise DreError("the table needs a column pair_id with one row a pair")


def _refuse_outside(table, score, low, high, remedy):
    wrong = (score < low) | (score > high)
    if wrong.any():
        first = table.loc[wrong.to_numpy(), "pair_id"].iloc[0]
        raise DreError(f"score_llm of {first} is {score[wrong].iloc[0]:g}; expected {low:g} to {high:g}; {remedy}")


def _choice(name, value, choices):
    if value not in choices:
        raise DreError(f"{name} is {value!r}; choose among {', '.join(map(repr, choices))}")
