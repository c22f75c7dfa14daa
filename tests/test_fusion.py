"""Fusions of the small and the large model's scores: Eq. 23-26, and one whose weight is learned."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, spearmanr

from dre import fusion
from dre.calibrated import Calibrated, Scale
from dre.errors import DreError
from dre.signature import Signature


def test_a_score_comes_from_the_scale_of_its_judge():
    assert fusion.to_llm_scale(np.array([1, 3, 5]), 1, 5).tolist() == [0, 2.5, 5]
    with pytest.raises(DreError, match="expected 1 to 5"):
        fusion.to_llm_scale(0.5, 1, 5)


def test_slide_has_three_cases_and_the_first_that_holds_wins():
    slm, llm = pd.Series([1.0, 0.9, 0.9, 1.6]), pd.Series([5.0, 2.4, 2.5, 1.0])
    # the judge's are 2.0, 0.96, 1.0 and 0.4 on the small model's scale
    assert fusion.slide(slm, llm).tolist() == pytest.approx([1.0, 0.96, 0.95, 1.6])
    assert fusion.slide_case(slm, llm).tolist() == ["slm", "llm", "mean", "slm"]
    assert fusion.slide(slm, llm, overlap="llm").tolist() == pytest.approx([1.0, 0.96, 0.95, 0.4])
    assert fusion.slide_case(slm, llm, threshold=0.5).tolist() == ["slm", "slm", "slm", "slm"]


def test_a_missing_number_stays_missing():
    slm, llm, s_inf = (
        pd.Series(values) for values in ([np.nan, 1, 0.2], [4, np.nan, 1], [1.0, 1, 1])
    )
    for found in (
        fusion.slide(slm, llm),
        fusion.ex_dre(slm, slm, llm),
        fusion.dre(slm, slm, llm, s_inf, "c"),
    ):
        assert found.isna().tolist() == [True, True, False]
    assert fusion.slide_case(slm, llm).tolist() == [None, None, "llm"]


def rated(slm=0.5, llm=0.5, seed=0, rows=200):
    """A rated set whose scores share this much with people's ratings."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=rows)
    noisy = [share * human + (1 - share) * rng.normal(size=rows) for share in (slm, llm)]
    scores = {"score_slm": 1 + 0.3 * noisy[0], "score_llm": np.clip(2.5 + noisy[1], 0, 5)}
    return pd.DataFrame({"context_id": np.arange(rows) // 4, "human": human} | scores)


def test_the_better_part_gets_the_weight_and_a_mixture_where_it_helps():
    assert (
        Calibrated.fit(
            [rated(slm=0.7, llm=1.0), rated(slm=0.6, llm=1.0, seed=5)], resamples=200
        ).weight
        == 0.0
    )
    assert Calibrated.fit([rated(slm=1.0, llm=0.05)], resamples=200).weight == 1.0
    learned, unseen = Calibrated.fit([rated()], resamples=200), rated(seed=1)
    fused = learned.fuse(unseen["score_slm"], unseen["score_llm"])
    alone = [
        spearmanr(unseen[name], unseen["human"]).statistic for name in ("score_slm", "score_llm")
    ]
    assert spearmanr(fused, unseen["human"]).statistic > max(alone) + 0.05
    assert np.isnan(learned.fuse([1.0, np.nan, 1.0], [np.nan, 2.0, 2.0])).tolist() == [
        True,
        True,
        False,
    ]
    own = Calibrated.fit(
        [rated()], llm_scores=[0, 1, 1, 2], resamples=50
    )  # of a judge that nobody rated
    assert own.llm == Scale.fit([0, 1, 1, 2])


def test_a_scale_is_fixed_rising_and_keeps_what_is_missing():
    scores = np.round(np.random.default_rng(0).normal(size=900), 3)
    scale, inside = Scale.fit([*scores, np.nan]), np.sort(scores)
    assert abs(np.median(scale(scores))) < 0.01
    assert (np.diff(scale([inside[0] - 1, *inside, inside[-1] + 1])) >= 0).all()
    assert scale(inside[-1] + 1) > scale(inside[-1]) and scale(inside[0] - 1) < scale(inside[0])
    assert np.isnan(scale([np.nan, 0.0])).tolist() == [True, False]
    assert Scale.fit([1, 2, 2, 3]).z == pytest.approx(norm.ppf([1 / 8, 1 / 2, 7 / 8]))


def test_a_saved_fusion_is_the_same_and_held_to_what_it_was_learned_with(tmp_path):
    made_with, file = {"model": "m", "judge": "j", "prompt": "p"}, tmp_path / "fusion.json"
    scale = Scale(at=(0.0, 1.0, 2.0), z=(-1.0, 0.0, 1.0))
    learned = Calibrated(0.25, scale, scale, made_with)
    learned.save(file)
    assert Calibrated.load(file) == learned and learned.fuse(2.0, 1.0) == 0.25
    with pytest.raises(DreError, match="learned with judge j, not with k"):
        learned.check(Signature(made_with | {"judge": "k"}))
    file.write_text('{"weight": 1, "slm": {"at": 3}}')
    with pytest.raises(DreError, match=r"fusion\.json is no saved fusion"):
        Calibrated.load(file)


def test_the_weight_is_the_one_whose_bad_case_is_best_not_the_usual_case():
    """On two of three sets the judge alone is best. On the third it says nothing, and the SLM all."""
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
