"""Fusions of the small and the large model's scores: Eq. 23-26, and one whose weight is learned."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, spearmanr

from dre import fusion
from dre.calibrated import Calibrated, Scale
from dre.errors import DreError


def test_a_score_is_moved_from_the_scale_of_its_judge_to_0_to_5():
    scores = fusion.to_llm_scale(np.array([1, 3, 5]), 1, 5)
    assert scores.tolist() == [0, 2.5, 5]
    assert fusion.to_llm_scale(0.9, 0, 5) == 0.9
    with pytest.raises(DreError, match="expected 1 to 5"):
        fusion.to_llm_scale(0.5, 1, 5)


SLM = [1.0, 0.9, 0.9, 1.6]
# On the small model's scale the judge's scores are 2.0, 0.96, 1.0 and 0.4; on 0-1 they are half.
LLM = pd.Series([5.0, 2.4, 2.5, 1.0])
TO_THE_LETTER = {"threshold": 0.5, "highest": 1.0}


@pytest.mark.parametrize(
    ("slm", "options", "cases", "scores"),
    [
        (SLM, {}, ["slm", "llm", "mean", "slm"], [1.0, 0.96, 0.95, 1.6]),
        (SLM, {"overlap": "llm"}, ["slm", "llm", "mean", "llm"], [1.0, 0.96, 0.95, 0.4]),
        (SLM, {"threshold": 0.5}, ["slm"] * 4, SLM),
        (
            [0.4, 0.4, 0.3, 1.6],
            TO_THE_LETTER,
            ["mean", "llm", "mean", "slm"],
            [0.7, 0.48, 0.4, 1.6],
        ),
    ],
)
def test_slide_has_three_cases_and_the_first_that_holds_wins(slm, options, cases, scores):
    slm = pd.Series(slm)
    assert fusion.slide_case(slm, LLM, **options).tolist() == cases
    assert fusion.slide(slm, LLM, **options).tolist() == pytest.approx(scores)


def test_a_missing_number_stays_missing():
    slm = pd.Series([np.nan, 1, 0.2])
    llm = pd.Series([4, np.nan, 1])
    dre = fusion.dre(slm, slm, llm, pd.Series([1.0, 1, 1]), "c")
    for scores in (fusion.slide(slm, llm), fusion.ex_dre(slm, slm, llm), dre):
        assert scores.isna().tolist() == [True, True, False]
    assert fusion.slide_case(slm, llm).tolist() == [None, None, "llm"]


def test_the_coefficient_c_needs_s_inf():
    with pytest.raises(DreError, match="coefficient 'c' needs s_inf"):
        fusion.dre(0.2, 0.9, 4.0, coefficient="c")
    assert fusion.dre(0.2, 0.9, 4.0, s_inf=0.5, coefficient="c") == pytest.approx(1.7 * 4 * 0.5)


def rated_set(slm=0.5, llm=0.5, seed=0, rows=200):
    """Return a rated set; `slm` and `llm` are the shares of people's rating in the scores."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=rows)
    slm_scores = slm * human + (1 - slm) * rng.normal(size=rows)
    llm_scores = llm * human + (1 - llm) * rng.normal(size=rows)
    columns = {
        "context_id": np.arange(rows) // 4,
        "human": human,
        "score_slm": 1 + 0.3 * slm_scores,
        "score_llm": np.clip(2.5 + llm_scores, 0, 5),
    }
    return pd.DataFrame(columns)


def test_the_better_model_gets_all_the_weight():
    judge_is_better = [rated_set(slm=0.7, llm=1.0), rated_set(slm=0.6, llm=1.0, seed=5)]
    slm_is_better = [rated_set(slm=1.0, llm=0.05)]
    assert Calibrated.fit(judge_is_better, resamples=200).weight == 0.0
    assert Calibrated.fit(slm_is_better, resamples=200).weight == 1.0


def test_a_learned_mixture_correlates_better_than_either_model_on_unseen_rows():
    unseen = rated_set(seed=1)
    learned = Calibrated.fit([rated_set()], resamples=200)

    fused_scores = learned.fuse(unseen["score_slm"], unseen["score_llm"])

    def correlation(scores):
        return spearmanr(scores, unseen["human"]).statistic

    best_alone = max(correlation(unseen["score_slm"]), correlation(unseen["score_llm"]))
    assert correlation(fused_scores) > best_alone + 0.05


def test_a_learned_mixture_of_a_missing_score_is_missing():
    learned = Calibrated.fit([rated_set()], resamples=200)
    fused_scores = learned.fuse([1.0, np.nan, 1.0], [np.nan, 2.0, 2.0])
    assert np.isnan(fused_scores).tolist() == [True, True, False]


def test_a_judge_that_nobody_rated_gets_the_scale_of_its_scores():
    learned = Calibrated.fit([rated_set()], llm_scores=[0, 1, 1, 2], resamples=50)
    assert learned.llm == Scale.fit([0, 1, 1, 2])


@pytest.fixture(scope="module")
def scores():
    return np.round(np.random.default_rng(0).normal(size=900), 3)


def test_the_median_of_the_scores_is_zero_on_their_scale(scores):
    scale = Scale.fit([*scores, np.nan])
    assert abs(np.median(scale(scores))) < 0.01


def test_a_scale_rises_also_beyond_the_scores_it_is_fitted_to(scores):
    scale = Scale.fit([*scores, np.nan])
    lowest = scores.min()
    highest = scores.max()

    points = [lowest - 1, *np.sort(scores), highest + 1]

    assert (np.diff(scale(points)) >= 0).all()
    assert scale(highest + 1) > scale(highest)
    assert scale(lowest - 1) < scale(lowest)


def test_a_missing_score_is_missing_on_a_scale(scores):
    scale = Scale.fit([*scores, np.nan])
    assert np.isnan(scale([np.nan, 0.0])).tolist() == [True, False]


def test_equal_scores_share_a_knot_of_a_scale():
    scale = Scale.fit([1, 2, 2, 3])
    assert scale.z == pytest.approx(norm.ppf([1 / 8, 1 / 2, 7 / 8]))


def test_the_weight_is_the_one_whose_bad_case_is_best_not_the_usual_case():
    """On two of three sets the judge alone is best. On the third it knows nothing."""
    rng = np.random.default_rng(0)
    n = 60
    tables = []
    for is_judge_good in (True, True, False):
        human = rng.normal(size=n)
        noise = rng.normal(size=n)
        scores = {"score_llm": noise, "score_slm": human + 0.3 * rng.normal(size=n)}
        if is_judge_good:
            scores = {"score_llm": human + 0.3 * noise, "score_slm": rng.normal(size=n)}
        tables.append(pd.DataFrame({"context_id": range(n), "human": human, **scores}))

    usual_case = Calibrated.fit(tables[:2], resamples=200)
    bad_case = Calibrated.fit(tables, resamples=200)

    assert usual_case.weight < 0.2
    assert 0.3 < bad_case.weight < 0.7
