"""Where a model's thinking ends and its answer begins, where a server leaves both in the reply.

Which tags there are is a table, ``thinking_tags.yaml``, and a file of the user's in the same form.
Only thinking at the start of a reply is cut off. The time grows linearly with the reply.
"""

import collections
import functools
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from dre.errors import DreError
from dre.judges.parse_values import Unclear

TABLE = Path(__file__).with_name("thinking_tags.yaml")

_FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE
_NOTHING = r"(?!)"  # a pattern that matches nowhere
_SIGNS = re.compile(r"[<>\[\]|\u25c1\u25b7{}]")  # a tag without any of them is ordinary words
_CONTROL = "|"  # what the tags of control tokens have, which no dialogue has by chance


class Tags(BaseModel, extra="forbid", frozen=True):
    """The tags of some models, as an entry of the table has them."""

    models: str = ""
    begins: tuple[str, ...] = Field(min_length=1)
    ends: tuple[str, ...] = ()
    answer_begins: tuple[str, ...] = ()
    answer_ends: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _are_texts_with_an_end(self):
        tags = (*self.begins, *self.ends, *self.answer_begins, *self.answer_ends)
        if not all(tag.strip() for tag in tags):
            raise ValueError("a tag is empty")
        if not self.ends and not self.answer_begins:
            raise ValueError("'ends' or 'answer_begins' is missing: nothing ends the thinking")
        return self


class Answer(NamedTuple):
    """The part of a reply that is its answer: characters start to end."""

    start: int
    end: int


class Table:
    """The tags of all models, and how a reply is cut by them.

    Parameters
    ----------
    entries : iterable of Tags
    """

    def __init__(self, entries: Iterable[Tags]):
        self.entries = tuple(entries)
        self._cuts = [_Cut(tags) for tags in self.entries]
        self._mark = re.compile("|".join(cut.mark for cut in self._cuts), _FLAGS)

    @property
    def sha256(self) -> str:
        """What tells this table from others: the first digits of a hash of all tags."""
        entries = [tags.model_dump(exclude={"models"}) for tags in self.entries]
        return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:12]

    def has_mark(self, text: str) -> bool:
        """Return whether a text has any tag, or words that the table takes for one."""
        return self._mark.search(text) is not None

    def answer(self, text: str) -> Answer:
        """Return where the answer of a reply stands.

        Raises
        ------
        Unclear
            If thinking does not end, or a tag stands within the answer.
        """
        start, end = 0, len(text)
        for cut in self._cuts:
            answer = cut.answer(text)
            if answer is not None:
                start, end = answer
                break
        for cut in self._cuts:
            cut.check(text, start, end)
        return Answer(start, end)


class _Cut:
    """How a reply is cut by the tags of one entry."""

    def __init__(self, tags: Tags):
        self.are_words = not any(_SIGNS.search(tag) for tag in tags.begins)
        begins = _any_of(tags.begins)
        ends = _any_of(tags.ends)
        answer_begins = _any_of(tags.answer_begins)
        control = _any_of([tag for tag in tags.answer_begins if _CONTROL in tag])
        self._block = re.compile(rf"\s*+(?:{begins}).*?(?:{ends}|(?={answer_begins}))", _FLAGS)
        # Without a first tag, which may have been in the prompt: up to a last tag alone on its
        # line, or before the tag of an answer.
        self._unopened = re.compile(
            rf".*?(?:^[ \t]*+(?:{ends})[ \t]*+$|(?:{ends})\s*+(?={control}))", _FLAGS
        )
        self._answer_begins = re.compile(rf"\s*+(?:{answer_begins})", _FLAGS)
        self._control = re.compile(rf"\s*+(?:{control})", _FLAGS)
        self._answer_ends = re.compile(rf"(?:{_any_of(tags.answer_ends)})\s*+\Z", _FLAGS)
        # Words begin thinking at the start of a reply alone, if it ends; elsewhere they are words.
        self._begins = re.compile(_NOTHING if self.are_words else begins, _FLAGS)
        limits = f"{ends}|{answer_begins if self.are_words else control}"
        self._limits = re.compile(limits, _FLAGS)
        words_at_the_start = rf"\A\s*+(?:{begins})(?=.*?(?:{limits}))"
        self.mark = f"{limits}|{words_at_the_start if self.are_words else begins}"

    def answer(self, text):
        """Return where the answer stands behind thinking of this kind, or None without any."""
        start = 0
        block = self._block.match(text)
        while block:
            start = block.end()
            block = self._block.match(text, start)
        if not start and not self.are_words:
            unopened = self._unopened.match(text)
            start = unopened.end() if unopened else 0
        opening = self._answer_begins if start else self._control
        answer = opening.match(text, start)
        if answer is None:
            return Answer(start, len(text)) if start else None
        ending = self._answer_ends.search(text, max(answer.end(), len(text) - 200))
        return Answer(answer.end(), ending.start() if ending else len(text))

    def check(self, text, start, end):
        """Raise `Unclear` if tags of this kind stand in what is left."""
        last_limit = _last(self._limits.finditer(text, start, end))
        last_begin = _last(self._begins.finditer(text, start, end))
        if last_begin and (last_limit is None or last_begin.end() > last_limit.end()):
            raise Unclear("the reply breaks off while thinking", "truncated")
        if last_limit:
            # Without a first tag nothing was begun that could break off.
            is_begun = self._begins.search(text) is not None
            raise Unclear(
                f"the tag {last_limit[0].strip()!r:.40} stands within the reply: start the server "
                "so that thinking comes apart from the answer (its reasoning parser)",
                "truncated" if is_begun else None,
            )


def _last(matches):
    """Return the last of some matches, or None."""
    last_match = collections.deque(matches, maxlen=1)
    return last_match[0] if last_match else None


def _any_of(tags):
    """Return a pattern of any of some tags, or of nothing."""
    longest_first = sorted(tags, key=len, reverse=True)
    return "|".join(map(_pattern_of, longest_first)) or _NOTHING


def _pattern_of(tag):
    """Return the pattern of a tag. ``<think>`` may be written ``< think >``."""
    simple = re.fullmatch(r"<(/?)([\w:]+)>", tag)
    if simple:
        slash = r"/\s*+" if simple[1] else ""
        return rf"<\s*+{slash}{re.escape(simple[2])}\s*+>"
    return r"\s*+".join(re.escape(word) for word in tag.split())


@functools.cache
def built_in() -> Table:
    """Return the table of the package."""
    return Table(_entries(TABLE))


def extended_by(path: str | Path) -> Table:
    """Return the table of the package and that of a file together, the file's first.

    Raises
    ------
    DreError
        If there is no such file, or it has another form.
    """
    return Table([*_entries(Path(path)), *built_in().entries])


def _entries(path):
    """Return the entries of a file."""
    form = "expected a list of entries with models, begins, ends, answer_begins, answer_ends"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return TypeAdapter(list[Tags]).validate_python(content)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise DreError(f"{path}: cannot be read as YAML ({reason}); {form}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise DreError(
            f"{path}: {key or 'the file'}: {first['msg']}; {form}, as "
            "dre/judges/thinking_tags.yaml has them"
        ) from None
