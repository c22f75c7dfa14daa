"""The form of the sets that the papers' authors had GPT-4 write (source ``slide-gpt4``).

A file is a row of objects, one behind the other: ``id``; ``context``, its turns each ended by a
line break; ``positive`` and ``adversarial``, each a list of up to five texts inside a list. The
texts were cut out of GPT-4's reply by the numbers of its lines. So a list may be short, and it may
have a heading in it, or texts of the other kind. `read` uses what is certain, and names the rest.

This project could not fetch these files. The form is that of the authors' notebook, and the reader
has been tested on files of that form alone.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dre.errors import DreError

#: What GPT-4 was asked for: so many responses of each kind.
RESPONSES = 5
#: The share of the contexts of a file that must be usable.
LEAST_SHARE = 0.5
_SPEAKER = re.compile(r"^(FS|SS):\s*")
_ENUMERATION = re.compile(r"^(\d{1,2}[.):]|[-*•])\s+")
_HEADING = re.compile(r"^\W*(positive|adversarial)\b[\w\s]{0,40}\bresponses?\W*$", re.IGNORECASE)
_OBJECT_START = re.compile(r"[^\s,\[\]]")


class Entry(NamedTuple):
    """A context of a file with its responses, and the line on which it begins."""

    line: int
    turns: tuple[str, ...]
    positives: tuple[str, ...]
    adversarials: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """What a file holds.

    Attributes
    ----------
    name : of the file.
    entries : what can be used.
    unusable : line and reason of what cannot.
    """

    name: str
    entries: list[Entry] = field(default_factory=list)
    unusable: list[tuple[int, str]] = field(default_factory=list)

    @property
    def n_short(self) -> int:
        """How many of the entries have fewer than five responses of a kind."""
        lengths = [min(len(entry.positives), len(entry.adversarials)) for entry in self.entries]
        return sum(length < RESPONSES for length in lengths)

    def in_words(self) -> str:
        """Say how much can be used, and why the rest cannot, with the first line of each reason."""
        n_contexts = len(self.entries) + len(self.unusable)
        text = f"{self.name}: {len(self.entries):,} of {n_contexts:,} contexts can be used"
        if self.n_short:
            text += f", {self.n_short:,} of them with fewer than five responses of a kind"
        lines_by_reason = defaultdict(list)
        for line, reason in self.unusable:
            lines_by_reason[reason].append(line)
        reasons = [
            f"{len(lines):,} {reason} (line {lines[0]})"
            for reason, lines in lines_by_reason.items()
        ]
        return f"{text}; left out: {', '.join(reasons)}" if reasons else text


def read(path: Path) -> Reading:
    """Read a file of the authors' form.

    Raises
    ------
    DreError
        If it is not UTF-8, or if less than `LEAST_SHARE` of its contexts can be used.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DreError(f"{path} is not UTF-8 ({error.reason}): fetch it again") from None
    reading = Reading(path.name)
    line_of_entry = {}
    for line, record in _objects(text):
        try:
            entry = _entry(line, record)
            earlier = line_of_entry.setdefault(entry[1:], line)
            if earlier != line:
                raise ValueError("repeated")
        except ValueError as error:
            reading.unusable.append((line, str(error)))
        else:
            reading.entries.append(entry)
    n_contexts = len(reading.entries) + len(reading.unusable)
    if not reading.entries or len(reading.entries) < LEAST_SHARE * n_contexts:
        raise DreError(
            f"{path}: too little of it can be used, expected at least {LEAST_SHARE:.0%} of its "
            f"contexts. {reading.in_words()}"
        )
    return reading


def _objects(text) -> Iterator[tuple[int, Any]]:
    """Yield the objects of a text with their lines; None for what is not JSON."""
    decoder = json.JSONDecoder(strict=False)
    line = 1
    position = 0
    while match := _OBJECT_START.search(text, position):
        start = match.start()
        line += text.count("\n", position, start)
        try:
            record, position = decoder.raw_decode(text, start)
        except ValueError:
            record = None
            # Objects begin at the beginning of a line.
            next_object = text.find("\n{", start)
            position = len(text) if next_object < 0 else next_object
        yield line, record
        line += text.count("\n", start, position)


def _entry(line, record):
    """Return the `Entry` of an object; a ValueError says in words why it cannot be used."""
    if not isinstance(record, dict):
        raise ValueError("not JSON")
    turns = _turns(record.get("context"))
    positives = _responses(record, "positive")
    adversarials = _responses(record, "adversarial")
    if set(positives) & set(adversarials):
        raise ValueError("with a text that is both positive and adversarial")
    return Entry(line, turns, positives, adversarials)


def _turns(context):
    """Return the turns of a context, without the marks of speakers that some files may have."""
    lines = context.split("\n") if isinstance(context, str) else context
    if not isinstance(lines, list) or not all(isinstance(turn, str) for turn in lines):
        raise ValueError("without a context")
    turns = [_SPEAKER.sub("", turn.strip()).strip() for turn in lines]
    turns = tuple(turn for turn in turns if turn)
    if not turns:
        raise ValueError("without a context")
    return turns


def _responses(record, kind):
    """Return the texts of a kind, without numbers before them, blank lines and the heading."""
    lists = record.get(kind)
    if isinstance(lists, list) and all(isinstance(texts, list) for texts in lists):
        lists = [text for texts in lists for text in texts]
    if not isinstance(lists, list) or not all(isinstance(text, str) for text in lists):
        raise ValueError(f"without a list {kind}")
    responses = []
    for text in lists:
        heading = _HEADING.match(text.strip())
        if heading and (heading[1].lower() != kind or responses):
            raise ValueError("shifted: texts of the other kind are among them")
        response = _ENUMERATION.sub("", text.strip()).strip()
        if response and not heading:
            responses.append(response)
    if not responses:
        raise ValueError(f"without {kind} responses")
    return tuple(dict.fromkeys(responses))
