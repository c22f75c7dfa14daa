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
    near: float | None = NEAR,
    utterances: bool = True,
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
    near : the share of trigrams, in (0, 1]; None where they do not count.
    utterances : whether shared utterances count. Without them trigrams of reserved contexts count
        as those of rated ones do: for sets whose ids tell no conversations.

    Returns
    -------
    The contexts that are left, in the order given.
    """
    near_contexts = []
    reserved_texts = []
    for record in [reserved] if isinstance(reserved, pd.DataFrame) else reserved:
        if isinstance(record, pd.DataFrame):
            # A table of whole dialogues has turns, one of responses has contexts.
            near_contexts += list(record["turns" if "turns" in record else "context"])
            reserved_texts += list(record["response"]) if "response" in record else []
        elif utterances:
            reserved_texts += record.turns
        else:
            near_contexts.append(record.turns)
    conversation_of = conversations(context.context_id for context in chosen)
    texts = _texts_by_conversation(chosen, conversation_of)
    repeating = set() if near is None else _near(texts, near_contexts, near)
    if utterances:
        reserved_texts += itertools.chain.from_iterable(near_contexts)
        known = set(_long_utterances(reserved_texts))
        repeating |= {name for name in texts if not known.isdisjoint(_long_utterances(texts[name]))}
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

    trigrams_of_rated = [_trigrams("\n".join(turns)) for turns in sorted(set(rated_contexts))]
    rated_trigrams = [trigrams for trigrams in trigrams_of_rated if len(trigrams) >= _TRIGRAMS]
    if not rated_trigrams:
        return set()
    # Only trigrams of rated contexts can be shared: each of them has a column.
    columns = {
        trigram: column for column, trigram in enumerate(sorted(set().union(*rated_trigrams)))
    }

    def incidence(trigrams_by_text):
        """Return a matrix with 1 where a text (row) has a trigram (column)."""
        # Sums are taken in this order, which must not depend on the order of a set.
        rows = [sorted(columns[t] for t in trigrams) for trigrams in trigrams_by_text]
        ends = np.cumsum([0, *map(len, rows)])
        flat = np.fromiter(itertools.chain.from_iterable(rows), int)
        return csr_matrix((np.ones(len(flat)), flat, ends), shape=(len(rows), len(columns)))

    in_conversation = incidence(
        [columns.keys() & _trigrams("\n".join(spoken)) for spoken in texts.values()]
    )
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
    """Return three words in a row, in lower case, for each word of a text but the last two."""
    words = _WORD.findall(text.lower())
    return set(zip(words, words[1:], words[2:]))


def _long_utterances(texts):
    """Return the texts of more than four words, without case, punctuation and spacing."""
    return [_letters(text) for text in texts if len(text.split()) > WORDS]


@cache  # The same conversations are compared with several lists of reserved texts.
def _letters(text):
    """Return the letters and digits of a text, in lower case."""
    return _SEPARATORS.sub("", text.lower())
