"""The form of the sets that the papers' authors had GPT-4 write (source ``slide-gpt4``).

A file is a row of objects, one behind the other: ``id``; ``context``, its turns each ended by a
line break; ``positive`` and ``adversarial``, each a list of up to five texts inside a list. The
texts were cut out of GPT-4's reply by the numbers of its lines. So a list may be short, and it may
have a heading in it, or texts of the other kind. What is certain is used, the rest is counted.

This project could not fetch these files. The form is that of the authors' notebook, and the reader
has been tested on files of that form alone.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from dre.errors import DreError

#: The share of the contexts of a file that must be usable.
LEAST_SHARE = 0.5
_SPEAKER = re.compile(r"^(FS|SS):\s*")
_ENUMERATION = re.compile(r"^(\d{1,2}[.):]|[-*•])\s+")
_HEADING = re.compile(r"\b(positive|adversarial)\b[\w\s]{0,40}\bresponses?\b", re.IGNORECASE)


class Entry(NamedTuple):
    """A context of a file with its responses."""

    turns: tuple[str, ...]
    positives: tuple[str, ...]
    adversarials: tuple[str, ...]


class Reading(NamedTuple):
    """What can be used of a file, and of how many contexts."""

    name: str
    entries: list[Entry]
    n_contexts: int

    def in_words(self) -> str:
        """Say how much can be used."""
        return f"{self.name}: {len(self.entries):,} of {self.n_contexts:,} contexts can be used"


def read(path: Path) -> Reading:
    """Read a file of the authors' form; DreError if less than half of it can be used."""
    decoder = json.JSONDecoder(strict=False)
    entries = {}  # in order, each once
    n_contexts = position = 0
    try:
        text = path.read_text("utf-8-sig")
        while (start := text.find("{", position)) >= 0:
            record, position = decoder.raw_decode(text, start)
            n_contexts += 1
            turns = [_SPEAKER.sub("", turn.strip()) for turn in record["context"].split("\n")]
            entry = Entry(
                tuple(filter(None, turns)),
                _texts(record["positive"]),
                _texts(record["adversarial"]),
            )
            if all(entry) and set(entry.positives).isdisjoint(entry.adversarials):
                entries[entry] = None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DreError(f"{path}: context {n_contexts} is of another form ({error!r})") from None
    reading = Reading(path.name, list(entries), n_contexts)
    if not entries or len(entries) < LEAST_SHARE * n_contexts:
        raise DreError(f"{path}: too little of it can be used. {reading.in_words()}")
    return reading


def _texts(lists):
    """Return the texts of a kind without numbers before them; none if a heading is among them."""
    texts = [text.strip() for texts in lists for text in texts]
    if any(map(_HEADING.search, texts)):
        return ()
    return tuple(dict.fromkeys(_ENUMERATION.sub("", text) for text in texts if text))
