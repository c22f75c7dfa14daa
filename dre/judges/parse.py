"""Read a judge's reply: its verdict, or why it has none. Nothing is guessed, rounded or clipped.

If a JSON schema went with the request, the whole reply has to be the object. Otherwise it is the
object, or the first or the last line gives the value and nothing else: ``4``, ``**Score:** 4/5``,
``- Coherence: 3``, ``Answer: No.``. Where several lines do, they have to agree. Without a schema a
judge that quotes the dialogue there is misread.
"""

import functools
import json
import re
from typing import Annotated, Any, Literal, NamedTuple

import pydantic

_N_RESPONSES = 5  # texts of each kind that a prompt of kind "generate" asks for
_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)
_REFUSAL = re.compile(
    r"\b(?:can(?:['\u2019]t|not)|won['\u2019]t|unable to|decline to)\s+(?:\w+\s+){0,3}?"
    r"(?:rat|scor|judg|evaluat|assess|assist|help(?! but)|comply|provid)|\bsorry,?\s+but\b",
    re.IGNORECASE,
)
_LONGEST = 200  # characters of a line that gives a value
_NAMES = {
    "score": "score|rating|grade|verdict|answer|response|output",
    "influence": r"s_inf|(?:degree of )?influence(?: (?:degree|score))?",
    "label": "label|prediction|class|answer|verdict|response|output",
}


class Verdict(NamedTuple):
    """The score or label in a reply, or the reason why there is none.

    ``status`` is ``ok``, or what became of the reply: ``malformed, refused, truncated, empty``;
    where no reply came, ``error`` or ``missing``. ``score_llm`` is on the prompt's scale.
    """

    status: str
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: dict | None = None
    reason: str = ""


def parse_reply(
    prompt: Any, reply: str | None, row: dict | None = None, structured: bool = False
) -> Verdict:
    """Return the `Verdict` of a reply. Never raises, whatever the reply is.

    ``structured`` says whether the prompt's JSON schema went with the request.
    """
    text = (reply or "").strip()
    thinking = _THINKING.match(text)
    text = text[thinking.end() :].strip() if thinking else text
    if not text:
        return Verdict("empty", reason="the reply is empty, or nothing but thinking")
    if "</think" in text.casefold():
        return Verdict("malformed", reason="a tag of thinking stands within the reply")
    try:
        values = json.loads(_without_fence(text), object_pairs_hook=_once)
        values = _model(prompt).model_validate(values).model_dump()
    except (ValueError, RecursionError) as error:  # pydantic's error is a ValueError
        may_be_text = not (structured or text[0] == "{" or _REFUSAL.search(text[:400]))
        values = _in_lines(text, prompt) if may_be_text else None
        if values is None:
            reason = _in_words(error) if prompt.schema else _expected(prompt)
            status = "refused" if _REFUSAL.search(text[:400]) else "malformed"
            return Verdict(status, reason=f"no verdict: {reason}; the reply begins {text[:60]!r}")
    if prompt.kind == "generate":
        return Verdict("ok", responses={name: tuple(texts) for name, texts in values.items()})
    if prompt.kind == "label":
        return Verdict("ok", label=prompt.labels[values["label"]])
    return Verdict("ok", score_llm=values["score"], s_inf=values.get("influence"))


def _without_fence(text):
    """Return a text without the code fence that stands around it, if one does."""
    if not (text.startswith("```") and text.endswith("```")):
        return text
    return re.sub(r"\A\w*", "", text.strip("`"))


def _once(pairs):
    """Return a JSON object as a dict; ValueError if a key is there twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is there twice")
    return values


def _expected(prompt):
    """Say what a reply in text has to be."""
    if prompt.kind == "label":
        return f"no line is {' or '.join(prompt.labels)}"
    low, high = prompt.scale or (0, 0)
    return f"no line is a number from {low:g} to {high:g}"


def _in_words(error):
    """Say what is wrong with an object, or with a text that is none."""
    if isinstance(error, pydantic.ValidationError):
        first = error.errors()[0]
        if not first["loc"]:
            return "no JSON object"
        return f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
    return "no JSON object" if isinstance(error, json.JSONDecodeError) else f"{error}"[:100]


@functools.cache
def _model(prompt) -> Any:
    """Return the pydantic model of a reply, with the prompt's fields, scales and labels."""

    def different(texts):
        if len({" ".join(text.casefold().split()) for text in texts} - {""}) < _N_RESPONSES:
            raise ValueError("a response is there twice, or empty")
        return texts

    def field(name):
        if name == "label":
            return (Literal[tuple(prompt.labels)], ...)
        if prompt.kind == "generate":
            length = pydantic.Field(min_length=_N_RESPONSES, max_length=_N_RESPONSES)
            return (Annotated[list[str], length, pydantic.AfterValidator(different)], ...)
        low, high = prompt.scale if name == "score" else prompt.influence
        return (float, pydantic.Field(ge=low, le=high, strict=True))

    fields: Any = {name: field(name) for name in prompt.fields}
    config = pydantic.ConfigDict(extra="forbid")
    return pydantic.create_model("Reply", __config__=config, **fields)


def _in_lines(text, prompt):
    """Return the values that whole lines give, or None if one is missing or given twice."""
    if prompt.kind == "generate":
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    labels_alone = [line_pattern(prompt, name, without_value=True) for name in prompt.fields]
    lines = [
        line
        for line in lines
        if len(line) >= _LONGEST or not any(label.fullmatch(line) for label in labels_alone)
    ]
    if any(line.startswith("{") for line in lines):  # an object stands beside other words
        return None
    if prompt.verdict == "whole_reply" and len(lines) != 1:
        return None
    values = {}
    for name in prompt.fields:
        pattern = line_pattern(prompt, name)
        matches = [pattern.fullmatch(line) if len(line) < _LONGEST else None for line in lines]
        at_the_ends = matches[: len(prompt.fields)] + matches[-len(prompt.fields) :]
        found = {match["value"].casefold() for match in matches if match}
        if len(found) != 1 or not any(at_the_ends):
            return None
        [value] = found
        values[name] = value if name == "label" else float(value)
    by_word = {label.casefold(): label for label in prompt.labels}
    if "label" in values:
        values["label"] = by_word[values["label"]]
    try:
        return _model(prompt).model_validate(values).model_dump()
    except pydantic.ValidationError:
        return None


@functools.cache
def line_pattern(prompt, name, without_value=False):
    """Return the pattern of a line that gives the value of a field and nothing else.

    ``without_value``: of one that announces it, so that it stands on the next line.
    """
    names = _NAMES[name]
    value = (
        "|".join(map(re.escape, prompt.labels)) if name == "label" else r"[-+]?[0-9]+(?:\.[0-9]+)?"
    )
    scale = own_scale = ""
    bullet = r"(?:[-\u2022]\s+)?"
    if name == "score":
        names += f"|{re.escape((prompt.criterion or 'overall').replace('_', ' '))}"
        low, high = prompt.scale
        bullet = bullet if low >= 0 else ""  # where it may be a minus
        own_scale = rf"(?: [(\[]{low:g}(?:-| to ){high:g}[)\]])?"
        scale = rf"(?:\s*(?:/|\(?out of)\s*{high:g}\)?)?(?:\s+(?:points?|stars?))?"
    articles = "(?:(?:the|my|final|overall|llm) )*"
    label = rf"(?:\d+[.)]\s*)?{articles}(?:{names})(?: score| rating)?{own_scale}[\s*_]*[:=]"
    if without_value:
        return re.compile(rf"\W*{label}\W*", re.IGNORECASE)
    needed = "?" if len(prompt.fields) == 1 else ""
    quotes = "\"'\u201c\u201d" if name == "label" else ""
    marks = rf"[\s*_#(\[`$:{quotes}]*"
    return re.compile(
        rf"{marks}{bullet}{marks}(?:{label}){needed}{marks}"
        rf"(?P<value>{value}){scale}[\s*_#).\]!`${quotes}]*",
        re.IGNORECASE,
    )
