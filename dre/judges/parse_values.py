"""The values of a verdict: a number on a scale, the word for a label, or two lists of five texts.

The patterns are shared by the two readers of replies, `dre.judges.parse_json` and
`dre.judges.parse_text`. A value is read as it stands or not at all: nothing is guessed, rounded or
clipped to the scale.
"""

import functools
import re

# Markdown's marks become spaces and all quotation marks become one. Each character is replaced by
# one character, so that a place in the plain text is the same place in the reply.
_MARKDOWN = dict.fromkeys("*_#$", " ")
_QUOTATION_MARKS = dict.fromkeys("\u201c\u201d\u00ab\u00bb`", '"')
_PLAIN = str.maketrans(_MARKDOWN | _QUOTATION_MARKS)

_DIGITS = r"[0-9]++(?:\.[0-9]++)?+(?:e[-+]?[0-9]++)?+"  # 4   4.5   1e-7
_SIGN = r"[-+\u2212]?"  # -0.5   +0.5   and the longer minus sign
_UNIT = r"(?:\s*+(?:points?|stars?)\b)?"  # 4 points   4 stars

_N_RESPONSES = 5  # texts of each kind that a prompt of kind "generate" asks for


class Unclear(ValueError):
    """A reply has no single clear verdict.

    Parameters
    ----------
    reason : str
        Why, in words for the user.
    status : str or None
        The status of the reply where the reason decides it (``truncated``, ``empty``); None where
        it is ``malformed`` or ``refused``.
    """

    def __init__(self, reason: str, status: str | None = None):
        super().__init__(reason)
        self.reason = reason
        self.status = status


def plain(text: str) -> str:
    """Return a text of the same length without Markdown's marks, all quotation marks the same."""
    return text.translate(_PLAIN)


def scale_of(field: str, prompt) -> tuple[float, float]:
    """Return the lowest and the highest value of a prompt's ``score`` or ``influence``."""
    return prompt.scale if field == "score" else prompt.influence


def value_pattern(field: str, prompt) -> str:
    """Return a regular expression of a field's value, whose group ``value`` is the value itself."""
    if field == "label":
        words = "|".join(re.escape(plain(label)) for label in prompt.labels)
        # Positive   adversarial negative   Negative response
        return rf"(?:adversarial\s+)?(?P<value>{words})(?:\s+response)?"
    low, high = scale_of(field, prompt)
    sign = _SIGN if low < 0 else ""
    highest = rf"{re.escape(f'{high:g}')}(?:\.0+)?"
    # 4/5   4 out of 5   4 (out of 5)
    denominator = rf"(?:\s*+(?:/|\(?out\s+of)\s*+{highest}\s*+\)?)?"
    return rf"(?P<value>{sign}{_DIGITS}){denominator}{_UNIT}"


def value_of(field: str, raw_value, prompt):
    """Return the value that a text or a JSON value gives for a field.

    Parameters
    ----------
    field : str
        One of the prompt's fields: ``score, influence, label, positive, adversarial``.
    raw_value : object
        What the reply has for it, for example ``"4/5"``, ``3.5`` or a list of texts.
    prompt : dre.judges.prompts.Prompt
        The prompt that was answered; it has the scales and the labels.

    Returns
    -------
    float, str or tuple of str
        A number on the prompt's scale; ``Positive`` or ``Negative``; or five texts.

    Raises
    ------
    Unclear
        If it is none of these.
    """
    if prompt.kind == "generate":
        return _five_texts(field, raw_value)
    match = _value_regex(field, prompt).fullmatch(plain(str(raw_value)).strip())
    if not match:
        raise Unclear(f"the {field} is {str(raw_value)[:40]!r}")
    return meaning(field, match["value"], prompt)


def meaning(field: str, value: str, prompt):
    """Return what the group ``value`` of `value_pattern` means: a number or a label."""
    if field == "label":
        meanings = {plain(word).casefold(): label for word, label in prompt.labels.items()}
        return meanings[value.casefold()]
    return on_scale(field, value.replace("\u2212", "-"), prompt)


def on_scale(field: str, raw_value, prompt) -> float:
    """Return a score or an influence as a number; raise `Unclear` if it is off the scale."""
    low, high = scale_of(field, prompt)
    number = float(raw_value)
    if not low <= number <= high:
        raise Unclear(f"the {field} is {number:g}, off the scale {low:g}-{high:g}")
    return number


@functools.lru_cache
def _value_regex(field, prompt):
    return re.compile(value_pattern(field, prompt), re.IGNORECASE)


def _five_texts(field, raw_value):
    """Five texts of a list, which differ in more than capitals and spaces."""
    items = raw_value if isinstance(raw_value, list) else []
    texts = tuple(text.strip() for text in items if isinstance(text, str))
    distinct = {" ".join(text.casefold().split()) for text in texts} - {""}
    if len(texts) != _N_RESPONSES or len(distinct) != _N_RESPONSES:
        raise Unclear(
            f"{len(texts)} {field} responses, expected {_N_RESPONSES}, none of them twice"
        )
    return texts
