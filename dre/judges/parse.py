"""Read a verdict from a reply. A reply is read or it is malformed: nothing is guessed, clipped or set to 0.

Order of reading, for scores and labels alike:

1. Thinking blocks are dropped; one left open means ``truncated``. Words the reply repeats from the dialogue
   are masked (`dre.judges.replies.without_quotations`), so a "Score: 5" in the response under judgement is
   not read. A verdict that the dialogue holds word for word counts only where the reply has no other.
2. JSON objects that hold the expected keys, alone, fenced or in prose. All of them must agree.
3. Otherwise the text: a verdict labelled final or overall wins over one labelled score, rating or by the
   criterion, that over "a score of 3", that over "3 out of 5", that over a number alone on the first or last
   line. Within the first of these kinds that is present, all must agree.

Two verdicts that differ, a number off the scale, a range, a percentage, another denominator than the scale's
end, and a negated label are ``malformed``. A refusal is ``refused`` unless a labelled verdict stands in it.
"""

import re
from dataclasses import dataclass

from dre.judges import labels, replies, scores
from dre.judges.generated import LIST_KEYS, read_lists
from dre.judges.replies import NoVerdict, Truncated, Unclear

STATUSES = ("ok", "malformed", "refused", "truncated", "empty")
_UNWILLING = (
    r"can(?:'t|not| not)|could(?:n't| not)|won't|will not|decline(?: to)?|refuse(?: to)?"
    r"|unable to|not able to|not comfortable|not possible (?:for me )?to"
)
_TASK = (
    r"rate|rating|score|scoring|judg(?:e|ing)|evaluat(?:e|ing)|assess(?:ing)?|classify(?:ing)?|label(?:ling)?"
    r"|assist|help(?! but)|comply|provide|providing|fulfil|engage with|generate|create|write|do (?:this|that)"
)
_REFUSAL = re.compile(
    rf"\b(?:{_UNWILLING})\s+(?:\w+\s+){{0,3}}?(?:{_TASK})\b|\b(?:sorry|apologi[sz]e),?\s+but\b|\bas an ai\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Verdict:
    """What a reply says.

    Attributes
    ----------
    status : {"ok", "malformed", "refused", "truncated", "empty"}
    score_llm : float or None
        On the prompt's scale.
    s_inf : float or None
        Influence degree, on the prompt's range.
    label : {"Positive", "Negative"} or None
    responses : dict or None
        ``positive`` and ``adversarial``: five texts each (kind ``generate``).
    reason : str
        Why the status is not ok; empty otherwise.
    """

    status: str
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: dict[str, tuple[str, ...]] | None = None
    reason: str = ""


def read(reply, prompt, row):
    """Read a reply to a prompt.

    Parameters
    ----------
    reply : str or None
    prompt : dre.judges.prompts.Prompt
        Its ``kind, scale, influence, criterion, labels`` say what is expected.
    row : mapping
        The row the prompt was rendered with (may be empty).

    Returns
    -------
    Verdict
        Never raises on any text.
    """
    if not isinstance(reply, str) or not reply.translate(replies.INVISIBLE).strip():
        return Verdict("empty", reason="the reply is empty")
    text, open_thought = replies.without_thinking(reply)
    if open_thought:
        return Verdict("truncated", reason="the reply breaks off while thinking")
    if not text.translate(replies.INVISIBLE).strip():
        return Verdict("empty", reason="the reply is nothing but thinking")
    try:
        values = replies.sole_object(text, row)
        if values or prompt.kind == "generate":
            return _read(text, prompt, values)
        text = replies.without_quotations(replies.plain(text), row).strip()
        return _read_own(text, prompt, row)
    except Unclear as error:
        status = "refused" if error.status == "malformed" and _refuses(text) else error.status
        return Verdict(status, reason=str(error))


def from_values(values, prompt):
    """A verdict from the named values of a reply (a JSON object, or a row of a recording).

    Raises
    ------
    dre.judges.replies.Unclear
        If a value is absent, no number or off the scale, or no label.
    """
    keys = {_key(key): value for key, value in values.items()}
    if prompt.kind == "label":
        return Verdict("ok", label=labels.one(_value(keys, _LABEL_KEYS, "label"), prompt.labels))
    own = (_key(prompt.criterion),) if prompt.criterion else ()
    score = scores.checked(_value(keys, _SCORE_KEYS + own, "score"), prompt.scale, "the score")
    s_inf = None
    if prompt.influence:
        s_inf = scores.checked(_value(keys, _INFLUENCE_KEYS, "influence"), prompt.influence, "the influence")
    return Verdict("ok", score_llm=score, s_inf=s_inf)


_SCORE_KEYS = (
    "score",
    "score_llm",
    "llm_score",
    "llm_overall_score",
    "overall_score",
    "final_score",
    "overall",
    "rating",
)
_INFLUENCE_KEYS = ("influence", "s_inf", "influence_degree", "influence_score", "degree_of_influence")
_LABEL_KEYS = ("label", "prediction", "classification", "class", "answer", "verdict")


def _key(key):
    return re.sub(r"[\W_]+", "_", str(key).casefold()).strip("_")


def _value(keys, names, what):
    found = [keys[name] for name in names if name in keys]
    if not found:
        raise Unclear(f"no {what} in the JSON object")
    if any(value != found[0] for value in found[1:]):
        raise Unclear(f"two values for {what} in one JSON object")
    return found[0]


def _read_own(text, prompt, row):
    """Read a text; a verdict that stands in the dialogue word for word counts only where there is no other."""
    own = replies.without_borrowed(text, row)
    if own is not None:
        try:
            return _read(own, prompt)
        except NoVerdict:
            pass
    return _read(text, prompt)


def _read(text, prompt, values=None):
    objects, broken = ([values], False) if values else replies.json_objects(text)
    own = (_key(prompt.criterion),) if prompt.criterion else ()
    expected = {"score": _SCORE_KEYS + own, "label": _LABEL_KEYS, "generate": LIST_KEYS}[prompt.kind]
    verdicts = [value for value in objects if {_key(key) for key in value} & set(expected)]
    if broken and not verdicts:
        raise Truncated("the JSON object breaks off")
    if prompt.kind == "generate":
        return Verdict("ok", responses=read_lists(text, verdicts))
    if verdicts:
        return _agreeing([from_values(value, prompt) for value in verdicts])
    refused = _refuses(text)
    if prompt.kind == "label":
        return Verdict("ok", label=labels.find(text, prompt.labels, strict=refused))
    score = scores.find(text, prompt.scale, prompt.criterion, strict=refused, alone=not prompt.influence)
    s_inf = scores.find_influence(text, prompt.influence) if prompt.influence else None
    return Verdict("ok", score_llm=score, s_inf=s_inf)


def _agreeing(verdicts):
    if any(verdict != verdicts[0] for verdict in verdicts[1:]):
        raise Unclear("two JSON verdicts that differ")
    return verdicts[0]


def _refuses(text):
    return bool(_REFUSAL.search(text[:400].replace("\u2019", "'")))
