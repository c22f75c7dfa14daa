"""Texts become tokens once, for encoders with tokenizers of several kinds.

What is read, and the scores that follow, are compared with a plain implementation that reads one
text at a time, as Sentence-Transformers does.
"""

from unittest import mock

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from test_ours import one_pair
from test_train import DEV, TRAIN, extra
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    ByT5Tokenizer,
    PreTrainedTokenizerFast,
)

from dre.datasets.dialogues import load, pairs
from dre.slm import SLM, fit, recipes
from dre.slm import encoder as reading
from dre.slm.encoder import Reader, Tokens, load_encoder, plain_text
from dre.slm.triplets import embed

LIMIT = 32
DIALOGUES = [
    ("Do you like tea?",),
    ("Do you like tea?", "  Yes, \t with milk.\n", "And you?"),
    ("I was at the station. " * 9, "The train was late, was it not?"),
    ("short", "z" * 90),
    ("one two three four " * 20 + "q" * 40,),
    ("a <s> b [SEP] c </s>", "[CLS] d"),
    ("\uac01\uc740 " * 30,),
    ("\u200b?", "\U0001f600\U0001f389 caf\u00e9"),
]
RESPONSES = ["Yes.", "No [SEP] never </s>", "word " * 60, "!" * 50, " spaced   out ", "caf\u00e9"]


def byte_level():
    """A tokenizer as that of RoBERTa, in which a space belongs to the word behind it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*specials, *alphabet, "Ġt", "Ġte", "ea", "he"]
    merges = [("Ġ", "t"), ("Ġt", "e"), ("e", "a"), ("h", "e")]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_input_names=["input_ids", "attention_mask"],
    )


def sentence_pieces():
    """A tokenizer as those of SentencePiece, without a separator."""
    letters = "abcdefghijklmnopqrstuvwxyz?!.,"
    scores = [("<pad>", 0.0), ("<unk>", 0.0), ("</s>", 0.0), ("\u2581", -2.0)]
    scores += [("\u2581tea", -3.0), ("\u2581the", -3.0), ("ea", -3.5)]
    scores += [(letter, -4.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=1))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_input_names=["input_ids", "attention_mask"],
    )


def write(tokenizer, folder):
    """Write a tiny encoder with a tokenizer, and return its folder."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer) + 300,
        max_position_embeddings=LIMIT,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.2,
    )
    raw = folder / "raw"
    BertModel(config).save_pretrained(raw)
    tokenizer.model_max_length = LIMIT
    tokenizer.save_pretrained(raw)
    modules = [Transformer(str(raw)), Pooling(32)]
    SentenceTransformer(modules=modules).save_pretrained(str(folder / "encoder"))
    return str(folder / "encoder")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of encoders by the kind of their tokenizer."""
    folder = tmp_path_factory.mktemp("kinds")
    makers = {
        "byte-level": byte_level,
        "sentence pieces": sentence_pieces,
        "in Python": ByT5Tokenizer,
    }
    written = {name: write(make(), folder / name) for name, make in makers.items()}
    return written | {"word pieces": tiny.encoder(folder)}


KINDS = ["word pieces", "byte-level", "sentence pieces", "in Python"]


@pytest.fixture(params=KINDS)
def slm(request, folders):
    recipe = recipes.replace(recipes.get("paper"), max_seq_length=LIMIT)
    slm = SLM.untrained(folders[request.param], recipe)
    slm.kind = request.param
    return slm


def plain_end(text, tokenizer, limit):
    """Leave out the beginning of a text, one call of the tokenizer after another."""
    room = limit - tokenizer.num_special_tokens_to_add()
    while True:
        tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        starts = [start for start, _ in tokens["offset_mapping"]]
        if len(starts) <= room:
            return text
        start = max(starts[len(starts) - room], 1)
        space = text.find(" ", start - 1)
        text = text[space if space >= 0 else start :].strip()


def plain_context(turns, slm):
    """Join turns to the text that an encoder reads."""
    tokenizer = slm.encoder.tokenizer
    separator = tokenizer.sep_token or "\n"
    turns = [plain_text(turn, tokenizer.all_special_tokens).strip() for turn in turns]
    words = f" {separator} ".join(turns).split()
    return plain_end(" ".join(words[-200:]), tokenizer, slm.encoder.max_seq_length)


def plain_embedding(text, encoder):
    """Embed one text as Sentence-Transformers does."""
    features = encoder.preprocess([text])
    features = {
        name: value.to(encoder.device) for name, value in features.items() if torch.is_tensor(value)
    }
    with torch.no_grad():
        return encoder.eval()(features)["sentence_embedding"][0]


def table_of(dialogues, responses):
    rows = [(turns, response) for turns in dialogues for response in responses]
    table = pd.DataFrame(rows, columns=["context", "response"])
    return table.assign(pair_id=range(len(table)))


@pytest.mark.filterwarnings("ignore:.*more than 32 tokens")
def test_distances_are_those_of_a_plain_implementation(slm):
    if slm.kind == "in Python":
        pytest.skip("a tokenizer in Python does not say where a token is in its text")
    table = table_of(DIALOGUES, RESPONSES)
    specials = slm.encoder.tokenizer.all_special_tokens
    expected = []
    for turns, response in zip(table["context"], table["response"]):
        h_c = plain_embedding(plain_context(turns, slm), slm.encoder)
        h_r = plain_embedding(plain_text(response, specials), slm.encoder)
        expected.append(1 - F.cosine_similarity(h_c, h_r, dim=0).item())

    distances = slm.distances(table)["distance"]

    assert distances.to_numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("side", ["right", "left"])
def test_what_is_read_of_a_batch_is_what_sentence_transformers_reads(slm, side, monkeypatch):
    monkeypatch.setattr(slm.encoder.tokenizer, "padding_side", side)
    specials = slm.encoder.tokenizer.all_special_tokens
    texts = [plain_text(text, specials) for text in RESPONSES]
    expected = slm.encoder.preprocess(texts)

    features = slm.reader.tokens.features(texts)

    for name, value in features.items():
        if name in expected:
            assert value.equal(expected[name]), name
    tensors = {name for name, value in expected.items() if torch.is_tensor(value)}
    assert tensors - {"token_type_ids"} <= set(features)


def test_the_end_of_a_dialogue_is_read_and_no_special_token_comes_from_a_text(slm):
    tokenizer = slm.encoder.tokenizer
    table = slm.readable(table_of(DIALOGUES, ["Yes."]))
    texts = slm.contexts(table["context"])
    around = Tokens(slm.encoder)("a")[0].ids
    n_around = len(around) - len(tokenizer("a", add_special_tokens=False)["input_ids"])
    specials = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    for turns, text, tokens in zip(table["context"], texts, slm.reader.tokens(texts)):
        assert tokens.length == len(tokens.ids) <= LIMIT
        assert " ".join(turns[-1].split()).endswith(text[-5:])
        n_separators = text.count(tokenizer.sep_token) if tokenizer.sep_token else 0
        assert sum(i in specials for i in tokens.ids.tolist()) == n_around + n_separators
        assert n_separators <= len(turns) - 1


def test_as_much_as_fits_is_read_of_a_long_dialogue(slm):
    """A word more at the beginning would be too much, or not much is left of the room."""
    turns = ("the tea was late " * 30,)
    (text,) = slm.contexts([turns])
    n_words = len(text.split())
    longer = " ".join(turns[0].split()[-n_words - 1 :])
    longer_length, length = slm.reader.tokens.lengths([longer, text])
    assert length <= LIMIT
    if slm.kind == "in Python":
        assert length >= LIMIT - 10
    else:
        assert longer_length > LIMIT


def count_tokenised(slm, calls):
    """Count in ``calls`` how often the tokenizer of a model is given each text."""
    tokenizer = slm.reader.tokens.tokenizer

    def counted(texts, *options, **named):
        for text in [texts] if isinstance(texts, str) else texts:
            calls[text] = calls.get(text, 0) + 1
        return tokenizer(texts, *options, **named)

    spy = mock.MagicMock(wraps=tokenizer, side_effect=counted)
    for name in ("pad_token_id", "padding_side", "model_input_names"):
        setattr(spy, name, getattr(tokenizer, name))
    return mock.patch.object(slm.reader.tokens, "tokenizer", spy)


@pytest.mark.filterwarnings("ignore:.*more than 128 tokens")
def test_ours_turns_each_text_into_tokens_once_for_both_encoders(encoder, tmp_path):
    slm = fit(TRAIN[:8], DEV, tmp_path / "slm", "ours", 0, encoder, False, extra())
    slm.forget()
    assert slm.base.tokens is slm.reader.tokens
    table = pd.concat([pairs(load("mini", "test")[:4]), one_pair(("tea " * 300,), "yes " * 300)])
    calls = {}
    with (
        count_tokenised(slm, calls),
        mock.patch.object(type(slm.encoder), "preprocess", side_effect=AssertionError("again")),
    ):
        slm.score(table)
        slm.cut(table["response"])
        slm.cut_contexts(table["context"])
    assert set(table["response"]) <= set(calls)
    assert max(calls.values()) == 1

    with count_tokenised(slm, {}) as spy:
        slm.score(table)
    assert not spy.called


def test_a_training_turns_each_text_of_its_batches_into_tokens_once(encoder):
    slm = SLM.untrained(encoder)
    texts = ["yes", "no tea", "the train was late", "yes"]
    calls = {}
    with count_tokenised(slm, calls):
        for _ in range(3):
            embed(slm.encoder, texts[:2], slm.reader.tokens)
            embed(slm.encoder, texts[1:], slm.reader.tokens)
    assert calls == dict.fromkeys(texts, 1)
    remembered = embed(slm.encoder.eval(), texts, slm.reader.tokens)
    assert torch.equal(remembered, embed(slm.encoder, texts))


def test_no_more_texts_are_remembered_than_there_is_memory_for(encoder, monkeypatch):
    monkeypatch.setattr(reading, "TOKENISED", 3)
    tokens = Tokens(load_encoder(encoder))
    texts = [f"{i} tea" for i in range(8)]
    assert [len(known.ids) for known in tokens(texts)] == [4] * 8
    assert list(tokens.known) == texts[-3:]
    long_texts = [f"{i} tea " * 200 for i in range(5)]
    ends = tokens.ends(long_texts)
    assert ends == Tokens(load_encoder(encoder)).ends(long_texts)
    assert len(tokens.known) == len(tokens._ends) == 3


def test_a_text_may_be_a_long_response_first_and_then_a_context(encoder):
    tokens = Tokens(load_encoder(encoder))
    text = " ".join(f"w{i}" for i in range(300))
    start, other = tokens([text, "yes"])
    (end,) = tokens.ends([text])
    assert text.startswith("w0 w1") and text.endswith(end) and end != text
    assert start.length > len(start.ids) == tokens.limit
    assert tokens([text])[0].ids.tolist() == start.ids.tolist()
    assert np.array_equal(other.ids, Tokens(load_encoder(encoder))(["yes"])[0].ids)


def test_two_readers_of_one_tokenizer_may_share_tokens(encoder):
    base = load_encoder(encoder).requires_grad_(False)
    reader = Reader(base)
    shared = Reader(base, reader.tokens)
    assert torch.equal(reader(["yes", "no"]), shared(["yes", "no"]))
    assert AutoTokenizer.from_pretrained(encoder).is_fast
