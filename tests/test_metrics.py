"""Metrics that compare a response with a reference: by hand, and as they were recorded."""

import math

import numpy as np
import pandas as pd
import pytest

from dre import metrics
from dre.slm.encoder import load_encoder


def test_embedding_metrics_by_hand():
    response_vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    reference_vectors = np.array([[1.0, 0.0]])
    # The extremes of the response are (1, 1), its mean is (0.5, 0.5).
    greedy = ((1 + 0) / 2 + 1) / 2
    scores = metrics.embedding(response_vectors, reference_vectors)
    assert scores == pytest.approx([0.5**0.5, greedy, 0.5**0.5])
    assert np.isnan(metrics.embedding(response_vectors, np.empty((0, 2)))).all()


def test_bertscore_by_hand_special_tokens_match_but_do_not_count():
    response = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([True, True, False])
    reference = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([True, False])
    precision = (1 + 0.8) / 2
    recall = 1.0
    f1 = 2 * precision * recall / (precision + recall)
    assert metrics.bertscore(response, reference) == pytest.approx(f1)


def test_bleu_of_a_reply_of_two_words_is_of_its_words_and_word_pairs():
    """Without trigrams BLEU-3 and BLEU-4 have nothing to count beyond BLEU-2."""
    scores = metrics.bleu([("no tea", "no tea"), ("no tea", "no tea for me")])
    brevity = math.exp(1 - 4 / 2)  # the second reference is twice as long as the response
    assert scores.tolist() == [pytest.approx([1.0] * 4), pytest.approx([brevity] * 4)]


def test_metrics_give_the_scores_that_were_recorded():
    """Where these change, dre.metrics.VERSION is raised, and recorded scores are refused."""
    texts = [("The train was late again.", "the trains are late")]
    bleu = [0.3333333, 0.1825742, 0.1277182, 0.0965243]
    assert metrics.bleu(texts)[0] == pytest.approx(bleu, abs=1e-6)
    assert metrics.rouge(texts)[0] == pytest.approx([0.4444444, 0.0, 0.4444444], abs=1e-6)
    assert metrics.meteor(texts)[0] == pytest.approx(0.6084656, abs=1e-6)
    assert metrics.VERSION == 1
    names = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-1", "ROUGE-2", "ROUGE-L", "METEOR"]
    assert metrics.COLUMNS[:8] == names


ITEMS = pd.DataFrame(
    [
        ("made/0", "tea", "no tea"),
        ("made/1", "The train is late !", "the train is late!"),
        ("made/2", "it is late", None),
        ("made/3", "  ", "it is late"),
        ("made/4", "we can do it", " we can do it "),
    ],
    columns=["pair_id", "response", "reference"],
)


def test_a_response_is_compared_with_its_reference_where_there_are_two_that_differ(encoder):
    model = load_encoder(encoder, 512)
    scores = metrics.reference_based(ITEMS, model).set_index("pair_id")[metrics.COLUMNS]

    assert scores.isna().all(axis=1).tolist() == [False, False, True, True, True]
    # One word of two, and the penalty of a single match.
    precision, recall, penalty = 1, 1 / 2, 1 / 2
    meteor = precision * recall / (0.9 * precision + 0.1 * recall) * penalty
    assert scores.loc["made/0", "METEOR"] == pytest.approx(meteor)
    # Case and the space before a punctuation mark do not matter.
    assert scores.loc["made/1"][:7].tolist() == pytest.approx([1] * 7)

    # METEOR is below 1 even with itself: its penalty counts the one chunk that matches.
    itself = metrics.reference_based(ITEMS, model, itself=True).set_index("pair_id")
    perfect = itself.loc["made/4"].drop("METEOR")
    assert perfect.tolist() == pytest.approx([1.0] * len(perfect), abs=1e-6)
