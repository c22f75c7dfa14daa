"""Read a verdict from a reply in plain text, for prompts that send no schema.

A verdict is a line that holds the value and nothing else, with or without its label: ``4``,
``**Score:** 4/5``, ``- Coherence: 3``, ``Answer: No.``, or a JSON object. Where the prompt asks for
the value alone, this line is the whole reply. Elsewhere it is the first or the last line, and the
rest is the judge's reasoning. Where several lines are verdicts, all of them have to agree.

This is not safe. A judge that repeats or translates the dialogue on its first or last line is
misread. `dre.judges.parse_json`, with a schema, is the safe way.
"""

import functools
import re
from typing import NamedTuple

from dre.judges import parse_json
from dre.judges.parse_json import Value
from dre.judges.parse_values import Unclear, meaning, plain, scale_of, value_pattern

# Most repetitions below are possessive (*+): they never try a shorter match. So the time that a
# reply takes stays linear in its length, whatever it holds.
_FENCE = re.compile(r"\s*+```\w*+\s*+")  # ```   ```json

_ARTICLES = r"(?:(?:the|my|final|overall|llm)\s+)*+"  # "My final" in "My final score: 4"
_NAMES = {
    "score": r"score(?:\s+llm)?|rating|grade|verdict|answer|response|output|reply",
    "influence": r"s\s+inf|(?:degree\s+of\s+)?influence(?:\s+(?:degree|score))?",
    "label": r"label|prediction|classification|class|answer|verdict|response|output|reply",
}
_NUMBERING = r"(?:[0-9]{1,3}[.)]\s+)?"  # "2. " in "2. Engagingness: 3"
# "- " in "- Coherence: 3" and in "- 4". A dash that touches a bare number is a minus, as in "-1",
# which judges say for "cannot be rated".
_BULLET = r"(?:(?P<minus>-(?!\s))|[-\u2022]\s*+)?"
_BULLET_BELOW_ZERO = (
    r"(?P<minus>)(?:\u2022\s*+)?"  # on such a scale "- 0.5" may be a number below 0
)
# "The response is 1" may quote a response of "1".
_NO_QUOTATION = r"(?!(?:the\s+)?(?:response|output|reply)\s+is\b)"
_SEPARATOR = r"(?:[:=]|\bis\b)"  # Score: 4   Score = 4   The score is 4.
_OPENING = r"[\s\"'(\[]*+"  # [4]   "Positive"
_CLOSING = r"[\s\"')\].!]*+"  # 4.   "Positive"   No!


class _Line(NamedTuple):
    """A line of a reply, or a JSON object that fills whole lines."""

    start: int
    end: int
    is_object: bool


def values_of_reply(text: str, prompt, bare: bool = True) -> dict[str, Value]:
    """Return the value of each field of a reply in plain text.

    Parameters
    ----------
    text : str
        The reply without its thinking.
    prompt : dre.judges.prompts.Prompt
        The prompt that was answered; its ``verdict`` says which lines may hold a value.
    bare : bool
        Whether a value without a label is a verdict. It is not in a reply that sounds like a
        refusal.

    Returns
    -------
    dict of str to Value
        Of each field of the prompt; the first of several that agree.

    Raises
    ------
    Unclear
        If a field has no value, or lines that disagree.
    """
    parse_json.check_size(text)
    lines = _lines(text, prompt)
    values: dict[str, list[Value]] = {field: [] for field in prompt.fields}
    fields_in_place = set()  # fields with a value where the prompt wants it
    for i, line in enumerate(lines):
        values_of_line = _values_of_line(text, line, prompt, bare)
        if not values_of_line and prompt.verdict == "whole_reply":
            raise Unclear(f"prompt {prompt.name} asks for the value alone, and the reply has more")
        # The place of one field is the first or the last line. Two fields stand on two lines, or
        # together in one JSON object.
        lines_of_a_verdict = 1 if line.is_object else len(prompt.fields)
        distance_from_an_end = min(i, len(lines) - 1 - i)
        for field, value in values_of_line.items():
            values[field].append(value)
            if distance_from_an_end < lines_of_a_verdict:
                fields_in_place.add(field)

    verdict = {}
    for field in prompt.fields:
        if field not in fields_in_place:
            raise Unclear(f"no {field} stands alone on the first or the last line of the reply")
        distinct = {value.value for value in values[field]}
        if len(distinct) > 1:
            raise Unclear(f"the {field} is given more than once, and not the same")
        verdict[field] = values[field][0]
    return verdict


def _lines(text, prompt):
    """The lines of a reply, without empty ones, labels alone, and code fences around objects."""
    lines = []
    end = -1
    for words in text.split("\n"):
        start = end + 1
        end = start + len(words)
        is_within_object = bool(lines) and start < lines[-1].end
        if is_within_object or not words.strip():
            continue
        first_character = end - len(words.lstrip())
        object_end = parse_json.object_end(text, first_character)
        if object_end and not text[object_end:].partition("\n")[0].strip():
            lines.append(_Line(first_character, object_end, is_object=True))
        else:
            lines.append(_Line(start, end, is_object=False))

    # A fence is dropped only around an object, so that other code stays what it is: a quotation.
    verdict_lines = []
    for i, line in enumerate(lines):
        neighbours = lines[max(0, i - 1) : i + 2]
        words = text[line.start : line.end]
        if not line.is_object:
            if _FENCE.fullmatch(words) and any(neighbour.is_object for neighbour in neighbours):
                continue
            if _label_regex(prompt).fullmatch(plain(words)):
                continue
        verdict_lines.append(line)
    return verdict_lines


def _values_of_line(text, line, prompt, bare):
    """The `Value` of each field that a line gives: all of them for an object, at most one else."""
    if line.is_object:
        try:
            return parse_json.values_of_object(text, line.start, prompt)
        except Unclear:
            return {}
    if prompt.kind == "generate":
        return {}
    words = plain(text[line.start : line.end])
    if words.count('"') % 2 or words.count("'") % 2:
        return {}  # a quotation that began on another line
    for field in prompt.fields:
        match = _line_regex(field, prompt).fullmatch(words)
        if not match:
            continue
        has_label = match["label"] is not None
        if match["minus"] and not has_label and field != "label":
            low, high = scale_of(field, prompt)
            raise Unclear(f"the {field} is -{match['value']}, off the scale {low:g}-{high:g}")
        if has_label or (bare and len(prompt.fields) == 1):
            start = line.start + match.start("value")
            end = line.start + match.end("value")
            return {field: Value(meaning(field, match["value"], prompt), start, end)}
    return {}


@functools.lru_cache
def _line_regex(field, prompt):
    """A whole line that gives the value of a field."""
    below_zero = field != "label" and scale_of(field, prompt)[0] < 0
    bullet = _BULLET_BELOW_ZERO if below_zero else _BULLET
    no_quotation = "" if field == "label" else _NO_QUOTATION
    label_name = _label_pattern(field, prompt)
    label = rf"(?P<label>{_NUMBERING}{no_quotation}{label_name}\s*+{_SEPARATOR})?"
    value = value_pattern(field, prompt)
    return re.compile(rf"\s*+{bullet}{label}{_OPENING}{value}{_CLOSING}", re.IGNORECASE)


@functools.lru_cache
def _label_regex(prompt):
    """A whole line that is the label of any field, its value being on the next line."""
    if prompt.kind == "generate":
        return re.compile(r"(?!)")  # which matches nothing
    labels = "|".join(_label_pattern(field, prompt) for field in prompt.fields)
    return re.compile(rf"\s*+{_BULLET}{_NUMBERING}(?:{labels})\s*+[:=]?\s*+", re.IGNORECASE)


def _label_pattern(field, prompt):
    """What is written before a value: "Final score", "Coherence", "Score (0-5)"."""
    names = _NAMES[field]
    scale = ""
    if field == "score":
        criterion = re.escape(plain(prompt.criterion or "overall"))
        names += rf"|{criterion}(?:\s+(?:score|rating))?"
    if field != "label":
        low, high = scale_of(field, prompt)
        lowest = rf"{re.escape(f'{low:g}')}(?:\.0+)?"
        highest = rf"{re.escape(f'{high:g}')}(?:\.0+)?"
        # "(0-5)", "(0 to 5)" or "(out of 5)" after the name, with the prompt's own scale
        from_to = rf"{lowest}\s*(?:-|\u2013|to)\s*{highest}"
        scale = rf"(?:\s*[(\[]\s*(?:{from_to}|(?:out\s+)?of\s+{highest})\s*[)\]])?"
    return rf"{_ARTICLES}(?:{names}){scale}"
