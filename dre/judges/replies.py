"""What every reply goes through before a verdict is looked for: digits, thinking, quotations, JSON."""

import functools
import json
import re
import unicodedata

MASK = "\u2592"  # stands for a quotation: no digit, no letter, not found in dialogue
_THINK = "think|thinking|thought|reasoning|scratchpad"
_THOUGHTS = re.compile(rf"<({_THINK})>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THINK_END = re.compile(rf"\A.*</(?:{_THINK})>", re.DOTALL | re.IGNORECASE)
_THINK_START = re.compile(rf"<(?:{_THINK})>", re.IGNORECASE)
_QUOTED = re.compile(
    r"\{[^{}]*\}"  # an object is taken whole: the quoted keys inside are not quotations
    r"|\"[^\"\n]+\"|\u201c[^\u201d]+\u201d|\u00ab[^\u00bb]+\u00bb|\u300c[^\u300d]+\u300d|`[^`\n]+`"
    r"|(?<!\w)'[^\n]+?'(?!\w)|\u2018[^\n]+?\u2019(?!\w)|^[ \t]*>[^\n]+",
    re.MULTILINE,
)
_DIGIT = re.compile(r"\d")
_VERDICT = re.compile(
    r"\b(?:score|rating|grade|verdict|evaluation|answer|result|overall|label|prediction|classification)\b"
    r"[\s:=*_\"'-]{1,5}(?:(?:is|of|it)\s+)?(?:\d[\d.,/]*\b|positive\b|negative\b|yes\b|no\b)"
    r"|\b\d[\d.,]*\s*(?:/|out of)\s*\d+\b"
)
_MARKS = " \t\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb\u300c\u300d"
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f"))
_SIGNS = str.maketrans({"\u2212": "-", "\u066b": ".", "\u2044": "/", "\u2215": "/", "\u00a0": " ", "\u3000": " "})


class Unclear(ValueError):
    """A reply without one clear verdict; the message becomes the verdict's reason."""

    status = "malformed"


class NoVerdict(Unclear):
    """A reply without any verdict."""


class Truncated(Unclear):
    """A reply that ends before its verdict."""

    status = "truncated"


def plain(text):
    """Full-width forms and the digits of every script as ASCII; invisible characters dropped."""
    text = text.translate(INVISIBLE).translate(_SIGNS)
    return text if text.isascii() else "".join(map(_ascii, text))


def _ascii(char):
    if "\uff01" <= char <= "\uff5e":
        return chr(ord(char) - 0xFEE0)
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


def without_thinking(text):
    """Drop thinking blocks.

    Returns
    -------
    tuple of (str, bool)
        The text, and whether a block was left open: then the reply ends before its verdict. Some servers
        send only the closing tag, because the opening one stands in their chat template.
    """
    text = _THOUGHTS.sub("\n", text)
    text = _THINK_END.sub("", text)
    opened = _THINK_START.search(text)
    return (text[: opened.start()], True) if opened else (text, False)


def without_quotations(text, row):
    """Put `MASK` for what a reply repeats of the dialogue.

    Masked are the response and the turns where they are repeated whole (or a line of them, whole), and every
    passage of two words or more, in quotation marks, backticks, braces or a Markdown quotation, that occurs in
    the dialogue. Texts without a letter are left alone: a response "5" must not hide the verdict 5.
    """
    lines, whole, _ = _dialogue(_texts(row))
    if not whole or not _has_letter(text):
        return text
    flat = _flat(text)
    said = [line for line in lines if line in flat]
    return _QUOTED.sub(lambda match: _unquoted(match, whole), _masked(text, said) if said else text)


def without_borrowed(text, row):
    """Put `MASK` for every "score: 5" and the like that the dialogue holds too; None if there is none."""
    flat = _flat(text)
    borrowed = [verdict for verdict in _dialogue(_texts(row))[2] if verdict in flat]
    return _masked(text, borrowed) if borrowed else None


def _unquoted(match, whole):
    inner = _flat(match[0].lstrip().lstrip(">").strip(_MARKS))
    said = _has_letter(inner) and len(re.findall(r"\w+", inner)) > 1 and inner in whole
    return f'"{MASK}"' if said else match[0]


def _texts(row):
    context = row.get("context") or ()
    values = [row.get("response"), row.get("reference"), row.get("facts")]
    values += [context] if isinstance(context, str) else list(context)
    return tuple(value for value in values if isinstance(value, str) and _has_letter(value))


@functools.lru_cache(maxsize=1024)
def _dialogue(texts):
    """What may be masked: lines long enough or with digits, the longest first; all texts; verdicts in them."""
    lines = {_flat(plain(line)) for value in texts for line in [value, *value.splitlines()]}
    lines = [line for line in lines if _has_letter(line) and (len(line) >= 12 or _DIGIT.search(line))]
    whole = "\n".join(_flat(plain(value)) for value in texts)
    verdicts = {match[0] for match in _VERDICT.finditer(whole)}
    return _longest_first(lines), whole, _longest_first(verdicts)


def _longest_first(texts):
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def _masked(text, lines):
    """`text` with `MASK` for every place that reads as one of `lines`, in any case and white space."""
    folded, at = [], []  # the folded characters, and which character of the text each is of
    for index, char in enumerate(text):
        part = " " if char.isspace() else char.casefold()
        if part != " " or (folded and folded[-1] != " "):
            folded += part
            at += [index] * len(part)
    flat = "".join(folded)
    hidden = [False] * len(text)
    for line in lines:
        start = flat.find(line)
        while start >= 0:
            end = start + len(line)
            if not (_joined(flat, start) or _joined(flat, end)):
                first, last = at[start], at[end - 1]
                hidden[first : last + 1] = [True] * (last + 1 - first)
            start = flat.find(line, start + 1)
    return "".join(
        (MASK if index == 0 or not hidden[index - 1] else "") if hidden[index] else char
        for index, char in enumerate(text)
    )


def _joined(text, at):
    """True if a word goes on across this place."""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def _flat(text):
    return " ".join(text.split()).casefold()


def _has_letter(text):
    return any(char.isalpha() for char in text)


def sole_object(text, row):
    """The JSON object that the reply is, alone or fenced; None if it is none, or repeats the dialogue.

    Inside such a reply a quotation cannot be taken for the verdict, so nothing in it needs a mask.
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        value, end = _DECODER.raw_decode(text)
    except Unclear:
        raise
    except (ValueError, RecursionError):
        return None
    return value if end == len(text) and _flat(plain(text)) not in _dialogue(_texts(row))[1] else None


def json_objects(text):
    """Every outermost JSON object in the text (fenced, in prose, or alone), and whether one breaks off.

    Raises
    ------
    Unclear
        If an object gives a key twice with different values.
    """
    found, broken = [], None
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except Unclear:
            raise
        except (ValueError, RecursionError):  # also an integer of thousands of digits, or nesting as deep
            broken = at if broken is None else broken
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return found, broken is not None and _breaks_off(text[broken:])


def _breaks_off(text):
    """True if the text opens like an object and has more opening than closing braces, strings aside."""
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return bool(re.match(r'\{\s*(?:"|\Z)', text)) and rest.count("{") > rest.count("}")


def _pairs(pairs):
    value = {}
    for key, item in pairs:
        if key in value and value[key] != item:
            raise Unclear(f"the key {key!r} is given twice")
        value[key] = item
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)
