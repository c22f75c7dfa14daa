"""Conversations that repeat what people rated, or what is held out, are left out of training."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from dre.datasets import dialogues
from dre.datasets.dialogues import PUBLIC, Context

# Utterances of this many words or fewer ("Yes, please.") are no sign of a shared dialogue.
WORDS = 4
# A conversation that holds this share of a context's word trigrams repeats it in edited words.
NEAR = 0.4
# Texts with fewer trigrams ("Hi! How are you?") are not compared by their trigrams.
TRIGRAMS = 8


def without_overlap(
    chosen: Sequence[Context],
    reserved: pd.DataFrame | Iterable[Context | pd.DataFrame],
    near: float | None = NEAR,
) -> list[Context]:
    """Return the chosen contexts whose whole conversation repeats nothing of what is `reserved`.

    Turns **and replies** (of every kind) of the chosen are compared, and what one part of a conversation repeats leaves
    out the whole (`conversations`), also where only another part of it was chosen. It repeats what it shares an
    utterance of more than four words with, case, punctuation and spacing aside, because the sets were tokenised
    differently; and a rated context of which it holds the share `near` of the word trigrams, each weighted by the
    logarithm of how rare it is: DailyDialog has dialogues twice, in edited words. With ``near=None`` only shared
    utterances count, and the first line of a conversation of ConvAI2 goes with the one before: so was left out what the
    first recorded models did not learn from. `reserved` is a table of rated responses (turns and responses count), an
    iterable of Context (turns count), or an iterable of both.
    """
    reserved = [reserved] if isinstance(reserved, pd.DataFrame) else list(reserved)
    tables = [record for record in reserved if isinstance(record, pd.DataFrame)]
    rated = [
        turns for table in tables for turns in table.get("turns", table.get("context"))
    ]  # or whole dialogues
    turns = [*rated, *(table["response"] for table in tables if "response" in table)]
    turns += [record.turns for record in reserved if isinstance(record, Context)]
    of = conversations((context.context_id for context in chosen), late=near is None)
    sources = {context.context_id.split("/")[0] for context in chosen}
    public = [
        context for name in PUBLIC if name in sources for context in dialogues.public_contexts(name)
    ]
    texts = defaultdict(dict)  # of each conversation
    for context in [*public, *chosen]:
        own = (*context.turns, *context.positives, *context.adversarials, *context.randoms)
        texts[of(context.context_id)].update(dict.fromkeys(own))
    seen = set(_long(text for each in turns for text in each))
    shared = {
        conversation for conversation, own in texts.items() if not seen.isdisjoint(_long(own))
    }
    if near is not None:
        shared |= _near(texts, rated, near)
    return [context for context in chosen if of(context.context_id) not in shared]


def conversations(ids: Iterable[str], late: bool = False) -> Callable[[str], str]:
    """Return a function of a context id that returns the id of its conversation, for these `ids` and their like.

    Of contexts of `PUBLIC` it is that of `histories`; elsewhere each context is one. With `late` the first line of a
    conversation of ConvAI2 goes with the one before (see `without_overlap`).
    """
    found, sources = {}, {id.partition("/")[0] for id in ids}
    for name in sources.intersection(PUBLIC):
        own = {id: conversation for id, (conversation, *_) in dialogues.histories(name).items()}
        if late and name == "convai2-valid":
            own = dict(zip(own, [*own.values()][:1] + [*own.values()]))
        found |= own
    return lambda id: found.get(id, id)


def _near(texts, rated, share):
    """The conversations (of id -> texts) that hold at least this `share` of the trigrams of a rated context."""
    from sklearn.feature_extraction.text import CountVectorizer

    trigrams = CountVectorizer(
        ngram_range=(3, 3), token_pattern=r"\w+", binary=True, dtype=np.float64
    )
    words = trigrams.build_analyzer()
    rated = [
        text for text in map("\n".join, sorted(set(rated))) if len(set(words(text))) >= TRIGRAMS
    ]
    if not rated:
        return set()
    has = trigrams.fit_transform([*map("\n".join, texts.values()), *rated])
    rarity = np.log(has.shape[0] / has.sum(axis=0).A1)
    wanted = has[len(texts) :].multiply(rarity).tocsr()
    held = (has[: len(texts)] @ wanted.T).tocoo()  # conversations x rated contexts
    near = held.row[held.data >= share * wanted.sum(axis=1).A1[held.col]]
    ids = list(texts)
    return {ids[row] for row in near}


def _long(texts):
    return [re.sub(r"[\W_]", "", text.lower()) for text in texts if len(text.split()) > WORDS]
