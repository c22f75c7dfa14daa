"""Find the one number a reply gives as its score."""

import functools
import re

from dre.judges.replies import NoVerdict, Unclear

CRITERIA = (
    "naturalness",
    "coherence",
    "engagingness",
    "groundedness",
    "understandability",
    "fluency",
    "relevance",
    "interestingness",
    "specificity",
    "engagement",
    "consistency",
)
# Possessive: what follows must not make a number, or the range it opens, shorter than it is.
_NUMBER = r"(?P<number>[-+]?\d++(?:[.,]\d++)*+)"
_RANGE = r"\s*(?:-|\u2013|\u2014|~|to|or|and|\u00b1|\+/-)\s*\d[\d.,]*|,\s+(?:or\s+)?\d[\d.,]*"
_TAIL = rf"(?P<tail>\s*(?:/|out of|of)\s*\d+(?:[.,]\d+)?|\s*%|\s*percent\b|{_RANGE}|\+)?+"
_DECOR = r"[\s*_`\"'(\[$]*(?:<(?=[\d.]+>))?(?:(?:about|around|approximately|approx\.?|roughly|~|\u2248)\s*)?[*_`\"']*"
_SCORE = r"score|rating|grade|verdict|evaluation|answer|result"
_FINAL = r"final\s+(?:llm\s+|overall\s+)?(?:score|rating|grade|verdict|answer|evaluation|assessment)"
_OVERALL = r"(?:llm\s+)?overall(?:\s+(?:score|rating|grade|evaluation|assessment))?|llm\s+score|score_llm"
_IS = r"[*_`\"')\]]*\s*(?:\([^()\n]{0,40}\)\s*)?[*_`\"']*\s*(?:=>|[:=|\u2192]|-(?=\s)|\u2013|\u2014)+"
_PHRASE = (
    r"\s+(?:(?:for|of)\s+(?:[\w']+\s+){1,4}?)?(?:is|of|would be|should be|as|at)"
    r"(?:\s+(?:a|an|about|around|approximately|exactly|therefore|thus))*\s*[:=]?"
)
_GIVEN = (
    r"\b(?:give|gives|rate|score|assign)\b"
    r"(?:\s+(?:it|this|that|the\s+(?:dialogue\s+)?response|this\s+response|a|an|score|rating|of|as|at))*\s+"
)
_STOPS = r"(?=\s*(?:$|[.,;:!?()\]*_\"'\n]|(?:to|for|on|in|because|as|since|points?|stars?|overall|given)\b))"
_HEDGE = re.compile(
    r"(?:\b(?:not|never|no|than|below|above|under|over|almost|nearly|at (?:most|least)|up to)|n't)\b"
    r"[\s\"'*]*(?:[\w']+\s+){0,2}\Z",
    re.IGNORECASE,
)
_EXPLAINED = r"(?:rationale|explanation|reason(?:ing)?|justification|analysis|comments?)\b"


def checked(value, scale, what):
    """`value` (a number, or a text such as "4.5" or "4/5") as a float on the scale.

    Raises
    ------
    dre.judges.replies.Unclear
        If it is no finite number or lies off the scale; it is never clipped.
    """
    if isinstance(value, str):
        match = re.fullmatch(rf"\s*{_NUMBER}{_TAIL}\s*", value)
        if not match:
            raise Unclear(f"{what} is {value[:40]!r}, not a number")
        return _number(match, scale, what)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unclear(f"{what} is {str(value)[:40]!r}, not a number")
    return _on_scale(value, scale, what)


def find(text, scale, criterion=None, strict=False, alone=True):
    """The score a text gives.

    Parameters
    ----------
    text : str
        Without thinking and quotations.
    scale : tuple of float
    criterion : str, optional
        The criterion that is rated; numbers labelled with another criterion are not read.
    strict : bool
        Read labelled verdicts only (the text reads like a refusal).
    alone : bool
        Whether a number on a line of its own counts.

    Raises
    ------
    dre.judges.replies.Unclear
    """
    text = _without_scale(_influence().sub(" ", text), scale)
    labelled, phrased = _patterns(criterion)
    other = _other(criterion)
    for pattern in labelled:
        matches = _matches(pattern, text, other)
        if matches:
            return _only([_number(match, scale, "the score") for match in matches])
    if strict:
        raise NoVerdict("no score in the reply")
    for pattern in (*phrased, _FRACTION):
        matches = _matches(pattern, text, other, _HEDGE)
        if pattern is _FRACTION:
            matches = [match for match in matches if _denominator(match) == scale[1]] or matches
        if matches:
            return _only([_number(match, scale, "the score") for match in matches])
    if alone:
        return _alone(text, scale)
    raise NoVerdict("no score in the reply")


def _matches(pattern, text, *before):
    """Matches that none of the patterns `before` reads up to."""
    found = []
    for match in pattern.finditer(text):
        start = match.start()
        if not any(pattern.search(text, max(0, start - 40), start) for pattern in before):
            found.append(match)
    return found


def find_influence(text, scale):
    """The influence degree a text gives: a number labelled influence."""
    matches = _influence().finditer(_without_scale(text, scale))
    found = [_number(match, scale, "the influence") for match in matches]
    if not found:
        raise NoVerdict("no influence degree in the reply")
    return _only(found)


_FRACTION = re.compile(rf"(?<![\w.,/-]){_NUMBER}(?P<tail>\s*(?:/|out of)\s*\d+(?:[.,]\d+)?)", re.IGNORECASE)


@functools.cache
def _patterns(criterion):
    """Patterns of a labelled and of a phrased verdict, the decisive ones first."""
    score = "|".join([_SCORE, *([re.escape(criterion)] if criterion else [])])
    final = _FINAL if criterion else rf"{_FINAL}|{_OVERALL}"  # one criterion has no overall
    number = rf"{_DECOR}{_NUMBER}{_TAIL}"
    labelled = (
        rf"\\boxed\s*\{{\s*(?:\\text\s*\{{\s*)?{_NUMBER}{_TAIL}",
        rf"\b(?:{final}){_IS}{number}",
        rf"(?<![\w-])(?:{score}){_IS}{number}|<(?:{score})>\s*{_NUMBER.replace('number', 'tagged')}(?=\s*</)",
    )
    phrased = (
        rf"\b(?:{final}){_PHRASE}{number}{_STOPS}",
        rf"(?<![\w-])(?:{score}){_PHRASE}{number}{_STOPS}",
        rf"{_GIVEN}{number}{_STOPS}",
    )
    return tuple(tuple(re.compile(p, re.IGNORECASE) for p in group) for group in (labelled, phrased))


@functools.cache
def _other(criterion):
    """The name of another criterion, standing right before a label (searched up to it)."""
    names = "|".join(name for name in CRITERIA if name != criterion)
    return re.compile(rf"\b(?:{names}|confidence)[\s*_:=(|{{\[\"'-]*\Z", re.IGNORECASE)


@functools.cache
def _influence():
    name = r"\b(?:degree\s+of\s+)?(?:influence|s_?inf)(?:\s+(?:degree|score|level))?"
    return re.compile(rf"{name}(?:{_IS}|{_PHRASE}){_DECOR}{_NUMBER}{_TAIL}", re.IGNORECASE)


@functools.cache
def _scale_pattern(scale):
    low, high = (rf"{value:g}(?:\.0+)?" for value in scale)
    words = (
        r"(?:(?:on|using|with|from|in)\s+)?(?:(?:a|the)\s+)?(?:(?:continuous\s+)?(?:scale|range)\s*)?"
        r"(?:of|from|between|:)?\s*"
    )
    ends = rf"(?<![\d.,/]){low}\s*(?:-|\u2013|\u2014|~|to|and|through)\s*{high}(?![\d/]|[.,]\d)"
    return re.compile(rf"[(\[]?{words}{ends}[)\]]?", re.IGNORECASE)


def _without_scale(text, scale):
    return _scale_pattern(scale).sub(" ", text)


def _alone(text, scale):
    """The score of a reply that is but a number, or has one alone on its first or last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip().strip("`") not in ("", "json", "text")]
    candidates = ["\n".join(lines)]
    if len(lines) > 1 and (re.match(rf"\W*{_EXPLAINED}", lines[1], re.IGNORECASE) or _ALONE.fullmatch(lines[0])):
        candidates = [lines[0]]
    if len(lines) > 1 and not re.search(rf"(?::|{'|'.join(CRITERIA)})\W*\Z", lines[-2], re.IGNORECASE):
        candidates.append(lines[-1])
    matches = [match for line in candidates if (match := _ALONE.fullmatch(line))]
    if not matches and len(lines) == 1:
        matches = [match for match in [_LED.match(lines[0])] if match]
    if not matches:
        raise NoVerdict("no score in the reply")
    return _only([_number(match, scale, "the score") for match in matches])


_LED = re.compile(rf"{_DECOR}{_NUMBER}{_TAIL}(?=[*_`]*(?:\s+-|\s*[\u2013\u2014:]|\s+overall\b))", re.IGNORECASE)
_ALONE = re.compile(
    r"[:\s]*(?:[-*\u2022#>]\s+|\d+[.)]\s+)?(?:(?:response|output|reply|value|number|points?)\s*:|[a-z ]{1,30}\()?"
    rf"{_DECOR}{_NUMBER}{_TAIL}[\s*_`\"')\]>$]*(?:points?|stars?)?[.;!]?\s*(?:\([^()\d]*\))?[.\s]*",
    re.IGNORECASE,
)


def _denominator(match):
    found = re.fullmatch(r"\s*(?:/|out of|of)\s*(\d+(?:[.,]\d+)?)", match["tail"] or "", re.IGNORECASE)
    return _value(found[1], "the denominator") if found else None


def _number(match, scale, what):
    groups = match.groupdict()
    digits = groups.get("number") or groups.get("tagged")
    end = _denominator(match)
    if end is not None:
        if end != scale[1]:
            raise Unclear(f"{what} is given out of {end:g}, the scale ends at {scale[1]:g}")
    elif match["tail"]:
        raise Unclear(f"{what} is {(digits + match['tail'])[:40]!r}: not one number on the scale")
    rest = match.string[match.end() : match.end() + 4]
    if re.match(r"\s+[.,]\s?\d", rest) or rest[:1].isalnum() or (rest[:1] in "%^*/" and rest[1:2].isdigit()):
        raise Unclear(f"{what} is {(digits + rest)[:40]!r}, not a number")
    return _on_scale(_value(digits, what), scale, what)


def _value(digits, what):
    """The number, with a comma read as decimal unless it groups thousands."""
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits):
        digits = digits.replace(",", "")
    elif digits.count(",") + digits.count(".") > 1:
        raise Unclear(f"{what} is {digits[:40]!r}, not one number")
    return float(digits.replace(",", "."))


def _on_scale(value, scale, what):
    if not scale[0] <= value <= scale[1]:  # false for NaN, and exact for any int
        shown = f"{value:g}" if isinstance(value, float) else str(value)[:12]
        raise Unclear(f"{what} is {shown}, off the scale {scale[0]:g}-{scale[1]:g}")
    return float(value)


def _only(values):
    if len(set(values)) > 1:
        shown = ", ".join(f"{value:g}" for value in list(dict.fromkeys(values))[:5])
        raise Unclear(f"several scores that differ: {shown}")
    return values[0]
