"""Means, paired tests and ranks of systems, against scipy and by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from dre.scoring import compare, summary
from dre.stats import cluster_mean_interval


def frame(scores, context, system="a", **columns):
    n = len(scores)
    table = pd.DataFrame({"system": [system] * n, "context_id": [f"{c:016x}" for c in context], "score": scores})
    table = table.assign(status="ok", reason="").assign(**columns)
    return table.reindex(columns=["system", "context_id", "status", "reason", *summary.MEASURES])


def tally(*frames):
    found = summary.Tally()
    for one in frames:
        found.add(one)
    return found.summary()


def test_a_mean_and_its_interval_are_those_of_the_bootstrap_over_contexts():
    rng = np.random.default_rng(0)
    context = rng.integers(0, 40, 300)
    scores = rng.normal(size=300) + context / 20
    row = tally(frame(scores, context))["systems"][0]
    expected = cluster_mean_interval(scores, context, resamples=8000).iloc[0]
    assert row["score"] == pytest.approx(expected["mean"])
    assert row["score_low"] == pytest.approx(expected["low"], abs=0.02)
    assert row["score_high"] == pytest.approx(expected["high"], abs=0.02)


@pytest.mark.parametrize("n", [6, 40])
def test_the_permutation_test_is_scipys(n):
    d = np.random.default_rng(n).normal(0.35, 1, n)
    ours = compare.sign_flip_test(d)
    theirs = scipy_stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=20_000, rng=0).pvalue
    assert ours == pytest.approx(theirs, abs=1e-9 if n == 6 else 0.01)


def test_the_difference_is_taken_on_the_contexts_of_both():
    means = {"a": np.array([1.0, 2.0, 3.0, np.nan]), "b": np.array([0.0, 2.0, np.nan, 9.0])}
    (pair,) = compare.pairs(means)
    assert pair["difference"] == 0.5 and pair["n_contexts"] == 2 and pair["p_permutation"] == 1.0
    (pair,) = compare.pairs({"a": np.array([1.0, np.nan]), "b": np.array([np.nan, 1.0])})
    assert pair["p_holm"] is None and pair["reason"].startswith("0 context(s)")


def systems_of(**means):
    return [{"system": name, "score": score} for name, score in means.items()]


def pair(a, b, difference, p):
    return {"a": a, "b": b, "difference": difference, "p_holm": p}


def test_systems_that_no_test_separates_share_ranks():
    found = systems_of(c=1.0, a=3.0, b=2.9)
    compare.rank(found, [pair("c", "a", -2, 0.01), pair("c", "b", -1.9, 0.01), pair("a", "b", 0.1, 0.5)])
    assert [(row["system"], row["rank"], row["rank_last"]) for row in found] == [("a", 1, 2), ("b", 1, 2), ("c", 3, 3)]


def test_a_system_between_two_others_may_share_a_rank_with_both():
    found = systems_of(a=3.0, b=2.5, c=2.0)
    compare.rank(found, [pair("a", "b", 0.5, 0.2), pair("a", "c", 1, 0.01), pair("b", "c", 0.5, None)])
    assert [(row["system"], row["rank"], row["rank_last"]) for row in found] == [("a", 1, 2), ("b", 1, 3), ("c", 2, 3)]


def test_a_clear_difference_is_found_and_none_is_not():
    rng = np.random.default_rng(1)
    base, context = rng.normal(size=60), np.arange(60)
    parts = [frame(base, context, "b"), frame(base + 0.3 + rng.normal(0, 0.3, 60), context, "a")]
    parts.append(frame(base + rng.normal(0, 0.3, 60), context, "c"))
    found = tally(*parts)
    assert [(row["system"], row["rank"], row["rank_last"]) for row in found["systems"][:1]] == [("a", 1, 1)]
    assert {row["rank"] for row in found["systems"][1:]} == {2}
    p = {(row["a"], row["b"]): row["p_holm"] for row in found["comparisons"]}
    assert p["a", "b"] < 0.01 and p["a", "c"] < 0.01 and p["b", "c"] > 0.05


def test_the_order_and_size_of_the_pieces_change_nothing():
    rng = np.random.default_rng(2)
    context = rng.integers(0, 50, 400)
    table = pd.concat(
        [frame(rng.normal(size=200), context[:200], "a"), frame(rng.normal(size=200), context[200:], "b")]
    )
    whole, pieces = tally(table), tally(*(table.iloc[i : i + 7] for i in range(0, 400, 7)))
    assert whole["systems"][0]["score"] == pytest.approx(pieces["systems"][0]["score"], abs=1e-12)
    assert whole["comparisons"][0]["n_contexts"] == pieces["comparisons"][0]["n_contexts"]
    assert whole["contexts"] == pieces["contexts"] == len(set(context))


def test_many_contexts_are_pooled_without_changing_the_mean(monkeypatch):
    rng = np.random.default_rng(3)
    monkeypatch.setattr(summary, "MOST_CONTEXTS", 300)
    monkeypatch.setattr(summary, "GROUPS", 150)
    context = rng.integers(0, 2**63, 1500)
    a, b = rng.normal(size=1500), rng.normal(0.2, 1, 1500)
    found = summary.Tally()
    for i in range(0, 1500, 100):
        found.add(frame(a[i : i + 100], context[i : i + 100], "a"))
        found.add(frame(b[i : i + 100], context[i : i + 100], "b"))
        assert len(found.units) <= 400
    result = found.summary()
    assert result["contexts"] is None and result["groups"] == 150
    rows = {row["system"]: row for row in result["systems"]}
    assert rows["a"]["score"] == pytest.approx(a.mean()) and rows["b"]["n"] == 1500
    assert rows["a"]["score_high"] - rows["a"]["score_low"] == pytest.approx(2 * 1.96 / np.sqrt(1500), rel=0.25)
    assert result["comparisons"][0]["p_holm"] < 0.001


def test_missing_scores_are_counted_and_left_out():
    table = frame([1.0, np.nan, 3.0], [1, 2, 3])
    table["status"] = ["ok", "malformed", "ok"]
    row = tally(table)["systems"][0]
    assert (row["score"], row["n"], row["n_missing"]) == (2.0, 2, 1) and row["statuses"] == {"ok": 2, "malformed": 1}


def test_a_single_context_has_no_interval():
    row = tally(frame([1.0, 2.0], [1, 1]))["systems"][0]
    assert row["score"] == 1.5 and row["score_low"] is None


def test_few_contexts_and_contexts_of_one_system_only_are_said():
    from dre.scoring.commands import report

    rng = np.random.default_rng(4)
    same = tally(frame(rng.normal(size=8), np.arange(8), "a"), frame(rng.normal(size=8), np.arange(8), "b"))
    assert "Some contexts" not in report(same)[1].note and "or fewer" not in report(same)[1].note
    fewer = tally(frame(rng.normal(size=8), np.arange(8), "a"), frame(rng.normal(size=5), np.arange(5), "b"))
    assert "Some contexts" in report(fewer)[1].note and "5 contexts or fewer" in report(fewer)[1].note


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_with_so_few_contexts_no_difference_can_be_found(n):
    assert compare.sign_flip_test(np.ones(n)) == 2 / 2**n > compare.ALPHA
