"""Read five positive and five adversarial responses by their headings, never by the position of a line."""

import re

from dre.judges.replies import Unclear

COUNT = 5
_KEYS = {
    "positive": ("positive", "positives", "positive_response", "positive_responses"),
    "adversarial": (
        "adversarial",
        "adversarials",
        "adversarial_negative",
        "adversarial_response",
        "adversarial_responses",
        "adversarial_negative_response",
        "adversarial_negative_responses",
        "negative",
        "negatives",
        "negative_response",
        "negative_responses",
    ),
}
LIST_KEYS = tuple(name for names in _KEYS.values() for name in names)
_BULLET = re.compile(r"^\s*(?:[-*\u2022\u2013\u00b7]\s+|\(?(?:\d{1,2}|[a-j])[.):]\)?\s+)")
_DECOR = " \t*_#`>"
_HEADING = re.compile(
    r"^(?:here are\s+)?(?:the\s+)?(?:(?:five|5)\s+)?(?:diverse\s+)?"
    r"(?P<kind>positive|adversarial(?:\s+negative)?|negative)(?:\s+(?:responses?|replies|reply|examples?))?"
    r"\s*(?:\(\d{1,2}\)|(?P<number>\d{1,2}))?\s*(?:(?P<colon>[:\uff1a])[ \t*_]*(?P<rest>.*))?$",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb", "`": "`"}


def read_lists(text, objects):
    """Read the responses a reply to the generation prompt gives.

    Parameters
    ----------
    text : str
        The reply without thinking.
    objects : list of dict
        The JSON objects in it.

    Returns
    -------
    dict
        ``positive`` and ``adversarial``: tuples of five texts.

    Raises
    ------
    dre.judges.replies.Unclear
        If there are not five of each, or one stands there twice.
    """
    lists = [found for found in map(_from_object, objects) if found]
    if any(found != lists[0] for found in lists[1:]):
        raise Unclear("two JSON objects that differ")
    found = lists[0] if lists else _from_lines(text)
    for kind, texts in found.items():
        if len(texts) != COUNT:
            raise Unclear(f"{len(texts)} {kind} responses, expected {COUNT}")
        if len({" ".join(t.casefold().split()) for t in texts}) != COUNT:
            raise Unclear(f"a {kind} response stands there twice")
    return {kind: tuple(texts) for kind, texts in found.items()}


def _from_object(value):
    keys = {re.sub(r"[\W_]+", "_", str(key).casefold()).strip("_"): item for key, item in value.items()}
    found = {}
    for kind, names in _KEYS.items():
        items = [keys[name] for name in names if name in keys]
        if not items:
            return None
        if len(items) > 1 or not isinstance(items[0], list) or not all(isinstance(t, str) for t in items[0]):
            raise Unclear(f"the {kind} responses are not one list of texts")
        found[kind] = [text.strip() for text in items[0] if text.strip()]
    return found


def _from_lines(text):
    sections, current = {"positive": [], "adversarial": []}, None
    for line in text.splitlines():
        heading = _HEADING.match(_BULLET.sub("", line.lstrip(_DECOR)).strip(_DECOR))
        if heading:
            current = "positive" if heading["kind"].lower() == "positive" else "adversarial"
            line = (heading["rest"] or "").strip()
            if line:
                sections[current].append((bool(heading["number"]), line))
        elif current and (not line.strip() or any(map(str.isalnum, line))) and "```" not in line:
            sections[current].append((bool(_BULLET.match(line)), line.strip()))
    return {kind: _items(lines) for kind, lines in sections.items()}


def _items(lines):
    """The items of a section: its bulleted lines with what wraps below them, or every line if none is."""
    if not any(bulleted for bulleted, _ in lines):
        return [_bare(line) for _, line in lines if _bare(line)]
    items, wraps = [], False
    for bulleted, line in lines:
        if bulleted:
            items.append(_BULLET.sub("", line))
        elif line and wraps:
            items[-1] += " " + line
        wraps = bool(line) and bool(items) and (bulleted or wraps)
    return [_bare(item) for item in items if _bare(item)]


def _bare(text):
    text = text.strip().strip("*_").strip()
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    return text
