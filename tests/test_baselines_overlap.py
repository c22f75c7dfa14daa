"""Word overlap metrics: hand-worked values, identity, missing references, and what is counted once."""

import math

import numpy as np
import pandas as pd
import pytest

from dre import baselines
from dre.errors import DreError

pytest.importorskip("sacrebleu")
pytest.importorskip("rouge_score")

METRICS = [baselines.bleu, baselines.rouge, baselines.meteor]


def table(*pairs):
    ids = [f"own/{i}" for i in range(len(pairs))]
    return pd.DataFrame({"pair_id": ids, "response": [p[0] for p in pairs], "reference": [p[1] for p in pairs]})


def test_bleu_worked_by_hand():
    got = baselines.bleu(table(("the cat sat on the mat", "the cat lay on the mat"))).iloc[0]
    precisions = [5 / 6, 3 / 5, 1 / 4]
    for n in (1, 2, 3):
        assert got[f"BLEU-{n}"] == pytest.approx(math.prod(precisions[:n]) ** (1 / n))
    smoothed = 1 / (2 * 3)  # no 4-gram of three matches: exponential smoothing counts half a match
    assert got["BLEU-4"] == pytest.approx((math.prod(precisions) * smoothed) ** (1 / 4))


def test_bleu_has_a_brevity_penalty_and_an_effective_order():
    got = baselines.bleu(table(("green tea", "green tea and some dry biscuits"))).iloc[0]
    assert got["BLEU-1"] == got["BLEU-4"] == pytest.approx(math.exp(1 - 6 / 2))


def test_rouge_worked_by_hand():
    got = baselines.rouge(table(("my dog likes cold rain", "my dog hates the cold rain"))).iloc[0]
    assert got["ROUGE-1"] == pytest.approx(2 * 4 / (5 + 6))
    assert got["ROUGE-2"] == pytest.approx(2 * 2 / (4 + 5))
    assert got["ROUGE-L"] == pytest.approx(2 * 4 / (5 + 6))


def test_meteor_worked_by_hand():
    # "walking" meets "walked" by its stem: 3 matches in 2 chunks (i | walked dogs)
    got = baselines.meteor(table(("I was walking dogs", "I walked dogs"))).iloc[0]
    precision, recall = 3 / 4, 3 / 3
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    assert got["METEOR (exact+stem)"] == pytest.approx(mean * (1 - 0.5 * (2 / 3) ** 3))


def test_meteor_knows_no_synonyms():
    assert baselines.meteor(table(("big automobile", "large car")))["METEOR (exact+stem)"][0] == 0


@pytest.mark.parametrize("metric", METRICS)
def test_range_identity_and_case(metric):
    reply = "Yes, we could meet at noon near the old station."
    got = metric(table((reply, reply), (reply.upper(), reply), ("Bananas grow upward", reply)))
    values = got.drop(columns=["pair_id", "reason"]).to_numpy()
    assert values[0] == pytest.approx(1, abs=0.001)  # METEOR's penalty for one chunk
    np.testing.assert_array_equal(values[0], values[1])
    assert ((values[2] >= 0) & (values[2] < 0.2)).all()


@pytest.mark.parametrize("metric", METRICS)
def test_a_missing_reference_is_missing_with_a_reason_and_never_zero(metric):
    got = metric(
        table(("Hello there", None), ("Hello there", np.nan), ("Hello there", "  "), ("", "Hello"), ("Hi", "Hi"))
    )
    values = got.drop(columns=["pair_id", "reason"])
    assert values[:4].isna().all(axis=None) and values[4:].notna().all(axis=None)
    assert list(got["reason"]) == ["no reference"] * 3 + ["empty response", ""]


@pytest.mark.parametrize("metric", METRICS)
def test_no_pair_can_be_scored(metric):
    got = metric(table(("Hello there", None)))
    assert len(got) == 1 and got.iloc[:, 1:-1].isna().all(axis=None)


@pytest.mark.parametrize("metric", METRICS)
def test_results_do_not_depend_on_the_other_rows(metric):
    rows = table(("a red hat", "the red hat"), ("no idea", "I have no idea"), ("a red hat", "the red hat"))
    together = metric(rows)
    assert together.iloc[0, 1:].equals(together.iloc[2, 1:])
    alone = metric(rows.iloc[[1]])
    pd.testing.assert_frame_equal(together.iloc[[1]].reset_index(drop=True), alone)


def test_length_counts_words_and_marks_and_needs_no_reference():
    got = baselines.length(pd.DataFrame({"pair_id": ["a", "b"], "response": ["Well, I never!", None]}))
    assert got["Response length"][0] == 5
    assert np.isnan(got["Response length"][1]) and got["reason"][1] == "empty response"


def test_every_column_has_a_signature_with_a_version():
    rows = table(("a red hat", "the red hat"))
    columns = {c for metric in [*METRICS, baselines.length] for c in metric(rows).columns} - {
        "pair_id",
        "reason",
    }
    signatures = baselines.signatures()
    assert columns < set(signatures)
    assert all(any(part.isdigit() for part in text) for text in signatures.values())


def test_bad_tables_are_refused_with_a_sentence():
    with pytest.raises(DreError, match="lacks 'reference'"):
        baselines.bleu(table(("a", "b")).drop(columns="reference"))
    with pytest.raises(DreError, match="'own/0' occurs twice"):
        baselines.rouge(pd.concat([table(("a", "b"))] * 2))
