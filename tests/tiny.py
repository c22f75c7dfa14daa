"""A tiny, randomly initialised BERT as a Sentence-Transformers folder: the true architecture, trained in seconds."""

import string

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

WORDS = ["the", "a", "i", "you", "we", "it", "is", "was", "do", "did", "can", "my", "your", "tea", "train", "no", "yes"]


def encoder(folder, dimension=32):
    """Write the encoder to ``folder`` and return the folder as a string."""
    letters = string.ascii_lowercase + string.digits + string.punctuation
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    vocabulary += [t for t in (*letters, *(f"##{c}" for c in letters)) if t not in vocabulary]
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=dimension,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=130,
        initializer_range=0.2,  # spreads the embeddings enough to learn from in a few steps
    )
    BertModel(config).save_pretrained(raw)
    BertTokenizerFast(vocab_file=str(raw / "vocab.txt"), model_max_length=128).save_pretrained(raw)
    transformer = Transformer(str(raw))
    path = folder / "encoder"
    SentenceTransformer(modules=[transformer, Pooling(dimension)]).save_pretrained(str(path))
    return str(path)
