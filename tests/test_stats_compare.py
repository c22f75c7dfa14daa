"""Paired tests: published examples, scipy's permutation test, size under the null, edge cases."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import pearsonr, rankdata, spearmanr

from dre.errors import DreError
from dre.stats import benjamini_hochberg, compare, holm, permutation_test, steiger_test, verdicts, williams_test


def test_williams_on_the_worked_example_of_silver_hittner_and_may_2006():
    t, p = williams_test(0.3, 0.4, 0.5, 100)
    assert (round(t, 4), round(p, 4)) == (-1.0767, 0.2843)


def test_steiger_on_the_worked_examples_of_silver_2006_and_steiger_1980_case_a():
    z, p = steiger_test(0.3, 0.4, 0.5, 100)
    assert (round(z, 4), round(p, 4)) == (-1.0718, 0.2838)
    z, _ = steiger_test(0.4, 0.5, 0.1, 103)
    assert round(z, 7) == -0.8887185


def test_williams_and_steiger_agree_at_large_n_and_are_antisymmetric():
    assert williams_test(0.5, 0.45, 0.6, 5000)[0] == pytest.approx(steiger_test(0.5, 0.45, 0.6, 5000)[0], rel=0.01)
    assert williams_test(0.5, 0.4, 0.6, 50)[0] == -williams_test(0.4, 0.5, 0.6, 50)[0]
    assert williams_test(0.4, 0.4, 0.6, 50) == (0.0, 1.0)


@pytest.mark.parametrize("test", [williams_test, steiger_test])
@pytest.mark.parametrize("case", [(0.3, 0.4, 0.5, 3), (np.nan, 0.4, 0.5, 50), (0.3, 0.3, 1.0, 50)])
def test_undefined_cases_give_nan(test, case):
    assert np.isnan(test(*case)).all()


def pair_of_methods(n=40, gap=0.0, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.normal(size=n)
    return human + rng.normal(size=n), human * (1 - gap) + rng.normal(size=n), human


@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_permutation_p_agrees_with_scipys_swapping_within_pairs(statistic):
    a, b, human = pair_of_methods(gap=0.7, seed=4)
    if statistic == "spearman":
        a, b, human = (stats.rankdata(v) for v in (a, b, human))
    a, b = stats.zscore(a), stats.zscore(b)

    def difference(x, y, axis):
        correlation = [stats.pearsonr(v, np.broadcast_to(human, v.shape), axis=axis).statistic for v in (x, y)]
        return correlation[0] - correlation[1]

    theirs = stats.permutation_test(
        (a, b), difference, permutation_type="samples", vectorized=True, n_resamples=4000, rng=1, axis=-1
    ).pvalue
    assert permutation_test(a, b, human, statistic=statistic) == pytest.approx(theirs, abs=0.03)


def test_all_swaps_are_enumerated_when_contexts_are_few():
    a, b, human = pair_of_methods(n=6, seed=2)
    z = [stats.zscore(v) for v in (a, b)]
    rows = np.arange(6)
    differences = []
    for case in range(64):
        swap = (case >> rows) & 1
        x, y = np.where(swap, z[1], z[0]), np.where(swap, z[0], z[1])
        differences.append(stats.pearsonr(x, human).statistic - stats.pearsonr(y, human).statistic)
    expected = np.mean(np.abs(differences) >= abs(differences[0]) - 1e-9)
    assert permutation_test(a, b, human, statistic="pearson", permutations=64) == pytest.approx(expected)


def test_the_test_holds_its_level_when_errors_are_shared_within_contexts():
    rng = np.random.default_rng(8)
    clusters = np.repeat(np.arange(30), 5)
    rejected = {"context": 0, "item": 0}
    for trial in range(200):
        human = np.repeat(rng.normal(size=30), 5) + 0.3 * rng.normal(size=150)
        a, b = (human + np.repeat(rng.normal(size=30), 5) + 0.1 * rng.normal(size=150) for _ in range(2))
        options = {"statistic": "pearson", "permutations": 199, "seed": trial}
        rejected["context"] += permutation_test(a, b, human, clusters, **options) <= 0.05
        rejected["item"] += permutation_test(a, b, human, None, **options) <= 0.05
    assert rejected["context"] / 200 <= 0.09
    assert rejected["item"] / 200 >= 0.2


def test_a_real_difference_is_found_and_equal_methods_are_not_told_apart():
    a, b, human = pair_of_methods(n=300, gap=0.6, seed=1)
    assert permutation_test(a, b, human) < 0.001
    assert permutation_test(a, a * 2 + 1, human, statistic="pearson") == 1.0
    assert permutation_test(a, np.exp(a), human) == 1.0


def test_p_is_never_zero_and_undefined_for_constants():
    a, _, human = pair_of_methods(n=300)
    assert permutation_test(human, -human, human, permutations=99) == 0.01
    assert np.isnan(permutation_test(a, a * 0, human))
    assert np.isnan(permutation_test([1, 2], [2, 1], [1, 2]))


def test_nan_and_unknown_statistics_are_refused():
    with pytest.raises(DreError, match="hold no NaN"):
        permutation_test([1, np.nan, 2], [1, 2, 3], [1, 2, 3])
    with pytest.raises(DreError, match="not 'kendall'"):
        permutation_test([1, 3, 2], [1, 2, 3], [1, 2, 3], statistic="kendall")


def test_compare_uses_the_common_items_and_corrects_over_the_family():
    a, b, human = pair_of_methods(n=90, gap=0.8, seed=3)
    scores = pd.DataFrame({"a": a, "b": b, "same": a, "flat": 1.0})
    scores.loc[:9, "b"] = np.nan
    got = compare(scores, human, np.arange(90) // 3, [("a", "b"), ("a", "same"), ("a", "flat")], resamples=300)
    first, same, flat = (got.iloc[i] for i in range(3))
    assert first["n"] == 80 and first["n_clusters"] == 27
    assert first["r_a"] == pytest.approx(stats.spearmanr(a[10:], human[10:]).statistic)
    assert first["r_b"] == pytest.approx(stats.spearmanr(b[10:], human[10:]).statistic)
    assert first["low"] > 0 and first["p_permutation"] < 0.05 and first["p_williams"] < 0.05
    assert first["p_holm"] == pytest.approx(min(1, 2 * first["p_permutation"]))
    assert same["difference"] == same["low"] == same["high"] == 0 and same["p_permutation"] == 1
    assert np.isnan(flat["p_holm"]) and flat["reason"] == "constant score or rating"


def test_compare_on_one_context_and_on_too_few_items_says_why():
    scores = pd.DataFrame({"a": [1.0, 2, 3, 5], "b": [2.0, 1, 4, np.nan]})
    one = compare(scores, [1, 2, 3, 4], [0] * 4, [("a", "b")]).iloc[0]
    assert np.isnan(one["low"]) and one["reason"] == "one context: no interval" and one["p_permutation"] == 1
    few = compare(scores[1:], [2, 3, 4], [0, 1, 2], [("a", "b")]).iloc[0]
    assert few["reason"] == "n = 2: at least 3 items needed"
    with pytest.raises(DreError, match="no score column 'c'"):
        compare(scores, [1, 2, 3, 4], [0] * 4, [("a", "c")])


def test_holm_on_a_hand_computed_example_and_with_a_test_not_run():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, np.nan, 0.5]), [1.0, np.nan, 1.0])
    assert len(holm([])) == 0


def test_a_verdict_is_given_below_the_level_only_and_none_for_a_test_not_run():
    found = verdicts([0.2, -0.2, 0.2, -0.2, np.nan], [0.049, 0.049, 0.05, 1.0, np.nan])
    assert list(found) == ["better", "worse", "not shown", "not shown", ""]
    assert list(verdicts([1, -1], [0, 0], "up", "down")) == ["up", "down"]


def test_benjamini_hochberg_on_the_example_of_their_1995_paper():
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000]
    assert (benjamini_hochberg(p) <= 0.05).sum() == 4
    assert (holm(p) <= 0.05).sum() == 3
    assert np.isnan(benjamini_hochberg([np.nan, 0.2])[0])


def test_p_values_outside_zero_to_one_are_refused():
    with pytest.raises(DreError, match="p-values"):
        holm([0.5, 1.5])


def seeds(columns):
    """{method: (n, seeds)} as scores with one column a seed."""
    return pd.concat({name: pd.DataFrame(values) for name, values in columns.items()}, axis=1)


def test_equal_seeds_change_nothing_and_one_column_goes_with_many():
    rng = np.random.default_rng(0)
    human, contexts = rng.normal(size=40), np.repeat(np.arange(10), 4)
    a, b = human + rng.normal(0, 1, 40), human + rng.normal(0, 2, 40)
    one = compare(pd.DataFrame({"a": a, "b": b}), human, contexts, [("a", "b")], permutations=500, resamples=200)
    same = seeds({"a": np.column_stack([a] * 3), "b": b[:, None]})
    three = compare(same, human, contexts, [("a", "b")], permutations=500, resamples=200)
    columns = ["r_a", "r_b", "difference", "low", "high", "p_permutation", "p_holm", "n"]
    assert three.loc[0, columns].tolist() == pytest.approx(one.loc[0, columns].tolist())
    assert np.isnan(three.loc[0, "p_williams"]) and not np.isnan(one.loc[0, "p_williams"])


@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
def test_the_difference_of_seeds_is_the_mean_and_a_swap_exchanges_all_seeds_at_once(statistic):
    rng = np.random.default_rng(1)
    human, contexts = rng.normal(size=12), np.repeat(np.arange(4), 3)
    a, b = rng.normal(size=(12, 2)) + human[:, None], rng.normal(size=(12, 2))
    table = compare(seeds({"a": a, "b": b}), human, contexts, [("a", "b")], statistic, 16, 50)
    r = {"pearson": pearsonr, "spearman": spearmanr}[statistic]
    expected = np.mean([r(a[:, s], human)[0] - r(b[:, s], human)[0] for s in (0, 1)])
    assert table.loc[0, "difference"] == pytest.approx(expected)
    if statistic == "spearman":
        a, b, human = (rankdata(v, axis=0) for v in (a, b, human))
    a, b = ((v - v.mean(axis=0)) / v.std(axis=0) for v in (a, b))
    hits = 0
    for pattern in itertools.product([False, True], repeat=4):
        swap = np.array(pattern)[contexts][:, None]
        left, right = np.where(swap, b, a), np.where(swap, a, b)
        found = np.mean([pearsonr(left[:, s], human)[0] - pearsonr(right[:, s], human)[0] for s in (0, 1)])
        hits += abs(found) >= abs(expected) - 1e-9
    assert table.loc[0, "p_permutation"] == pytest.approx(hits / 16)


def test_methods_with_other_numbers_of_seeds_cannot_be_paired():
    rng = np.random.default_rng(2)
    scores = seeds({"a": rng.normal(size=(8, 2)), "b": rng.normal(size=(8, 3))})
    with pytest.raises(DreError, match="'a' has 2 seeds and 'b' 3"):
        compare(scores, np.arange(8.0), np.arange(8), [("a", "b")])
