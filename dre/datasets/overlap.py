"""Training conversations that repeat what people rated, or what is held out, are left out."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np
import pandas as pd

from dre.datasets import dialogues
from dre.datasets.dialogues import PUBLIC, Context

#: Utterances of at most so many words ("Yes, please.") do not show that dialogues are shared.
WORDS = 4
#: A conversation that holds this share of a context's word trigrams repeats it in edited words.
NEAR = 0.4
#: Texts with fewer distinct trigrams ("Hi! How are you?") are not compared by their trigrams.
_TRIGRAMS = 8
_SEPARATORS = re.compile(r"[\W_]+")
_WORD = re.compile(r"\w+")


def without_overlap(
    chosen: Sequence[Context],
    reserved: pd.DataFrame | Iterable[Context | pd.DataFrame],
    near: float = NEAR,
) -> list[Context]:
    """Return the chosen contexts whose whole conversation repeats nothing of what is reserved.

    Turns **and replies** (of every kind) of the chosen contexts are compared. If one part of a
    conversation repeats something, the whole conversation is left out (see `conversations`), even
    if that part was not chosen. Repeating means one of two things:

    - the conversation shares an utterance of more than four words with what is reserved. Case,
      punctuation and spacing do not count, because the sets were tokenised differently;
    - it holds the share ``near`` of the word trigrams of a rated context, each weighted by the
      logarithm of how rare it is. DailyDialog has some dialogues twice, in edited words.

    Parameters
    ----------
    chosen : contexts to train on.
    reserved : a table of rated responses (its turns and responses count), contexts (their turns
        count), or an iterable of both.
    near : the share of trigrams, in (0, 1].

    Returns
    -------
    The contexts that are left, in the order given.
    """
    return _without(chosen, reserved, near)


def without_shared_utterances(
    chosen: Sequence[Context],
    reserved: pd.DataFrame | Iterable[Context | pd.DataFrame],
) -> list[Context]:
    """Return what `without_overlap` does, where only shared utterances count as repeating.

    A conversation stays that repeats a rated context in edited words.
    """
    return _without(chosen, reserved, None)


def without_near(
    chosen: Sequence[Context], held_out: Sequence[Context], near: float = NEAR
) -> list[Context]:
    """Return what `without_overlap` does of contexts, where only trigrams count as repeating.

    For sets whose ids tell no conversations: what shares much of its words with a context that is
    held out is of the same conversation. A stock phrase in common does not count.
    """
    conversation_of = conversations(context.context_id for context in chosen)
    texts = _texts_by_conversation(chosen, conversation_of)
    repeating = _near(texts, [context.turns for context in held_out], near)
    return [context for context in chosen if conversation_of(context.context_id) not in repeating]


def _without(chosen, reserved, near):
    """Do what `without_overlap` does; without the share ``near``, trigrams do not count."""
    rated_contexts = []
    reserved_texts = []
    if isinstance(reserved, pd.DataFrame):
        reserved = [reserved]
    for record in reserved:
        if isinstance(record, pd.DataFrame):
            # A table of whole dialogues has turns, one of responses has contexts.
            rated_contexts += list(record["turns" if "turns" in record else "context"])
            if "response" in record:
                reserved_texts += list(record["response"])
        else:
            reserved_texts += record.turns
    for turns in rated_contexts:
        reserved_texts += turns

    conversation_of = conversations(context.context_id for context in chosen)
    texts = _texts_by_conversation(chosen, conversation_of)
    reserved_utterances = set(_long_utterances(reserved_texts))
    repeating = {
        conversation
        for conversation, utterances in texts.items()
        if not reserved_utterances.isdisjoint(_long_utterances(utterances))
    }
    if near is not None:
        repeating |= _near(texts, rated_contexts, near)
    return [context for context in chosen if conversation_of(context.context_id) not in repeating]


def conversations(ids: Iterable[str]) -> Callable[[str], str]:
    """Return a function that gives the conversation of a context, by their ids.

    Contexts of `PUBLIC` belong to the conversations of `dre.datasets.dialogues.histories`. Any
    other context is a conversation of its own.

    Parameters
    ----------
    ids : context ids that tell which public sets are needed.
    """
    sources = {id.partition("/")[0] for id in ids}
    conversation_by_id = {}
    for name in sources.intersection(PUBLIC):
        for id, history in dialogues.histories(name).items():
            conversation_by_id[id] = history.conversation
    return lambda id: conversation_by_id.get(id, id)


def _texts_by_conversation(chosen, conversation_of):
    """Return the texts of each conversation of the chosen contexts, without repetitions.

    Of public conversations that is everything that was said in them.
    """
    sources = {context.context_id.split("/")[0] for context in chosen}
    public = [dialogues.public_contexts(name) for name in PUBLIC if name in sources]
    texts = defaultdict(dict)
    for context in itertools.chain(*public, chosen):
        spoken = (*context.turns, *context.positives, *context.adversarials, *context.randoms)
        texts[conversation_of(context.context_id)].update(dict.fromkeys(spoken))
    return texts


def _near(texts, rated_contexts, share):
    """Return the conversations that hold at least this share of the trigrams of a rated context.

    ``texts`` has the texts of each conversation, ``rated_contexts`` the turns of each context.
    """
    from scipy.sparse import csr_matrix

    rated_trigrams = []
    for turns in sorted(set(rated_contexts)):
        trigrams = set(_trigrams("\n".join(turns)))
        if len(trigrams) >= _TRIGRAMS:
            rated_trigrams.append(trigrams)
    if not rated_trigrams:
        return set()

    # Only trigrams of rated contexts can be shared: each of them has a column.
    known_trigrams = sorted(set().union(*rated_trigrams))
    column_of_trigram = {trigram: column for column, trigram in enumerate(known_trigrams)}
    shared_trigrams = []
    for utterances in texts.values():
        trigrams = _trigrams("\n".join(utterances))
        shared_trigrams.append(column_of_trigram.keys() & trigrams)

    def incidence(trigrams_by_text):
        """Return a matrix with 1 where a text (row) has a trigram (column)."""
        columns = []
        ends = [0]
        for trigrams in trigrams_by_text:
            columns += map(column_of_trigram.__getitem__, trigrams)
            ends.append(len(columns))
        shape = (len(trigrams_by_text), len(column_of_trigram))
        matrix = csr_matrix((np.ones(len(columns)), columns, ends), shape=shape)
        # Sums are taken in this order, which must not depend on the order of a set.
        matrix.sort_indices()
        return matrix

    in_conversation = incidence(shared_trigrams)
    in_rated = incidence(rated_trigrams)
    texts_with_trigram = in_conversation.sum(axis=0) + in_rated.sum(axis=0)
    n_texts = len(texts) + len(rated_trigrams)
    rarity = np.log(n_texts / np.asarray(texts_with_trigram).ravel())
    weight_in_rated = in_rated.multiply(rarity).tocsr()

    # The weight of shared trigrams of each conversation (row) and rated context (column).
    shared_weight = (in_conversation @ weight_in_rated.T).tocoo()
    needed_weight = share * np.asarray(weight_in_rated.sum(axis=1)).ravel()
    is_near = shared_weight.data >= needed_weight[shared_weight.col]
    names = list(texts)
    return {names[row] for row in shared_weight.row[is_near]}


def _trigrams(text):
    """Yield three words in a row, in lower case, for each word of a text but the last two."""
    words = _WORD.findall(text.lower())
    return zip(words, words[1:], words[2:])


def _long_utterances(texts):
    """Return the texts of more than four words, without case, punctuation and spacing."""
    return [_letters(text) for text in texts if len(text.split()) > WORDS]


@cache  # The same conversations are compared with several lists of reserved texts.
def _letters(text):
    """Return the letters and digits of a text, in lower case."""
    return _SEPARATORS.sub("", text.lower())
