"""What recipe ``context`` learns from: labelled contexts, further dialogues and graded pairs, mixed in every batch."""

import hashlib
import json
import random
from dataclasses import dataclass, field

import pandas as pd
import torch
from transformers import TrainerCallback

from dre.data import data_hash
from dre.slm.batching import chunked, training_rows

#: what a row of a batch's ``label`` speaks of: a positive response, an adversarial one, a graded pair
FITS, ADVERSARIAL, GRADED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Beside:
    """What there is to learn from beside labelled contexts.

    Attributes
    ----------
    dialogues : list of Context
        With positives alone; the positives of all others are their negatives.
    graded : DataFrame or None
        ``context`` (turns), ``response`` and ``score`` (0-5), a judge's: soft targets.
    """

    dialogues: list = field(default_factory=list)
    graded: pd.DataFrame | None = None

    def describe(self):
        """Return counts and hashes, as JSON types."""
        pairs = self.pairs()
        text = json.dumps(pairs, ensure_ascii=False)
        return {
            "dialogues": len(self.dialogues),
            "dialogues_hash": data_hash(self.dialogues),
            "graded": len(pairs),
            "graded_hash": hashlib.sha256(text.encode()).hexdigest(),
        }

    def pairs(self):
        """Return the graded pairs as (turns, response, score)."""
        if self.graded is None:
            return []
        return [
            (tuple(turns), response, float(score))
            for turns, response, score in zip(self.graded["context"], self.graded["response"], self.graded["score"])
        ]


def bundles(contexts, beside, text, mixture, passes, seed):
    """Return one row a labelled context, with the dialogues and graded pairs that come with it in each pass.

    Parameters
    ----------
    contexts : list of Context
        With positives and adversarials.
    beside : Beside
    text : callable
        From turns to the one text that is encoded: :meth:`dre.slm.model.SLM.context`.
    mixture : dre.slm.recipes.Mixture
    passes : int
        How often each labelled context comes: the epochs.
    seed : int
        Draws order, positives, and how many last turns of a dialogue are shown.

    Returns
    -------
    list of dict
        ``context, positives, adversarials``; ``dialogues`` (a list of [context, response] a pass) and ``graded`` (a
        list of [context, response, score as text] a pass).
    """
    draw = random.Random(seed)
    dialogues, graded = _endless(beside.dialogues, draw), _endless(beside.pairs(), draw)

    def dialogue():
        one = next(dialogues)
        return [text(one.turns[-draw.choice(mixture.last_turns) :]), draw.choice(one.positives)]

    def grade():
        turns, response, score = next(graded)
        return [text(turns), response, repr(score)]

    n_dialogues = mixture.dialogues if beside.dialogues else 0
    n_graded = mixture.graded if beside.pairs() else 0
    rows = [row | {"dialogues": [], "graded": []} for row in training_rows(contexts, text)]
    for _ in range(passes):  # pass by pass, so that every dialogue comes once before any comes twice
        for row in rows:
            row["dialogues"].append([dialogue() for _ in range(n_dialogues)])
            row["graded"].append([grade() for _ in range(n_graded)])
    return rows


def _endless(items, draw):
    """Yield items for ever, in a new order each time all have come."""
    while items:
        yield from draw.sample(items, len(items))


class Mixed:
    """Turn rows of :func:`bundles` into one batch.

    The batch holds chunks of distinct texts as :class:`dre.slm.batching.Collator` makes them, and ``label``: four
    numbers a pair, (what it is, place of the context's text, place of the response's text, score).
    """

    valid_label_columns = ["label"]

    def __init__(self, preprocess):
        self.preprocess, self.epoch = preprocess, 0

    def __call__(self, rows):
        """Collate a list of rows."""
        pairs = [pair for row in rows for pair in self._pairs(row)]
        position, batch = chunked({text for _, c, r, _ in pairs for text in (c, r)}, self.preprocess)
        label = [(kind, position[c], position[r], score) for kind, c, r, score in pairs]
        return batch | {"return_loss": True, "label": torch.tensor(label, dtype=torch.float32)}

    def _pairs(self, row):
        """(kind, context, response, score) of what a row holds for this epoch."""
        found = [(FITS, row["context"], text, 0.0) for text in row["positives"]]
        found += [(ADVERSARIAL, row["context"], text, 0.0) for text in row["adversarials"]]
        found += [(FITS, context, response, 0.0) for context, response in row["dialogues"][self.epoch]]
        return found + [(GRADED, context, response, float(s)) for context, response, s in row["graded"][self.epoch]]


class EpochOf(TrainerCallback):
    """Tell a :class:`Mixed` which epoch begins, also where a training goes on from a checkpoint."""

    def __init__(self, collator):
        self.collator = collator

    def on_epoch_begin(self, args, state, control, **kwargs):
        """Set it."""
        self.collator.epoch = round(state.epoch or 0)
