"""The cluster bootstrap of means: against a plain loop, scipy, and its edge cases."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dre.errors import DreError
from dre.stats.bootstrap import cluster_mean_draws, cluster_mean_interval, interval, resample_weights


def test_draws_equal_a_plain_loop_over_resampled_clusters():
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(7), [1, 2, 3, 4, 5, 6, 7])
    values = rng.normal(size=(28, 2))
    values[4, 0] = np.nan
    weights = resample_weights(7, 50, seed=1)
    got = cluster_mean_draws(values, clusters, weights)
    for b, counts in enumerate(weights.astype(int)):
        rows = np.concatenate([np.flatnonzero(clusters == g) for g in np.repeat(np.arange(7), counts)])
        np.testing.assert_allclose(got[b], np.nanmean(values[rows], axis=0))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_singleton_clusters_agree_with_scipy(method):
    x = np.random.default_rng(0).exponential(size=80)
    ours = cluster_mean_interval(x, np.arange(80), resamples=20_000, method=method).iloc[0]
    theirs = stats.bootstrap((x,), np.mean, n_resamples=20_000, method=method, rng=1).confidence_interval
    assert ours["mean"] == pytest.approx(x.mean())
    assert ours["low"] == pytest.approx(theirs.low, abs=0.01)
    assert ours["high"] == pytest.approx(theirs.high, abs=0.01)


def test_clusters_of_equal_answers_widen_the_interval():
    base = np.random.default_rng(5).integers(0, 2, 60).astype(float)
    values, clusters = np.repeat(base, 10), np.repeat(np.arange(60), 10)
    by_context = cluster_mean_interval(values, clusters).iloc[0]
    by_item = cluster_mean_interval(values, np.arange(600)).iloc[0]
    ratio = (by_context["high"] - by_context["low"]) / (by_item["high"] - by_item["low"])
    assert ratio == pytest.approx(np.sqrt(10), rel=0.2)


def test_coverage_is_near_nominal():
    rng = np.random.default_rng(11)
    clusters = np.repeat(np.arange(50), 4)
    hits = 0
    for trial in range(200):
        values = np.repeat(rng.normal(size=50), 4) + rng.normal(size=200)
        row = cluster_mean_interval(values, clusters, resamples=400, seed=trial).iloc[0]
        hits += row["low"] <= 0 <= row["high"]
    assert 0.88 <= hits / 200 <= 0.99


def test_missing_values_are_left_out_of_their_own_column_and_counted():
    table = pd.DataFrame({"a": [1.0, np.nan, 0.0, 1.0], "b": [True, False, True, pd.NA], "c": [np.nan] * 4})
    got = cluster_mean_interval(table.astype({"b": "boolean"}), ["x", "x", "y", "z"])
    assert got.loc["a", "mean"] == pytest.approx(2 / 3)
    assert list(got["n"]) == [3, 3, 0]
    assert list(got["n_clusters"]) == [3, 2, 0]
    assert got.loc["c", ["mean", "low", "high"]].isna().all()


def test_one_cluster_gives_a_mean_without_an_interval():
    for method in ("percentile", "bca"):
        row = cluster_mean_interval([1, 0, 1], ["x"] * 3, method=method).iloc[0]
        assert row["mean"] == pytest.approx(2 / 3)
        assert np.isnan(row["low"]) and np.isnan(row["high"])


def test_constant_values_give_an_interval_of_no_width():
    row = cluster_mean_interval([1, 1, 1], [0, 1, 2]).iloc[0]
    assert row["low"] == row["mean"] == row["high"] == 1


def test_the_same_seed_gives_the_same_interval_and_shared_resamples():
    x = np.random.default_rng(0).normal(size=(30, 1))
    both = cluster_mean_interval(np.hstack([x, x]), np.arange(30) // 3, seed=4)
    assert both.iloc[0].equals(both.iloc[1].rename(0))
    assert not both.equals(cluster_mean_interval(np.hstack([x, x]), np.arange(30) // 3, seed=5))


@pytest.mark.parametrize(
    "values, clusters, kwargs, message",
    [
        ([1.0, 2.0], [0], {}, "one label a value"),
        ([1.0, 2.0], [0, None], {}, "missing"),
        ([1.0, np.inf], [0, 1], {}, "infinite"),
        ([1.0, 2.0], [0, 1], {"level": 95}, "level"),
        ([1.0, 2.0], [0, 1], {"method": "normal"}, "unknown interval method"),
        ([], [], {}, "at least one item"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(values, clusters, kwargs, message):
    with pytest.raises(DreError, match=message):
        cluster_mean_interval(values, clusters, **kwargs)


def test_an_interval_needs_half_of_the_resamples_defined():
    draws = np.tile(np.arange(10.0)[:, None], 3)
    draws[:6, 1], draws[:4, 2] = np.nan, np.nan
    low, high = interval(draws, level=0.8)
    np.testing.assert_allclose(low, [0.9, np.nan, 4.5])
    np.testing.assert_allclose(high, [8.1, np.nan, 8.5])
