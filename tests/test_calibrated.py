"""The calibrated fusion: scales and weight by hand, order kept, missing stays missing, and no pair knows its neighbours."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from dre.calibrated import Calibrated, Scale, rank_average
from dre.calibrated import weight as weights
from dre.errors import DreError
from dre.stats.bootstrap import resample_weights

steady = settings(deadline=None)
scores = st.lists(st.integers(0, 500).map(lambda x: x / 100), min_size=2, max_size=30).filter(lambda s: len(set(s)) > 1)
some = st.floats(-3, 8)


def rated(seed=0, n=80, judge=0.5, slm=0.5):
    """A rated set whose judge and SLM are the rating plus noise of these strengths (0 is no noise, inf no signal)."""
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)

    def part(noise):
        return rng.normal(size=n) if np.isinf(noise) else human + noise * rng.normal(size=n)

    return pd.DataFrame(
        {
            "pair_id": [f"own{seed}/{i}" for i in range(n)],
            "context_id": [f"own{seed}/{i // 4}" for i in range(n)],
            "human": human,
            "score_llm": norm.cdf(part(judge) / 2) * 5,
            "score_slm": part(slm),
        }
    )


def fusion(weight, slopes=(0.3, 0.7)):
    return Calibrated(weight, Scale((-1.0, 0.0, 1.0), (-1.5, 0.0, 1.5)), Scale((0.0, 5.0), (-2.0, 2.0)), *slopes)


def test_a_scale_is_the_normal_quantile_of_the_share_below_with_ties_by_half():
    scale = Scale.fit([2, 1, 3, 2, np.nan])
    assert scale.at == (1, 2, 3)
    assert scale.z == pytest.approx(norm.ppf([0.125, 0.5, 0.875]))
    assert scale([1.5, 2.5]) == pytest.approx(norm.ppf([0.125, 0.875]) / 2), "linear in between"
    slope = norm.ppf(0.875)
    assert scale([0, 5]) == pytest.approx([-2 * slope, 3 * slope]), "and on with the mean slope beyond"
    assert np.isnan(scale(np.nan))


@steady
@given(scores, some, some)
def test_a_scale_rises_strictly(values, a, b):
    scale = Scale.fit(values)
    if abs(a - b) > 1e-9:
        assert (scale(a) < scale(b)) == (a < b)


def test_a_scale_of_many_scores_is_kept_short_and_still_spans_them():
    values = np.random.default_rng(0).uniform(0, 5, 5000)
    scale = Scale.fit(values)
    assert len(scale.at) <= 101 and (scale.at[0], scale.at[-1]) == (values.min(), values.max())
    ranks = norm.ppf((rankdata(values) - 0.5) / len(values))
    assert np.abs(scale(values) - ranks).max() < 0.2 and np.abs(scale(values) - ranks).mean() < 0.01


def test_covariances_of_a_resample_are_those_of_the_repeated_rows():
    table = rated(n=24)
    _, drawn = weights.covariances(table, 3, seed=5)
    z = norm.ppf((rankdata(table[["score_slm", "score_llm", "human"]], axis=0) - 0.5) / len(table))
    for counts, got in zip(resample_weights(6, 3, 5), drawn):
        repeated = np.repeat(z, np.repeat(counts, 4).astype(int), axis=0)
        assert got == pytest.approx(np.cov(repeated.T, bias=True))


def matrix(r_slm, r_llm, between=0.0):
    return np.array([[1, between, r_slm], [between, 1, r_llm], [r_slm, r_llm, 1]], dtype=float)


def test_one_resample_gets_the_weight_of_least_squares():
    # the best mixture of two uncorrelated parts weighs them as they correlate: 0.6 / (0.6 + 0.9) = 0.4
    assert weights.best(np.array([matrix(0.6, 0.9)]) * 1.0, 0.05) == pytest.approx(0.4)
    # with a correlation c between them, as r_slm - c r_llm to r_llm - c r_slm: (0.6 - 0.24) / (0.84 - 0.42) of both
    expected = (0.6 - 0.4 * 0.6) / ((0.6 - 0.4 * 0.6) + (0.6 - 0.4 * 0.6))
    assert weights.best(np.array([matrix(0.6, 0.6, 0.4)]), 0.05) == pytest.approx(expected)


def test_the_weight_is_the_one_with_the_best_bad_case():
    helps, harms = matrix(0.6, 0.6), matrix(-0.3, 0.6)
    assert weights.best(np.array([helps] * 19 + [harms]), 0.0) == 0, "at level 0 one bad resample forbids the SLM"
    assert weights.best(np.array([helps] * 99 + [harms]), 0.05) == pytest.approx(0.5), (
        "at 5 % one in a hundred does not"
    )
    assert weights.best(np.array([matrix(0.6, -0.3)] * 5), 0.05) == 1, "a judge that contradicts people is left out"
    assert weights.best(np.array([matrix(0.0, 0.0)] * 5), 0.05) == 0, "of equals the judge"


@pytest.mark.parametrize("seed", range(5))
def test_a_judge_equal_to_the_truth_is_never_changed(seed):
    tables = [rated(seed + i, judge=0) for i in (0, 10)]
    model = Calibrated.fit(tables, resamples=100)
    assert model.weight == 0
    new = rated(seed + 20, judge=0)
    assert model.fuse(new)["score"].corr(new["human"], method="spearman") == pytest.approx(1)


def test_an_slm_equal_to_the_truth_beside_an_idle_judge_takes_over():
    assert Calibrated.fit([rated(i, judge=np.inf, slm=0) for i in (0, 1)], resamples=100).weight == 1


def test_two_parts_that_each_know_something_are_mixed_and_do_better_than_either():
    model = Calibrated.fit([rated(i, judge=1.5, slm=1.5) for i in (0, 1)], resamples=200)
    assert 0.1 < model.weight < 0.9
    new = rated(7, n=400, judge=1.5, slm=1.5)
    fused = model.fuse(new)["score"].corr(new["human"])
    assert fused > max(new[name].corr(new["human"]) for name in ("score_llm", "score_slm")) + 0.03


@steady
@given(st.floats(0, 1), st.floats(0, 5), st.floats(0, 5), some, some)
def test_fusing_is_monotone_in_each_part(weight, llm, llm_2, slm, slm_2):
    table = pd.DataFrame({"pair_id": list("abc"), "score_llm": [llm, llm_2, llm], "score_slm": [slm, slm, slm_2]})
    one, more_llm, more_slm = fusion(weight).fuse(table)["score"]
    assert (more_llm >= one - 1e-12) if llm_2 >= llm else (more_llm <= one + 1e-12)
    assert (more_slm >= one - 1e-12) if slm_2 >= slm else (more_slm <= one + 1e-12)


def test_weight_0_keeps_the_order_of_the_judge_and_weight_1_that_of_the_slm():
    table = rated(3)
    for weight, name in ((0.0, "score_llm"), (1.0, "score_slm")):
        fused = fusion(weight).fuse(table)["score"]
        assert list(np.argsort(fused)) == list(np.argsort(table[name]))


def test_hand_computed_fusion():
    table = pd.DataFrame({"pair_id": ["a"], "score_llm": [3.75], "score_slm": [-0.5]})
    fused = fusion(0.25).fuse(table).iloc[0]
    assert (fused["z_llm"], fused["z_slm"]) == (1.0, -0.75)
    assert fused["score"] == pytest.approx(0.75 * 1 - 0.25 * 0.75)


@pytest.mark.parametrize("weight", [0, 0.5, 1])
def test_missing_stays_missing(weight):
    table = pd.DataFrame(
        {
            "pair_id": list("abcd"),
            "score_llm": [3, np.nan, 3, 3],
            "score_slm": [0.5, 0.5, np.nan, 0.5],
            "status": ["ok", "refused", "ok", "malformed"],
        }
    )
    for made in (fusion(weight).fuse(table), rank_average(table)):
        assert list(made["score"].isna()) == [False, True, True, True]


def test_a_score_does_not_depend_on_its_neighbours():
    model = Calibrated.fit([rated(0), rated(1)], resamples=50)
    table = rated(2)
    whole = model.fuse(table)["score"]
    for i in (0, 17, 79):
        assert model.fuse(table.iloc[[i]])["score"].iloc[0] == whole.iloc[i]


def test_a_judge_rated_nowhere_takes_its_scale_from_its_own_scores():
    known = rated(0)
    own = np.array([4.0, 4.5, 4.75, 5.0])
    model = Calibrated.fit([known], own, resamples=50)
    assert model.llm == Scale.fit(own)
    assert model.weight == Calibrated.fit([known], resamples=50).weight, "the weight is of the rated tables"


def test_a_cascade_asks_the_middle_and_reads_the_judge_nowhere_else():
    model = fusion(0.5, slopes=(0.3, 0.7))
    table = pd.DataFrame(
        {"pair_id": list("abcd"), "score_llm": [5.0, 0.0, 2.5, 5.0], "score_slm": [-0.9, 0.1, -0.2, 0.8]}
    )
    asked = model.unsure(table, 0.5)
    assert list(asked) == [False, True, True, False]
    made = model.cascade(table, asked)["score"]
    fused = model.fuse(table)
    expected = [0.3 * fused["z_slm"][0], 0.7 * fused["score"][1], 0.7 * fused["score"][2], 0.3 * fused["z_slm"][3]]
    assert list(made) == pytest.approx(expected)
    unread = table.assign(score_llm=table["score_llm"].where(asked))
    assert list(model.cascade(unread, asked)["score"]) == pytest.approx(expected)
    refused = table.assign(score_llm=[5.0, np.nan, 2.5, 5.0])
    assert list(model.cascade(refused, asked)["score"].isna()) == [False, True, False, False]
    assert not model.unsure(table, 0).any() and model.unsure(table, 1).all()
    with pytest.raises(DreError, match="from 0 to 1"):
        model.unsure(table, 50)


def test_slopes_are_those_of_least_squares_on_normal_scores():
    table = rated(4, n=200, judge=1.0, slm=2.0)
    model = Calibrated.fit([table], resamples=50)
    z = norm.ppf((rankdata(table[["score_slm", "score_llm", "human"]], axis=0) - 0.5) / len(table))
    assert model.slope_slm == pytest.approx(np.polyfit(z[:, 0], z[:, 2], 1)[0])
    mixed = (1 - model.weight) * z[:, 1] + model.weight * z[:, 0]
    assert model.slope_fused == pytest.approx(np.polyfit(mixed, z[:, 2], 1)[0])
    backwards = Calibrated.fit([table.assign(score_slm=-table["score_slm"])], resamples=50)
    assert backwards.slope_slm == 0 and backwards.weight == 0


def test_rank_average_by_hand():
    table = pd.DataFrame({"pair_id": list("abc"), "score_llm": [1.0, 2.0, 2.0], "score_slm": [0.3, 0.1, 0.2]})
    assert list(rank_average(table)["score"]) == pytest.approx([(3 + 1) / 6, (1 + 2.5) / 6, (2 + 2.5) / 6])


def test_a_saved_fusion_is_the_same_fusion(tmp_path):
    model = Calibrated.fit([rated(0)], resamples=50)
    model.save(tmp_path / "fusion.json")
    assert Calibrated.load(tmp_path / "fusion.json") == model
    assert [path.name for path in tmp_path.iterdir()] == ["fusion.json"]
    (tmp_path / "fusion.json").write_text('{"weight": 0.5}')
    with pytest.raises(DreError, match="fusion.json is no saved fusion"):
        Calibrated.load(tmp_path / "fusion.json")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "no rated table"),
        ([rated().drop(columns="human")], "lacks 'human'"),
        ([rated().assign(score_slm=1.0)], "'score_slm' is the same for all 80"),
        ([rated().assign(human=np.nan)], "has 0 complete pairs"),
        ([rated().assign(score_llm=9.0)], "expected 0 to 5"),
    ],
)
def test_tables_that_teach_nothing_are_refused(tables, message):
    with pytest.raises(DreError, match=message):
        Calibrated.fit(tables)
    with pytest.raises(DreError, match="lacks 'score_slm'"):
        fusion(0.5).fuse(rated().drop(columns="score_slm"))
