"""Metrics that compare a response with a reference: by hand, and as they were recorded."""

import math

import numpy as np
import pandas as pd
import pytest

from dre import metrics
from dre.slm.encoder import load_encoder

# of "The train was late again." for the reference "the trains are late"
BLEU_AND_ROUGE = [0.3333333, 0.1825742, 0.1277182, 0.0965243, 0.4444444, 0.0, 0.4444444]
METEOR = 0.6084656


def test_embedding_metrics_by_hand():
    response_vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    reference_vectors = np.array([[1.0, 0.0]])

    scores = metrics.embedding(response_vectors, reference_vectors)

    extrema = 0.5**0.5  # the extremes of the response are (1, 1)
    greedy = ((1 + 0) / 2 + 1) / 2
    average = 0.5**0.5
    assert scores == pytest.approx([extrema, greedy, average])


def test_embedding_metrics_of_no_words_are_missing():
    response_vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    no_vectors = np.empty((0, 2))
    assert np.isnan(metrics.embedding(response_vectors, no_vectors)).all()


def test_bertscore_by_hand_special_tokens_match_but_do_not_count():
    response_vectors = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    response_is_word = np.array([True, True, False])
    reference_vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    reference_is_word = np.array([True, False])

    score = metrics.bertscore(
        (response_vectors, response_is_word),
        (reference_vectors, reference_is_word),
    )

    precision = (1 + 0.8) / 2
    recall = 1.0
    assert score == pytest.approx(2 * precision * recall / (precision + recall))


def test_bleu_of_a_reply_of_two_words_is_of_its_words_and_word_pairs():
    """Without trigrams BLEU-3 and BLEU-4 have nothing to count beyond BLEU-2."""
    scores = metrics.bleu([("no tea", "no tea"), ("no tea", "no tea for me")])

    # The second reference is twice as long as the response.
    brevity = math.exp(1 - 4 / 2)
    expected = np.array([[1.0] * 4, [brevity] * 4])
    assert scores.tolist() == pytest.approx(expected)


def test_metrics_give_the_scores_that_were_recorded():
    """Where these change, dre.metrics.VERSION is raised, and recorded scores are refused."""
    texts = [("The train was late again.", "the trains are late")]

    bleu_and_rouge = np.concatenate([metrics.bleu(texts)[0], metrics.rouge(texts)[0]])
    meteor = metrics.meteor(texts)[0]

    assert bleu_and_rouge == pytest.approx(BLEU_AND_ROUGE, abs=1e-6)
    assert meteor == pytest.approx(METEOR, abs=1e-6)
    assert metrics.VERSION == 1


ITEMS = pd.DataFrame(
    [
        ("made/0", "the train is late", "the train was late"),
        ("made/1", "The train is late !", "the train is late!"),
        ("made/2", "tea", "no tea"),
        ("made/3", "it is late", None),
        ("made/4", "  ", "it is late"),
        ("made/5", "we can do it", " we can do it "),
    ],
    columns=["pair_id", "response", "reference"],
)


@pytest.fixture
def model(encoder):
    return load_encoder(encoder, 512)


@pytest.fixture
def scores(model):
    return metrics.reference_based(ITEMS, model).set_index("pair_id")[metrics.COLUMNS]


def test_a_row_without_a_response_or_a_reference_or_with_equal_ones_has_no_scores(scores):
    is_missing = scores.isna().all(axis=1)
    assert is_missing.tolist() == [False, False, False, True, True, True]


def test_meteor_of_a_single_word_by_hand(scores):
    precision = 1
    recall = 1 / 2
    penalty = 1 / 2  # of a single match
    meteor = precision * recall / (0.9 * precision + 0.1 * recall) * penalty
    assert scores.loc["made/2", "METEOR"] == pytest.approx(meteor)


def test_case_and_the_space_before_a_punctuation_mark_do_not_matter(scores):
    assert scores.loc["made/1"][:7].tolist() == pytest.approx([1] * 7)


def test_a_response_compared_with_itself_is_perfect(model):
    table = metrics.reference_based(ITEMS, model, itself=True).set_index("pair_id")
    # METEOR is below 1 even here: its penalty counts the one chunk that matches.
    perfect = table.loc["made/5"].drop("METEOR")
    assert perfect.tolist() == pytest.approx([1.0] * len(perfect), abs=1e-6)
