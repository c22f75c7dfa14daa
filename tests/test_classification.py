"""Table 3's thresholds, accuracies and context-blind baselines."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dre import classification
from dre.data import load, pairs
from dre.errors import DreError
from dre.report import Table


def test_the_threshold_lies_in_the_middle_of_the_best_gap():
    scores = np.array([0.9, 0.8, 0.6, 0.3, 0.2, 0.7])
    kinds = np.array(list("pppaar"))
    assert classification.choose_threshold(scores, kinds) == pytest.approx(0.45)


def test_a_score_that_separates_nothing_still_gives_a_threshold():
    assert classification.choose_threshold([1.0, 1.0], ["p", "a"]) == 1.0


@pytest.mark.parametrize(
    ("scores", "kinds", "message"),
    [([1.0], ["p"], "1 positive and 0 adversarial"), ([1.0, np.nan], ["p", "a"], "missing or infinite")],
)
def test_thresholds_refuse_what_cannot_be_used(scores, kinds, message):
    with pytest.raises(DreError, match=message):
        classification.choose_threshold(scores, kinds)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from("pa")), min_size=2, max_size=40))
def test_no_other_threshold_is_better(rows):
    scores, kinds = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows])
    if len(set(kinds)) < 2:
        return
    value = lambda t: (scores[kinds == "p"] >= t).mean() + (scores[kinds == "a"] < t).mean()  # noqa: E731
    best = value(classification.choose_threshold(scores, kinds))
    # Every possible split but the one that rejects everything, which is no better than accepting everything.
    assert best >= max(value(t) for t in np.unique(scores)) - 1e-12


def table():
    columns = {"pair_id": list("abcdefgh"), "context_id": ["c0"] * 4 + ["c1"] * 4, "kind": list("ppaa") + list("paar")}
    return pd.DataFrame(columns)


def test_correct_and_accuracies_by_hand():
    scores = [0.9, 0.1, 0.2, 0.8, 0.9, 0.1, np.nan, 0.7]
    right = classification.correct(table(), scores, 0.5)
    np.testing.assert_array_equal(right, [1, 0, 1, 0, 1, 1, np.nan, 0])
    row = classification.accuracy_row("m", "ours", table(), right, resamples=200)
    assert row["positive"] == pytest.approx(200 / 3)
    assert row["adversarial"] == pytest.approx(200 / 3)  # the missing one is left out, not counted wrong
    assert row["overall"] == pytest.approx(400 / 6)
    assert row["random_rejected"] == 0
    assert (row["n"], row["seeds"]) == (7, 1)
    assert row["signature"].startswith("data:pairs@") and "|versions:python=" in row["signature"]
    other = classification.accuracy_row("m", "ours", table().head(7), right[:7], resamples=200, judge="j")
    assert other["signature"].split("|")[0] != row["signature"].split("|")[0] and "|judge:j|" in other["signature"]
    assert row["overall_low"] <= row["overall"] <= row["overall_high"]


def test_several_seeds_give_mean_and_spread():
    one, two = np.ones(8), np.where(table()["kind"] == "p", 0.0, 1.0)
    row = classification.accuracy_row("m", "ours", table(), [one, two], resamples=200)
    assert row["positive"] == pytest.approx(50)
    assert row["positive_sd"] == pytest.approx(100 * np.std([1, 0], ddof=1))
    assert row["adversarial_sd"] == 0 and row["seeds"] == 2


def test_the_threshold_curve_trades_positives_for_negatives():
    curve = classification.threshold_curve(table(), [0.9, 0.6, 0.2, 0.8, 0.7, 0.1, 0.3, 0.4], [0, 0.5, 1])
    assert curve["positive"].tolist() == [100, 100, 0]
    assert curve["adversarial"].tolist() == [0, 75, 100]
    assert curve["random_rejected"].tolist() == [0, 100, 100]


def test_context_blind_baselines_use_the_response_alone():
    train, dev, test = (pairs(load("mini", split), "par") for split in ("train", "dev", "test"))
    blind = test.assign(context=[("nothing",)] * len(test))
    for baseline in (classification.length_only, classification.response_only):
        seen, unseen = baseline(train, dev, test), baseline(train, dev, blind)
        np.testing.assert_array_equal(seen[1], unseen[1])
        assert len(seen[0]) == len(dev) and len(seen[1]) == len(test)
    # The embedded corpus was written with balanced lengths: words alone must not solve it.
    _, scores = classification.response_only(train, dev, test)
    threshold = classification.choose_threshold(scores, test["kind"])
    assert (
        classification.accuracy_row("b", "ours", test, classification.correct(test, scores, threshold))["overall"] < 75
    )


def test_public_shortcuts_and_released_scores(data_home):
    """The numbers others can check: DEB at 0.5, and how far length and words alone get on DailyDialog++."""
    train, test = pairs(load("dailydialog++", "dev"), "par"), pairs(load("dailydialog++", "test"), "par")
    rows = {row["model"]: row for row in classification.recorded_rows(test, resamples=100)}
    deb = rows["DEB, released scores"]
    found = [round(deb[name], 2) for name in ("positive", "adversarial", "random_rejected")]
    assert found == [89.79, 95.53, 80.89]
    labels = rows["LLM labels, claude-2026-11"]
    assert labels["n"] == 700
    assert [round(labels[name], 1) for name in ("positive", "adversarial", "random_rejected")] == [97.0, 99.0, 91.0]
    for baseline, expected in ((classification.length_only, 71.8), (classification.response_only, 81.0)):
        on_train, on_test = baseline(train, train, test)
        threshold = classification.choose_threshold(on_train, train["kind"])
        if baseline is classification.response_only:
            threshold = 0.5  # its training scores are over-confident
        row = classification.accuracy_row("b", "ours", test, classification.correct(test, on_test, threshold), 100)
        assert row["overall"] == pytest.approx(expected, abs=1.0)


def test_reading_speaks_from_the_numbers():
    ours = {"source": "ours", "n": 10, "seeds": 3}
    numbers = {"positive": 60.0, "adversarial": 72.5, "overall": 66.0, "random_rejected": 41.0}
    bounds = {f"{k}_{end}": v + d for k, v in numbers.items() for end, d in (("low", -2), ("high", 2))}
    rows = [
        {"model": name} | ours | numbers | bounds
        for name in ("SLM (Prob & Dis), paper", "length only", "response only (TF-IDF)")
    ]
    text = classification.reading(classification.with_published(rows), "a set")
    assert "rejects 41.0 % [39.0, 43.0] of them" in text and "91.05 %" in text and "nan" not in text
    assert "overall (3 seeds)" in text and "Augmented" not in text
    joint = rows[0] | {"model": rows[0]["model"] + classification.AUGMENTED, "random_rejected": 55.5}
    text = classification.reading(classification.with_published([*rows, joint]), "a set")
    assert "paper goes from 66.0 % [64.0, 68.0] to 66.0 %" in text
    assert "and from 41.0 % [39.0, 43.0] to 55.5 % [39.0, 43.0] of the random negatives" in text


def test_counts_in_table_3_are_whole_numbers_beside_published_rows_that_have_none():
    row = {"model": "m", "source": "ours", "overall": 50.0, "n": 17130, "seeds": 3}
    table = Table("t", classification.with_published([row]), "c")
    assert table.markdown().splitlines()[-1].endswith("| 17,130 | 3 |")
    assert table.csv().splitlines()[-1].endswith(",17130,3")


def test_reading_sets_the_order_of_the_three_scores_beside_the_printed_one():
    def text(dis, prob, both):
        given = {"SLM (Dis), paper": dis, "SLM (Prob), paper": prob, "SLM (Prob & Dis), paper": both}
        given |= {"length only": 50.0, "response only (TF-IDF)": 50.0}
        rest = {"source": "ours", "n": 10, "seeds": 1, "adversarial": 50.0, "random_rejected": 1.0}
        rest |= {f"{column}_{end}": 1.0 for column in ("overall", "random_rejected") for end in ("low", "high")}
        rows = [{"model": model, "overall": value} | rest for model, value in given.items()]
        return classification.reading(classification.with_published(rows), "a set")

    assert "Prob & Dis 90.0 %, Prob 85.0 %, Dis 80.0 % here" in text(80.0, 85.0, 90.0)
    assert "the same order" in text(80.0, 85.0, 90.0) and "by +5.0 points here" in text(80.0, 85.0, 90.0)
    assert "another order" in text(90.0, 85.0, 88.0) and "by −2.0 points here" in text(90.0, 85.0, 88.0)


def test_what_disentangling_changes_is_counted_by_its_intervals():
    bounds = {"SLM (Dis)": (0.4, 0.1, 0.7), "SLM (Prob)": (-1.25, -2.0, -0.5), "SLM (Prob & Dis)": (0.04, -0.3, 0.5)}
    rows = [
        {"score": name} | {f"{column}{end}": value for column in ("overall", "random_rejected")
                           for end, value in zip(("", "_low", "_high"), values)}
        for name, values in bounds.items()
    ]  # fmt: skip
    first, second = classification.disentangling(pd.DataFrame(rows)).splitlines()
    assert "Dis +0.4 [+0.1, +0.7], Prob −1.3 [−2.0, −0.5], Prob & Dis 0.0 [−0.3, +0.5] points" in first
    assert "higher with it for 1 and lower for 1 of the 3 scores" in first and "Random negatives" in second
