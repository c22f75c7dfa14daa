"""Read a verdict from a JSON object: the safe way, where the whole reply has to be the object.

An object inside prose is never searched for here. What a dialogue says can only reach the verdict
if the judge itself writes nothing else.
"""

import json
import re
from typing import Any, NamedTuple

from dre.judges.parse_values import Unclear, value_of

_MOST_CHARACTERS = 40_000  # of a reply that is read, without its thinking
_MOST_BRACES = 100

_DECODER = json.JSONDecoder()

_FENCE = "```"
_FENCE_START = re.compile(r"```\w*+\s*+")  # ```   ```json

# {"score": 4.   an object that begins after the last one ended, and does not end
_BROKEN_OFF = re.compile(r'\{\s*+(?:"|\Z)')

# {"score": 4, "why": "..."}   what is between keys and values
_BETWEEN = re.compile(r"[\s,:]*+")

# "overall_score", "final_score" and "llm_score" are the score, "influence_degree" the influence.
_MORE_THAN_THE_NAME = re.compile("(?:overall|final|llm)_|_degree")


class Value(NamedTuple):
    """The value of a field, and its position in the reply: characters start to end."""

    value: Any
    start: int
    end: int


def check_size(text: str) -> None:
    """Raise `Unclear` if a reply is so long that reading it could take long."""
    if len(text) > _MOST_CHARACTERS or text.count("{") > _MOST_BRACES:
        raise Unclear(
            f"the reply has more than {_MOST_CHARACTERS:,} characters or {_MOST_BRACES} braces"
        )


def breaks_off(text: str) -> bool:
    """Return whether a text ends within a JSON object."""
    after_last_object = text[text.rfind("}") + 1 :]
    return _BROKEN_OFF.search(after_last_object) is not None


def values_of_reply(text: str, prompt) -> dict[str, Value]:
    """Return the value of each field of a reply that is one JSON object and nothing else.

    Parameters
    ----------
    text : str
        The reply without its thinking. A code fence around the object is allowed.
    prompt : dre.judges.prompts.Prompt
        The prompt that was answered.

    Returns
    -------
    dict of str to Value
        Of each field of the prompt.

    Raises
    ------
    Unclear
        If the reply is anything else, if the object has other keys than the schema asks for, or if
        a value is missing, given twice or off its scale.
    """
    check_size(text)
    start, stop = 0, len(text)
    fence = _FENCE_START.match(text)
    if fence and text.endswith(_FENCE):
        start = fence.end()
        stop = len(text.removesuffix(_FENCE).rstrip())
    end = object_end(text, start)
    if end != stop:
        if breaks_off(text):
            raise Unclear("the JSON object breaks off", "truncated")
        raise Unclear("the reply is not one JSON object alone")
    return values_of_object(text, start, prompt, alone=True)


def object_end(text: str, start: int) -> int | None:
    """Return where the JSON object that starts at a place ends, or None if none starts there."""
    if text[start : start + 1] != "{":
        return None
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # also a number of thousands of digits, or deep nesting
        return None
    return end


def values_of_object(text: str, start: int, prompt, alone: bool = False) -> dict[str, Value]:
    """Return the value of each field of the valid JSON object that starts at a place of a text.

    Other keys of the object are passed over, unless the fields must stand `alone`. Raises `Unclear`
    as `values_of_reply` does.
    """
    members = _members(text, start)
    other_names = {name for name, _ in members} - set(prompt.fields)
    if alone and other_names:
        raise Unclear(f"the schema does not ask for the key {min(other_names)!r}")
    values = {}
    for field in prompt.fields:
        matches = [member for name, member in members if name == field]
        if not matches:
            raise Unclear(f"the JSON object has no {field}")
        if len(matches) > 1:
            raise Unclear(f"the JSON object has {field} more than once")
        value, value_start, value_end = matches[0]
        values[field] = Value(value_of(field, value, prompt), value_start, value_end)
    return values


def _members(text, start):
    """Pairs of the short name of a key and its `Value`, in order, of a valid JSON object."""
    members = []
    position = _end_of_gap(text, start + 1)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        value_start = _end_of_gap(text, position)
        value, value_end = _DECODER.raw_decode(text, value_start)
        name = _MORE_THAN_THE_NAME.sub("", key.casefold())
        members.append((name, Value(value, value_start, value_end)))
        position = _end_of_gap(text, value_end)
    return members


def _end_of_gap(text, position):
    """Return where the spaces, commas and colons end that start at a place of a text."""
    gap = _BETWEEN.match(text, position)
    assert gap is not None, "the pattern matches nothing, too"
    return gap.end()
