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


def made(rows=120, contexts=24, seed=0):
    """Scores of two methods, of three seeds and one, with ties; people's ratings; contexts out of order."""
    rng = np.random.default_rng(seed)
    human = pd.Series(rng.integers(1, 6, rows).astype(float))
    context = pd.Series(rng.permutation(np.arange(rows) % contexts)).map("context {}".format)
    seeds = pd.DataFrame({k: (0.3 * human + rng.normal(size=rows)).round(1) for k in range(3)})
    return {"slm": seeds, "llm": human + rng.integers(-2, 3, rows)}, human, context


@pytest.mark.parametrize("method", SCIPY)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(12, 60))
def test_every_draw_is_scipys_value_on_the_rebuilt_resample(method, seed, rows):
    scores, human, contexts = made(rows, 6, seed)
    scores = pd.concat(scores, axis=1)
    drawn = stats.draws(scores, human, contexts, method, n=4, seed=seed)
    for line, weights in zip(drawn, stats.context_weights(contexts, n=4, seed=seed).astype(int)):
        again = np.repeat(np.arange(rows), weights)
        assert (
            pd.Series(weights).groupby(contexts).nunique() == 1
        ).all()  # contexts are drawn whole
        for r, column in zip(line, scores.to_numpy().T):
            if np.ptp(column[again]) and np.ptp(human[again]):
                assert r == pytest.approx(
                    SCIPY[method](column[again], human[again]).statistic, abs=1e-12
                )
            else:
                assert np.isnan(r)


def test_correlate_is_the_mean_over_seeds_and_a_missing_score_is_left_out_of_its_own_method():
    scores, human, contexts = made()
    scores["slm"].loc[7, 0], human[3] = np.nan, np.nan
    table = stats.correlate(scores, human, contexts)
    assert table["n"].to_dict() == {"slm": 118, "llm": 119}
    left = human.index[human.notna()]
    drawn = stats.draws(scores["llm"][left], human[left], contexts[left])[:, 0]
    low, high = np.quantile(drawn[1:], [0.025, 0.975])
    assert table.loc["llm", ["r", "low", "high"]].tolist() == pytest.approx([drawn[0], low, high])
    by_seed = [
        spearmanr(scores["slm"][k].drop(7), human.drop(7), nan_policy="omit").statistic
        for k in range(3)
    ]
    assert table.loc["slm", ["r", "sd"]].tolist() == pytest.approx(
        [np.mean(by_seed), np.std(by_seed, ddof=1)]
    )


def test_seeds_are_resampled_where_there_are_several():
    rng = np.random.default_rng(0)
    human, contexts = pd.Series(rng.normal(size=400)), pd.Series(np.arange(400) // 4)
    far = pd.DataFrame(
        {k: human * k + rng.normal(size=400) for k in (0.0, 1.0, 3.0)}
    )  # trainings that differ a lot
    table = stats.correlate({"many": far, "one": far[1.0]}, human, contexts)
    gains = [stats.compare(a, far[1.0], human, contexts, permutations=50) for a in (far, far[0.0])]
    means = [stats.mean(values, contexts) for values in (far + [0, 1, 2], far[1.0])]
    for many, one in ((table.loc["many"], table.loc["one"]), gains, means):
        assert many["high"] - many["low"] > 3 * (one["high"] - one["low"])


def test_what_cannot_be_known_is_missing():
    human, scores = pd.Series([1.0, 2, 3, 4]), pd.DataFrame({"flat": 1.0, "good": [1.0, 2, 4, 3]})
    assert np.isnan(stats.correlate(scores, human, pd.Series(list("aabb"))).loc["flat", "r"])
    one = stats.correlate(scores, human, pd.Series(list("aaaa"))).loc["good"]
    assert one["r"] == pytest.approx(0.8) and np.isnan(one["low"])  # of one context
    assert np.isnan(
        stats.compare(scores["good"], scores["flat"], human, pd.Series(list("aabb")))["p"]
    )
    assert np.isnan(stats.mean([np.nan], ["a"])["mean"])


def test_compare_is_a_paired_test_that_swaps_whole_contexts():
    scores, human, contexts = made(60, 6)
    a, b = scores["slm"], scores["llm"]
    found = stats.compare(a, b, human, contexts, permutations=12_000)
    by_seed = [spearmanr(a[k], human).statistic - spearmanr(b, human).statistic for k in range(3)]
    assert found["difference"] == pytest.approx(np.mean(by_seed))
    code = pd.factorize(contexts)[0]
    y, other, *seeds = (zscore(v.rank()) for v in (human, b, *(a[k] for k in range(3))))
    every = []
    for pattern in range(2**6):  # all swaps, one by one
        swap = (pattern >> code) & 1 == 1
        pairs = [(np.where(swap, other, x), np.where(swap, x, other)) for x in seeds]
        every.append(np.mean([pearsonr(one, y)[0] - pearsonr(two, y)[0] for one, two in pairs]))
    assert found["p"] == pytest.approx(np.mean(np.abs(every) >= abs(every[0]) - 1e-10), abs=0.02)
    assert found["swap"](12_000) == found["p"]
    back = stats.compare(
        *(v.set_axis(range(60, 120)) for v in (b, a, human, contexts)), permutations=12_000
    )
    assert (back["difference"], back["p"]) == (pytest.approx(-found["difference"]), found["p"])


def test_a_pooled_difference_draws_contexts_once_a_set_and_seeds_once():
    scores, human, contexts = made(60, 8, 1)
    others, people, elsewhere = made(48, 6, 2)
    slm, llm = scores["slm"], scores["llm"]
    lacking = llm.where(contexts != "context 3")  # one judge did not see a context
    pairs = [(slm, llm, human, contexts, 4), (slm, lacking, human, contexts, 4)]
    pairs.append((others["slm"], others["llm"], people, elsewhere, 5))
    found = stats.pooled([stats.gains(*pair[:4], n=200, seed=pair[4]) for pair in pairs], seed=7)
    expected = []
    for a, b, y, groups, seed in pairs:
        drawn = [
            np.repeat(y.index, t) for t in stats.context_weights(groups, 200, seed).astype(int)
        ]
        drawn = [rows[b[rows].notna().to_numpy()] for rows in drawn]
        r = [
            [spearmanr(x[rows], y[rows]).statistic for x in (*(a[k] for k in a), b)]
            for rows in drawn
        ]
        expected.append(np.array(r)[:, :3] - np.array(r)[:, 3:])
    point = stats.interval(np.mean(expected, axis=0), "difference", [7, 1])
    ends = {
        "low": point["difference_low"],
        "high": point["difference_high"],
        "sd": point["difference_sd"],
    }
    positive = sum(one[0].mean() > 0 for one in expected)
    assert found == pytest.approx(
        {"difference": point["difference"], **ends, "pairs": 3, "positive": positive}
    )
    both_ways = stats.pooled(
        [stats.gains(*two, human, contexts, n=50) for two in ((slm, llm), (llm, slm))]
    )
    assert [both_ways[x] for x in ("difference", "low", "high")] == pytest.approx([0, 0, 0])


def test_swaps_go_on_until_no_chance_can_change_the_answer():
    asked = {
        p: [] for p in (0.0001, 0.0124, 0.01249, 0.02)
    }  # corrected: 0.0004, and 0.0372 for the others

    def swap(p):
        return lambda count: asked[p].append(count) or p

    tests = [{"difference": 0.3, "low": 0.1, "high": 0.5, "p": p, "swap": swap(p)} for p in asked]
    found = stats.decide(tests)
    assert found["answer"].tolist() == ["better"] * 4 and "swap" not in found
    assert asked == {0.0001: [], 0.0124: [100_000], 0.01249: [100_000], 0.02: [100_000]}
    near, wide = (
        {"difference": 0.3, "low": low, "high": 0.5, "p": 0.05, "swap": lambda _: 0.0499}
        for low in (0.1, -0.1)
    )
    assert stats.decide([near])["answer"].tolist() == ["undecided"]
    assert stats.decide([wide])["answer"].tolist() == ["no clear difference"]


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, np.nan, 0.03]).tolist() == pytest.approx(
        [0.03, 0.06, np.nan, 0.06], nan_ok=True
    )
    assert stats.holm([0.5, 0.9]).tolist() == [1, 1]


def test_rows_in_another_order_are_refused():
    scores, human, contexts = made()
    with pytest.raises(DreError, match="human has other rows"):
        stats.correlate(scores, human.sample(frac=1, random_state=0), contexts)


def test_a_family_of_tests_is_answered_by_its_corrected_p_and_its_interval():
    tests = pd.DataFrame(
        {
            "difference": [0.3, -0.3, 0.3, 0.3, 0.3],
            "low": [0.1, -0.5, -0.1, 0.1, 0.1],
            "high": [0.5, -0.1, 0.5, 0.5, 0.5],
            "p": [0.001, 0.001, 0.001, 0.04, np.nan],  # of four that were run
        }
    )
    found = stats.decide(tests)
    assert found["answer"].tolist() == ["better", "worse", "no clear difference", "better", ""]
    assert found["p_holm"].tolist() == pytest.approx(
        [0.004, 0.004, 0.004, 0.04, np.nan], nan_ok=True
    )
    assert stats.decide(tests.assign(p=0.02))["answer"].unique().tolist() == [
        "no clear difference"
    ]  # 5 * 0.02
    assert [*found][:4] == ["difference", "difference_low", "difference_high", "p"]


def test_an_interval_is_over_contexts_and_seeds():
    steady, apart = np.zeros((2001, 3)) + [1.0, 2, 3], np.arange(2001.0)
    found = stats.interval(
        steady, "r"
    )  # nothing but the seeds varies: three of 27 draws have one seed alone
    assert found == {"r": 2.0, "r_low": 1.0, "r_high": 3.0, "r_sd": 1.0}
    assert list(stats.interval(apart)) == ["mean", "low", "high"] and np.isnan(
        stats.interval(apart[:, None])["sd"]
    )
    assert stats.interval(apart)["low"] == pytest.approx(
        1 + 0.025 * 1999
    )  # the first line is of the data
    some = np.where(apart % 3, np.nan, apart)
    assert np.isnan(stats.interval(some)["low"])


def test_alpha_by_hand_with_gaps():
    ratings = np.array(
        [[1, 2, np.nan], [4, 4, 5], [2, 2, 1], [np.nan, 3, np.nan]]
    )  # the last row has no pair
    pairs = [
        ((v[:, None] - v) ** 2).sum() / (len(v) - 1)
        for v in (row[row == row] for row in ratings[:3])
    ]
    values = ratings[:3][~np.isnan(ratings[:3])]
    expected = ((values[:, None] - values) ** 2).sum() / (len(values) - 1)
    drawn = stats.alpha(ratings, list("abcd"), n=3)
    assert drawn[0] == pytest.approx(1 - sum(pairs) / expected) and drawn.shape == (4,)
    again = np.repeat(np.arange(4), stats.context_weights(list("abcd"), n=3)[1].astype(int))
    assert drawn[1] == pytest.approx(stats.alpha(ratings[again], again, n=0)[0])


def test_a_swap_that_leaves_nothing_to_correlate_counts_against_a_difference():
    human = pd.Series([1.0, 2, 3, 4, 5, 6])
    a, b = pd.Series([0.0, 0, 0, 1, 1, 1]), pd.Series([1.0, 1, 1, 0, 0, 0])
    found = stats.compare(a, b, human, pd.Series(range(6)), permutations=4000)
    assert found["p"] == pytest.approx(
        4 / 64, abs=0.02
    )  # as it is, all swapped, and the two that make both constant


def test_an_interval_is_drawn_from_its_low_to_its_high_end():
    table = pd.DataFrame({"r": [0.2, 0.5], "r_low": [0.1, 0.3], "r_high": [0.4, 0.9]})
    ax = plt.figure().subplots()
    plots.whiskers(ax, table, [0, 1], value="r")
    lines, points = ax.collections
    assert [segment.tolist() for segment in lines.get_segments()] == [
        [[0.1, 0], [0.4, 0]],
        [[0.3, 1], [0.9, 1]],
    ]
    assert points.get_offsets().tolist() == [[0.2, 0], [0.5, 1]]
    plt.close()


def test_no_swap_that_does_as_well_gives_the_smallest_p_value_that_so_many_swaps_allow():
    """Of 30 contexts, all of which agree, nothing but swapping none or all of them does as well."""
    human = pd.Series(np.arange(30.0))
    comparison = stats.compare(human, -human, human, pd.Series(range(30)), permutations=500)
    assert comparison["p"] == 1 / 501


def test_a_row_counts_for_a_mean_only_if_every_training_seed_has_a_value():
    values = [[1.0, np.nan], [3.0, 5.0], [7.0, 9.0]]
    mean = stats.mean(values, ["a", "b", "c"])
    assert (mean["mean"], mean["n"]) == (6.0, 2)


@pytest.mark.parametrize("seed", [3, [3, 1]])
def test_resamples_that_are_asked_for_again_are_the_same_and_nobody_can_change_them(seed):
    weights = stats.context_weights(list("aabbc"), n=50, seed=seed)
    expected = np.random.default_rng(seed).multinomial(3, [1 / 3] * 3, size=50)[:, [0, 0, 1, 1, 2]]
    assert (weights[1:] == expected).all()
    weights[:] = 0  # what a caller does with its own copy
    again = stats.context_weights(list("xyzyx"), n=50, seed=seed)
    assert (again[1:] == expected[:, [0, 2, 4, 2, 0]]).all()
