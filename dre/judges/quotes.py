"""What in a reply is not the judge's own: words of the dialogue, and what is quoted, reported or supposed."""

import functools
import re
import unicodedata
from typing import NamedTuple

REPORT_OR_CONDITION = re.compile(
    r"\b(?:(?:ask|claim|contain|demand|hold|instruct|mean|order|read|request|say|state|suggest|tell|want|write)s|asking"
    r"|said|told|wrote|written|spells|quot(?:e[sd]?|ing)|translat(?:ed|ion)|decoded|inject(?:s|ed|ion)|if|unless)\b",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"[.!?][\"')\]]* |(?<!:)\n")


class Dialogue(NamedTuple):
    """What a reply may quote: all words in order, and those of each text and line."""

    words: str
    lines: set

    def holds(self, text):
        """Whether the words of a text stand here one after the other."""
        return f" {' '.join(words(text))} " in self.words

    def has_line(self, text):
        """Whether a text has the words of a whole text or line."""
        return tuple(words(text)) in self.lines


def texts(row):
    """Return the texts of a row that a judge may quote."""
    shown, found = row.get("examples"), []
    for one in (row, *(shown if isinstance(shown, list) else ())):
        turns = one.get("context") or ()
        found += [*([turns] if isinstance(turns, str) else turns), *map(one.get, ("response", "reference", "facts"))]
    return tuple(text.strip() for text in found if isinstance(text, str))


@functools.lru_cache(maxsize=1024)
def dialogue(texts):
    """Return the `Dialogue` of texts."""
    lines = "\n".join(texts).splitlines()
    return Dialogue(f" {' '.join(words(' '.join(lines)))} ", {tuple(words(part)) for part in (*texts, *lines)})


def words(text):
    """Return the words and numbers of a text in one form, which no kind of quotation changes."""
    text = unicodedata.normalize("NFKC", re.sub(r"\\[nrt]", " ", text)).casefold()
    found = re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", text)
    return [re.sub(r"\.0+$", "", word.replace(",", ".")) if word[0].isdigit() else word for word in found]


def told(text, place):
    """Whether what stands at a place is quoted, or in a sentence that reports it or sets a condition."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    sentence = SENTENCE_END.split(text[max(0, place - 300) : place])[-1]
    return line.startswith(">") or line.count('"') % 2 or REPORT_OR_CONDITION.search(sentence)
