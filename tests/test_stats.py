"""Statistics: each number beside another way to compute it, or a value worked out by hand."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import HERE
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr, spearmanr, zscore

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
    context_ids = pd.Series(rng.permutation(np.arange(rows) % contexts)).map("context {}".format)
    slm = pd.DataFrame({k: (0.3 * human + rng.normal(size=rows)).round(1) for k in range(3)})
    llm = human + rng.integers(-2, 3, rows)
    return {"slm": slm, "llm": llm}, human, context_ids


def resampled_rows(contexts, n, seed=0):
    """Return the rows of each resample, each as often as the resample has it; first the data."""
    weights = stats.context_weights(contexts, n=n, seed=seed).astype(int)
    return [np.repeat(np.arange(weights.shape[1]), counts) for counts in weights]


@pytest.mark.parametrize("seed", [3, [3, 1]])
def test_whole_contexts_are_drawn_the_same_ones_with_one_seed(seed):
    counts = np.random.default_rng(seed).multinomial(3, [1 / 3] * 3, size=50)

    weights = stats.context_weights(list("aabbc"), n=50, seed=seed)

    assert (weights[1:] == counts[:, [0, 0, 1, 1, 2]]).all()
    weights[:] = 0  # the next caller does not see it
    assert (stats.context_weights(list("aabbc"), n=50, seed=seed)[1:, 0] == counts[:, 0]).all()


@pytest.mark.parametrize("method", SCIPY)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(12, 60))
def test_a_correlation_in_a_resample_is_scipys_on_the_rows_of_that_resample(method, seed, rows):
    scores, human, contexts = rated_scores(rows, 6, seed)
    columns = pd.concat(scores, axis=1).to_numpy()

    correlations = stats.draws(columns, human, contexts, method, n=4, seed=seed)

    for line, in_resample in zip(correlations, resampled_rows(contexts, n=4, seed=seed)):
        for r, x in zip(line, columns[in_resample].T):
            y = human[in_resample]
            varies = np.ptp(x) and np.ptp(y)
            expected = SCIPY[method](x, y).statistic if varies else np.nan
            assert r == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_every_statistic_has_an_interval_also_one_that_is_added_as_contributing_says(monkeypatch):
    page = (HERE / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = dict(vars(stats))
    exec(re.search(r"```python\n(def kendall.*?)```", page, re.DOTALL)[1], names)
    monkeypatch.setattr(stats, "CORRELATIONS", names["CORRELATIONS"])
    scores, human, contexts = rated_scores()
    llm = scores["llm"]

    draws = {name: stats.draws(llm, human, contexts, name, 200) for name in stats.CORRELATIONS}
    assert draws["kendall"][0, 0] == pytest.approx(kendalltau(llm, human).statistic)
    draws |= stats.agreements(llm, human, contexts, np.arange(120) % 5, n=200)
    assert {*draws} == {*stats.CORRELATIONS, *stats.MEASURES}
    for of_statistic in draws.values():
        interval = stats.interval(of_statistic)
        assert interval["low"] < interval["mean"] < interval["high"]


def test_a_row_of_correlate_is_the_mean_over_trainings_on_the_rows_that_its_method_has():
    scores, human, contexts = rated_scores()
    human[3] = np.nan
    scores["slm"].loc[7, 0] = np.nan

    table = stats.correlate(scores, human, contexts)

    assert table["n"].to_dict() == {"slm": 118, "llm": 119}
    rows = human.index.drop([3, 7])
    r = [spearmanr(scores["slm"].loc[rows, k], human[rows]).statistic for k in range(3)]
    slm = table.loc["slm", ["r", "sd"]].tolist()
    assert slm == pytest.approx([np.mean(r), np.std(r, ddof=1)])
    rows = human.index.drop(3)
    draws = stats.draws(scores["llm"][rows], human[rows], contexts[rows])[:, 0]
    low, high = np.quantile(draws[1:], [0.025, 0.975])
    llm = table.loc["llm", ["r", "low", "high"]].tolist()
    assert llm == pytest.approx([draws[0], low, high])


def test_what_cannot_be_known_is_missing():
    human = pd.Series([1.0, 2, 3, 4])
    contexts = pd.Series(list("aabb"))
    scores = {"flat": human * 0, "good": pd.Series([1.0, 2, 4, 3])}
    scores["two rows"] = scores["good"].where(human < 3)
    scores["no rows"] = human.where(human < 0)
    for method in stats.CORRELATIONS:
        table = stats.correlate(scores, human, contexts, method)
        assert table["r"].notna().tolist() == [False, True, False, False]
        assert table["n"].tolist() == [4, 4, 2, 0]

    of_one_context = stats.correlate(scores, human, pd.Series(list("aaaa"))).loc["good"]
    assert of_one_context["r"] == pytest.approx(0.8)
    assert np.isnan(of_one_context["low"])

    assert np.isnan(stats.compare(scores["good"], scores["flat"], human, contexts)["p"])
    apart = scores["good"].where(human > 2)
    comparison = stats.compare(scores["two rows"], apart, human, contexts, n=5)
    assert comparison["n"] == 0
    assert np.isnan([comparison[name] for name in ("difference", "low", "high", "p")]).all()
    assert np.isnan(stats.mean([np.nan], ["a"])["mean"])


@pytest.mark.parametrize("ids", ["texts", "numbers"])
def test_the_order_of_rows_changes_nothing(ids):
    scores, human, contexts = rated_scores(60, 8)
    if ids == "numbers":
        contexts = contexts.str.removeprefix("context ").astype(int)
    table = pd.concat([*scores.values(), human, contexts], axis=1, ignore_index=True)
    table["system"] = np.random.default_rng(1).permutation(np.arange(60) % 4)

    def numbers(table):
        slm = table[[0, 1, 2]]
        about = table[4], table[5]
        comparison = stats.compare(slm, table[3], *about, permutations=50)
        del comparison["p_by_swaps"]
        return [
            *stats.correlate({"a": slm, "b": table[3]}, *about).to_numpy().ravel(),
            *comparison.values(),
            *stats.mean(slm, table[5]).values(),
            *stats.alpha(slm, table[5], n=9),
            stats.soft_pairwise_accuracy(table[3], *about, table["system"], 50),
        ]

    in_another_order = numbers(table.sample(frac=1, random_state=0))
    assert in_another_order == pytest.approx(numbers(table), nan_ok=True)


def test_rows_in_another_order_than_the_scores_are_refused():
    scores, human, contexts = rated_scores()
    with pytest.raises(DreError, match="human has other rows"):
        stats.correlate(scores, human.sample(frac=1, random_state=0), contexts)


def test_a_comparison_counts_the_swaps_of_whole_contexts_that_do_as_well():
    scores, human, contexts = rated_scores(60, 6)
    slm, llm = scores.values()

    comparison = stats.compare(slm, llm, human, contexts, permutations=12_000)

    # All swaps of six contexts, with Spearman's correlation as Pearson's of standardized ranks.
    context_codes = pd.factorize(contexts)[0]
    ranks_of_slm = zscore(slm.rank())
    ranks_of_llm = zscore(llm.rank())[:, None]
    differences = []
    for pattern in range(2**6):
        is_swapped = ((pattern >> context_codes) & 1 == 1)[:, None]
        a = np.where(is_swapped, ranks_of_llm, ranks_of_slm)
        b = np.where(is_swapped, ranks_of_slm, ranks_of_llm)
        r = [[pearsonr(x, human.rank())[0] for x in side.T] for side in (a, b)]
        differences.append(np.subtract(*r).mean())
    share_as_large = np.mean(np.abs(differences) >= abs(differences[0]) - 1e-10)
    assert comparison["difference"] == pytest.approx(differences[0])
    assert comparison["p"] == pytest.approx(share_as_large, abs=0.02)
    assert comparison["p_by_swaps"](12_000) == comparison["p"]

    others = (values.set_axis(range(60, 120)) for values in (llm, slm, human, contexts))
    back = stats.compare(*others, permutations=12_000)
    assert back["difference"] == pytest.approx(-comparison["difference"])
    assert back["p"] == comparison["p"]


@pytest.mark.parametrize(
    ("a", "b", "contexts", "p"),
    [
        # None, all, and the two that leave nothing to correlate on either side.
        ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0], range(6), 4 / 64),
        # Nothing but none and all, which are not drawn: the smallest p that so many swaps allow.
        (np.arange(30), -np.arange(30), range(30), 1 / 4001),
    ],
)
def test_a_p_value_by_hand(a, b, contexts, p):
    human = pd.Series(np.arange(1.0, len(a) + 1))
    sides = pd.Series(a), pd.Series(b)
    comparison = stats.compare(*sides, human, pd.Series(contexts), n=2, permutations=4000)
    assert comparison["p"] == pytest.approx(p, rel=0.2)


def test_a_swap_that_gives_the_same_difference_up_to_rounding_counts():
    """With three contexts two of eight swaps do that: none, and all, which turns the sign."""
    rng = np.random.default_rng(0)
    contexts = pd.Series(np.repeat(list("abc"), 7))
    for _ in range(20):
        human = pd.Series(rng.normal(size=21))
        good, bad = (sign * human + 0.01 * rng.normal(size=21) for sign in (1, -1))
        p = stats.compare(good, bad, human, contexts, n=2, permutations=2000)["p"]
        assert 0.2 < p < 0.3


def test_a_pooled_difference_is_a_mean_over_pairs_whose_trainings_are_drawn_together():
    of_one_training = np.tile([[-3.0]], (2001, 1))
    of_two_trainings = np.tile([[2.0, 6.0]], (2001, 1))
    pooled = stats.pooled([of_one_training, of_two_trainings, of_two_trainings])
    expected = {"difference": 5 / 3, "low": 1 / 3, "high": 3.0, "sd": 8 / 3 / 2**0.5}
    assert pooled == pytest.approx({**expected, "pairs": 3, "positive": 2})


# Five tests, of which four were run: 0.04 is the largest p-value, and stays as it is.
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
    assert decisions["answer"].tolist() == ["better", "worse", "no clear difference", "better", ""]
    adjusted = [0.004, 0.004, 0.004, 0.04, np.nan]
    assert decisions["p_holm"].tolist() == pytest.approx(adjusted, nan_ok=True)
    assert list(decisions)[:4] == ["difference", "difference_low", "difference_high", "p"]

    too_large = stats.decide(TESTS[:4].assign(p=0.02))  # 4 * 0.02 = 0.08
    assert too_large["answer"].unique().tolist() == ["no clear difference"]


@pytest.mark.parametrize(
    ("p", "low", "answer", "swaps"),
    [
        (0.0001, 0.1, "better", []),
        (0.0372, 0.1, "better", [100_000]),
        (0.04995, 0.1, "undecided", [100_000, 1_000_000, 2_000_000]),
        (0.04995, -0.1, "no clear difference", [100_000, 1_000_000, 2_000_000]),
    ],
)
def test_swaps_go_on_until_chance_can_no_longer_change_the_answer(p, low, answer, swaps):
    numbers = []
    test = {"low": low, "high": 0.5, "p": p, "p_by_swaps": lambda n: numbers.append(n) or p}
    decisions = stats.decide([test])
    assert decisions["answer"].tolist() == [answer]
    assert numbers == swaps
    assert "p_by_swaps" not in decisions


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [([0.01, 0.04, np.nan, 0.03], [0.03, 0.06, np.nan, 0.06]), ([0.6, 0.7, 0.9], [1, 1, 1])],
)
def test_holm_by_hand(p, adjusted):
    assert stats.holm(p).tolist() == pytest.approx(adjusted, nan_ok=True)


VALUES = np.arange(2001.0)


@pytest.mark.parametrize(
    ("draws", "expected"),
    [
        # Nothing but the trainings varies. In three of 27 draws all three are the same one.
        (np.zeros((2001, 3)) + [1.0, 2, 3], {"r": 2.0, "r_low": 1, "r_high": 3, "r_sd": 1}),
        # Of the resamples, not of the data.
        (VALUES, {"r": 0.0, "r_low": 1 + 0.025 * 1999, "r_high": 1 + 0.975 * 1999}),
        # Two of three resamples have no number.
        (np.where(VALUES % 3, np.nan, 5), {"r": 5, "r_low": np.nan, "r_high": np.nan}),
        (np.full((11, 1), 4.0), {"r": 4, "r_low": 4, "r_high": 4, "r_sd": np.nan}),
    ],
)
def test_an_interval_by_hand(draws, expected):
    assert stats.interval(draws, "r") == pytest.approx(expected, nan_ok=True)


def test_trainings_of_two_numbers_that_are_drawn_apart_vary_on_their_own():
    draws = np.tile([0.0, 1.0], (4001, 1))
    alone = stats.drawn_seeds(draws, seed=1)
    other = stats.drawn_seeds(draws, seed=2)
    assert alone[0] == 0.5
    assert alone[1:].std() == pytest.approx(0.5 / 2**0.5, abs=0.02)
    assert np.corrcoef(alone[1:], other[1:])[0, 1] == pytest.approx(0, abs=0.06)


def test_a_mean_by_hand():
    """A row counts if every training has a value; the interval is that of six resamples."""
    values = [[1.0, np.nan], [3.0, 5.0], [7.0, 9.0], [7.0, 9.0]]
    mean = stats.mean(values, ["a", "b", "c", "c"])
    # Both trainings differ by 2; contexts are b (mean 4), or c (8), or both (20 / 3).
    expected = {"mean": 20 / 3, "low": 3, "high": 9, "sd": 2**0.5, "n": 3}
    assert mean == pytest.approx(expected)


# The last row has one rating, and so no pair of ratings.
RATINGS = np.array([[1, 2, np.nan], [4, 4, 5], [2, 2, 1], [np.nan, 3, np.nan]])


def test_alpha_by_hand_with_missing_ratings_and_in_a_resample():
    def squared_differences(ratings):
        ratings = ratings[~np.isnan(ratings)]
        return ((ratings[:, None] - ratings) ** 2).sum() / (len(ratings) - 1)

    alpha = stats.alpha(RATINGS, list("abcd"), n=3)

    for value, rows in zip(alpha, resampled_rows(list("abcd"), n=3)):
        rated = RATINGS[rows[rows != 3]]
        observed = sum(squared_differences(row) for row in rated)
        assert value == pytest.approx(1 - observed / squared_differences(rated.ravel()))


def test_the_smallest_effect_that_is_seen_is_2_8_standard_errors():
    assert stats.smallest_seen(-1.96, 1.96) == pytest.approx(2.8)


def test_a_plot_draws_an_interval_from_its_low_to_its_high_end():
    table = pd.DataFrame({"r": [0.2, 0.5], "r_low": [0.1, 0.3], "r_high": [0.4, 0.9]})
    ax = plt.figure().subplots()
    plots.whiskers(ax, table, [0, 1], value="r")
    lines, points = ax.collections
    ends = [segment.tolist() for segment in lines.get_segments()]
    assert ends == [[[0.1, 0], [0.4, 0]], [[0.3, 1], [0.9, 1]]]
    assert points.get_offsets().tolist() == [[0.2, 0], [0.5, 1]]
    plt.close()
