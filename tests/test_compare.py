"""Means, paired tests and ranks of systems, against scipy and by hand."""

import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from dre import stats
from dre.score import systems as compare


def frame(scores, context, system="a", **columns):
    table = pd.DataFrame(
        {"score": np.asarray(scores, float), "context_id": [f"{c:016x}" for c in context]}
    )
    table = table.assign(**{"system": system, "status": "ok"} | columns)
    return table.assign(**dict.fromkeys(compare.MEASURES[1:], np.nan))


def summary(*frames):
    return compare.summarise(pd.concat(frames, ignore_index=True))


def test_the_difference_is_taken_on_the_contexts_of_both():
    (pair,) = compare.compare_systems(
        pd.DataFrame({"a": [1, 2, 3, np.nan], "b": [0, 2, np.nan, 9]})
    )
    assert pair["difference"] == 0.5 and pair["n_contexts"] == 2 and pair["p_permutation"] == 1.0
    (pair,) = summary(frame([1], [1]), frame([1], [2], "b"))["comparisons"]
    assert pair["p_holm"] is pair["difference"] is None and pair["n_contexts"] == 0


def test_systems_that_no_test_separates_share_ranks():
    def ranks(tests, **means):
        tests = [dict(zip(("a", "b", "difference", "p_holm"), test)) for test in tests]
        found = compare.rank_systems(
            [{"system": name, "score": score} for name, score in means.items()], tests
        )
        return [(row["system"], row["rank"], row["rank_last"]) for row in found]

    tests = [("c", "a", -2, 0.01), ("c", "b", -1.9, 0.01), ("a", "b", 0.1, 0.5)]
    assert ranks(tests, c=1.0, a=3.0, b=2.9) == [("a", 1, 2), ("b", 1, 2), ("c", 3, 3)]
    between = [("a", "b", 0.5, 0.2), ("a", "c", 1, 0.01), ("b", "c", 0.5, np.nan)]
    assert ranks(between, a=3.0, b=2.5, c=2.0) == [("a", 1, 2), ("b", 1, 3), ("c", 2, 3)]


@pytest.mark.parametrize("groups", [4000, 100])
def test_a_clear_difference_is_found_and_none_is_not(groups, monkeypatch):
    monkeypatch.setattr(compare, "GROUPS", groups)
    rng = np.random.default_rng(1)
    context, base = rng.integers(0, 2**63, 300), rng.normal(size=300)
    shifted, other = base + 0.3 + rng.normal(0, 0.3, 300), rng.permutation(base)
    found = summary(
        frame(base, context, "b"), frame(shifted, context, "a"), frame(other, context, "c")
    )
    best, *others = found["systems"]
    assert (best["system"], best["rank"], best["rank_last"]) == ("a", 1, 1) and {
        row["rank"] for row in others
    } == {2}
    assert (
        best["score"] == pytest.approx(shifted.mean())
        and found["contexts"] == 300
        and best["n"] == 300
    )
    expected = stats.mean(shifted, context, n=4000, seed=1)
    assert [best["score_low"], best["score_high"]] == pytest.approx(
        [expected["low"], expected["high"]], abs=0.03
    )
    p = {(row["a"], row["b"]): row["p_holm"] for row in found["comparisons"]}
    assert p["a", "b"] < 0.01 and p["a", "c"] < 0.01 and p["b", "c"] > 0.05


def test_p_values_are_those_of_scipy_exact_for_few_contexts(monkeypatch):
    rng = np.random.default_rng(3)
    means = pd.DataFrame(rng.normal(size=(40, 3)).round(1), columns=["a", "b", "c"])
    means["b"] += 0.4
    means.loc[13:, "c"] = np.nan
    swap = {"permutation_type": "samples", "vectorized": True, "n_resamples": 10_000, "rng": 1}
    for row in compare.compare_systems(means):
        d = (means[row["a"]] - means[row["b"]]).dropna().to_numpy()
        p = permutation_test((d,), np.mean, **swap).pvalue
        assert row["p_permutation"] == pytest.approx(
            p, abs=1e-12 if len(d) == 13 else 0.02
        ) and row["n_contexts"] == len(d)
    (apart,) = compare.compare_systems(pd.DataFrame({"a": range(1, 51), "b": 0}))
    assert apart["p_permutation"] == pytest.approx(
        1 / 10_001
    )  # the least that 10,000 swaps can show


def test_twenty_systems_are_compared_in_seconds():
    rng, context = np.random.default_rng(0), np.arange(400)
    start = time.monotonic()
    found = summary(*(frame(rng.normal(i / 10, 1, 400), context, f"s{i:02}") for i in range(20)))
    assert (
        time.monotonic() - start < 5
        and len(found["comparisons"]) == 190
        and found["systems"][0]["system"] == "s19"
    )


def test_missing_scores_are_counted_and_left_out_and_one_context_has_no_interval():
    both = summary(frame([1.0, np.nan, 3.0], [1, 2, 3]), frame([1.0, 1.0], [1, 2], "b"))
    assert (both["contexts"], both["shared_contexts"]) == (3, 1)
    found = summary(frame([1.0, np.nan, 3.0], [1, 2, 3], status=["ok", "malformed", "ok"]))[
        "systems"
    ][0]
    assert (found["score"], found["n"], found["n_missing"]) == (2.0, 2, 1)
    assert found["statuses"] == {"ok": 2, "malformed": 1}
    found = summary(frame([1.0, 2.0], [1, 1], accepted=[True, False]))
    assert found["comparisons"] == [] and found["systems"][0]["score_low"] is None
    assert found["systems"][0]["score"] == 1.5 and found["systems"][0]["accepted"] == 0.5


def two_systems(difficulty, difference, has_a, has_b):
    """Scores of a and b: b's are the difficulty of each context, a's are higher by the difference."""
    contexts = np.arange(len(difficulty))
    scores_a = np.where(has_a, difficulty + difference, np.nan)
    scores_b = np.where(has_b, difficulty, np.nan)
    return frame(scores_a, contexts, "a"), frame(scores_b, contexts, "b")


@given(
    st.lists(
        st.tuples(st.sampled_from([-9, -1, 0, 1, 9]), st.booleans(), st.booleans()),
        min_size=2,
        max_size=40,
    ),
    st.sampled_from([-0.05, 0.05]),
)
def test_the_sign_of_a_difference_follows_the_shared_contexts_whatever_is_missing(rows, difference):
    difficulty, has_a, has_b = (np.array(column) for column in zip(*rows))
    n_shared = (has_a & has_b).sum()
    assume(n_shared > 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "GROUPS", 4)
        found = summary(*two_systems(difficulty, difference, has_a, has_b))

    (comparison,) = found["comparisons"]
    assert comparison["difference"] == pytest.approx(difference)
    assert comparison["n_contexts"] == n_shared


@pytest.mark.parametrize("n", [3900, 8000])
def test_a_better_system_is_better_however_many_contexts_the_other_lacks(n):
    """a is better by 0.05 in every context; b has no score on the harder half."""
    rng = np.random.default_rng(0)
    difficulty = rng.normal(size=n)
    difference = 0.05 + rng.normal(0, 0.02, n)
    frames = two_systems(difficulty, difference, np.ones(n, bool), difficulty > 0)
    found = summary(*frames)

    (comparison,) = found["comparisons"]
    assert comparison["difference"] == pytest.approx(0.05, abs=0.002)
    assert 0.045 < comparison["difference_low"] < comparison["difference_high"] < 0.055
    assert comparison["p_holm"] < 0.001
    assert comparison["n_contexts"] == (difficulty > 0).sum()
    assert [row["system"] for row in found["systems"]] == ["a", "b"]


def test_tens_of_thousands_of_contexts_fit_into_memory():
    n = 30_000
    rng = np.random.default_rng(0)
    frames = [frame(rng.normal(size=n), np.arange(n), name) for name in "abc"]
    tracemalloc.start()
    found = summary(*frames)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [row["n_contexts"] for row in found["comparisons"]] == [n, n, n]
    assert peak < 500e6
