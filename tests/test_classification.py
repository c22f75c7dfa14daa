"""Accuracies and thresholds by hand, and baselines that see only the response."""

import numpy as np
import pandas as pd
import pytest

from dre import classification
from dre.errors import DreError

# Kinds: positives (p), adversarials (a), random negatives (r).
PAIRS = pd.DataFrame({"kind": list("ppppaaaarr"), "context_id": list("aabbaabbab")})
SCORES = [5, 5, 4, 0, 0, 0, 4.5]
KINDS = "pppaaar"


@pytest.mark.parametrize(
    ("scores", "kinds", "negatives", "threshold"),
    [
        (SCORES, KINDS, "a", 2.0),
        (SCORES, KINDS, "ar", 4.75),  # each kind of negatives has equal weight
        (range(6), "apapap", "a", 2.5),  # 0.5, 2.5 and 4.5 are equally good
    ],
)
def test_a_threshold_by_hand(scores, kinds, negatives, threshold):
    assert classification.choose_threshold(scores, list(kinds), negatives) == threshold


@pytest.mark.parametrize(("scores", "kinds"), [([np.nan, *SCORES[1:]], KINDS), ([1, 2], "pp")])
def test_a_threshold_needs_a_finite_score_of_each_kind(scores, kinds):
    with pytest.raises(DreError, match="all kinds of 'pa', each with a finite score"):
        classification.choose_threshold(scores, list(kinds))


def test_accuracies_by_hand():
    # Right is a positive from the threshold on, and any negative below it.
    is_correct = classification.correct(PAIRS, [1, 1, 1, 0, 0, 0, 1, 1, 0, np.nan], 0.5)
    assert is_correct.tolist() == pytest.approx([1, 1, 1, 0, 1, 1, 0, 0, 1, np.nan], nan_ok=True)

    row = classification.accuracy(PAIRS, is_correct)

    assert [row[name] for name in classification.COLUMNS] == [75, 50, 62.5, 100]
    # The worst resample has context b twice, and the best has context a twice.
    assert [row[name] for name in ("overall_low", "overall_high", "n", "seeds")] == [25, 100, 9, 1]
    assert np.isnan(row["positive_sd"])

    # Of three trainings one is wrong; they are resampled, too.
    row = classification.accuracy(PAIRS, np.ones((10, 1)) * [1, 0, 1])
    assert [row[name] for name in ("overall_low", "overall_high", "n", "seeds")] == [0, 100, 10, 3]
    assert row["overall"] == pytest.approx(200 / 3)
    assert row["overall_sd"] == pytest.approx(100 / 3**0.5)


def test_balanced_accuracy_gives_both_kinds_of_negatives_the_weight_of_positives():
    accuracies = {"positive": 80.0, "adversarial": 60.0, "random_rejected": 20.0}
    assert classification.balanced(accuracies) == 60.0


def test_by_two_thresholds_a_response_between_them_is_right_whichever_class_it_has():
    pairs = pd.DataFrame({"kind": list("papapa")})
    right = classification.by_two_thresholds(pairs, [0.5, 0.5, 0.95, 0.95, 1.5, 1.5])
    assert right.tolist() == [1, 0, 1, 1, 0, 1]


def test_accuracies_by_threshold_are_means_over_seeds():
    """Of the last pair one training has no score, and no pair is random."""
    pairs = PAIRS[PAIRS["kind"] != "r"]
    first = np.array([3, 3, 3, 3, 1, 1, 1, 1])
    second = np.array([3, 3, 3, 3, 1, 2.5, 2.5, np.nan])
    table = classification.by_threshold(pairs, [first, second], [0, 2, 4])
    assert table.index.tolist() == [0, 2, 4]
    assert table["positive"].tolist() == [100, 100, 0]
    assert table["adversarial"].tolist() == pytest.approx([0, 200 / 3, 100])
    assert table["overall"].tolist() == pytest.approx([400 / 7, 600 / 7, 300 / 7])
    assert table["random_rejected"].isna().all()


@pytest.mark.parametrize(("kinds", "sign"), [(["p", "a", "r"], 1), (["a", "p", "r"], -1)])
def test_the_length_baseline_learns_which_way_to_count(kinds, sign):
    train = pd.DataFrame({"response": ["a b c d", "a", "a b c d e f g h"], "kind": kinds})
    others = (pd.DataFrame({"response": [text]}) for text in ("a b", "a b c"))
    dev, test = classification.length_only(train, *others)
    assert [*dev, *test] == [2 * sign, 3 * sign]


def test_the_response_baseline_learns_which_words_positives_have():
    """A word that training says once tells nothing."""
    examples = [("i would love to", "p"), ("no never mind", "a"), ("no never mind", "r")]
    train = pd.DataFrame([*examples * 4, ("sesame", "p")], columns=["response", "kind"])
    test = pd.DataFrame({"response": ["love", "never", "sesame", "unheard"]})
    _, (love, never, once, unheard) = classification.response_only(train, train[:2], test)
    assert love > 0.5 > never
    assert once == unheard
