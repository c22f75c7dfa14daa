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
from dre.slm.encoder import Tokens, load_encoder


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

    table = slm.score(pairs(load("mini", "dev")))

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
    dev = pairs(load("mini", "dev"))
    scores_of_all = slm.score(dev).set_index("pair_id")
    slm.forget()

    with mock.patch.dict(reading.ROOM, cpu=tokens_in_batch):
        scores = slm.score(dev.sample(n_pairs, random_state=0)).set_index("pair_id")

    np.testing.assert_allclose(scores, scores_of_all.loc[scores.index], atol=1e-5)


def test_a_response_is_cut_by_tokens_and_not_by_words(slm):
    longest_word = "!" * 126  # one word; every character is a token, and the encoder adds two
    assert slm.cut([longest_word, longest_word + "!"]).tolist() == [False, True]
    assert slm.cut(["yes " * 126, "yes " * 127]).tolist() == [False, True]
    with pytest.warns(UserWarning, match=r"1 response\(s\) have more than 128 tokens"):
        slm.score(one_pair(longest_word + "!"))


def test_texts_of_any_script_get_a_score(slm):
    texts = ["😀🎉", "你好，今天怎么样？", "Привет!", "مرحبا", "\u200bhi", "a" * 90]
    table = slm.score(pd.concat(map(one_pair, texts)))
    assert np.isfinite(table["score_slm"]).all()


BAD_PAIRS = {
    "response of pair mine/1": one_pair(" "),
    "context of pair mine/1": one_pair("yes", ()),
    "lack context": one_pair("yes").drop(columns="context"),
}


@pytest.mark.parametrize("message", BAD_PAIRS)
def test_a_pair_without_a_text_is_named(slm, message):
    with pytest.raises(DreError, match=message):
        slm.score(BAD_PAIRS[message])


def test_without_d_min_and_d_max_nothing_is_scored(slm):
    without_range = SLM(slm.encoder, slm.head, slm.recipe)
    with pytest.raises(DreError, match="no d_min and d_max"):
        without_range.score(one_pair("yes"))


# 119 characters, but every syllable is three tokens.
KOREAN = " ".join(["\uac01\uc740"] * 40)
LONG_TEXTS = {
    "short words": "a b " * 200,
    "a single word": "x" * 1000,
    "one word too many": "tea " * 126 + "no",
    "a long word at the end": "tea " * 200 + "z" * 90,
    "one token too many": "!" * 127,
    "syllables of several tokens": KOREAN,
}


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_the_end_of_a_long_text_is_short_enough_for_the_encoder(slm, text):
    (end,) = Tokens(slm.encoder).ends([text])

    assert end
    assert text.strip().endswith(end)
    assert len(slm.encoder.tokenizer(end)["input_ids"]) <= slm.encoder.max_seq_length


def test_as_many_words_are_read_as_fit(slm):
    (end,) = Tokens(slm.encoder).ends([KOREAN])
    assert len(end.split()) == 21  # of six tokens each


def test_a_text_is_embedded_once_until_the_encoder_learns(encoder):
    slm = untrained(encoder)
    table = pairs(load("mini", "dev")[:2])
    first_scores = slm.score(table)

    with mock.patch.object(slm.encoder, "forward", side_effect=AssertionError("it reads again")):
        pd.testing.assert_frame_equal(slm.score(table), first_scores)

    slm.learns(("encoder",))
    for weight in slm.encoder.parameters():
        weight.data.mul_(1.5)
    change = slm.score(table)["distance"] - first_scores["distance"]
    assert change.abs().min() > 1e-6


@pytest.mark.parametrize("recipe", ["released", "paper"])
def test_a_model_is_saved_and_loaded_and_scores_the_same(encoder, tmp_path, recipe):
    slm = untrained(encoder, recipe)
    slm.set_threshold(0.9)
    table = pairs(load("mini", "test")[:3])

    slm.save(tmp_path / "slm")
    loaded = SLM.load(tmp_path / "slm")

    pd.testing.assert_frame_equal(loaded.score(table), slm.score(table), atol=1e-6)
    assert loaded.recipe == slm.recipe
    assert loaded.provenance == slm.provenance


def test_a_saved_model_is_also_an_ordinary_sentence_transformer(slm, tmp_path):
    slm.save(tmp_path / "slm")
    embeddings = SentenceTransformer(str(tmp_path / "slm")).encode(["hi"])
    assert embeddings.shape == (1, 32)


def test_a_model_is_not_saved_over_another_one(slm, tmp_path):
    slm.save(tmp_path / "slm")
    with pytest.raises(DreError, match="exists already"):
        slm.save(tmp_path / "slm")


def test_a_damaged_or_missing_model_is_named(slm, tmp_path):
    folder = tmp_path / "slm"
    slm.save(folder)
    weights = folder / "head.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])

    for name in (folder, tmp_path, tmp_path / "none", "nobody-there/no-such-model"):
        message = f"{name} is not an SLM, here or on the Hub, or it is damaged"
        with pytest.raises(DreError, match=message):
            SLM.load(name)


def test_minilm_comes_from_its_package():
    table = pd.DataFrame(
        {
            "pair_id": ["related", "unrelated"],
            "context": [("A dog barks.",)] * 2,
            "response": ["A puppy is barking.", "Tax law."],
        }
    )
    related, unrelated = SLM.untrained("minilm").distances(table)["distance"]
    assert related < 0.4 < 0.7 < unrelated


def test_an_unknown_encoder_is_one_sentence_without_a_network():
    message = "encoder 'no/such-encoder-anywhere' cannot be read .*expected minilm"
    with pytest.raises(DreError, match=message):
        load_encoder("no/such-encoder-anywhere")


def test_the_end_of_a_long_dialogue_is_read():
    words = [f"word{i}" for i in range(300)]
    text = reading.context_text([" ".join(words)])
    assert text.split() == words[-200:]


def test_special_tokens_in_a_users_text_are_read_as_text(slm):
    tokenizer = slm.encoder.tokenizer
    special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    text = "no [SEP] yes [CLS][MASK]"

    _, (response,) = slm.texts(slm.readable(one_pair(text)))

    ids = tokenizer(response, add_special_tokens=False)["input_ids"]
    ids_as_text = tokenizer(text, split_special_tokens=True)["input_ids"]
    assert not special_ids & set(ids)
    assert [token_id for token_id in ids_as_text if token_id not in special_ids] == ids


def test_the_separator_between_turns_stays_a_special_token(slm):
    ids = slm.encoder.tokenizer(slm.context(("yes", "no")), add_special_tokens=False)["input_ids"]
    assert ids.count(slm.encoder.tokenizer.sep_token_id) == 1


def test_a_reader_forgets_the_oldest_texts_first(encoder):
    reader = reading.Reader(load_encoder(encoder).requires_grad_(False))
    with mock.patch.object(reading, "REMEMBERED", 2):
        reader(["yes"])
        reader(["no", "tea"])
    assert set(reader.known) == {"no", "tea"}


def test_scores_in_blocks_are_the_same_as_in_one_table(slm):
    table = pairs(load("mini", "dev")[:3])
    whole = slm.score(table)
    with mock.patch("dre.slm.model.BLOCK", 4):
        pd.testing.assert_frame_equal(slm.score(table), whole, atol=1e-5)
