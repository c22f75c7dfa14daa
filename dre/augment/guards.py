"""What keeps a retrieved response from being a positive in disguise: the same dialogue, the same words."""

import re

import numpy as np
from scipy import sparse

from dre.augment.retrieval import content_words
from dre.data.overlap import WORDS
from dre.errors import DreError


class Responses:
    """The responses of a pool: texts, ids, numbers of their source contexts, keys of their dialogues, word sets."""

    def __init__(self, pool):
        entries = [(c.pair_id("p", i), text, k) for k, c in enumerate(pool) for i, text in enumerate(c.positives)]
        if not entries:
            raise DreError("no context of the pool has a positive response: there is nothing to retrieve")
        self.ids, self.texts, self.source = zip(*entries)
        dialogues = [dialogue(context) for context in pool]
        self.keys = [dialogues[k] | {key(text)} for _, text, k in entries]
        self.plain = [_plain(text) for text in self.texts]
        self.words = [frozenset(_words(text)) for text in self.texts]
        self.content = [frozenset(content_words(text)) for text in self.texts]


class Guard:
    """What a negative of one context must not be: its positives and turns again, or negatives taken before."""

    def __init__(self, context, max_share, max_overlap):
        texts = (*context.positives, *context.turns)
        self.seen = {_plain(text) for text in texts}
        self.words = [frozenset(_words(text)) for text in texts]
        self.content = set(content_words(" ".join(context.turns)))
        self.max_share, self.max_overlap = max_share, max_overlap

    def new(self, j, responses):
        """Whether response `j` repeats nothing."""
        words = responses.words[j]
        return responses.plain[j] not in self.seen and all(
            len(words & own) < self.max_overlap * len(words | own) for own in self.words
        )

    def borrows(self, j, responses):
        """Whether the content words that response `j` shares with the context are a small enough part of its own."""
        return len(self.content & responses.content[j]) <= self.max_share * len(responses.content[j])

    def take(self, j, responses):
        """Let nothing repeat response `j` from now on."""
        self.seen.add(responses.plain[j])


def dialogue(context):
    """Return the keys by which contexts of one dialogue are known: two that share one are never mixed.

    These are the context itself, its persona, its Topical-Chat conversation, and its longer utterances.
    """
    keys = {"context " + context.context_id, *map(key, context.turns)}
    if context.facts:
        keys.add("facts " + context.facts)
    if context.id.count("/") == 2:  # topicalchat-valid_freq/<conversation>/<turn>
        keys.add("conversation " + context.id.rpartition("/")[0])
    return keys - {""}


def banned(context):
    """Return the keys of responses that are never negatives of a context: of its dialogue, or its own positives."""
    return dialogue(context) | {key(text) for text in context.positives}


def key(text):
    """Return the key of an utterance; empty for a short one, which is no sign of a shared dialogue."""
    return "text " + _plain(text) if len(text.split()) > WORDS else ""


def _plain(text):
    return re.sub(r"[\W_]", "", text.lower())


def _words(text):
    return re.findall(r"[^\W_]+", text.lower())


def incidence(sets, keys):
    """Return a sparse 0/1 matrix: which of the known keys each set holds."""
    place = {key: i for i, key in enumerate(keys) if key}
    held = [[place[key] for key in own if key in place] for own in sets]
    indptr = np.cumsum([0, *map(len, held)])
    indices = np.array([i for row in held for i in row], dtype=np.int64)
    return sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(sets), len(keys)))
