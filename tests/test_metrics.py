import math

import numpy as np
import pandas as pd
import pytest

from dre import metrics
from dre.slm.encoder import load_encoder

# of "The train was late again." for the reference "the trains are late"
BLEU_AND_ROUGE = [0.3333333, 0.1825742, 0.1277182, 0.0965243, 0.4444444, 0.0, 0.4444444]
METEOR = 0.6084656

ROWS = [
    ("the train is late", "the train was late"),
    ("The train is late !", "the train is late!"),
    ("tea", "no tea"),
    ("it is late", None),
    ("  ", "it is late"),
    ("we can do it", " we can do it "),
]
ITEMS = pd.DataFrame(ROWS, columns=["response", "reference"]).assign(
    pair_id=[f"made/{i}" for i in range(6)]
)


def test_embedding_metrics_by_hand():
    x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    extrema = average = 0.5**0.5  # the extremes of x are (1, 1)
    greedy = ((1 + 0) / 2 + 1) / 2
    assert metrics.embedding(x, y) == pytest.approx([extrema, greedy, average])
    assert np.isnan(metrics.embedding(x, y[:0])).all()


def test_bertscore_by_hand_special_tokens_match_but_do_not_count():
    x = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([True, True, False])
    y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([True, False])
    precision, recall = (1 + 0.8) / 2, 1.0
    assert metrics.bertscore(x, y) == pytest.approx(2 * precision * recall / (precision + recall))


def test_bleu_of_a_reply_of_two_words_is_of_its_words_and_word_pairs():
    """Without trigrams BLEU-3 and BLEU-4 have nothing to count beyond BLEU-2; the reference is twice as long."""
    brevity = math.exp(1 - 4 / 2)
    scores = metrics.bleu([("no tea", "no tea"), ("no tea", "no tea for me")])
    assert scores.tolist() == pytest.approx(np.array([[1.0] * 4, [brevity] * 4]))


def test_metrics_give_the_scores_that_were_recorded():
    """Where these change, dre.metrics.VERSION is raised, and recorded scores are refused."""
    response, reference = "The train was late again.", "the trains are late"
    scores = np.concatenate(
        [metrics.bleu([(response, reference)])[0], metrics.rouge([(response, reference)])[0]]
    )
    assert scores == pytest.approx(BLEU_AND_ROUGE, abs=1e-6)
    assert metrics.meteor([(response, reference)])[0] == pytest.approx(METEOR, abs=1e-6)
    assert metrics.VERSION == 1


def test_a_table_says_nothing_where_nothing_can_be_compared(encoder):
    model = load_encoder(encoder, 512)
    scores = metrics.reference_based(ITEMS, model).set_index("pair_id")[metrics.COLUMNS]
    assert scores.isna().all(axis=1).tolist() == [False, False, False, True, True, True]
    precision, recall = 1, 1 / 2  # of "tea" for "no tea"; half is the penalty of a single match
    meteor = precision * recall / (0.9 * precision + 0.1 * recall) / 2
    assert scores.loc["made/2", "METEOR"] == pytest.approx(meteor)
    assert scores.loc["made/1"][:7].tolist() == pytest.approx([1] * 7)  # but for case and marks
    perfect = (
        metrics.reference_based(ITEMS, model, itself=True)
        .drop(columns=["pair_id", "METEOR"])
        .loc[5]
    )
    assert perfect.tolist() == pytest.approx(
        [1.0] * len(perfect), abs=1e-6
    )  # METEOR's penalty counts one chunk, too
