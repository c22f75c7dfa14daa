"""How a value is written: a number on its scale or a label, with a name before it or alone on its line."""

import functools
import re

MARK = "\ue000"  # stands before what a JSON object gives
regex = functools.partial(re.compile, flags=re.IGNORECASE | re.MULTILINE)
NAMES = {  # of a field, as a label or the key of an object
    "score": "score|rating|grade|verdict|answer|score llm",
    "influence": "s inf|(?:degree of )?influence(?: (?:degree|score))?",
    "label": "label|prediction|classification|class|answer|verdict",
}
LABEL_START = rf"(?:^|{MARK}|(?<=[.,;!?]) )[ |\u2022-]*(?:[0-9]{{1,3}}[.)] )?"
BEFORE_NAME = r"(?:(?:(?P<final>final|overall)|the|its|my|llm) )*"
COLON = r"[\"')\] ]*(?:\([^()\n]{0,40}\))?[\"' ]*(?:[:=|]+|$)"
I_GIVE = r"I(?:['\u2019]d| would)? (?:give|rate|score|put) (?:this|it|(?:the|this) re(?:sponse|ply)) (?:an? |at )?"
# What makes a number another one: more digits, letters or words, a range, another denominator, a question.
ANOTHER = r"\w|[.,]\d| ?(?:[%?]|[-\u2013\u2014~+/^\u00b1,] ?[0-9]|\(out )| (?!(?:as|because|for|since)\b|\w+:)\w"
ALONE_AFTER = r"\A|(?<=[.!?:)\"]\n)|^(?=(?:[-\u2022] )?(?:response|output|reply) ?:)"
ALONE_BEFORE = r"\Z|\n(?:rationale|reason(?:s|ing)?|explanation|analysis|justification|because|since)\b"
PLAIN = str.maketrans({**dict.fromkeys("*_#$", " "), **dict.fromkeys("\u201c\u201d\u00ab\u00bb`", '"')})


class Unclear(ValueError):
    """A reply without one clear verdict: why, and its status where that is known."""


def plain(text):
    """A text without Markdown's signs, empty lines and runs of spaces, and with one kind of quotation mark."""
    lines = re.sub(r"```(?:\w*$)?", "", text, flags=re.MULTILINE).translate(PLAIN).splitlines()
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


@functools.lru_cache
def patterns(field, prompt):
    """Patterns of a field's name, of its value, of both in a line or sentence, and of its value alone on a line."""
    names, in_words, bullet, opening = NAMES[field], "", "[-\u2022]", ""
    if field == "score":
        names += f"|{re.escape(plain(prompt.criterion or 'overall'))}"
        in_words = f"|(?:score|rating) is |{I_GIVE}"
    if field == "label":
        labels = "|".join(re.escape(plain(label)) for label in prompt.labels)
        value = rf"\b(?:adversarial )?(?P<value>{labels})\b(?: response\b)?"
        value += rf"(?![\s\"']*(?:\?|(?:or|and|[/,|])[\s\"']*(?:{labels})\b))"
        opening = rf"|[.,:;!] (?!(?s:.*)\b(?:{labels})\b)"  # "Positive. It answers."
    else:
        low, high = prompt.ends[field]
        sign, bullet = ("[-+\u2212]?", "\u2022") if low < 0 else ("", bullet)  # "- 0.5" may be below 0
        value = rf"(?P<value>{sign}[0-9]++(?:\.[0-9]++)?+(?:e[-+]?[0-9]+)?+)"
        value += rf"(?: ?(?:/|\(?out of) ?{re.escape(f'{high:g}')}(?:\.0+)?+\)?)?+(?: (?:points?|stars?)\b)?+(?!{ANOTHER})"
    labelled = rf"{LABEL_START}{BEFORE_NAME}(?P<words>(?:(?:{names}){COLON}{in_words})[\s\"'(\[]*{value})"
    alone = rf"(?:{bullet} )?(?P<final>(?:response|output|reply) ?:)?[\s\"(\[]*(?P<words>{value})[\s\")\]!.]*(?:\([^()\d]*\)\.?)?"
    alone = rf"(?:{ALONE_AFTER}){alone}(?={ALONE_BEFORE}{opening})"
    return regex(f"{BEFORE_NAME}(?:{names})"), regex(value), regex(labelled), regex(alone)


def read(field, given, prompt):
    """A number on its scale, or the meaning of a label."""
    match = patterns(field, prompt)[1].fullmatch(plain(str(given)))
    if not match:
        raise Unclear(f"the {field} is {str(given)[:40]!r}")
    if field == "label":
        return {plain(word).casefold(): label for word, label in prompt.labels.items()}[match["value"].casefold()]
    number, (low, high) = float(match["value"].replace("\u2212", "-")), prompt.ends[field]
    if not low <= number <= high:
        raise Unclear(f"the {field} is {number:g}, off the scale {low:g}-{high:g}")
    return number
