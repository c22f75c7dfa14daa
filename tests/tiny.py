"""A tiny BERT with random weights, as a Sentence-Transformers folder.

It has the architecture of a real encoder, and is trained in seconds.
"""

import contextlib
import re
import string
from pathlib import Path
from unittest import mock

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel

WORDS = [
    "the",
    "a",
    "i",
    "you",
    "we",
    "it",
    "is",
    "was",
    "do",
    "did",
    "can",
    "my",
    "your",
    "tea",
    "train",
    "no",
    "yes",
]
LETTERS = (
    string.ascii_lowercase
    + string.digits
    + string.punctuation
    + "\u1100\u1161\u11a8\u110b\u1173\u11ab"
)


def still(path):
    """Switch dropout off in an encoder's folder."""
    config = Path(path) / "config.json"
    config.write_text(re.sub(r'(dropout_prob": )0.1', r"\1 0", config.read_text()))
    return path


@contextlib.contextmanager
def no_doubles():
    """Behave as a device without float64, such as Apple's: only the CPU has it."""
    cpu = torch.Tensor.cpu
    double = torch.Tensor.double
    to = torch.Tensor.to

    def leave(x, *options, **named):
        # A view is another tensor, also if x was on the CPU before.
        on_cpu = cpu(x, *options, **named)
        on_cpu = on_cpu.view(on_cpu.shape)
        on_cpu.has_left = True
        return on_cpu

    def refuse(x):
        assert getattr(x, "has_left", False), "float64 on the device"
        return double(x)

    def move(x, *options, **named):
        assert torch.float64 not in (*options, *named.values()), "float64 on the device"
        return to(x, *options, **named)

    with (
        mock.patch.object(torch.Tensor, "cpu", leave),
        mock.patch.object(torch.Tensor, "double", refuse),
        mock.patch.object(torch.Tensor, "to", move),
    ):
        yield


def encoder(folder, dimension=32):
    """Write the encoder to ``folder`` and return the folder as a string."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *WORDS,
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
    ]
    vocabulary = list(dict.fromkeys(words))
    raw, path = folder / "raw", folder / "encoder"
    torch.manual_seed(0)
    sizes = {
        "hidden_size": dimension,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    # The wide range spreads the embeddings enough to learn from in a few steps.
    config = BertConfig(
        vocab_size=len(vocabulary), max_position_embeddings=130, initializer_range=0.2, **sizes
    )
    BertModel(config).save_pretrained(raw)
    (raw / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    AutoTokenizer.from_pretrained(raw, model_max_length=128).save_pretrained(raw)
    SentenceTransformer(modules=[Transformer(str(raw)), Pooling(dimension)]).save_pretrained(
        str(path)
    )
    return str(path)
