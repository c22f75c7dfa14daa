"""Which words of a response are its own, and which only repeat its context.

A small model that asks how much a response resembles its dialogue is fooled by one that repeats
the dialogue. So a response is read without its quotes, and a response that has no words of its own
is read as an empty one.
"""

import math
import re
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
    while quote := _longest_quote(context, words(rest)):
        before, quoted, after = _cut(rest, quote)
        quotes.append(quoted)
        rest = f"{before} {after}".strip()
    words_of_rest = words(rest)
    distinct = set().union(*context)
    n_own = sum(word not in distinct for word in words_of_rest)
    is_short = len(words_of_rest) < _LEAST_RESPONSE
    has_own_words = is_short or n_own > _MOST_OWN_SHARE * len(words_of_rest)
    if not quotes and has_own_words:
        return OwnWords(response, "")
    if not words_of_rest or not has_own_words:
        return OwnWords(EMPTY, response)
    return OwnWords(rest, " ... ".join(quotes))


@lru_cache(1000)  # several responses have one context
def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return [match.lower().replace("\u2019", "'") for match in _WORD.findall(text)]


def _longest_quote(context: Sequence[list[str]], response: list[str]) -> _Quote | None:
    """Return the quote in a response that repeats most words of a turn, None if there is none.

    Of quotes of one turn with equally many of its words it is the shortest.
    """
    best_quotes = []
    for turn in context:
        least = max(_LEAST_WORDS, math.ceil(_LEAST_SHARE * len(turn)))
        starts = [first for first, word in enumerate(response) if word in turn]
        quotes = []
        for first in starts if len(starts) >= least else ():
            window = response[first : first + int(_MOST_LENGTH * len(turn))]
            for last, matched in enumerate(_words_in_order(turn, window), start=first):
                if matched >= least:
                    quotes.append(_Quote(matched, first, last))
        if quotes:
            best_quotes.append(max(quotes, key=lambda quote: (quote[0], quote[1] - quote[2])))
    return max(best_quotes, default=None)


def _words_in_order(turn: list[str], window: list[str]) -> list[int]:
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
