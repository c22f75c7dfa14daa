"""Accuracies and thresholds by hand, and baselines that see only the response."""

import numpy as np
import pandas as pd
import pytest

from dre import classification
from dre.errors import DreError

# Kinds: positives (p), adversarials (a), random negatives (r).
PAIRS = pd.DataFrame({"kind": list("ppppaaaarr"), "context_id": list("aabbaabbab")})
KINDS = list("pppaaar")
SCORES = [5, 5, 4, 0, 0, 0, 4.5]


def responses(*rows):
    return pd.DataFrame(rows, columns=["response", "kind"])


def test_a_threshold_parts_positives_from_adversarials():
    assert classification.choose_threshold(SCORES, KINDS) == 2.0


def test_a_threshold_parts_positives_from_random_negatives_too_where_they_are_named():
    assert classification.choose_threshold(SCORES, KINDS, "ar") == 4.75


def test_of_thresholds_that_are_as_good_the_middle_one_is_taken():
    # 0.5, 2.5 and 4.5 are equally good.
    assert classification.choose_threshold(range(6), list("apapap")) == 2.5


def test_a_threshold_needs_a_finite_score_of_each_pair():
    scores = [np.nan, *SCORES[1:]]
    with pytest.raises(DreError, match="all kinds of 'pa', each with a finite score"):
        classification.choose_threshold(scores, KINDS)


def test_a_positive_above_the_threshold_and_any_negative_below_it_are_correct():
    scores = [1, 1, 1, 0, 0, 0, 1, 1, 0, np.nan]
    is_correct = classification.correct(PAIRS, scores, 0.5)
    expected = [1, 1, 1, 0, 1, 1, 0, 0, 1, np.nan]
    assert is_correct.tolist() == pytest.approx(expected, nan_ok=True)


def test_accuracies_by_hand():
    is_correct = np.array([1, 1, 1, 0, 1, 1, 0, 0, 1, np.nan])

    row = classification.accuracy(PAIRS, is_correct)

    assert [row[name] for name in classification.COLUMNS] == [75, 50, 62.5, 100]
    assert row["n"] == 9
    assert row["seeds"] == 1
    assert np.isnan(row["positive_sd"])
    # The worst resample has context b twice, and the best has context a twice.
    assert row["overall_low"] == 25
    assert row["overall_high"] == 100


def test_accuracies_of_several_trainings():
    all_right = np.ones(10)
    all_wrong = np.zeros(10)
    is_correct = np.column_stack([all_right, all_wrong, all_right])

    row = classification.accuracy(PAIRS, is_correct)

    assert row["overall"] == pytest.approx(200 / 3)
    assert row["seeds"] == 3
    assert row["overall_sd"] == pytest.approx(100 * np.std([1, 0, 1], ddof=1))
    # Seeds are resampled, too.
    assert row["overall_low"] == 0
    assert row["overall_high"] == 100


@pytest.mark.parametrize(
    ("kinds", "dev_score", "test_score"),
    [(["p", "a", "r"], 2, 3), (["a", "p", "r"], -2, -3)],
    ids=["positives are longer", "positives are shorter"],
)
def test_the_length_baseline_learns_which_way_to_count(kinds, dev_score, test_score):
    train = pd.DataFrame({"response": ["a b c d", "a", "a b c d e f g h"], "kind": kinds})
    dev = responses(("a b", "p"))
    test = responses(("a b c", "a"))

    dev_scores, test_scores = classification.length_only(train, dev, test)

    assert dev_scores.tolist() == [dev_score]
    assert test_scores.tolist() == [test_score]


def test_the_response_baseline_learns_which_words_positives_have():
    examples = [("i would love to", "p"), ("no never mind", "a"), ("no never mind", "r")]
    train = responses(*examples * 4)
    test = responses(("love", "p"), ("never", "a"))

    _, test_scores = classification.response_only(train, train[:2], test)

    love_score, never_score = test_scores
    assert love_score > 0.5
    assert never_score < 0.5


def test_a_word_that_training_says_once_tells_nothing():
    examples = [("i would love to", "p"), ("no never mind", "a")]
    train = responses(*examples * 4, ("sesame", "p"))
    test = responses(("sesame", "p"), ("unheard", "p"))

    _, test_scores = classification.response_only(train, train[:2], test)

    seen_once, never_seen = test_scores
    assert seen_once == never_seen


def test_balanced_accuracy_gives_both_kinds_of_negatives_the_weight_of_positives():
    accuracies = {"positive": 80.0, "adversarial": 60.0, "random_rejected": 20.0}
    assert classification.balanced(accuracies) == 60.0


def test_by_two_thresholds_a_response_between_them_is_right_whichever_class_it_has():
    pairs = pd.DataFrame({"kind": list("papapa")})
    distances = [0.5, 0.5, 0.95, 0.95, 1.5, 1.5]
    right = classification.by_two_thresholds(pairs, distances)
    assert right.tolist() == [1, 0, 1, 1, 0, 1]


def test_accuracies_by_threshold_are_means_over_seeds():
    pairs = PAIRS[PAIRS["kind"] != "r"]
    first = np.array([3, 3, 3, 3, 1, 1, 1, 1])
    second = np.array([3, 3, 3, 3, 1, 1, 2.5, 2.5])
    table = classification.by_threshold(pairs, [first, second], [0, 2, 4])
    assert table.index.tolist() == [0, 2, 4]
    assert table["positive"].tolist() == [100, 100, 0]
    assert table["adversarial"].tolist() == [0, 75, 100]
    assert table["overall"].tolist() == [50, 87.5, 50]
