"""Keeping training contexts apart from the contexts a model is tested on."""

import re

WORDS = 4


def disjoint(contexts, held_out, words=WORDS):
    """Return the contexts that share no utterance of more than `words` words with the held-out ones.

    Parameters
    ----------
    contexts : iterable of Context
    held_out : iterable of Context or Rated
        Every turn of these counts, and the response of a Rated, which a training context may hold as a turn.
    words : int
        Shorter utterances ("Yes, please.") are no sign of a shared dialogue.

    Notes
    -----
    Case, punctuation and spacing are ignored, because the data sets were tokenised differently.
    """
    seen = {key for record in held_out for key in _long(_texts(record), words)}
    return [context for context in contexts if not seen & set(_long(context.turns, words))]


def _texts(record):
    return (*record.turns, record.response) if hasattr(record, "response") else record.turns


def _long(texts, words):
    return [re.sub(r"[\W_]", "", text.lower()) for text in texts if len(text.split()) > words]
