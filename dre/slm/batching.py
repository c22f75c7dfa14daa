"""Contexts to batches: every distinct text of a step is encoded once.

Five positives and five adversarials of one context make 25 triplets but only 11 texts; encoding triplets one by
one would cost 75. A batch therefore carries its distinct texts, in chunks of similar length, and the triplets as
indices into them.
"""

from itertools import product

import torch

from dre.errors import DreError
from dre.slm.encoder import check_text

CHUNKS = 8


def training_rows(contexts, text):
    """One row a context: its text, its positives, its adversarials.

    Parameters
    ----------
    contexts : list of Context
    text : callable
        From turns to the one text that is encoded: :meth:`dre.slm.model.SLM.context`.

    Raises
    ------
    DreError
        If a context lacks positives or adversarials, or a text is empty or no string.
    """
    rows = []
    for context in contexts:
        name = f"context {context.set}/{context.id}"
        if not context.positives or not context.adversarials:
            raise DreError(
                f"{name} has {len(context.positives)} positive and {len(context.adversarials)} adversarial responses: "
                "training needs at least one of each"
            )
        for kind in ("positives", "adversarials"):
            for i, response in enumerate(getattr(context, kind)):
                check_text(response, f"{name}, {kind[:-1]} response {i}")
        rows.append(
            {
                "context": check_text(text(context.turns), name),
                "positives": list(context.positives),
                "adversarials": list(context.adversarials),
            }
        )
    return rows


def triplets(n_positive, n_adversarial, pairs):
    """Indices (positive, adversarial) of one context's triplets: ``zip`` (5) or ``all`` (25); reading 10."""
    if pairs == "zip":
        return list(zip(range(n_positive), range(n_adversarial)))
    return list(product(range(n_positive), range(n_adversarial)))


class Collator:
    """Turn rows of :func:`training_rows` into one batch.

    The batch holds ``chunk<i>_input_ids`` etc. (the distinct texts, sorted by length, in at most eight chunks) and
    ``label``, a (triplets, 3) tensor of indices (context, positive, adversarial) into the concatenated chunks.
    """

    valid_label_columns = ["label"]

    def __init__(self, preprocess, pairs):
        self.preprocess, self.pairs = preprocess, pairs

    def __call__(self, rows):
        """Collate a list of rows."""
        texts = {t for row in rows for t in (row["context"], *row["positives"], *row["adversarials"])}
        position, batch = chunked(texts, self.preprocess)
        label = [
            (position[row["context"]], position[row["positives"][p]], position[row["adversarials"][a]])
            for row in rows
            for p, a in triplets(len(row["positives"]), len(row["adversarials"]), self.pairs)
        ]
        return batch | {"return_loss": True, "label": torch.tensor(label)}


def chunked(texts, preprocess):
    """Return where each of a set of texts stands, and their tokens in at most eight chunks of similar length.

    Returns
    -------
    position : dict of str to int
        Place in the concatenated chunks.
    batch : dict
        ``chunk<i>_<key>``, for every key of ``preprocess(list of texts)``.
    """
    texts = sorted(texts, key=_length)
    size = -(-len(texts) // CHUNKS)
    batch = {
        f"chunk{i}_{key}": value
        for i, start in enumerate(range(0, len(texts), size))
        for key, value in preprocess(texts[start : start + size]).items()
    }
    return {text: i for i, text in enumerate(texts)}, batch


def _length(text):
    return (len(text), text)
