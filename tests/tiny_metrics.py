"""Tiny models of the metrics' architectures, and NLTK's resources in the form of their files.

The models have random weights, and all texts are our own.
"""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

WORDS = [
    "the",
    "train",
    "was",
    "late",
    "again",
    "i",
    "took",
    "a",
    "boat",
    "Yes",
    "No",
    "ask",
    ":",
    "is",
    "this",
    "nice",
    "?",
    "reply",
    "facts",
]


def save_tokenizer(folder, beginning, end, pad):
    """Write a tokenizer of whole words that marks beginning and end, if it has marks for them."""
    special = [mark for mark in (pad, beginning, end, "<unk>") if mark]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys([*special, *WORDS]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(mark, vocabulary[mark]) for mark in (beginning, end) if mark]
    template = " ".join([mark for mark in (beginning, "$A", end) if mark])
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token=pad, model_max_length=60
    ).save_pretrained(folder)
    return vocabulary


def bart(folder):
    """Write a tiny BART with random weights, and return its folder."""
    vocabulary = save_tokenizer(folder, "<s>", "</s>", "<pad>")
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=len(vocabulary),
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=0.5,
        pad_token_id=vocabulary["<pad>"],
        bos_token_id=vocabulary["<s>"],
        eos_token_id=vocabulary["</s>"],
        decoder_start_token_id=vocabulary["</s>"],
    )
    BartForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


def t5(folder):
    """Write a tiny T5 with random weights, and return its folder."""
    vocabulary = save_tokenizer(folder, None, "</s>", "<pad>")
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(vocabulary),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        initializer_factor=3.0,
        pad_token_id=vocabulary["<pad>"],
        eos_token_id=vocabulary["</s>"],
        decoder_start_token_id=vocabulary["<pad>"],
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


#: In the form of UniEval's own file, with other questions.
QUESTIONS = """
def add_question(dimension, output, src=None, ref=None, context=None, task=None):
    asked = []
    for i in range(len(output)):
        if task == 'tales':
            if dimension == 'coherence':
                asked_now = 'ask : a tale ? ' + output[i]
        elif task == 'dialogue':
            if dimension == 'naturalness':
                asked_now = 'ask : nice ? reply : ' + output[i]
            elif dimension == 'coherence':
                asked_now = 'ask : is this late ? reply : '\\
                            + output[i] + ' the train : ' + src[i]
            elif dimension == 'engagingness':
                asked_now = 'ask : a boat ? reply : ' + output[i] + ' : ' + src[i] + context[i]
            elif dimension == 'groundedness':
                asked_now = 'ask : is this facts ? reply : ' + output[i] + ' facts : ' + context[i]
            elif dimension == 'understandability':
                asked_now = 'ask : again ? reply : ' + output[i]
            else:
                raise NotImplementedError('no such dimension')
        asked.append(asked_now)
    return asked
"""


def wordnet_folder(folder):
    """Write a WordNet with the nouns boat, ship (synonyms) and train, in the form of its files."""
    corpus = folder / "corpora" / "wordnet"
    corpus.mkdir(parents=True)
    lines = []
    offsets = []
    position = 0
    for words in (("boat", "ship"), ("train",)):
        entries = " ".join(f"{word} 0" for word in words)
        line = f"{position:08d} 06 n {len(words):02x} {entries} 000 | made for a test  \n"
        offsets.append(position)
        position += len(line)
        lines.append(line)
    (corpus / "data.noun").write_text("".join(lines))
    index = [("boat", offsets[0]), ("ship", offsets[0]), ("train", offsets[1])]
    (corpus / "index.noun").write_text(
        "".join(f"{word} n 1 0 1 0 {offset:08d}  \n" for word, offset in index)
    )
    for name in ("adj", "adv", "verb"):
        (corpus / f"data.{name}").write_text("")
        (corpus / f"index.{name}").write_text("")
    for name in ("noun", "adj", "adv", "verb"):
        (corpus / f"{name}.exc").write_text("")
    names = [
        "adj.all",
        "adj.pert",
        "adv.all",
        "noun.Tops",
        "noun.act",
        "noun.animal",
        "noun.artifact",
    ]
    (corpus / "lexnames").write_text(
        "".join(f"{i:02d}\t{name}\t1\n" for i, name in enumerate(names))
    )
    (corpus / "index.sense").write_text("")
    (corpus / "cntlist.rev").write_text("")


def punkt_folder(folder):
    """Write the parameters of NLTK's sentence tokenizer for English, which has learned nothing."""
    english = folder / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    names = ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab")
    for name in names:
        (english / name).write_text("")


def word_vectors(path):
    """Write vectors of three words, in word2vec's text form."""
    path.write_text("3 2\nboat 1 0\ntrain 0 1\nlate 0.6 0.8\n")
