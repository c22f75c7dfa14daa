"""Means, paired tests, ranks and verdicts of systems, against scipy and by hand."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap, permutation_test

from dre.score import systems


def frame(scores, contexts, system="a"):
    names = [f"{context:016x}" for context in contexts]
    table = pd.DataFrame({"system": system, "context_id": names, "score": np.array(scores, float)})
    missing = dict.fromkeys(systems.MEASURES[1:], np.nan)
    return table.assign(**missing)


def summarise(*frames):
    return systems.summarise(pd.concat(frames, ignore_index=True))


def test_the_difference_is_taken_on_the_contexts_of_both():
    means = pd.DataFrame({"a": [1, 2, 3, np.nan], "b": [0, 2, np.nan, 9]})
    (row,) = systems.compare_systems(means)
    assert (row["difference"], row["n_contexts"], row["p_permutation"]) == (0.5, 2, 1)
    assert row["visible"] == pytest.approx(2.8 * 0.5)  # the standard error is 0.5


def test_systems_that_no_test_separates_share_a_rank():
    means = [{"system": name, "score": mean} for name, mean in (("c", 1), ("a", 3), ("b", 2))]
    cases = {
        "a 1-2, b 1-2, c 3-3": [("c", "a", -2, 0.01), ("c", "b", -1, 0.01), ("a", "b", 1, 0.5)],
        "a 1-2, b 1-3, c 2-3": [("a", "b", 1, 0.05), ("a", "c", 2, 0.01), ("b", "c", 1, np.nan)],
    }
    names = ("a", "b", "difference", "p_holm")
    for expected, rows in cases.items():
        ranked = systems.rank_systems(means, [dict(zip(names, row)) for row in rows])
        words = [f"{row['system']} {row['rank']}-{row['rank_last']}" for row in ranked]
        assert ", ".join(words) == expected


@pytest.mark.parametrize("groups", [4000, 100])
def test_a_clear_difference_is_significant_and_a_shuffled_copy_is_not(groups, monkeypatch):
    monkeypatch.setattr(systems, "GROUPS", groups)
    rng = np.random.default_rng(1)
    contexts, b = rng.integers(0, 2**63, 300), rng.normal(size=300)
    a, c = b + rng.normal(0.3, 0.3, 300), rng.permutation(b)
    summary = summarise(frame(b, contexts, "b"), frame(a, contexts), frame(c, contexts, "c"))
    ranks = [(row["system"], row["rank"], row["rank_last"]) for row in summary["systems"]]
    assert ranks[0] == ("a", 1, 1) and {*ranks[1:]} == {("b", 2, 3), ("c", 2, 3)}
    a_b, a_c, b_c = summary["comparisons"]
    assert a_b["p_holm"] < 0.01 and a_c["p_holm"] < 0.01 and b_c["p_holm"] > 0.05
    for row, name, values in ((summary["systems"][0], "score", a), (a_b, "difference", a - b)):
        expected = bootstrap((values,), np.mean, method="percentile", rng=0).confidence_interval
        assert row[name] == pytest.approx(values.mean())
        assert [row[f"{name}_low"], row[f"{name}_high"]] == pytest.approx([*expected], abs=0.02)


def test_p_values_agree_with_scipy_and_are_corrected_after_holm():
    rng = np.random.default_rng(3)
    means = pd.DataFrame(rng.normal([0, 0.7, 0], size=(40, 3)).round(1), columns=[*"abc"])
    means.loc[13:, "c"] = np.nan
    rows = systems.compare_systems(means)
    for row in rows:
        differences = (means[row["a"]] - means[row["b"]]).dropna().to_numpy()
        options = {"permutation_type": "samples", "n_resamples": 100_000, "rng": 1}
        p = permutation_test((differences,), np.mean, vectorized=True, **options).pvalue
        assert row["p_permutation"] == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 10_000))
        assert row["n_contexts"] == len(differences)
    p = np.sort([row["p_permutation"] for row in rows]) * [3, 2, 1]  # by Holm; none is above 1
    assert sorted(row["p_holm"] for row in rows) == pytest.approx(np.maximum.accumulate(p))
    for n, smallest in ((13, 2 / 2**13), (50, 1 / 10_001)):  # of all swaps, and of 10,000
        means = pd.DataFrame({"a": range(1, n + 1), "b": 0, "c": 0})
        rows = systems.compare_systems(means)
        assert [row["p_permutation"] for row in rows] == pytest.approx([smallest, smallest, 1])


def test_missing_scores_are_counted_and_left_out():
    lacking = frame([1, np.nan, 3], [1, 2, 3])
    summary = summarise(lacking, frame([1, 1, 1], [1, 2, 2], "b"))
    assert [summary[key] for key in ("rows", "contexts", "shared_contexts")] == [6, 3, 1]
    row = next(row for row in summary["systems"] if row["n_missing"] == 1)
    assert row | {"score": 2, "n": 2} == row


def test_a_system_in_one_context_has_a_mean_and_no_interval_beside_one_in_many():
    summary = summarise(frame(range(30), range(30)), frame([1, 2], [0, 0], "b"))
    by_name = {row["system"]: row for row in summary["systems"]}
    assert (by_name["b"]["score"], by_name["b"]["score_low"]) == (1.5, None)
    assert by_name["a"]["score_low"] < 14.5 < by_name["a"]["score_high"]
    (row,) = summary["comparisons"]
    assert (row["n_contexts"], row["difference"]) == (1, -1.5)
    assert row["difference_low"] is row["p_holm"] is row["visible"] is None


def test_the_order_of_rows_changes_nothing():
    rng = np.random.default_rng(0)
    frames = [frame(rng.normal(0.2 * k, 1, 40), rng.permutation(40), "abc"[k]) for k in range(3)]
    table = pd.concat(frames, ignore_index=True)
    expected, shuffled = (
        pd.DataFrame(summary["systems"] + summary["comparisons"])
        for summary in map(systems.summarise, (table, table.sample(frac=1, random_state=0)))
    )
    pd.testing.assert_frame_equal(shuffled, expected, atol=1e-9)


def test_a_difference_is_of_shared_contexts_whatever_is_missing_in_a_group(monkeypatch):
    monkeypatch.setattr(systems, "GROUPS", 4)
    rng = np.random.default_rng(0)
    difficulty, has_a, has_b = 9 * rng.normal(size=40), *(rng.random((2, 40)) < 0.6)
    a, b = (np.where(has, difficulty + by, np.nan) for has, by in ((has_a, 0.05), (has_b, 0)))
    (row,) = summarise(frame(a, range(40)), frame(b, range(40), "b"))["comparisons"]
    assert row["difference"] == pytest.approx(0.05)
    assert row["n_contexts"] == (has_a & has_b).sum()


def test_the_memory_for_many_contexts_is_not_their_square():
    frames = [frame(range(12_000), range(12_000), name) for name in "ab"]
    tracemalloc.start()
    (row,) = summarise(*frames)["comparisons"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (row["n_contexts"], peak < 200e6) == (12_000, True)


def test_the_verdict_is_a_sentence_on_every_two_systems():
    names = ("difference", "difference_low", "difference_high", "p_holm", "n_contexts")
    cases = {
        "a is better than b, by 0.500 [0.300, 0.700]": (0.5, 0.3, 0.7, 0.049, 9),
        "b is better than a, by 0.500 [0.300, 0.700]": (-0.5, -0.7, -0.3, 0.049, 9),
        "a and b: no difference is proven (0.500 in favour of a)": (0.5, 0.3, 0.7, 0.05, 9),
        "b and a: no difference is proven (0.250 in favour of b)": (-0.25, None, None, None, 1),
        "a and b: no difference is proven (0)": (0, -0.1, 0.1, 1, 9),
    }
    rows = [{"a": "a", "b": "b", **dict(zip(names, numbers))} for numbers in cases.values()]
    assert systems.verdict(rows) == [*cases]
    assert systems.verdict([rows[1] | {"b": ""}])[0].startswith("(no name) is better than a, by ")
    unshared = summarise(frame([1, 2], [0, 1]), frame([3, 3], [77, 78], "b"))["comparisons"]
    assert systems.verdict(unshared)[0].startswith("a and b have no context in common with a score")
