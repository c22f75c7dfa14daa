import numpy as np
import pandas as pd
import pytest

from dre import classification
from dre.errors import DreError

KINDS = ["p", "p", "p", "p", "a", "a", "a", "a", "r", "r"]
PAIRS = pd.DataFrame({"kind": KINDS, "context_id": list("aabbaabbab")})


def test_a_word_that_training_says_once_tells_nothing():
    train = responses(*[("i would love to", "p"), ("no never mind", "a")] * 4, ("sesame", "p"))
    asked = responses(("sesame", "p"), ("unheard", "p"))
    seen_once, never_seen = classification.response_only(train, train[:2], asked)[1]
    assert seen_once == never_seen


def responses(*rows):
    return pd.DataFrame(rows, columns=["response", "kind"])


def test_a_threshold_parts_positives_from_adversarials_and_where_they_are_named_from_random_negatives():
    scores, kinds = [5, 5, 4, 0, 0, 0, 4.5], ["p", "p", "p", "a", "a", "a", "r"]
    assert classification.choose_threshold(scores, kinds) == 2.0
    assert classification.choose_threshold(scores, kinds, "ar") == 4.75
    assert (
        classification.choose_threshold(range(6), list("apapap")) == 2.5
    )  # as good as 0.5 and 4.5: the middle one
    with pytest.raises(DreError, match="all kinds of 'pa', each with a finite score"):
        classification.choose_threshold([np.nan, *scores[1:]], kinds)


def test_accuracies_by_hand():
    scores = [1, 1, 1, 0, 0, 0, 1, 1, 0, np.nan]
    right = classification.correct(PAIRS, scores, 0.5)
    assert right.tolist() == pytest.approx([1, 1, 1, 0, 1, 1, 0, 0, 1, np.nan], nan_ok=True)
    row = classification.accuracy(PAIRS, right)
    assert [row[name] for name in classification.COLUMNS] == [75, 50, 62.5, 100]
    assert (row["n"], row["seeds"]) == (9, 1) and np.isnan(row["positive_sd"])
    assert (row["overall_low"], row["overall_high"]) == (
        25,
        100,
    )  # context b twice, context a twice


def test_accuracies_of_several_trainings():
    right = np.column_stack([np.ones(10), np.zeros(10), np.ones(10)])
    row = classification.accuracy(PAIRS, right)
    assert row["overall"] == pytest.approx(200 / 3) and row["seeds"] == 3
    assert row["overall_sd"] == pytest.approx(100 * np.std([1, 0, 1], ddof=1))
    assert (row["overall_low"], row["overall_high"]) == (0, 100)  # seeds are resampled, too


def test_blind_baselines_learn_which_way_to_count_and_which_words():
    train = responses(("a b c d", "p"), ("a", "a"), ("a b c d e f g h", "r"))
    dev, test = responses(("a b", "p")), responses(("a b c", "a"))
    assert [scores.tolist() for scores in classification.length_only(train, dev, test)] == [
        [2],
        [3],
    ]
    shorter = train.assign(kind=["a", "p", "r"])
    assert [scores.tolist() for scores in classification.length_only(shorter, dev, test)] == [
        [-2],
        [-3],
    ]
    train = responses(
        *[("i would love to", "p"), ("no never mind", "a"), ("no never mind", "r")] * 4
    )
    _, (love, never) = classification.response_only(
        train, train[:2], responses(("love", "p"), ("never", "a"))
    )
    assert love > 0.5 > never
