"""A tiny, randomly initialised BERT as a Sentence-Transformers folder: the real architecture, trained in seconds."""

import string

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel

WORDS = ["the", "a", "i", "you", "we", "it", "is", "was", "do", "did", "can", "my", "your", "tea", "train", "no", "yes"]
LETTERS = string.ascii_lowercase + string.digits + string.punctuation + "\u1100\u1161\u11a8\u110b\u1173\u11ab"


def encoder(folder, dimension=32):
    """Write the encoder to ``folder`` and return the folder as a string."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = list(dict.fromkeys(words))
    raw, path = folder / "raw", folder / "encoder"
    torch.manual_seed(0)
    sizes = {"hidden_size": dimension, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    # The wide range spreads the embeddings enough to learn from in a few steps.
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=130, initializer_range=0.2, **sizes)
    BertModel(config).save_pretrained(raw)
    (raw / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    AutoTokenizer.from_pretrained(raw, model_max_length=128).save_pretrained(raw)
    SentenceTransformer(modules=[Transformer(str(raw)), Pooling(dimension)]).save_pretrained(str(path))
    return str(path)
