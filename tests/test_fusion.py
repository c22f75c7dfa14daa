"""The fusion rules: hand-computed values, ranges and monotonicity, readings, and missing scores that stay missing."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dre import fusion
from dre.errors import DreError

steady = settings(deadline=None)
unit = st.floats(0, 1)
stars = st.floats(0, 5)
rows = st.fixed_dictionaries({"s_d": unit, "s_p": unit, "score_llm": stars, "s_inf": unit})
METHODS = [fusion.non_dre, fusion.in_dre, fusion.ex_dre, fusion.dre, fusion.slide]


def table(**columns):
    columns = dict(zip(columns, np.broadcast_arrays(*map(np.atleast_1d, columns.values()))))
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"pair_id": [f"own/{i}" for i in range(n)]} | columns)


def one(method, row, **options):
    return method(table(**row), **options)["score"].iloc[0]


def test_hand_computed_example():
    t = table(s_d=0.2, s_p=0.9, score_llm=3.0, s_inf=0.5)
    assert fusion.non_dre(t)["score"][0] == 3
    assert fusion.in_dre(t)["score"][0] == 3
    assert fusion.ex_dre(t)["s_c"][0] == pytest.approx(1.7)
    assert fusion.ex_dre(t)["score"][0] == pytest.approx(5.1)
    assert fusion.dre(t)["score"][0] == pytest.approx(5.1)
    assert fusion.dre(t, coefficient="c")["c"][0] == pytest.approx(0.85)
    assert fusion.dre(t, coefficient="c")["score"][0] == pytest.approx(2.55)
    assert fusion.slide(t)["score"][0] == pytest.approx(1.7)


@pytest.mark.parametrize(
    "slm, llm, options, case, score",
    [
        (1.2, 4.0, {}, "slm", 1.2),
        (1.0, 4.0, {}, "slm", 1.0),
        (0.8, 2.0, {}, "llm", 0.8),
        (0.8, 2.5, {}, "mean", 0.9),
        (0.4, 5.0, {}, "mean", 1.2),
        (1.2, 1.0, {}, "slm", 1.2),
        (1.2, 1.0, {"overlap": "llm"}, "llm", 0.4),
        (1.2, 1.0, {"overlap": "mean"}, "mean", 0.8),
        (0.8, 2.0, {"threshold": "printed"}, "slm", 0.8),
        (0.4, 1.0, {"threshold": "printed"}, "llm", 0.4),
        (0.4, 2.0, {"threshold": "printed", "llm_scale": "unit"}, "llm", 0.4),
        (0.4, 3.0, {"threshold": "printed", "llm_scale": "unit"}, "mean", 0.5),
        (0.4, 3.0, {"threshold": "printed", "llm_scale": "none"}, "mean", 1.7),
        (0.8, 2.0, {"llm_scale": "unit"}, "llm", 0.4),
    ],
)
def test_slide_case_by_case(slm, llm, options, case, score):
    got = fusion.slide(table(score_slm=slm, score_llm=llm), **options).iloc[0]
    assert got["case"] == case
    assert got["score"] == pytest.approx(score)


@steady
@given(rows)
def test_scores_stay_in_their_ranges(row):
    assert 0 <= one(fusion.non_dre, row) <= 5
    assert 0 <= one(fusion.ex_dre, row) <= 10
    assert 0 <= one(fusion.dre, row, coefficient="c") <= one(fusion.dre, row) + 1e-12 <= 10 + 1e-9
    assert 0 <= fusion.ex_dre(table(**row))["s_c"][0] <= 2


@steady
@given(rows, st.sampled_from(sorted(fusion.READINGS["slide"])))
def test_slide_lies_between_its_two_scores(row, reading):
    options = fusion.READINGS["slide"][reading]
    top = {"slm": 2, "unit": 1, "none": 5}[options.get("llm_scale", "slm")]
    parts = sorted([1 - row["s_d"] + row["s_p"], row["score_llm"] / 5 * top])
    assert parts[0] - 1e-9 <= one(fusion.slide, row, **options) <= parts[1] + 1e-9


@steady
@given(rows, rows, st.sampled_from(["s_c", "c"]))
def test_refinement_rises_with_llm_and_probability_and_falls_with_distance(a, b, coefficient):
    low = {name: min(a[name], b[name]) for name in a}
    high = {name: max(a[name], b[name]) for name in a}
    low["s_d"], high["s_d"] = high["s_d"], low["s_d"]
    assert one(fusion.ex_dre, low) <= one(fusion.ex_dre, high) + 1e-12
    assert one(fusion.dre, low, coefficient=coefficient) <= one(fusion.dre, high, coefficient=coefficient) + 1e-12
    assert one(fusion.non_dre, low) <= one(fusion.non_dre, high)


@steady
@given(rows, st.floats(0, 0.49), st.floats(0, 0.49))
def test_slide_is_monotone_within_a_case(row, less, more):
    less, more = sorted([less, more])
    negative = {"s_d": 1.0, "s_p": 0.1}
    assert one(fusion.slide, negative | {"score_llm": 5 * less}) <= one(
        fusion.slide, negative | {"score_llm": 5 * more}
    )
    positive = {"s_d": 0.0, "score_llm": row["score_llm"]}
    assert one(fusion.slide, positive | {"s_p": less}) <= one(fusion.slide, positive | {"s_p": more})


def test_slide_is_not_monotone_across_cases():
    assert one(fusion.slide, {"score_slm": 0.99, "score_llm": 5.0}) > one(
        fusion.slide, {"score_slm": 1.0, "score_llm": 5.0}
    )
    assert one(fusion.slide, {"score_slm": 0.2, "score_llm": 2.4}) > one(
        fusion.slide, {"score_slm": 0.2, "score_llm": 2.5}
    )


@steady
@given(rows)
def test_slm_score_may_be_given_or_computed(row):
    given_score = {"score_slm": 1 - row["s_d"] + row["s_p"], "score_llm": row["score_llm"]}
    assert one(fusion.slide, row) == one(fusion.slide, given_score)


def test_readings_are_distinct_and_start_with_the_default():
    grid = [(slm, llm) for slm in np.linspace(0, 2, 21) for llm in np.linspace(0, 5, 26)]
    t = table(score_slm=[g[0] for g in grid], score_llm=[g[1] for g in grid], s_inf=0.5, s_d=0.5, s_p=0.7)
    for name, readings in fusion.READINGS.items():
        scores = [getattr(fusion, name)(t, **options)["score"].to_numpy() for options in readings.values()]
        assert list(readings.values())[0] == {}
        for i in range(len(scores)):
            assert all(not np.allclose(scores[i], other) for other in scores[:i])


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_score_stays_missing_and_the_others_stay(method):
    t = table(s_d=[0.1, 0.1], s_p=[0.9, 0.9], score_llm=[np.nan, 4.0], s_inf=[0.5, 0.5])
    score = method(t)["score"]
    assert np.isnan(score[0]) and score[1] > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("status", ["malformed", "refused", "truncated", "empty", "missing", "error"])
def test_a_reply_that_is_not_ok_gives_no_score_even_with_a_number_beside_it(method, status):
    t = table(s_d=0.1, s_p=0.9, score_llm=0.0, s_inf=0.5).assign(status=status)
    assert np.isnan(method(t)["score"][0])


@pytest.mark.parametrize("method", [fusion.ex_dre, fusion.dre, fusion.slide])
def test_a_missing_slm_number_gives_no_score(method):
    assert np.isnan(one(method, {"s_d": np.nan, "s_p": 0.9, "score_llm": 4.0, "s_inf": 0.5}))


def test_a_missing_influence_matters_only_where_it_enters():
    row = {"s_d": 0.1, "s_p": 0.9, "score_llm": 4.0, "s_inf": np.nan}
    assert one(fusion.in_dre, row) == 4.0
    assert one(fusion.dre, row) == pytest.approx(7.2)
    assert np.isnan(one(fusion.dre, row, coefficient="c"))


def test_a_zero_score_is_a_score():
    assert one(fusion.slide, {"score_slm": 0.3, "score_llm": 0.0}) == 0
    assert one(fusion.ex_dre, {"s_d": 0.1, "s_p": 0.9, "score_llm": 0.0}) == 0


@pytest.mark.parametrize("method", METHODS)
def test_the_given_table_is_left_as_it_was(method):
    t = table(s_d=[0.1], s_p=[0.9], score_llm=[4.0], s_inf=[0.5])
    before = t.copy()
    method(t)
    pd.testing.assert_frame_equal(t, before)


def test_other_scales_are_brought_to_zero_to_five():
    likert = fusion.to_llm_scale(table(score_llm=[1.0, 3.0, 5.0, np.nan]), 1, 5)["score_llm"]
    np.testing.assert_allclose(likert, [0, 2.5, 5, np.nan])
    assert fusion.to_llm_scale(table(score_llm=0.2), 0, 1)["score_llm"][0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: fusion.ex_dre(table(s_d=0.1, score_llm=3.0)), "lacks 's_p'"),
        (lambda: fusion.dre(table(s_d=0.1, s_p=0.5, score_llm=3.0)), "lacks 's_inf'"),
        (lambda: fusion.in_dre(table(score_llm=3.0)), "lacks 's_inf'"),
        (lambda: fusion.non_dre(table(score_llm=50.0)), "own/0 is 50; expected 0 to 5; bring"),
        (lambda: fusion.non_dre(table(score_llm="good")), "holds text"),
        (lambda: fusion.non_dre(pd.DataFrame({"score_llm": [1.0]})), "pair_id"),
        (lambda: fusion.non_dre(table(score_llm=[1.0, 2.0]).assign(pair_id="own/0")), "one row a pair"),
        (lambda: fusion.slide(table(score_slm=1.0, score_llm=1.0), threshold=0.5), "choose among 'half'"),
        (lambda: fusion.slide(table(score_slm=1.0, score_llm=1.0), overlap="first"), "choose among 'slm'"),
        (lambda: fusion.slide(table(score_slm=1.0, score_llm=1.0), llm_scale="0-1"), "choose among"),
        (
            lambda: fusion.dre(table(s_d=0.1, s_p=0.5, score_llm=3.0, s_inf=-1.0)),
            "s_inf of own/0 is negative",
        ),
        (
            lambda: fusion.dre(table(s_d=0.1, s_p=0.5, score_llm=3.0, s_inf=1.0), coefficient="C"),
            "coefficient",
        ),
        (lambda: fusion.to_llm_scale(table(score_llm=0.0), 1, 5), "expected 1 to 5"),
        (lambda: fusion.to_llm_scale(table(score_llm=0.0), 5, 1), "lowest value first"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(DreError, match=message):
        call()
