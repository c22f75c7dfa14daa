"""Find the one label a reply gives."""

import functools
import re

from dre.judges.replies import NoVerdict, Unclear

_NAMES = r"prediction|label|classification|class|answer|verdict|category|response"
_IS = r"[*_`\"')]*\s*(?:[:=|]|is(?:\s+(?:an?|the))?\b)+[\s*_`\"'(\[]*"
_NOT = r"not|never|neither|nor|non|hardly|without|rather than|instead of"
_BETWEEN = r"an?|the|really|fully|entirely|clearly|quite|adversarial|label|class|it"
_STATED = r"(?:\b(?:is|as|it|seems|looks|appears)|'s)\s*:?\s+(?:\w+ly\s+)?(?:an?\s+|the\s+)?[*_`\"']*"
_NEGATED = re.compile(rf"(?:\b(?:{_NOT})|n't)\b[\s-]*(?:(?:{_BETWEEN})\s+)*[\"'*_]*\Z", re.IGNORECASE)


def one(value, words):
    """The label that a word stands for, whatever its case; "adversarial" before it and "response" after it pass.

    Raises
    ------
    dre.judges.replies.Unclear
    """
    text = " ".join(str(value).strip(" \t\r\n*_`\"'.!()[]").casefold().split())
    text = text.removeprefix("adversarial ").removesuffix(" response")
    for word, label in words.items():
        if text == word.casefold():
            return label
    raise Unclear(f"the label is {str(value)[:40]!r}, expected {' or '.join(words)}")


def find(text, words, strict=False):
    """The label a text gives.

    Read are, the first kind present deciding: a label called final or boxed; a labelled one ("Prediction: ...",
    "the response is ..."); one that opens the reply or stands alone on its last line; and, for words longer than
    yes and no, one that is stated ("classify it as ...") or stands in a reply of at most four words.

    Parameters
    ----------
    text : str
        Without thinking and quotations.
    words : dict
        Word -> ``Positive`` or ``Negative``.
    strict : bool
        Read labelled verdicts only (the text reads like a refusal).

    Raises
    ------
    dre.judges.replies.Unclear
        If there is none, both are given, or it is negated.
    """
    patterns = _patterns(tuple(words))
    short = len(text.split()) <= 4
    for pattern in patterns[: 2 if strict else 5 if short else 4]:
        found = _words(text, pattern, words)
        if found:
            if len(set(found)) > 1:
                raise Unclear("both labels are given")
            return found[0]
    raise NoVerdict("no label in the reply")


@functools.cache
def _patterns(words):
    either = "|".join(map(re.escape, words))
    word = rf"(?:adversarial\s+)?(?P<word>{either})\b"
    longer = "|".join(re.escape(word) for word in words if len(word) > 3)
    patterns = [
        rf"\bfinal\s+(?:{_NAMES}){_IS}{word}|\\boxed\s*\{{\s*(?:\\text\s*\{{\s*)?(?P<boxed>{either})\b",
        rf"\b(?:{_NAMES})\b{_IS}{word}",
        rf"\A[\s*_`\"'#>-]*{word}(?=[\s*_`\"']*(?:[.,:;!\u2013\u2014\n]|\s-|\Z))"
        rf"|^[ \t*_`\"'#>-]*(?:adversarial\s+)?(?P<last>{either})[ \t*_`\"'.!]*\Z",
        *([rf"{_STATED}(?:adversarial\s+)?(?P<word>{longer})\b(?!-)"] if longer else []),
        *([rf"(?<![\w-])(?P<word>{longer})\b(?!-)"] if longer else []),
    ]
    return tuple(re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns)


@functools.cache
def _followed(words):
    return re.compile(rf"\s*(?:/|or|\|)\s*(?:adversarial\s+)?(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)


def _words(text, pattern, words):
    found = []
    for match in pattern.finditer(text):
        group = next(name for name, word in match.groupdict().items() if word)
        start = match.start(group)
        before = text[max(0, start - 40) : start].replace("\u2019", "'")
        if _NEGATED.search(before):
            raise Unclear(f"the label is negated: {(before[-20:] + match[group])!r}")
        if re.match(r"[\s*_`\"')]*(?:response\s*)?\?", text[match.end(group) :]):
            continue  # a question
        if _followed(tuple(words)).match(text, match.end(group)):
            raise Unclear("both labels are given")
        found.append(one(match[group], words))
    return found
