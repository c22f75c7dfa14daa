"""Read a verdict from a reply. A reply is read or it is malformed: nothing is guessed, clipped or set to 0.

The JSON object that was asked for counts as it is. In any other reply thinking is dropped (left open, the reply is
``truncated``); then JSON objects with the fields asked for count; then a final or overall label with a value (``Final
score: 3``), then any label that opens a line or sentence, then a value alone on the first or last line. Texts inside
JSON objects are not read, and what stands in the dialogue is never the verdict: a labelled value that the dialogue
holds, whatever signs stand between its words or around it, counts only as the whole reply, and if it is no whole turn.
"""

import functools
import json
import re
import unicodedata
from typing import NamedTuple

STATUSES = ("ok", "malformed", "refused", "truncated", "empty", "error")
regex = functools.partial(re.compile, flags=re.IGNORECASE | re.MULTILINE)
THINK = "think|thinking|thought|reasoning|scratchpad"
THOUGHT = regex(rf"(?s:<\s*({THINK})\s*>.*?<\s*/\s*\1\s*>|\A.*<\s*/\s*(?:{THINK})\s*>)")
TAG = regex(rf"<\s*/?\s*(?:{THINK})\s*>")
REFUSAL = regex(
    r"\b(?:can(?:['\u2019]t|not)|could(?:n['\u2019]t| not)|won['\u2019]t|will not|(?:decline|refuse|unable) to)"
    r"\s+(?:\w+\s+){0,3}?(?:rat|scor|judg|evaluat|assess|assign|classify|label|assist|help(?! but)|comply|provid)"
    r"|\b(?:sorry|apologi[sz]e),?\s+but\b|\bas an ai\b"
)
SIGNS = r"[\s*_`\"\u201c'(\[$]*"  # what may stand before a value
IS = rf"[*_`\"')\]]*\s*(?:\([^()\n]{{0,40}}\)\s*)?[*_`\"']*\s*[:=|]+{SIGNS}"
START = r"(?:^|(?<=[.,;!?])\s)[ \t*_#-]*(?:[0-9]+[.)]\s+)?(?:(?P<final>final|overall)\s+|(?:the|its|my|llm)\s+)*"
LABELS = {  # what is asked for, and what may stand before it in words
    "score": r"score|rating|grade|verdict|answer|score_llm",
    "influence": r"s_inf|(?:degree\s+of\s+)?influence(?:\s+(?:degree|score))?",
    "label": r"label|prediction|classification|class|answer|verdict|response",
}
# What makes a number another one: more digits, letters, a percentage, a range, another denominator.
MORE = r"\w|[.,]\d|[ \t]*(?:%|percent|(?:[-\u2013\u2014~+/*^\u00b1,]|to|or|and|out of|of)\s*[0-9])"


class Verdict(NamedTuple):
    """What a reply says: one of `STATUSES` and why, scores on the prompt's scales, a label, or responses by kind."""

    status: str
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: dict | None = None
    reason: str = ""


class Unclear(ValueError):
    """A reply without one clear verdict."""


def read(reply, prompt, row=None):
    """Return the `Verdict` of a reply to a `dre.judges.prompts.Prompt` that was rendered with `row`; never raises."""
    text, row = (reply or "").strip(), row or {}
    turns = row.get("context") or ()
    said = [*([turns] if isinstance(turns, str) else turns), *map(row.get, ("response", "reference", "facts"))]
    shown = row.get("examples")
    for one in shown if isinstance(shown, list) else ():
        said += [*(one.get("context") or ()), one.get("response")]
    texts = tuple(one.strip() for one in said if isinstance(one, str))
    try:
        value, end = _object(text, 0)
        if value and end == len(text) and value.keys() == set(prompt.fields) and text not in texts:
            return _of_values(value, prompt)
        if TAG.search(text) and not TAG.search("\n".join(texts)):
            text = THOUGHT.sub("\n", text).strip()
            if TAG.search(text):
                return Verdict("truncated", reason="the reply breaks off while thinking")
        if not text:
            return Verdict("empty", reason="the reply is empty, or nothing but thinking")
        return _of_text(text, prompt, _dialogue(texts))
    except Unclear as error:
        return Verdict("refused" if REFUSAL.search(text[:400]) else "malformed", reason=str(error))


def _words(text):
    """The words and numbers of a text in one form, which no kind of quotation changes."""
    text = unicodedata.normalize("NFKC", re.sub(r"\\[nrt]", " ", text)).casefold()
    words = re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", text)
    return [re.sub(r"\.0+$", "", word.replace(",", ".")) if word[0].isdigit() else word for word in words]


@functools.lru_cache(maxsize=1024)
def _dialogue(texts):
    """What a reply may quote: all words in order, and those of each text and line."""
    lines = "\n".join(texts).splitlines()
    return f" {' '.join(_words(' '.join(lines)))} ", {tuple(_words(part)) for part in (*texts, *lines)}


def _holds(said, text):
    """Whether the words of a text stand in the dialogue one after the other."""
    return f" {' '.join(_words(text))} " in said[0]


def _object(text, at):
    """The JSON object that starts at a place, and its end; None, and the next place, if there is none."""
    if not text.startswith("{", at):
        return None, at + 1
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):  # also an integer of thousands of digits, or nesting as deep
        return None, at + 1


def _of_text(text, prompt, said):
    """The verdict of a reply that is not just the object asked for."""
    rest, found, at = text, [], text.find("{")
    while at >= 0:  # every outermost JSON object
        value, end = _object(text, at)
        if value is not None:
            rest = rest[:at] + "\u2592" * (end - at) + rest[end:]
            if set(prompt.fields) <= value.keys() and not _borrowed(value, text[at:end], prompt, said):
                found.append(_of_values(value, prompt))
        at = text.find("{", end)
    if found:
        return _only(found)
    if re.search(r'\{\s*(?:"[^}]*)?\Z', rest):
        return Verdict("truncated", reason="the JSON object breaks off")
    if prompt.kind == "generate":
        raise Unclear("no JSON object with positive and adversarial responses")
    return _of_values({field: _only(_stated(field, prompt, rest, said)) for field in prompt.fields}, prompt)


def _borrowed(value, text, prompt, said):
    """Whether an object, one of its fields, or all responses of a kind stand in the dialogue."""
    if prompt.kind == "generate":
        lists = [value[kind] for kind in prompt.fields if isinstance(value[kind], list)]
        return _holds(said, text) or any(all(_holds(said, str(one)) for one in texts) for texts in lists)
    return _holds(said, text) or any(_holds(said, f"{field} {value[field]}") for field in prompt.fields)


def _stated(field, prompt, text, said):
    """What words give for a field: final or overall values, else labelled ones, else those alone on a line."""
    _, labelled, lone = _patterns(field, prompt)
    matches = [match for match in labelled.finditer(text) if _own(text[match.start("name") : match.end()], text, said)]
    matches = [match for match in matches if match["final"] or match["name"].lower() == "overall"] or matches
    if not matches and len(prompt.fields) == 1 and not REFUSAL.search(text[:400]):
        lines = [line.strip() for line in text.splitlines() if line.strip(" `")] or [""]
        opening = re.split(r"(?<=[^\W\d_])[.,:;!]\s", lines[0])[0]  # "Positive. It answers."
        for match in filter(None, map(lone.fullmatch, dict.fromkeys((opening, lines[-1])))):
            line, value = match.string, match["value"]
            marked = re.search("[\"'\u201c\u201d\u2018\u2019\u00ab\u00bb]", line) or re.search("[`>]", text)
            if not _holds(said, value) or (
                not marked and (line == opening == text[: len(line)] or _own(value, text, said))
            ):
                matches.append(match)
    if not matches:
        raise Unclear(f"no {field} in the reply that is one value and its own")
    return [match["value"].casefold() for match in matches]


@functools.lru_cache
def _patterns(field, prompt):
    """Patterns of a value, of one with a name before it, and of one alone on a line."""
    if field == "label":
        value = rf"(?:adversarial\s+)?(?P<value>{'|'.join(map(re.escape, prompt.labels))})\b(?:\s+response\b)?"
    else:
        high = (prompt.scale if field == "score" else prompt.influence)[1]
        value = rf"(?P<value>[0-9]++(?:\.[0-9]++)?+)(?:\s*(?:/|out of)\s*{high:g}(?:\.0+)?)?+(?!{MORE})"
    names = f"{LABELS[field]}|{(prompt.criterion or 'overall') if field == 'score' else field}"
    before, after = rf"(?:[-*\u2022#]\s+)?(?:(?:response|output|reply)\s*:)?{SIGNS}", r"[\s*_`\"\u201d')\]$.!]*"
    lone = rf"{before}{value}{after}(?:\([^()\d]*\))?[.\s]*"
    return regex(value), regex(rf"{START}(?P<name>{names}){IS}{value}"), regex(lone)


def _own(words, text, said):
    """Whether words are the judge's own: no line of the dialogue, and not in it unless they are the whole reply."""
    parts = tuple(_words(words))
    return parts not in said[1] and (len(parts) == 1 or words == text or not _holds(said, words))


def _only(values):
    """The one value that all are."""
    if any(value != values[0] for value in values):
        raise Unclear("several verdicts that differ")
    return values[0]


def _of_values(values, prompt):
    """The verdict of the values of all fields: a number on its scale, a known label, five different texts of a kind."""
    found = {}
    for field in prompt.fields:
        value = values[field]
        if prompt.kind == "generate":
            texts = [text.strip() for text in value if isinstance(text, str)] if isinstance(value, list) else []
            if len({" ".join(text.casefold().split()) for text in texts} - {""}) != 5 or len(texts) != 5:
                raise Unclear(f"{len(texts)} {field} responses, expected 5, none of them twice")
            found[field] = tuple(texts)
            continue
        match = _patterns(field, prompt)[0].fullmatch(str(value).strip())
        if not match:
            raise Unclear(f"the {field} is {str(value)[:40]!r}")
        if field == "label":
            found[field] = {word.casefold(): label for word, label in prompt.labels.items()}[match["value"].casefold()]
            continue
        low, high = prompt.scale if field == "score" else prompt.influence
        found[field] = float(match["value"])
        if not low <= found[field] <= high:
            raise Unclear(f"the {field} is {found[field]:g}, off the scale {low:g}-{high:g}")
    if prompt.kind == "generate":
        return Verdict("ok", responses=found)
    return Verdict("ok", found.get("score"), found.get("influence"), found.get("label"))
