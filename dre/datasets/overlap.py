"""Training conversations that repeat what people rated, or what is held out, are left out."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

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


def without_overlap(
    chosen: Sequence[Context],
    reserved: pd.DataFrame | Iterable[Context | pd.DataFrame],
    near: float | None = NEAR,
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
    near : the share of trigrams, in (0, 1]. With None, only shared utterances count, and the first
        line of a conversation of ConvAI2 goes with the one before: so was left out what the first
        recorded models did not learn from.

    Returns
    -------
    The contexts that are left, in the order given.
    """
    records: list[Context | pd.DataFrame] = []
    if isinstance(reserved, pd.DataFrame):
        records.append(reserved)
    else:
        records += reserved
    rated_contexts = []
    reserved_texts = []
    for record in records:
        if isinstance(record, pd.DataFrame):
            # A table of whole dialogues has turns, one of responses has contexts.
            rated_contexts += list(record["turns" if "turns" in record else "context"])
            if "response" in record:
                reserved_texts += list(record["response"])
        else:
            reserved_texts += record.turns
    for turns in rated_contexts:
        reserved_texts += turns

    conversation_of = conversations((context.context_id for context in chosen), late=near is None)
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


def conversations(ids: Iterable[str], late: bool = False) -> Callable[[str], str]:
    """Return a function that gives the conversation of a context, by their ids.

    Contexts of `PUBLIC` belong to the conversations of `dre.datasets.dialogues.histories`. Any
    other context is a conversation of its own.

    Parameters
    ----------
    ids : context ids that tell which public sets are needed.
    late : let the first line of a conversation of ConvAI2 go with the one before.
    """
    sources = {id.partition("/")[0] for id in ids}
    conversation_by_id: dict[str, str] = {}
    for name in sources.intersection(PUBLIC):
        histories = dialogues.histories(name)
        context_ids = list(histories)
        names = [history.conversation for history in histories.values()]
        if late and name == "convai2-valid":
            names = names[:1] + names
        conversation_by_id.update(zip(context_ids, names))
    return lambda id: conversation_by_id.get(id, id)


def _texts_by_conversation(chosen, conversation_of):
    """Return the texts of each conversation of the chosen contexts, without repetitions.

    Of public conversations that is everything that was said in them.
    """
    sources = {context.context_id.split("/")[0] for context in chosen}
    contexts = []
    for name in PUBLIC:
        if name in sources:
            contexts += dialogues.public_contexts(name)
    contexts += chosen
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for context in contexts:
        spoken = (
            *context.turns,
            *context.positives,
            *context.adversarials,
            *context.randoms,
        )
        texts[conversation_of(context.context_id)].update(dict.fromkeys(spoken))
    return texts


def _near(texts, rated_contexts, share):
    """Return the conversations that hold at least this share of the trigrams of a rated context.

    ``texts`` has the texts of each conversation, ``rated_contexts`` the turns of each context.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(ngram_range=(3, 3), token_pattern=r"\w+", binary=True)
    trigrams_of = vectorizer.build_analyzer()
    rated_texts = []
    for turns in sorted(set(rated_contexts)):
        text = "\n".join(turns)
        if len(set(trigrams_of(text))) >= _TRIGRAMS:
            rated_texts.append(text)
    if not rated_texts:
        return set()

    # 1 where a text (row) has a trigram (column): first the conversations, then the rated contexts.
    conversation_texts = ["\n".join(utterances) for utterances in texts.values()]
    counts = vectorizer.fit_transform([*conversation_texts, *rated_texts])
    has_trigram = csr_matrix(counts, dtype=np.float64)
    n_texts = len(conversation_texts) + len(rated_texts)
    texts_with_trigram = np.asarray(has_trigram.sum(axis=0)).ravel()
    rarity = np.log(n_texts / texts_with_trigram)
    in_conversation = has_trigram[: len(texts)]
    weight_in_rated = has_trigram[len(texts) :].multiply(rarity).tocsr()

    # The weight of shared trigrams of each conversation (row) and rated context (column).
    shared_weight = (in_conversation @ weight_in_rated.T).tocoo()
    needed_weight = share * np.asarray(weight_in_rated.sum(axis=1)).ravel()
    is_near = shared_weight.data >= needed_weight[shared_weight.col]
    names = list(texts)
    return {names[row] for row in shared_weight.row[is_near]}


def _long_utterances(texts):
    """Return the texts of more than four words, without case, punctuation and spacing."""
    return [re.sub(r"[\W_]", "", text.lower()) for text in texts if len(text.split()) > WORDS]
