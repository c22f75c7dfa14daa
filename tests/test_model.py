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
from dre.slm.encoder import keep_end, load_encoder


def untrained(path, recipe="paper"):
    slm = SLM.untrained(path, recipes.get(recipe))
    slm.set_range(load("mini", "dev"))
    return slm


@pytest.fixture(scope="module")
def slm(encoder):
    return untrained(encoder)


def one(response, context=("Do you like tea?",)):
    return pd.DataFrame({"pair_id": ["mine/1"], "context": [context], "response": [response]})


def test_scores_follow_eq_18_and_19_and_depend_on_no_other_pair_nor_order_nor_batch(slm):
    dev = pairs(load("mini", "dev"))
    table = slm.score(dev)
    low, high = slm.provenance["d_min"], slm.provenance["d_max"]
    np.testing.assert_allclose(table["s_d"], (table["distance"] - low) / (high - low))
    np.testing.assert_allclose(table["score_slm"], 1 - table["s_d"] + table["s_p"])
    assert table["s_p"].between(0, 1).all() and table["distance"].between(0, 2).all()
    assert table["s_d"].agg(["min", "max"]).tolist() == pytest.approx([0, 1], abs=1e-5)
    together = table.set_index("pair_id")
    for part, size in ((dev.sample(40, random_state=0), 3), (dev[17:18], 64)):
        slm.forget()
        with mock.patch.dict(reading.ROOM, cpu=size):
            found = slm.score(part).set_index("pair_id")
        np.testing.assert_allclose(found, together.loc[found.index], atol=1e-5)


def test_a_response_is_cut_by_tokens_and_not_by_words_and_texts_of_any_script_get_a_score(slm):
    with pytest.warns(UserWarning, match=r"1 response\(s\) have more than 128 tokens"):
        slm.score(one("!" * 127))  # one word, 127 tokens, and two more that the encoder adds
    assert slm.cut(["yes " * 126, "yes " * 127, "!" * 126, "!" * 127]).tolist() == [
        False,
        True,
        False,
        True,
    ]
    texts = ["😀🎉", "你好，今天怎么样？", "Привет!", "مرحبا", "\u200bhi", "a" * 90]
    assert np.isfinite(slm.score(pd.concat(map(one, texts)))["score_slm"]).all()


def test_bad_pairs_are_named(slm):
    bad = {"response of pair mine/1": one(" "), "context of pair mine/1": one("yes", ())}
    for said, table in (bad | {"lack context": one("yes").drop(columns="context")}).items():
        with pytest.raises(DreError, match=said):
            slm.score(table)
    with pytest.raises(DreError, match="no d_min and d_max"):
        SLM(slm.encoder, slm.head, slm.recipe).score(one("yes"))


def test_the_end_that_is_kept_is_read_whole(slm):
    tokenizer, limit = slm.encoder.tokenizer, slm.encoder.max_seq_length
    korean = " ".join(["\uac01\uc740"] * 40)  # 119 characters, but every syllable is three tokens
    for text in (
        "a b " * 200,
        "x" * 1000,
        "tea " * 126 + "no",
        "tea " * 200 + "z" * 90,
        "!" * 127,
        korean,
    ):
        kept = keep_end(text, tokenizer, limit)
        assert kept and text.strip().endswith(kept) and len(tokenizer(kept)["input_ids"]) <= limit
    assert (
        len(keep_end(korean, tokenizer, limit).split()) == 21
    )  # of six tokens each: no room is given away


def test_what_was_embedded_is_remembered_until_the_encoder_learns(encoder):
    slm, table = untrained(encoder), pairs(load("mini", "dev")[:2])
    before = slm.score(table)
    slm.encoder.encode = None  # nothing is left to embed
    pd.testing.assert_frame_equal(slm.score(table), before)
    del slm.encoder.encode
    slm.learns(("encoder",))
    for weight in slm.encoder.parameters():
        weight.data.mul_(1.5)
    assert (slm.score(table)["distance"] - before["distance"]).abs().min() > 1e-6


@pytest.mark.parametrize("recipe", ["released", "paper"])
def test_saved_and_loaded_models_score_alike_and_damaged_ones_are_named(encoder, tmp_path, recipe):
    slm, folder = untrained(encoder, recipe), tmp_path / "slm"
    slm.set_threshold(0.9)
    slm.save(folder)
    table = pairs(load("mini", "test")[:3])
    again = SLM.load(folder)
    pd.testing.assert_frame_equal(again.score(table), slm.score(table), atol=1e-6)
    assert again.recipe == slm.recipe and again.provenance == slm.provenance
    assert SentenceTransformer(str(folder)).encode(["hi"]).shape == (1, 32)  # an ordinary one
    with pytest.raises(DreError, match="exists already"):
        slm.save(folder)
    (folder / "head.safetensors").write_bytes((folder / "head.safetensors").read_bytes()[:50])
    for name in (folder, tmp_path, tmp_path / "none", "nobody-there/no-such-model"):
        with pytest.raises(
            DreError, match=f"{name} is no SLM, here or on the Hub, or a damaged one"
        ):
            SLM.load(name)


def test_minilm_comes_from_its_package_and_an_unknown_encoder_is_one_sentence_without_a_network():
    table = pd.DataFrame(
        {"pair_id": ["near", "far"], "response": ["A puppy is barking.", "Tax law."]}
    )
    near, far = SLM.untrained("minilm").distances(table.assign(context=[("A dog barks.",)] * 2))[
        "distance"
    ]
    assert near < 0.4 < 0.7 < far
    with pytest.raises(
        DreError, match="encoder 'no/such-encoder-anywhere' cannot be read .*expected minilm"
    ):
        load_encoder("no/such-encoder-anywhere")


def test_of_a_long_dialogue_the_end_is_read():
    words = [f"word{i}" for i in range(300)]
    text = reading.context_text([" ".join(words)])
    assert text.split() == words[-200:]


def test_special_tokens_in_a_users_text_are_text(slm):
    tokenizer = slm.encoder.tokenizer
    (_, (response,)) = slm.texts(slm.readable(one("no [SEP] yes [CLS][MASK]")))
    as_text = tokenizer("no [SEP] yes [CLS][MASK]", split_special_tokens=True)["input_ids"]
    inside = tokenizer(response, add_special_tokens=False)["input_ids"]
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    assert not special & set(inside)
    assert [i for i in as_text if i not in special] == inside


def test_the_separator_between_turns_stays_a_special_token(slm):
    ids = slm.encoder.tokenizer(slm.context(("yes", "no")), add_special_tokens=False)["input_ids"]
    assert ids.count(slm.encoder.tokenizer.sep_token_id) == 1


def test_a_reader_forgets_the_oldest_texts_first(encoder):
    reader = reading.Reader(load_encoder(encoder).requires_grad_(False))
    with mock.patch.object(reading, "REMEMBERED", 2):
        reader(["yes"])
        reader(["no", "tea"])
    assert set(reader.known) == {"no", "tea"}


def test_pairs_are_scored_in_blocks_and_the_table_is_that_of_all(slm):
    table = pairs(load("mini", "dev")[:3])
    whole = slm.score(table)
    with mock.patch("dre.slm.model.BLOCK", 4):
        pd.testing.assert_frame_equal(slm.score(table), whole, atol=1e-5)
