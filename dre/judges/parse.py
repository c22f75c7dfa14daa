"""Read a verdict from a reply. A reply is read or it is malformed: nothing is guessed, clipped or set to 0.

Where a schema went with the request, the object that is the reply is the verdict, and nothing but objects is read.
Any other reply is read by one ladder, without its thinking (left open, it is ``truncated``):

1. the JSON object that was asked for, as the whole reply;
2. values in other objects and values with a label (``Score: 3``): all of the judge's own agree, or the last is called
   final and repeats the one before;
3. a value alone: the sole line, the line above a reason, the line below a whole sentence.

What is not the judge's own says `dre.judges.quotes`. Time is linear in the length of the reply.
"""

import itertools
import json
import re
from typing import NamedTuple

from dre.judges import quotes, values

MOST = 100  # braces, or labelled values, of a reply that is read
THINK = r"(?:think|thinking|thought|reasoning|scratchpad)\s*>"
TAG = values.regex(rf"<\s*+/?+\s*+{THINK}")
THOUGHT = values.regex(rf"\A(?s:<\s*{THINK}.*?<\s*/\s*{THINK}|.*?<\s*/\s*{THINK}[ \t]*$)")
REFUSAL = values.regex(
    r"\b(?:can(?:['\u2019]t|not)|could(?:n['\u2019]t| not)|won['\u2019]t|will not|(?:decline|refuse|unable) to)"
    r"\s+(?:\w+\s+){0,3}?(?:rat|scor|judg|evaluat|assess|assign|classify|label|assist|help(?! but)|comply|provid)"
    r"|\b(?:sorry|apologi[sz]e),?\s+but\b|\bas an ai\b"
)


class Verdict(NamedTuple):
    """What a reply says: its status, scores on the prompt's scales, a label, or responses by kind; else why not.

    ``status`` is ok, malformed, refused, truncated or empty; error and missing where there is no reply.
    """

    status: str
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: dict | None = None
    reason: str = ""


def read(reply, prompt, row=None, structured=False):
    """Return the `Verdict` of a reply to a `dre.judges.prompts.Prompt` that was rendered with `row`; never raises.

    `structured`: the prompt's schema went with the request.
    """
    text, texts, fields = (reply or "").replace(values.MARK, "").strip(), quotes.texts(row or {}), prompt.fields
    try:
        text = _without_thinking(text, texts)
        parts, objects = _objects(text)
        asked = len(objects) == 1 and objects[0].keys() == set(fields)
        asked = asked and (not values.plain("".join(parts)) if structured else parts == ["", ""] and text not in texts)
        if prompt.kind == "generate":
            found = [_five(given, fields, () if asked else texts) for given in objects if set(fields) <= given.keys()]
            return Verdict("ok", responses=_only("JSON object with new responses", list(filter(None, found))))
        if asked:
            found = {field: values.read(field, objects[0][field], prompt) for field in fields}
        else:
            parts[1:] = [_in_words(given, prompt) + part for given, part in zip(objects, parts[1:])]
            found = {field: _stated(field, prompt, "".join(parts), texts, structured) for field in fields}
        return Verdict("ok", found.get("score"), found.get("influence"), found.get("label"))
    except values.Unclear as error:
        reason, *status = error.args
        return Verdict(*(status or ["refused" if REFUSAL.search(text[:400]) else "malformed"]), reason=reason)


def _without_thinking(text, texts):
    """A reply without its thinking, unless the dialogue holds such tags, too."""
    if TAG.search(text) and not text.startswith("{") and not TAG.search("\n".join(texts)):
        text = THOUGHT.sub("", text).strip()
        if TAG.search(text):
            raise values.Unclear("the reply breaks off while thinking", "truncated")
    if not text:
        raise values.Unclear("the reply is empty, or nothing but thinking", "empty")
    return text


def _objects(text):
    """The texts around the outermost JSON objects of a reply, and the objects."""
    if text.count("{") > MOST:
        raise values.Unclear(f"the reply has more than {MOST} braces")
    parts, objects, done, at = [], [], 0, text.find("{")
    while at >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):  # also an integer of thousands of digits, or nesting as deep
            end = at + 1
        else:
            parts, objects, done = [*parts, text[done:at]], [*objects, value], end
        at = text.find("{", end)
    if not objects and re.search(r'\{\s*(?:"|\Z)', text[text.rfind("}") + 1 :]):
        raise values.Unclear("the JSON object breaks off", "truncated")
    return [*parts, text[done:]], objects


def _in_words(given, prompt):
    """What an object gives for the fields asked for, by their own names or others, as labelled values."""
    found = []
    for field in prompt.fields:
        name, value, *_ = values.patterns(field, prompt)
        keys = [field] if field in given else [key for key in given if name.fullmatch(values.plain(key))]
        found += [f"{values.MARK}{key}: {given[key]}" for key in keys if value.fullmatch(values.plain(str(given[key])))]
    return "".join(found) + values.MARK


def _stated(field, prompt, text, texts, objects_only):
    """The value that a reply gives for a field."""
    said, marked, text = quotes.dialogue(texts), re.search("[>`\"\u201c\u201d\u00ab\u00bb]", text), values.plain(text)
    _, _, labelled, alone = values.patterns(field, prompt)
    own = []
    for match in _matches(labelled, text):
        words = match["words"]
        copied = said.holds(words) and (marked or words != text or said.has_line(words))
        if not (copied or quotes.told(text, match.start("words")) or (objects_only and match[0][0] != values.MARK)):
            own.append(match)
    if not (own or objects_only or len(prompt.fields) > 1 or REFUSAL.search(text[:400])):
        for match in _matches(alone, text):
            copied = said.holds(match["words"]) and (marked or (match.start() and said.has_line(match["words"])))
            if not (copied or quotes.told(text, match.start())):
                own.append(match)
    given = [values.read(field, match["value"], prompt) for match in own]
    if len(given) > 2 and own[-1]["final"] and given[-1] == given[-2]:
        given = given[-1:]
    return _only(f"JSON object{'' if objects_only else ', label or line of its own'} with the {field}", given)


def _matches(pattern, text):
    """All matches of a pattern, if they are not very many."""
    found = list(itertools.islice(pattern.finditer(text), MOST + 1))
    if len(found) > MOST:
        raise values.Unclear(f"the reply gives more than {MOST} values")
    return found


def _only(what, given):
    """The one value that all are."""
    if not given:
        raise values.Unclear(f"no {what} in which the judge itself speaks")
    if any(value != given[0] for value in given):
        raise values.Unclear(f"the reply has more than one {what}, and they differ")
    return given[0]


def _five(given, kinds, texts):
    """Five different responses of each kind; None if all of a kind stand in the texts."""
    found = {}
    for kind in kinds:
        responses = [one.strip() for one in given[kind] if isinstance(one, str)] if isinstance(given[kind], list) else []
        if len({" ".join(one.casefold().split()) for one in responses} - {""}) != 5 or len(responses) != 5:
            raise values.Unclear(f"{len(responses)} {kind} responses, expected 5, none of them twice")
        if all(quotes.dialogue(texts).holds(one) for one in responses):
            return None
        found[kind] = tuple(responses)
    return found
