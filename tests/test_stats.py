import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from dre import stats
from dre.errors import DreError

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
        assert (pd.Series(weights).groupby(contexts).nunique() == 1).all()  # contexts are drawn whole
        for r, column in zip(line, scores.to_numpy().T):
            if np.ptp(column[again]) and np.ptp(human[again]):
                assert r == pytest.approx(SCIPY[method](column[again], human[again]).statistic, abs=1e-12)
            else:
                assert np.isnan(r)


def test_correlate_is_the_mean_over_seeds_with_an_interval():
    scores, human, contexts = made()
    table = stats.correlate(scores, human, contexts)
    by_seed = [spearmanr(scores["slm"][k], human).statistic for k in range(3)]
    assert table.loc["slm", "r"] == pytest.approx(np.mean(by_seed))
    assert table.loc["slm", "sd"] == pytest.approx(np.std(by_seed, ddof=1))
    drawn = stats.draws(scores["llm"], human, contexts)[1:, 0]
    assert table.loc["llm", ["low", "high"]].tolist() == pytest.approx(np.quantile(drawn, [0.025, 0.975]).tolist())
    assert np.isnan(table.loc["llm", "sd"]) and table["n"].tolist() == [120, 120]
    assert table.index.tolist() == ["slm", "llm"]


def test_seeds_are_resampled_where_there_are_several():
    rng = np.random.default_rng(0)
    human, contexts = pd.Series(rng.normal(size=400)), pd.Series(np.arange(400) // 4)
    far = pd.DataFrame({k: human * k + rng.normal(size=400) for k in (0.0, 1.0, 3.0)})  # trainings that differ a lot
    table = stats.correlate({"many": far, "one": far[1.0]}, human, contexts)
    gains = [stats.compare(a, far[1.0], human, contexts, permutations=50) for a in (far, far[0.0])]
    means = [stats.mean(values, contexts) for values in (far + [0, 1, 2], far[1.0])]
    for many, one in ((table.loc["many"], table.loc["one"]), gains, means):
        assert many["high"] - many["low"] > 3 * (one["high"] - one["low"])


def test_a_missing_score_is_left_out_of_its_own_method_only():
    scores, human, contexts = made()
    scores["slm"].loc[7, 0], human[3] = np.nan, np.nan
    table = stats.correlate(scores, human, contexts)
    assert table["n"].to_dict() == {"slm": 118, "llm": 119}
    rest = [i for i in range(120) if i != 3]
    assert table.loc["llm", "r"] == pytest.approx(spearmanr(scores["llm"][rest], human[rest]).statistic)


def test_what_cannot_be_known_is_missing():
    human, contexts = pd.Series([1.0, 2, 3, 4]), pd.Series(list("aabb"))
    scores = pd.DataFrame({"pair_id": list("wxyz"), "flat": 1.0, "absent": np.nan, "good": [1.0, 2, 4, 3]})
    table = stats.correlate(scores, human, contexts)
    assert table.index.tolist() == ["flat", "absent", "good"]
    assert table["r"].isna().tolist() == [True, True, False] and table["n"].tolist() == [4, 0, 4]
    one = stats.correlate(scores[["good"]], human, pd.Series(list("aaaa")))
    assert one.loc["good", "r"] == pytest.approx(0.8) and one[["low", "high"]].isna().all(axis=None)
    assert np.isnan(stats.compare(scores["good"], scores["flat"], human, contexts, permutations=9)["p"])
    assert np.isnan(stats.mean([np.nan], ["a"])["mean"]) and stats.mean([np.nan], ["a"])["n"] == 0


def test_compare_is_a_paired_test_that_swaps_whole_contexts():
    scores, human, contexts = made(60, 6)
    a, b = scores["slm"], scores["llm"]
    found = stats.compare(a, b, human, contexts, permutations=4000)
    by_seed = [spearmanr(a[k], human).statistic - spearmanr(b, human).statistic for k in range(3)]
    assert found["difference"] == pytest.approx(np.mean(by_seed)) and found["n"] == 60
    assert found["sd"] == pytest.approx(np.std(by_seed, ddof=1))
    code = pd.factorize(contexts)[0]
    z = [(v - v.mean()) / v.std(ddof=0) for v in (human.rank(), b.rank(), *(a[k].rank() for k in range(3)))]
    every = []
    for pattern in range(2**6):  # all swaps, one by one
        swap = (pattern >> code) & 1 == 1
        gains = [pearsonr(np.where(swap, z[1], x), z[0])[0] - pearsonr(np.where(swap, x, z[1]), z[0])[0] for x in z[2:]]
        every.append(np.mean(gains))
    assert found["p"] == pytest.approx(np.mean(np.abs(every) >= abs(every[0]) - 1e-10), abs=0.03)
    other = stats.compare(b, a, human, contexts, permutations=4000)
    assert (other["difference"], other["p"]) == (pytest.approx(-found["difference"]), found["p"])


def test_mean_of_values_by_hand():
    found = stats.mean([1, 0, 1, 1, np.nan], list("aabbb"), n=4000)
    assert (found["mean"], found["n"]) == (0.75, 4)
    assert (found["low"], found["high"]) == (0.5, 1.0)  # both of a: 1/2; both of b: 1; one of each: 3/4
    seeds = stats.mean(np.array([[1, 0], [1, 0], [1, 1]]), list("abc"))
    assert seeds["mean"] == pytest.approx(2 / 3) and seeds["sd"] == pytest.approx(np.std([1, 1 / 3], ddof=1))


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, np.nan, 0.03]).tolist() == pytest.approx([0.03, 0.06, np.nan, 0.06], nan_ok=True)
    assert stats.holm([0.5, 0.9]).tolist() == [1, 1] and stats.holm([]).tolist() == []


def test_rows_that_do_not_belong_together_are_refused():
    scores, human, contexts = made()
    with pytest.raises(DreError, match="human has other rows"):
        stats.correlate(scores, human.sample(frac=1, random_state=0), contexts)
    with pytest.raises(DreError, match="contexts has other rows"):
        stats.correlate(scores, human, contexts[:-1])
