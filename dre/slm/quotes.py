"""Which words of a response are its own, and which only repeat its context.

A small model that asks how much a response resembles its dialogue is fooled by one that repeats
the dialogue. So a response is read without its quotes, and a response that has no words of its own
is read as an empty one.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

#: An empty response is read as this text.
EMPTY = "."
#: A turn with fewer words does not count as a quote where it is repeated.
_LEAST_WORDS = 3
#: A quote has at least this share of the words of a turn, in the same order.
_LEAST_SHARE = 0.8
#: A quote is at most so many times as long as the turn.
_MOST_LENGTH = 1.5
#: A response with at least so many words ...
_LEAST_RESPONSE = 4
#: ... has no words of its own if at most this share of them are not in the context.
_MOST_OWN_SHARE = 0.1

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_OPENING = re.compile(r"[\s\"'\u2018\u201c\u00ab(\[]+$")


#: The `words` of each turn of a context.
Words = list[tuple[str, ...]]


class OwnWords(NamedTuple):
    """A response as a small model reads it, and what was left out of it."""

    text: str
    left_out: str


class _Quote(NamedTuple):
    """A stretch of a response that repeats a turn.

    It goes from word ``first`` to word ``last``, and ``matched`` of its words are those of the
    turn.
    """

    matched: int
    first: int
    last: int


def own_words(turns: Sequence[str], response: str) -> OwnWords:
    """Leave out of a response what it repeats of its context.

    Parameters
    ----------
    turns
        The turns of the context.
    response
        The response to it.

    Returns
    -------
    The response as it is read, ``"."`` if nothing is left of it, and what was left out: the quotes,
    joined by `` ... ``, or the whole response; an empty string if it is read as it is.
    """
    context = [words(turn) for turn in turns]
    rest = response
    quotes = []
    words_of_rest = words(response)
    while quote := _longest_quote(context, words_of_rest):
        before, quoted, after = _cut(rest, quote)
        quotes.append(quoted)
        rest = f"{before} {after}".strip()
        words_of_rest = words(rest)
    has_no_own_words = _only_context_words(context, words_of_rest)
    if not quotes and not has_no_own_words:
        return OwnWords(response, "")
    if not words_of_rest or has_no_own_words:
        return OwnWords(EMPTY, response)
    return OwnWords(rest, " ... ".join(quotes))


@lru_cache(1000)  # several responses have one context
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without punctuation."""
    return tuple(match.lower().replace("\u2019", "'") for match in _WORD.findall(text))


def _only_context_words(context: Words, response: tuple[str, ...]) -> bool:
    """Whether a response of some length has hardly a word that is not in its context."""
    if len(response) < _LEAST_RESPONSE:
        return False
    n_new = len(response) - _n_shared(context, response)
    return n_new <= _MOST_OWN_SHARE * len(response)


def _n_shared(context: Words, response: tuple[str, ...]) -> int:
    """Return how many words of a response are in its context."""
    distinct = set().union(*context)
    return sum(word in distinct for word in response)


def _longest_quote(context: Words, response: tuple[str, ...]) -> _Quote | None:
    """Return the quote in a response that repeats most words of a turn, None if there is none."""
    # Cheap first: nearly all responses share too few words with their whole context.
    n_shared = _n_shared(context, response)
    if n_shared < _LEAST_WORDS:
        return None
    quotes = []
    for turn in context:
        least = max(_LEAST_WORDS, -(-len(turn) * _LEAST_SHARE // 1))
        if least <= n_shared and least <= len(turn):
            quotes.append(_quote_of(turn, response, least))
    return max(filter(None, quotes), default=None)


def _quote_of(turn: tuple[str, ...], response: tuple[str, ...], least: float) -> _Quote | None:
    """Return where a response repeats most words of one turn, at least so many, in the fewest."""
    # Too few words in common, in whatever order?
    shared = Counter(turn) & Counter(response)
    if shared.total() < least:
        return None
    longest = int(_MOST_LENGTH * len(turn))
    quotes = []
    for first, word in enumerate(response):
        if word in shared:
            matched_words = _words_in_order(turn, response[first : first + longest])
            quotes += [
                _Quote(matched, first, last)
                for last, matched in enumerate(matched_words, start=first)
                if matched >= least
            ]
    return max(quotes, key=lambda quote: (quote.matched, quote.first - quote.last), default=None)


def _words_in_order(turn: tuple[str, ...], window: tuple[str, ...]) -> list[int]:
    """Return how many words of a turn are, in the same order, in each beginning of a window.

    These are the lengths of longest common subsequences. A row of the usual table is one number
    here (Hyyrö 2004): a bit that is 0 means one more word in common.
    """
    positions = {}
    for i, word in enumerate(turn):
        positions[word] = positions.get(word, 0) | 1 << i
    full = (1 << len(turn)) - 1
    row = full
    lengths = []
    for word in window:
        matches = row & positions.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
        lengths.append(len(turn) - row.bit_count())
    return lengths


def _cut(response: str, quote: _Quote) -> tuple[str, str, str]:
    """Return what is before a quote, the quote with its punctuation, and what comes after it."""
    matches = list(_WORD.finditer(response))
    start = matches[quote.first].start()
    is_last = quote.last + 1 == len(matches)
    end = len(response) if is_last else matches[quote.last + 1].start()
    before = _OPENING.sub("", response[:start])
    return before, response[len(before) : end].strip(), response[end:]
