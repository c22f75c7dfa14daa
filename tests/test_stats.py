"""Statistics: each number beside another way to compute it, or a value worked out by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr, zscore

from dre import stats
from dre.errors import DreError
from dre.paper import plots

SCIPY = {"spearman": spearmanr, "pearson": pearsonr}


def rated_scores(rows=120, contexts=24, seed=0):
    """Return scores by method, people's ratings, and the context of each row.

    Method slm has three training seeds and llm has one. There are ties, and contexts come in no
    order.
    """
    rng = np.random.default_rng(seed)
    human = pd.Series(rng.integers(1, 6, rows).astype(float))
    context_numbers = rng.permutation(np.arange(rows) % contexts)
    context_ids = pd.Series(context_numbers).map("context {}".format)
    slm = pd.DataFrame()
    for training_seed in range(3):
        noise = rng.normal(size=rows)
        slm[training_seed] = (0.3 * human + noise).round(1)
    llm = human + rng.integers(-2, 3, rows)
    return {"slm": slm, "llm": llm}, human, context_ids


def resampled_rows(contexts, n, seed=0):
    """Return the rows of each resample, each as often as the resample has it; first the data."""
    weights = stats.context_weights(contexts, n=n, seed=seed).astype(int)
    row_numbers = np.arange(weights.shape[1])
    return [np.repeat(row_numbers, counts) for counts in weights]


@pytest.mark.parametrize("seed", [3, [3, 1]])
def test_resamples_with_one_seed_are_always_the_same_whatever_a_caller_does_to_them(seed):
    counts = np.random.default_rng(seed).multinomial(3, [1 / 3] * 3, size=50)

    weights = stats.context_weights(list("aabbc"), n=50, seed=seed)
    assert (weights[1:] == counts[:, [0, 0, 1, 1, 2]]).all()

    weights[:] = 0
    later_weights = stats.context_weights(list("xyzyx"), n=50, seed=seed)
    assert (later_weights[1:] == counts[:, [0, 1, 2, 1, 0]]).all()


@pytest.mark.parametrize("method", SCIPY)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(12, 60))
def test_a_correlation_in_a_resample_is_scipys_on_the_rows_of_that_resample(method, seed, rows):
    scores, human, contexts = rated_scores(rows, 6, seed)
    columns = pd.concat(scores, axis=1)

    correlations = stats.draws(columns, human, contexts, method, n=4, seed=seed)

    resamples = resampled_rows(contexts, n=4, seed=seed)
    for line, in_resample in zip(correlations, resamples):
        for r, column in zip(line, columns.to_numpy().T):
            x = column[in_resample]
            y = human[in_resample]
            if np.ptp(x) and np.ptp(y):
                assert r == pytest.approx(SCIPY[method](x, y).statistic, abs=1e-12)
            else:
                assert np.isnan(r)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(12, 60))
def test_contexts_are_resampled_whole(seed, rows):
    _, _, contexts = rated_scores(rows, 6, seed)

    weights = stats.context_weights(contexts, n=4, seed=seed)

    for counts in weights:
        assert (pd.Series(counts).groupby(contexts).nunique() == 1).all()


def test_correlate_gives_the_mean_over_training_seeds_and_their_deviation():
    scores, human, contexts = rated_scores()
    human[3] = np.nan
    scores["slm"].loc[7, 0] = np.nan

    slm_row = stats.correlate(scores, human, contexts).loc["slm"]

    by_seed = []
    for training_seed in range(3):
        seed_scores = scores["slm"][training_seed].drop(7)
        r = spearmanr(seed_scores, human.drop(7), nan_policy="omit").statistic
        by_seed.append(r)
    expected = [np.mean(by_seed), np.std(by_seed, ddof=1)]
    assert slm_row[["r", "sd"]].tolist() == pytest.approx(expected)


def test_a_missing_score_is_left_out_of_its_own_method_alone():
    scores, human, contexts = rated_scores()
    human[3] = np.nan
    scores["slm"].loc[7, 0] = np.nan

    table = stats.correlate(scores, human, contexts)

    assert table["n"].to_dict() == {"slm": 118, "llm": 119}
    rated = human.index[human.notna()]
    correlations = stats.draws(scores["llm"][rated], human[rated], contexts[rated])[:, 0]
    low, high = np.quantile(correlations[1:], [0.025, 0.975])
    llm_row = table.loc["llm", ["r", "low", "high"]]
    assert llm_row.tolist() == pytest.approx([correlations[0], low, high])


def test_an_interval_is_wider_where_several_trainings_differ():
    rng = np.random.default_rng(0)
    human = pd.Series(rng.normal(size=400))
    contexts = pd.Series(np.arange(400) // 4)
    # Three trainings that differ a lot: one knows nothing, one a little, one nearly everything.
    trainings = pd.DataFrame()
    for quality in (0.0, 1.0, 3.0):
        trainings[quality] = human * quality + rng.normal(size=400)
    blind = trainings[0.0]
    middling = trainings[1.0]

    def width(row):
        return row["high"] - row["low"]

    table = stats.correlate({"several": trainings, "single": middling}, human, contexts)
    assert width(table.loc["several"]) > 3 * width(table.loc["single"])

    several_gain = stats.compare(trainings, middling, human, contexts, permutations=50)
    single_gain = stats.compare(blind, middling, human, contexts, permutations=50)
    assert width(several_gain) > 3 * width(single_gain)

    several_mean = stats.mean(trainings + [0, 1, 2], contexts)
    single_mean = stats.mean(middling, contexts)
    assert width(several_mean) > 3 * width(single_mean)


def test_scores_that_do_not_vary_have_no_correlation_and_no_p_value():
    human = pd.Series([1.0, 2, 3, 4])
    contexts = pd.Series(list("aabb"))
    scores = pd.DataFrame({"flat": 1.0, "good": [1.0, 2, 4, 3]})

    table = stats.correlate(scores, human, contexts)
    comparison = stats.compare(scores["good"], scores["flat"], human, contexts)

    assert np.isnan(table.loc["flat", "r"])
    assert np.isnan(comparison["p"])


def test_a_single_context_has_a_correlation_and_no_interval():
    human = pd.Series([1.0, 2, 3, 4])
    scores = pd.DataFrame({"good": [1.0, 2, 4, 3]})

    row = stats.correlate(scores, human, pd.Series(list("aaaa"))).loc["good"]

    assert row["r"] == pytest.approx(0.8)
    assert np.isnan(row["low"])


def test_the_mean_of_no_values_is_missing():
    assert np.isnan(stats.mean([np.nan], ["a"])["mean"])


def test_the_p_value_is_the_share_of_swaps_of_whole_contexts_that_do_as_well():
    scores, human, contexts = rated_scores(60, 6)
    slm = scores["slm"]
    llm = scores["llm"]

    comparison = stats.compare(slm, llm, human, contexts, permutations=12_000)

    # All swaps of six contexts, with Spearman's correlation as Pearson's of standardized ranks.
    context_codes = pd.factorize(contexts)[0]
    human_ranks = zscore(human.rank())
    llm_ranks = zscore(llm.rank())
    swapped_differences = []
    for pattern in range(2**6):
        is_swapped = (pattern >> context_codes) & 1 == 1
        by_seed = []
        for training_seed in range(3):
            slm_ranks = zscore(slm[training_seed].rank())
            a = np.where(is_swapped, llm_ranks, slm_ranks)
            b = np.where(is_swapped, slm_ranks, llm_ranks)
            by_seed.append(pearsonr(a, human_ranks)[0] - pearsonr(b, human_ranks)[0])
        swapped_differences.append(np.mean(by_seed))
    sizes = np.abs(swapped_differences)
    share_as_large = np.mean(sizes >= sizes[0] - 1e-10)
    assert comparison["p"] == pytest.approx(share_as_large, abs=0.02)
    assert comparison["p_by_swaps"](12_000) == comparison["p"]


def test_a_difference_is_the_mean_over_training_seeds():
    scores, human, contexts = rated_scores(60, 6)
    llm_r = spearmanr(scores["llm"], human).statistic

    comparison = stats.compare(scores["slm"], scores["llm"], human, contexts, permutations=50)

    differences = []
    for training_seed in range(3):
        slm_r = spearmanr(scores["slm"][training_seed], human).statistic
        differences.append(slm_r - llm_r)
    assert comparison["difference"] == pytest.approx(np.mean(differences))


def test_the_other_way_round_and_with_other_row_labels_a_comparison_is_the_same():
    scores, human, contexts = rated_scores(60, 6)
    forth = stats.compare(scores["slm"], scores["llm"], human, contexts, permutations=12_000)

    labels = range(60, 120)
    back = stats.compare(
        scores["llm"].set_axis(labels),
        scores["slm"].set_axis(labels),
        human.set_axis(labels),
        contexts.set_axis(labels),
        permutations=12_000,
    )

    assert back["difference"] == pytest.approx(-forth["difference"])
    assert back["p"] == forth["p"]


def test_a_swap_that_leaves_nothing_to_correlate_counts_against_a_difference():
    human = pd.Series([1.0, 2, 3, 4, 5, 6])
    late = pd.Series([0.0, 0, 0, 1, 1, 1])
    early = pd.Series([1.0, 1, 1, 0, 0, 0])

    comparison = stats.compare(late, early, human, pd.Series(range(6)), permutations=4000)

    # Of 64 swaps these count: none, all, and the two that make both sides constant.
    assert comparison["p"] == pytest.approx(4 / 64, abs=0.02)


def test_where_no_swap_does_as_well_the_p_value_is_the_smallest_that_so_many_swaps_allow():
    """Of 30 contexts, all of which agree, nothing but swapping none or all of them does as well."""
    human = pd.Series(np.arange(30.0))
    comparison = stats.compare(human, -human, human, pd.Series(range(30)), permutations=500)
    assert comparison["p"] == 1 / 501


def test_a_pooled_difference_draws_contexts_once_a_set_and_seeds_once():
    scores, human, contexts = rated_scores(60, 8, seed=1)
    slm = scores["slm"]
    llm = scores["llm"]
    incomplete_llm = llm.where(contexts != "context 3")
    scores_2, human_2, contexts_2 = rated_scores(48, 6, seed=2)
    comparisons = [
        (slm, llm, human, contexts, 4),
        (slm, incomplete_llm, human, contexts, 4),
        (scores_2["slm"], scores_2["llm"], human_2, contexts_2, 5),
    ]

    gains = []
    for a, b, ratings, context_ids, seed in comparisons:
        gains.append(stats.gains(a, b, ratings, context_ids, n=50, seed=seed))
    pooled = stats.pooled(gains, seed=7)

    # The same with scipy, on the rows of each resample that both methods have scored.
    expected_gains = []
    for a, b, ratings, context_ids, seed in comparisons:
        gain = []
        for row_numbers in resampled_rows(context_ids, n=50, seed=seed):
            rows = ratings.index[row_numbers]
            rows = rows[b[rows].notna().to_numpy()]
            r_of_b = spearmanr(b[rows], ratings[rows]).statistic
            r_of_a = [spearmanr(a[k][rows], ratings[rows]).statistic for k in a]
            gain.append(np.array(r_of_a) - r_of_b)
        expected_gains.append(np.array(gain))
    interval = stats.interval(np.mean(expected_gains, axis=0), "difference", [7, 1])
    expected = {
        "difference": interval["difference"],
        "low": interval["difference_low"],
        "high": interval["difference_high"],
        "sd": interval["difference_sd"],
        "pairs": 3,
        "positive": sum(gain[0].mean() > 0 for gain in expected_gains),
    }
    assert pooled == pytest.approx(expected)


def test_two_methods_compared_both_ways_cancel_out():
    scores, human, contexts = rated_scores(60, 8, seed=1)
    forth = stats.gains(scores["slm"], scores["llm"], human, contexts, n=50)
    back = stats.gains(scores["llm"], scores["slm"], human, contexts, n=50)

    pooled = stats.pooled([forth, back])

    ends = [pooled["difference"], pooled["low"], pooled["high"]]
    assert ends == pytest.approx([0, 0, 0])


def test_swaps_go_on_until_chance_can_no_longer_change_the_answer():
    # Corrected, the first is 0.0004 and the others are 0.0372.
    swap_counts = {0.0001: [], 0.0124: [], 0.01249: [], 0.02: []}

    def counted_swap(p):
        def swap(permutations):
            swap_counts[p].append(permutations)
            return p

        return swap

    tests = []
    for p in swap_counts:
        test = {"difference": 0.3, "low": 0.1, "high": 0.5, "p": p, "p_by_swaps": counted_swap(p)}
        tests.append(test)

    decisions = stats.decide(tests)

    assert decisions["answer"].tolist() == ["better"] * 4
    assert "p_by_swaps" not in decisions
    expected = {0.0001: [], 0.0124: [100_000], 0.01249: [100_000], 0.02: [100_000]}
    assert swap_counts == expected


@pytest.mark.parametrize(("low", "answer"), [(0.1, "undecided"), (-0.1, "no clear difference")])
def test_a_p_value_that_stays_at_the_level_is_undecided_if_the_interval_excludes_zero(low, answer):
    test = {"difference": 0.3, "low": low, "high": 0.5, "p": 0.05, "p_by_swaps": lambda _: 0.0499}
    decisions = stats.decide([test])
    assert decisions["answer"].tolist() == [answer]


def test_holm_by_hand():
    adjusted = stats.holm([0.01, 0.04, np.nan, 0.03])
    assert adjusted.tolist() == pytest.approx([0.03, 0.06, np.nan, 0.06], nan_ok=True)


def test_an_adjusted_p_value_is_at_most_1():
    assert stats.holm([0.6, 0.7, 0.9]).tolist() == [1, 1, 1]


def test_two_pairs_have_no_correlation():
    """It would be 1 or -1 for any two points."""
    human = pd.Series([1.0, 2, 3])
    scores = pd.Series([1.0, 3, np.nan])
    contexts = pd.Series(list("abc"))
    assert stats.correlate({"m": scores}, human, contexts)["r"].isna().all()
    assert np.isnan(stats.draws(scores[:2], human[:2], contexts[:2], n=2)).all()
    assert stats.correlate({"m": human}, human, contexts)["r"].item() == pytest.approx(1)


def test_a_swap_that_gives_the_same_difference_up_to_rounding_counts_as_a_hit():
    """Swapping all contexts turns the sign of a difference, and no more.

    With three contexts two of eight swaps do that: none, and all. So p cannot be below a quarter,
    whatever the last bits of the sums are.
    """
    rng = np.random.default_rng(0)
    contexts = pd.Series(np.repeat(list("abc"), 7))
    for _ in range(20):
        human = pd.Series(rng.normal(size=21))
        good = human + 0.01 * rng.normal(size=21)
        bad = -human + 0.01 * rng.normal(size=21)
        p = stats.compare(good, bad, human, contexts, n=2, permutations=2000)["p"]
        assert 0.2 < p < 0.3


def test_rows_in_another_order_are_refused():
    scores, human, contexts = rated_scores()
    shuffled_human = human.sample(frac=1, random_state=0)
    with pytest.raises(DreError, match="human has other rows"):
        stats.correlate(scores, shuffled_human, contexts)


# Five tests, of which four were run.
TESTS = pd.DataFrame(
    {
        "difference": [0.3, -0.3, 0.3, 0.3, 0.3],
        "low": [0.1, -0.5, -0.1, 0.1, 0.1],
        "high": [0.5, -0.1, 0.5, 0.5, 0.5],
        "p": [0.001, 0.001, 0.001, 0.04, np.nan],
    }
)


def test_a_family_of_tests_is_answered_by_its_corrected_p_value_and_its_interval():
    decisions = stats.decide(TESTS)

    answers = ["better", "worse", "no clear difference", "better", ""]
    assert decisions["answer"].tolist() == answers
    adjusted = [0.004, 0.004, 0.004, 0.04, np.nan]
    assert decisions["p_holm"].tolist() == pytest.approx(adjusted, nan_ok=True)
    columns = ["difference", "difference_low", "difference_high", "p"]
    assert list(decisions)[:4] == columns


def test_p_values_that_are_too_large_once_corrected_show_no_clear_difference():
    # 5 * 0.02 = 0.1
    decisions = stats.decide(TESTS.assign(p=0.02))
    assert decisions["answer"].unique().tolist() == ["no clear difference"]


def test_an_interval_resamples_training_seeds():
    """Nothing but the seeds varies. In three of 27 draws all three seeds are the same one."""
    by_seed = np.zeros((2001, 3)) + [1.0, 2, 3]
    interval = stats.interval(by_seed, "r")
    assert interval == {"r": 2.0, "r_low": 1.0, "r_high": 3.0, "r_sd": 1.0}


def test_an_interval_is_of_the_resamples_and_not_of_the_data():
    values = np.arange(2001.0)
    interval = stats.interval(values)
    assert interval["low"] == pytest.approx(1 + 0.025 * 1999)


def test_numbers_without_seeds_have_no_deviation():
    values = np.arange(2001.0)
    assert list(stats.interval(values)) == ["mean", "low", "high"]
    one_seed = values[:, None]
    assert np.isnan(stats.interval(one_seed)["sd"])


def test_an_interval_is_missing_where_most_resamples_have_no_number():
    values = np.arange(2001.0)
    a_third = np.where(values % 3, np.nan, values)
    assert np.isnan(stats.interval(a_third)["low"])


def test_a_row_counts_for_a_mean_only_if_every_training_seed_has_a_value():
    values = [[1.0, np.nan], [3.0, 5.0], [7.0, 9.0]]
    mean = stats.mean(values, ["a", "b", "c"])
    assert mean["mean"] == 6.0
    assert mean["n"] == 2


# The last row has one rating, and so no pair of ratings.
RATINGS = np.array([[1, 2, np.nan], [4, 4, 5], [2, 2, 1], [np.nan, 3, np.nan]])


def sum_of_squared_differences(ratings):
    return ((ratings[:, None] - ratings) ** 2).sum() / (len(ratings) - 1)


def test_alpha_by_hand_with_missing_ratings():
    alpha = stats.alpha(RATINGS, list("abcd"), n=3)

    rows_with_pairs = RATINGS[:3]
    observed = 0
    for row in rows_with_pairs:
        observed += sum_of_squared_differences(row[~np.isnan(row)])
    values = rows_with_pairs[~np.isnan(rows_with_pairs)]
    expected = sum_of_squared_differences(values)
    assert alpha[0] == pytest.approx(1 - observed / expected)
    assert alpha.shape == (4,)


def test_alpha_in_a_resample_is_that_of_its_rows():
    alpha = stats.alpha(RATINGS, list("abcd"), n=3)

    rows = resampled_rows(list("abcd"), n=3)[1]
    in_resample = stats.alpha(RATINGS[rows], rows, n=0)
    assert alpha[1] == pytest.approx(in_resample[0])


def test_a_plot_draws_an_interval_from_its_low_to_its_high_end():
    table = pd.DataFrame({"r": [0.2, 0.5], "r_low": [0.1, 0.3], "r_high": [0.4, 0.9]})
    ax = plt.figure().subplots()

    plots.whiskers(ax, table, [0, 1], value="r")

    lines, points = ax.collections
    first, second = lines.get_segments()
    assert first.tolist() == [[0.1, 0], [0.4, 0]]
    assert second.tolist() == [[0.3, 1], [0.9, 1]]
    assert points.get_offsets().tolist() == [[0.2, 0], [0.5, 1]]
    plt.close()


def test_two_methods_that_share_no_row_have_no_difference():
    early = pd.Series([1, 2, 3, np.nan, np.nan, np.nan])
    late = pd.Series([np.nan, np.nan, np.nan, 1, 2, 3])
    human = pd.Series(range(6))
    comparison = stats.compare(early, late, human, human, n=5, permutations=5)
    assert comparison["n"] == 0
    assert np.isnan([comparison[name] for name in ("difference", "low", "high", "p")]).all()


def test_a_system_without_ratings_is_never_counted_as_ranked_well():
    contexts = ["a"] * 3 + ["b"] * 3
    systems = ["first", "second", "third"] * 2
    scores = [1, np.nan, 2, 2, np.nan, 3]
    with pytest.raises(KeyError):
        stats.soft_pairwise_accuracy([1, 2, 3, 2, 1, 3], scores, contexts, systems, 100)
