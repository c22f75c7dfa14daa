"""Batches of triplets for an encoder: a context, a positive and an adversarial response."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from dre.datasets.dialogues import Context
from dre.errors import DreError
from dre.slm.encoder import features

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: Texts of similar length that are encoded together, so that little of a chunk is padding.
_CHUNK = 12
#: on a GPU, which many small batches would leave idle
_CHUNK_ON_GPU = 256


class Row(NamedTuple):
    """A training context: its turns as one text, and its responses."""

    context: str
    positives: Sequence[str]
    adversarials: Sequence[str]

    def texts(self) -> list[str]:
        """Return the context and all its responses."""
        return [self.context, *self.positives, *self.adversarials]


def training_rows(contexts: Sequence[Context], text: Callable) -> list[Row]:
    """Return one row for each context, with the ``text`` of its turns as it is encoded.

    Raises DreError if there is no context, or one lacks positive or adversarial responses.
    """
    incomplete = [
        context.context_id
        for context in contexts
        if not context.positives or not context.adversarials
    ]
    if incomplete or not contexts:
        raise DreError(
            f"{len(incomplete)} of {len(contexts)} contexts lack responses, {incomplete[:3]}: "
            "training needs a context at least, and of each positive_responses and "
            "adversarial_negative_responses"
        )
    return [
        Row(text(context.turns), context.positives, context.adversarials) for context in contexts
    ]


def distinct(texts: Iterable[str]) -> tuple[list[str], dict[str, int]]:
    """Return the distinct texts, shortest first, and the position of each among them."""
    ordered = sorted(set(texts), key=lambda text: (len(text), text))
    position = {text: i for i, text in enumerate(ordered)}
    return ordered, position


def triplet_batch(rows: Sequence[Row]) -> tuple[list[str], torch.Tensor]:
    """Return the distinct texts of some rows, and their triplets as positions among these texts.

    Five positives and five adversarials of a context make 25 triplets, but have only 11 texts to
    encode; triplet by triplet there would be 75.

    Returns
    -------
    texts : list of str, shortest first.
    triplets : integer tensor (m, 3), the positions of context, positive and adversarial.
    """
    texts, position = distinct(text for row in rows for text in row.texts())
    triplets = [
        [position[text] for text in triplet]
        for row in rows
        for triplet in product([row.context], row.positives, row.adversarials)
    ]
    return texts, torch.tensor(triplets)


def embed(encoder: "SentenceTransformer", texts: Sequence[str]) -> torch.Tensor:
    """Return embeddings (n, d) through which a gradient can flow, encoded chunk by chunk."""
    size = _CHUNK if encoder.device.type == "cpu" else _CHUNK_ON_GPU
    starts = range(0, len(texts), size)
    chunks = [features(encoder, texts[start : start + size]) for start in starts]

    # Word vectors of all chunks are looked up at once. The gradient of a lookup is as large as the
    # whole vocabulary, so one lookup for each chunk would be slow.
    ids_of_chunks = [chunk.pop("input_ids") for chunk in chunks]
    transformer: Any = encoder[0].model
    look_up = transformer.get_input_embeddings()
    all_vectors = look_up(torch.cat([ids.flatten() for ids in ids_of_chunks]))
    vectors_of_chunks = all_vectors.split([ids.numel() for ids in ids_of_chunks])

    embeddings = []
    for chunk, ids, vectors in zip(chunks, ids_of_chunks, vectors_of_chunks):
        read = encoder({**chunk, "inputs_embeds": vectors.view(*ids.shape, -1)})
        embeddings.append(read["sentence_embedding"])
    return torch.cat(embeddings)
