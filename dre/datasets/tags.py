"""Speakers' tags that begin turns, and signs that separate turns within one text.

``User: Is the shop open?`` is read as words by a small model, and lowers a score. Where tags begin
every turn they are taken off. Where they or separators show that one text holds several turns, the
record is refused.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from dre.datasets import aliases
from dre.datasets.chats import quote

#: Words for the two sides, where they begin a turn.
_SIDE_TAGS = {*aliases.USER_TAGS, *aliases.ASSISTANT_TAGS}
#: Those of them that begin nothing else than a turn.
_SURE_TAGS = _SIDE_TAGS - {"q", "question", "person", "a", "answer", "model", "agent", "client"}
_SURE_WORDS = "|".join(sorted(_SURE_TAGS))
#: A tag: up to three words and a colon, in brackets or bold type, behind a time; or a word for a
#: side in brackets or before a dash.
_TAG = re.compile(
    r"\s*(?:[\[(]?\d[\d/.:, -]{3,22}(?: ?[AP]M)?[\])]?\s*-?\s*)?(?:"
    r"(?:#{1,4}\s)?[\[(<*#]{0,3}"
    r"(?P<name>[^\W\d_][\w.'-]{0,19}(?: [\w.'-]{1,15}){0,2})[\])>*#]{0,3}\s?"
    r"(?::[*]{0,2}(?:\s+|$)|：)"
    rf"|[\[<](?P<enclosed>{_SURE_WORDS})[\]>]\s+"
    rf"|(?P<before_dash>{_SURE_WORDS})\s?[>|–—-]\s+"
    r")",
    re.IGNORECASE,
)
#: Most speakers of a dialogue whose tags are taken off.
_MOST_SPEAKERS = 3
_SEPARATOR = re.compile(
    "|".join([*map(re.escape, aliases.SEPARATORS), r"<\|\w+\|>", r"(?-i:\bEO[UST]\b)"]),
    re.IGNORECASE,
)
_FIRST_SIGNS = {(separator.strip() or separator)[0] for separator in aliases.SEPARATORS} | {"EO"}
#: Two names before two sentences of a turn, which may be speakers.
_NAMES_WITHIN = re.compile(r"[A-Z]\w{1,15}: .*?[.?!…]\s+[A-Z]\w{1,15}: ")
#: Speakers' tags as a transcript in one text has them.
_TAG_WITHIN = re.compile(
    r"(?:^|[\s#>*\[])("
    r"(?:user|human|customer|assistant|bot|ai|chatbot|agent|system|gpt)(?=[\]*#]{0,2}:)"
    r"|(?-i:[ABQ]|P[12])(?=:\s)|(?:speaker|person) ?[\da-d](?=[\]*#]{0,2}:))",
    re.IGNORECASE,
)


class Untagged(NamedTuple):
    """What was taken off.

    Attributes
    ----------
    turns, responses : how many lost a tag.
    tags : the tags as they were written.
    unsure : dialogues whose turns all begin with what looks like a tag, and kept it.
    """

    turns: int
    responses: int
    tags: list[str]
    unsure: int


def several_turns_in_one(turns: Iterable[str]) -> str:
    """Return why a turn cannot be one turn: a separator or two speakers in it; "" if it may be."""
    for turn in turns:
        separator = separator_in(turn)
        if separator:
            sign = repr(separator.strip() or separator)
            return (
                f"a turn is {quote(turn)}, with {sign} in it, which often separates turns: "
                f"--separator {sign} splits a text there, --keep-tags reads it as it is"
            )
        if ":" in turn:
            speakers = {speaker.lower() for speaker in _TAG_WITHIN.findall(turn)}
            if len(speakers) > 1:
                speakers_in_words = " and ".join(sorted(speakers))
                return (
                    f"a turn is {quote(turn)}, in which {speakers_in_words} have their say: "
                    "write a list of turns, or one turn a line; --keep-tags reads it as it is"
                )
    return ""


def may_be_several(turns: Iterable[str]) -> bool:
    """Return whether two names stand before two sentences of a turn, as speakers do."""
    return any(":" in turn and bool(_NAMES_WITHIN.match(turn)) for turn in turns)


def separator_in(text: str) -> str:
    """Return the first separator in a text, "" if it has none."""
    if not any(sign in text for sign in _FIRST_SIGNS):
        return ""
    separator = _SEPARATOR.search(text)
    return separator[0] if separator else ""


def mixed_tags(turns: tuple[str, ...]) -> str:
    """Return why the tags of some turns cannot be taken off; "" where all turns or none has one.

    Only words for both sides of a dialogue count, such as ``Human:`` and ``Assistant:``.
    """
    if len(turns) < 3 or not any(":" in turn for turn in turns):
        return ""
    names = [_name(turn) for turn in turns]
    n_tagged = sum(name in _SIDE_TAGS for name in names)
    has_both = not {*names}.isdisjoint(aliases.USER_TAGS) and not {*names}.isdisjoint(
        aliases.ASSISTANT_TAGS
    )
    if not has_both or n_tagged == len(turns):
        return ""
    untagged = next(turn for turn, name in zip(turns, names) if name not in _SIDE_TAGS)
    return (
        f"{n_tagged} of {len(turns)} turns begin with a speaker such as {turns[0][:20]!r}, and "
        f"{quote(untagged)} does not: has a turn several lines? write a list of turns; --keep-tags "
        "reads each line as a turn as it is"
    )


def _name(text):
    """Return the name in the tag of a text in small letters, "" if it has no tag."""
    match = _TAG.match(text)
    return (match["name"] or match["enclosed"] or match["before_dash"]).lower() if match else ""


def _tag_and_rest(text):
    """Return the tag of a text, "" if it has none, and what is said."""
    match = _TAG.match(text)
    if not match:
        return "", text
    said = text[match.end() :]
    return match[0].strip(), said.strip()


def take_off(rows: list[dict]) -> Untagged:
    """Take the tags off the contexts and responses of a file, in place.

    Parameters
    ----------
    rows
        Pairs with ``context`` (tuple of turns) and ``response`` (text, or another value).

    Returns
    -------
    Untagged
        What was taken off. Nothing is where a turn of the context has no tag.

    Notes
    -----
    Each turn of a context must begin with the tag of one of two or three speakers, who speak again
    in this context or elsewhere in the file. A context of one turn, and a response, must begin with
    a tag that other contexts have, or with a word for a side.
    """
    tagged = []
    counts = Counter()
    for row in rows:
        names = _speakers(row["context"])
        if names:
            # A response with a tag goes on with the dialogue.
            response = row["response"]
            name = _name(response) if isinstance(response, str) else ""
            speakers = [*names, name] if name else names
            tagged.append((row, names, speakers))
            counts.update(speakers)
    names_of_speakers = {*_SURE_TAGS}
    for _, _, speakers in tagged:
        if _are_speakers(speakers, counts):
            names_of_speakers.update(speakers)

    n_turns = 0
    n_responses = 0
    tags = {}
    untagged_rows = []
    n_unsure = 0
    for row, names, _ in tagged:
        if not {*names} <= names_of_speakers:
            n_unsure += 2 <= len({*names}) <= _MOST_SPEAKERS
            continue
        untagged_rows.append(row)
        n_turns += len(names)
        turns = []
        for turn in row["context"]:
            tag, text = _tag_and_rest(turn)
            tags.setdefault(tag)
            turns.append(text)
        row["context"] = tuple(filter(None, turns)) or row["context"]

    # A response has a tag where its context had tags, or where every response of a system has one.
    answering = [row for row in untagged_rows if isinstance(row["response"], str)]
    answering += _tagged_by_system(rows, untagged_rows)
    for row in answering:
        tag, text = _tag_and_rest(row["response"])
        if text and _name(row["response"]) in {*names_of_speakers, *_SIDE_TAGS}:
            tags.setdefault(tag)
            n_responses += 1
            row["response"] = text
    return Untagged(n_turns, n_responses, list(tags), n_unsure)


def _are_speakers(names, counts):
    """Return whether names before all turns of a context are two or three that speak again."""
    distinct = {*names}
    if not 2 <= len(distinct) <= _MOST_SPEAKERS:
        return False
    if len(distinct) < len(names):
        return True
    return len(names) == 2 and all(
        name in _SIDE_TAGS or counts[name] > 1 or _is_short(name) for name in distinct
    )


def _is_short(name):
    """Return whether a name is a sign for a speaker, such as ``B`` or ``speaker 2``."""
    return len(name) <= 2 or name[-1].isdigit()


def _tagged_by_system(rows, untagged_rows):
    """Return the rows of systems all of whose responses begin with a word for an assistant."""
    words = _SURE_TAGS.intersection(aliases.ASSISTANT_TAGS)
    untagged = {id(row) for row in untagged_rows}
    rows_of_system = defaultdict(list)
    for row in rows:
        if isinstance(row["response"], str):
            rows_of_system[row.get("system", "")].append(row)
    return [
        row
        for own_rows in rows_of_system.values()
        if all(_name(row["response"]) in words for row in own_rows)
        for row in own_rows
        if id(row) not in untagged
    ]


def _speakers(turns):
    """Return the names in the tags of all turns; nothing if a turn has no tag."""
    names = [_name(turn) for turn in turns or ()]
    return names if all(names) else []
