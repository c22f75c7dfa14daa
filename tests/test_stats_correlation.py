"""Correlations and their bootstrap: against scipy on rebuilt resamples, with ties, missing values and edge cases."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dre.errors import DreError
from dre.stats import correlate, correlation_draws
from dre.stats.bootstrap import cluster_codes, resample_weights
from dre.stats.correlation import STATISTICS, draws_of

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def table(n=60, contexts=12, seed=0):
    """Three methods (continuous, coarse with ties, unrelated) against ratings of 1-5."""
    rng = np.random.default_rng(seed)
    human = rng.integers(1, 6, n).astype(float)
    scores = {"fine": human + rng.normal(size=n), "coarse": np.round(human / 2), "none": rng.normal(size=n)}
    index = [f"own/{i}" for i in range(n)]
    clusters = pd.Series(rng.permutation(np.arange(n) % contexts), index=index)
    return pd.DataFrame(scores, index=index), pd.Series(human, index=index), clusters


@pytest.mark.parametrize("statistic", STATISTICS)
def test_values_equal_scipy_with_and_without_ties(statistic):
    scores, human, clusters = table()
    got = correlate(scores, human, clusters, (statistic,), resamples=50).set_index("method")
    for name in scores:
        assert got.loc[name, "value"] == pytest.approx(SCIPY[statistic](scores[name], human).statistic, abs=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_every_draw_equals_scipy_on_the_rebuilt_resample(statistic):
    scores, human, clusters = table()
    scores.iloc[3:7, 0] = np.nan
    codes, n_clusters = cluster_codes(clusters)
    weights = resample_weights(n_clusters, 40, seed=2).astype(int)
    got = draws_of(scores.to_numpy(), human.to_numpy(), codes, weights.astype(float), statistic)
    for b, counts in enumerate(weights):
        rows = np.concatenate([np.flatnonzero(codes == g) for g in np.repeat(np.arange(n_clusters), counts)])
        for j in range(3):
            x, y = scores.to_numpy()[rows, j], human.to_numpy()[rows]
            seen = ~np.isnan(x)
            assert got[b, j] == pytest.approx(SCIPY[statistic](x[seen], y[seen]).statistic, abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(
    arrays(float, (8, 2), elements=st.sampled_from([-2.0, 0.0, 0.5, 1.0, 1e6, np.nan])),
    arrays(int, 8, elements=st.integers(0, 3)),
    st.sampled_from(STATISTICS),
)
def test_any_small_table_gives_scipys_value_or_a_reason(values, clusters, statistic):
    got = correlate(values[:, :1], values[:, 1], clusters, (statistic,), resamples=20).iloc[0]
    x, y = values[~np.isnan(values).any(axis=1)].T
    assert got["n"] == len(x) and got["n_missing"] == 8 - len(x)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan([got["value"], got["low"], got["high"]]).all() and got["reason"]
    else:
        assert got["value"] == pytest.approx(SCIPY[statistic](x, y).statistic, abs=1e-9)
        assert np.isnan(got["low"]) == bool(got["reason"])
        assert np.isnan(got["low"]) or -1 <= got["low"] <= got["high"] <= 1


@pytest.mark.parametrize("interval_method", ["percentile", "bca"])
def test_item_bootstrap_interval_agrees_with_scipy(interval_method):
    scores, human, _ = table(n=80)
    ours = correlate(
        scores[["fine"]], human, np.arange(80), ("pearson",), resamples=8000, interval_method=interval_method
    ).iloc[0]
    theirs = stats.bootstrap(
        (scores["fine"].to_numpy(), human.to_numpy()),
        lambda x, y, axis: stats.pearsonr(x, y, axis=axis).statistic,
        paired=True,
        n_resamples=8000,
        method=interval_method,
        rng=3,
    ).confidence_interval
    assert ours["low"] == pytest.approx(theirs.low, abs=0.01)
    assert ours["high"] == pytest.approx(theirs.high, abs=0.01)


@pytest.mark.parametrize("statistic", ["spearman", "kendall"])
def test_rank_correlations_ignore_monotone_transforms_and_flip_with_the_sign(statistic):
    scores, human, clusters = table()
    scores = pd.DataFrame({"x": scores["fine"], "exp": np.exp(scores["fine"]), "minus": -scores["fine"]})
    draws = correlation_draws(scores, human, clusters, statistic, resamples=100)
    np.testing.assert_allclose(draws["x"], draws["exp"], atol=1e-12)
    np.testing.assert_allclose(draws["x"], -draws["minus"], atol=1e-12)


def test_pearson_does_not_depend_on_the_unit_of_the_score():
    scores, human, clusters = table()
    scores = pd.DataFrame({"x": scores["fine"], "tiny": scores["fine"] * 1e-9 + 5, "huge": scores["fine"] * 1e9})
    draws = correlation_draws(scores, human, clusters, "pearson", resamples=50)
    np.testing.assert_allclose(draws["x"], draws["huge"], atol=1e-9)
    np.testing.assert_allclose(draws["x"], draws["tiny"], atol=1e-5)


def test_methods_share_their_resamples_so_a_difference_has_a_short_interval():
    scores, human, clusters = table(n=200, contexts=40)
    scores["nearly fine"] = scores["fine"] + 0.01 * scores["none"]
    draws = correlation_draws(scores, human, clusters, "spearman", resamples=300)
    assert (draws["fine"] - draws["nearly fine"]).std() < 0.1 * draws["fine"].std()


def test_a_method_alone_gets_the_interval_it_gets_beside_others():
    scores, human, clusters = table()
    alone = correlate(scores[["coarse"]], human, clusters, resamples=200)
    beside = correlate(scores, human, clusters, resamples=200)
    pd.testing.assert_frame_equal(alone, beside[beside["method"] == "coarse"].reset_index(drop=True))


def test_rows_come_by_method_then_statistic_in_the_order_given():
    scores, human, clusters = table()
    got = correlate(scores, human, clusters, ("spearman", "pearson"), resamples=10)
    assert list(got["method"][:3]) == ["fine", "fine", "coarse"]
    assert list(got["statistic"][:2]) == ["spearman", "pearson"]


def test_series_are_matched_by_pair_id_not_by_position():
    scores, human, clusters = table()
    straight = correlate(scores, human, clusters, resamples=50)
    shuffled = correlate(scores, human.sample(frac=1, random_state=1), clusters[::-1], resamples=50)
    pd.testing.assert_frame_equal(straight, shuffled)


def test_a_missing_score_is_left_out_and_counted_and_is_not_a_zero():
    scores, human, clusters = table()
    holes = scores.copy()
    holes.iloc[:10, 0] = np.nan
    got = correlate(holes, human, clusters, ("pearson",), resamples=50).set_index("method")
    expected = stats.pearsonr(scores["fine"][10:], human[10:]).statistic
    assert got.loc["fine", "value"] == pytest.approx(expected, abs=1e-12)
    assert tuple(got.loc["fine", ["n", "n_missing"]]) == (50, 10)
    assert tuple(got.loc["coarse", ["n", "n_missing"]]) == (60, 0)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_constant_column_has_no_correlation_and_says_so(statistic):
    scores, human, clusters = table()
    scores["same"] = 0.1 + 0.2
    got = correlate(scores, human, clusters, (statistic,), resamples=20).set_index("method")
    assert np.isnan(got.loc["same", "value"]) and got.loc["same", "reason"] == "constant score"
    flat = correlate(scores, human * 0 + 3, clusters, (statistic,), resamples=20)
    assert flat["value"].isna().all()
    assert "constant human rating" in set(flat["reason"])


@pytest.mark.parametrize("statistic", STATISTICS)
def test_one_context_gives_a_value_without_an_interval(statistic):
    scores, human, _ = table()
    got = correlate(scores, human, np.zeros(60), (statistic,), resamples=20)
    assert got["value"].notna().all() and got[["low", "high"]].isna().all(axis=None)
    assert set(got["reason"]) == {"one context: no interval"}


def test_fewer_than_three_items_give_a_reason():
    got = correlate(np.array([[1.0], [2.0]]), [1, 2], [0, 1], resamples=20).iloc[0]
    assert np.isnan(got["value"]) and got["reason"] == "n = 2: at least 3 items needed"


def test_an_empty_column_gives_a_reason():
    scores, human, clusters = table()
    scores["empty"] = np.nan
    got = correlate(scores, human, clusters, resamples=20).set_index("method").loc["empty"]
    assert set(got["reason"]) == {"n = 0: at least 3 items needed"}


def test_a_score_that_varies_in_one_context_only_has_no_interval():
    scores = pd.DataFrame({"rare": [1.0, 2.0, 3.0] + [0.0] * 9})
    got = correlate(scores, np.arange(12.0), np.repeat([0, 1, 2, 3], 3), ("spearman",), resamples=500).iloc[0]
    draws = correlation_draws(scores, np.arange(12.0), np.repeat([0, 1, 2, 3], 3), resamples=500)["rare"]
    assert 0.2 < draws.isna().mean() < 0.5
    assert not np.isnan(got["low"])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s, h, c: (s.iloc[:0], h, c), "at least one pair"),
        (lambda s, h, c: (s, h[:-1], c), "human lacks 1 of 60 pairs, first 'own/59'"),
        (lambda s, h, c: (s, h.to_numpy()[:-1], c), r"human has shape \(59,\)"),
        (lambda s, h, c: (pd.concat([s, s[:1]]), h, c), "pair_id 'own/0' occurs twice"),
        (lambda s, h, c: (s.set_axis(["a", "b", "a"], axis=1), h, c), "method 'a' occurs twice"),
        (lambda s, h, c: (s.replace({s.iloc[0, 0]: np.inf}), h, c), "infinite"),
        (lambda s, h, c: (s, h, c.where(c > 0)), "cluster label of item"),
        (lambda s, h, c: (s.assign(fine="good"), h, c), "fine holds text"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(change, message):
    with pytest.raises(DreError, match=message):
        correlate(*change(*table()), resamples=10)


def test_an_unknown_statistic_is_refused():
    with pytest.raises(DreError, match="unknown statistic 'gamma'"):
        correlate(*table(), ("gamma",), resamples=10)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_method_with_one_column_a_seed_has_the_mean_of_its_seeds_and_the_interval_of_that_mean(statistic):
    rng = np.random.default_rng(5)
    human, contexts = rng.normal(size=30), np.repeat(np.arange(10), 3)
    columns = human[:, None] + rng.normal(0, 1, (30, 3))
    alone = pd.DataFrame(columns)
    scores = pd.concat({"slm": alone, "llm": pd.DataFrame({0: rng.normal(size=30)})}, axis=1)
    table = correlate(scores, human, contexts, [statistic], resamples=200).set_index("method")
    single = correlate(alone, human, contexts, [statistic], resamples=200)["value"]
    draws = correlation_draws(alone, human, contexts, statistic, resamples=200).mean(axis=1)
    row = table.loc["slm"]
    assert row["value"] == pytest.approx(single.mean()) and row["sd"] == pytest.approx(single.std())
    assert [row["low"], row["high"]] == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist())
    assert (row["seeds"], row["n"], row["reason"]) == (3, 30, "")
    assert table.loc["llm", "seeds"] == 1 and np.isnan(table.loc["llm", "sd"])
    scores[("slm", 1)] = 1.0
    constant = correlate(scores, human, contexts, [statistic], resamples=50).set_index("method").loc["slm"]
    assert np.isnan(constant["value"]) and constant["reason"] == "constant score"
