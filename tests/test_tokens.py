"""What an encoder reads of texts, for encoders with tokenizers of several kinds.

What is read, and the scores that follow, are compared with a plain implementation that reads one
text at a time, as Sentence-Transformers does.
"""

import pandas as pd
import pytest
import tiny
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

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


def sentence_pieces(folder):
    """Write a tiny encoder with a tokenizer as those of SentencePiece, without a separator."""
    scores = [("<pad>", 0.0), ("<unk>", 0.0), ("</s>", 0.0), ("\u2581", -2.0)]
    scores += [("\u2581tea", -3.0), ("\u2581the", -3.0), ("ea", -3.5)]
    scores += [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz?!.,"]
    model = Tokenizer(models.Unigram(scores, unk_id=1))
    model.pre_tokenizer = pre_tokenizers.Metaspace()
    model.post_processor = processors.TemplateProcessing("$A </s>", None, [("</s>", 2)])
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, model_max_length=LIMIT, **special)
    path = tiny.encoder(folder)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module", params=[tiny.encoder, sentence_pieces])
def slm(request, tmp_path_factory):
    path = request.param(tmp_path_factory.mktemp("kind"))
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
    return encoder.encode([text], convert_to_tensor=True, show_progress_bar=False)[0]


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
        expected.append(1 - F.cosine_similarity(h_c, h_r, dim=0).item())
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
