"""What an encoder reads of texts, for encoders with tokenizers of several kinds.

What is read, and the scores that follow, are compared with a plain implementation that reads one
text at a time, as Sentence-Transformers does.
"""

import pandas as pd
import pytest
import tiny
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from dre.slm import SLM, recipes
from dre.slm.encoder import features, lengths, plain_text
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
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, "Ġt", "Ġte", "ea", "he"]
    merges = [("Ġ", "t"), ("Ġt", "e"), ("e", "a"), ("h", "e")]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer, {"cls_token": "<s>", "sep_token": "</s>"}


def sentence_pieces():
    """A tokenizer as those of SentencePiece, without a separator."""
    scores = [("<pad>", 0.0), ("<unk>", 0.0), ("</s>", 0.0), ("\u2581", -2.0)]
    scores += [("\u2581tea", -3.0), ("\u2581the", -3.0), ("ea", -3.5)]
    scores += [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz?!.,"]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=1))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 2)])
    return tokenizer, {}


def write(folder, tokenizer, special_tokens):
    """Write a tiny encoder with a tokenizer, and return its folder."""
    torch.manual_seed(0)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        model_max_length=LIMIT,
        model_input_names=["input_ids", "attention_mask"],
        **special_tokens,
    )
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": LIMIT}
    raw = folder / "raw"
    BertModel(
        BertConfig(vocab_size=len(tokenizer), initializer_range=0.2, **sizes)
    ).save_pretrained(raw)
    tokenizer.save_pretrained(raw)
    SentenceTransformer(modules=[Transformer(str(raw)), Pooling(32)]).save_pretrained(
        str(folder / "encoder")
    )
    return str(folder / "encoder")


@pytest.fixture(scope="module", params=["word pieces", "byte-level", "sentence pieces"])
def slm(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kind")
    kinds = {"byte-level": byte_level, "sentence pieces": sentence_pieces}
    make = kinds.get(request.param)
    path = write(folder, *make()) if make else tiny.encoder(folder)
    return SLM.untrained(path, recipes.replace(recipes.PAPER, max_seq_length=LIMIT))


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
    return plain_end(" ".join(words[-200:]), tokenizer, LIMIT)


def plain_embedding(text, encoder):
    """Embed one text as Sentence-Transformers does."""
    read = encoder.preprocess([text])
    read = {
        name: value.to(encoder.device) for name, value in read.items() if torch.is_tensor(value)
    }
    with torch.no_grad():
        return encoder.eval()(read)["sentence_embedding"][0]


def table_of(dialogues, responses):
    rows = [(turns, response) for turns in dialogues for response in responses]
    table = pd.DataFrame(rows, columns=["context", "response"])
    return table.assign(pair_id=range(len(table)))


def test_distances_are_those_of_a_plain_implementation(slm):
    table = table_of(DIALOGUES, RESPONSES)
    specials = slm.encoder.tokenizer.all_special_tokens
    expected = []
    for turns, response in zip(table["context"], table["response"]):
        h_c = plain_embedding(plain_context(turns, slm), slm.encoder)
        h_r = plain_embedding(plain_text(response, specials), slm.encoder)
        expected.append(1 - F.cosine_similarity(h_c, slm.head.robust(h_r), dim=0).item())
    assert slm.distances(table)["distance"].to_numpy() == pytest.approx(expected, abs=1e-6)


def test_a_text_is_embedded_in_training_as_when_scoring(slm):
    texts = sorted(RESPONSES, key=len) * 3
    when_scoring = slm.encode(texts)["sentence_embedding"]
    assert torch.allclose(embed(slm.encoder, texts), when_scoring, atol=1e-5)


def test_the_end_of_a_dialogue_is_read_and_no_special_token_comes_from_a_text(slm):
    tokenizer = slm.encoder.tokenizer
    table = slm.readable(table_of(DIALOGUES, ["Yes."]))
    texts = slm.contexts(table["context"])
    assert (lengths(slm.encoder, texts) <= LIMIT).all()
    specials = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id, tokenizer.pad_token_id}
    for turns, text in zip(table["context"], texts):
        assert text and " ".join(turns[-1].split()).endswith(text[-5:])
        n_separators = text.count(tokenizer.sep_token) if tokenizer.sep_token else 0
        assert n_separators <= len(turns) - 1
        ids = features(slm.encoder, [text])["input_ids"][0].tolist()
        n_around = tokenizer.num_special_tokens_to_add()
        assert sum(i in specials for i in ids) == n_around + n_separators


def test_as_much_as_fits_is_read_of_a_long_dialogue(slm):
    """A word more at the beginning would be too much."""
    words = ("the tea was late " * 30).split()
    text = slm.context((" ".join(words),))
    longer = " ".join(words[-len(text.split()) - 1 :])
    n_longer, n_text = lengths(slm.encoder, [longer, text])
    assert n_text <= LIMIT < n_longer
