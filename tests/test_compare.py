"""Means, paired tests and ranks of systems, against scipy and by hand."""

import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from dre import stats
from dre.score import systems


def frame(scores, contexts, system="a", **columns):
    """A table of scores of one system, as `dre score` makes it."""
    table = pd.DataFrame(
        {
            "system": system,
            "context_id": [f"{context:016x}" for context in contexts],
            "score": np.asarray(scores, float),
            "status": "ok",
        }
    )
    for measure in systems.MEASURES[1:]:
        table[measure] = np.nan
    return table.assign(**columns)


def summarise(*frames):
    return systems.summarise(pd.concat(frames, ignore_index=True))


def test_the_difference_is_taken_on_the_contexts_of_both():
    means = pd.DataFrame({"a": [1, 2, 3, np.nan], "b": [0, 2, np.nan, 9]})
    (comparison,) = systems.compare_systems(means)
    assert comparison["difference"] == 0.5
    assert comparison["n_contexts"] == 2
    assert comparison["p_permutation"] == 1.0


def test_without_a_shared_context_there_is_no_difference():
    summary = summarise(frame([1], [1]), frame([1], [2], "b"))
    (comparison,) = summary["comparisons"]
    assert comparison["n_contexts"] == 0
    assert comparison["difference"] is None
    assert comparison["p_holm"] is None


def ranks(comparisons, **means):
    """System, rank and last rank, from (a, b, difference, p_holm) of each comparison."""
    names = ("a", "b", "difference", "p_holm")
    rows = [dict(zip(names, comparison)) for comparison in comparisons]
    scores = [{"system": name, "score": mean} for name, mean in means.items()]
    ranked = systems.rank_systems(scores, rows)
    return [(row["system"], row["rank"], row["rank_last"]) for row in ranked]


def test_systems_that_no_test_separates_share_a_rank():
    comparisons = [("c", "a", -2, 0.01), ("c", "b", -1.9, 0.01), ("a", "b", 0.1, 0.5)]
    ranked = ranks(comparisons, c=1.0, a=3.0, b=2.9)
    assert ranked == [("a", 1, 2), ("b", 1, 2), ("c", 3, 3)]


def test_a_system_between_two_shares_a_rank_with_either():
    comparisons = [("a", "b", 0.5, 0.2), ("a", "c", 1, 0.01), ("b", "c", 0.5, np.nan)]
    ranked = ranks(comparisons, a=3.0, b=2.5, c=2.0)
    assert ranked == [("a", 1, 2), ("b", 1, 3), ("c", 2, 3)]


@pytest.mark.parametrize("groups", [4000, 100])
def test_a_clear_difference_is_significant_and_a_shuffled_copy_is_not(groups, monkeypatch):
    """a is better than b by 0.3; c is b in another order."""
    monkeypatch.setattr(systems, "GROUPS", groups)
    n = 300
    rng = np.random.default_rng(1)
    contexts = rng.integers(0, 2**63, n)
    scores_b = rng.normal(size=n)
    scores_a = scores_b + 0.3 + rng.normal(0, 0.3, n)
    scores_c = rng.permutation(scores_b)

    summary = summarise(
        frame(scores_b, contexts, "b"),
        frame(scores_a, contexts, "a"),
        frame(scores_c, contexts, "c"),
    )

    best, second, third = summary["systems"]
    assert (best["system"], best["rank"], best["rank_last"]) == ("a", 1, 1)
    assert second["rank"] == third["rank"] == 2
    assert best["score"] == pytest.approx(scores_a.mean())
    assert summary["contexts"] == n
    assert best["n"] == n
    expected = stats.mean(scores_a, contexts, n=4000, seed=1)
    assert best["score_low"] == pytest.approx(expected["low"], abs=0.03)
    assert best["score_high"] == pytest.approx(expected["high"], abs=0.03)
    p = {(row["a"], row["b"]): row["p_holm"] for row in summary["comparisons"]}
    assert p["a", "b"] < 0.01
    assert p["a", "c"] < 0.01
    assert p["b", "c"] > 0.05


def test_p_values_agree_with_scipy_and_are_exact_for_few_contexts():
    rng = np.random.default_rng(3)
    means = pd.DataFrame(rng.normal(size=(40, 3)).round(1), columns=["a", "b", "c"])
    means["b"] += 0.4
    means.loc[13:, "c"] = np.nan
    for row in systems.compare_systems(means):
        differences = (means[row["a"]] - means[row["b"]]).dropna().to_numpy()
        expected = permutation_test(
            (differences,),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=10_000,
            rng=1,
        )
        tolerance = 1e-12 if len(differences) == 13 else 0.02
        assert row["p_permutation"] == pytest.approx(expected.pvalue, abs=tolerance)
        assert row["n_contexts"] == len(differences)


def test_the_smallest_p_is_what_ten_thousand_permutations_can_show():
    (comparison,) = systems.compare_systems(pd.DataFrame({"a": range(1, 51), "b": 0}))
    assert comparison["p_permutation"] == pytest.approx(1 / 10_001)


def test_twenty_systems_are_compared_in_seconds():
    rng = np.random.default_rng(0)
    contexts = np.arange(400)
    frames = [frame(rng.normal(i / 10, 1, 400), contexts, f"s{i:02}") for i in range(20)]
    start = time.process_time()
    summary = summarise(*frames)
    seconds = time.process_time() - start
    assert seconds < 5
    assert len(summary["comparisons"]) == 190
    assert summary["systems"][0]["system"] == "s19"


def test_missing_scores_are_counted_and_left_out():
    summary = summarise(frame([1.0, np.nan, 3.0], [1, 2, 3]), frame([1.0, 1.0], [1, 2], "b"))
    assert (summary["contexts"], summary["shared_contexts"]) == (3, 1)

    statuses = ["ok", "malformed", "ok"]
    summary = summarise(frame([1.0, np.nan, 3.0], [1, 2, 3], status=statuses))
    (system,) = summary["systems"]
    assert (system["score"], system["n"], system["n_missing"]) == (2.0, 2, 1)
    assert system["statuses"] == {"ok": 2, "malformed": 1}


def test_one_context_has_a_mean_and_no_interval():
    summary = summarise(frame([1.0, 2.0], [1, 1], accepted=[True, False]))
    (system,) = summary["systems"]
    assert summary["comparisons"] == []
    assert system["score"] == 1.5
    assert system["score_low"] is None
    assert system["accepted"] == 0.5


def test_a_system_in_one_context_has_a_mean_and_no_interval_beside_one_in_many():
    rng = np.random.default_rng(0)
    summary = summarise(frame(rng.normal(size=30), range(30)), frame([1.0], [0], "b"))
    by_name = {row["system"]: row for row in summary["systems"]}
    assert by_name["b"]["score"] == 1.0
    assert by_name["b"]["score_low"] is None and by_name["b"]["score_high"] is None
    assert by_name["a"]["score_low"] < by_name["a"]["score_high"]
    (comparison,) = summary["comparisons"]
    assert comparison["n_contexts"] == 1
    assert comparison["difference_low"] is None


def test_the_order_of_rows_changes_nothing():
    rng = np.random.default_rng(0)
    frames = []
    for number, name in enumerate("abc"):
        scores = rng.normal(0.2 * number, 1, 40)
        contexts = rng.permutation(40)
        frames.append(frame(scores, contexts, name, accepted=scores > 0))
    table = pd.concat(frames, ignore_index=True)

    def numbers(of_table):
        summary = systems.summarise(of_table)
        rows = pd.DataFrame(summary["systems"] + summary["comparisons"])
        return rows.drop(columns="statuses")

    expected = numbers(table)
    for seed in range(3):
        shuffled = table.sample(frac=1, random_state=seed)
        pd.testing.assert_frame_equal(numbers(shuffled), expected, atol=1e-9)


def test_a_system_without_any_score_has_no_share_of_accepted():
    missing = pd.array([None, None], dtype="bool[pyarrow]")
    accepted = pd.array([True, False], dtype="bool[pyarrow]")
    summary = summarise(
        frame([1.0, 2.0], [1, 2], accepted=accepted),
        frame([np.nan, np.nan], [1, 2], "b", accepted=missing).assign(status="other_language"),
    )
    shares = {row["system"]: row["accepted"] for row in summary["systems"]}
    assert shares == {"a": 0.5, "b": None}


def two_systems(difficulty, difference, has_a, has_b):
    """Scores of a and b: b's are the difficulty of a context, a's are higher by the difference."""
    contexts = np.arange(len(difficulty))
    scores_a = np.where(has_a, difficulty + difference, np.nan)
    scores_b = np.where(has_b, difficulty, np.nan)
    return frame(scores_a, contexts, "a"), frame(scores_b, contexts, "b")


CONTEXT = st.tuples(st.sampled_from([-9, -1, 0, 1, 9]), st.booleans(), st.booleans())


@settings(max_examples=40, deadline=None)  # the time of an example depends on the machine
@given(st.lists(CONTEXT, min_size=2, max_size=40), st.sampled_from([-0.05, 0.05]))
def test_the_sign_of_a_difference_follows_the_shared_contexts_whatever_is_missing(
    contexts, difference
):
    difficulty, has_a, has_b = (np.array(column) for column in zip(*contexts))
    n_shared = (has_a & has_b).sum()
    assume(n_shared > 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "GROUPS", 4)
        summary = summarise(*two_systems(difficulty, difference, has_a, has_b))

    (comparison,) = summary["comparisons"]
    assert comparison["difference"] == pytest.approx(difference)
    assert comparison["n_contexts"] == n_shared


@pytest.mark.parametrize("n", [390, 800])
def test_a_better_system_is_better_even_if_the_worse_one_lacks_the_harder_contexts(n, monkeypatch):
    """a is better by 0.05 in every context; b has no score on the harder half."""
    monkeypatch.setattr(systems, "GROUPS", 400)
    rng = np.random.default_rng(0)
    difficulty = rng.normal(size=n)
    difference = 0.05 + rng.normal(0, 0.01, n)
    has_b = difficulty > 0

    summary = summarise(*two_systems(difficulty, difference, np.ones(n, bool), has_b))

    (comparison,) = summary["comparisons"]
    assert comparison["difference"] == pytest.approx(0.05, abs=0.002)
    assert 0.045 < comparison["difference_low"] < comparison["difference_high"] < 0.055
    assert comparison["p_holm"] < 0.001
    assert comparison["n_contexts"] == has_b.sum()
    assert [row["system"] for row in summary["systems"]] == ["a", "b"]


def test_the_memory_for_many_contexts_is_not_their_square():
    n = 12_000
    rng = np.random.default_rng(0)
    frames = [frame(rng.normal(size=n), np.arange(n), name) for name in "ab"]

    tracemalloc.start()
    summary = summarise(*frames)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    (comparison,) = summary["comparisons"]
    assert comparison["n_contexts"] == n
    assert peak < 200e6
