"""Read a judge's reply: its verdict, or why it has none.

`parse_reply` drops the thinking that some models write first, and then reads the rest in one of two
ways. If a JSON schema went with the request, the whole reply has to be the JSON object
(`dre.judges.parse_json`). Otherwise the reply is text, and a line of it has to be the verdict
(`dre.judges.parse_text`). Nothing is guessed: what is not clear is ``malformed``.

The time that this takes grows linearly with the length of a reply.
"""

import re
from typing import NamedTuple

from dre.judges import parse_json, parse_text, thinking
from dre.judges.parse_json import Value
from dre.judges.parse_values import Unclear, on_scale, scale_of

__all__ = ["Unclear", "Verdict", "on_scale", "parse_reply", "scale_of"]

_CHARACTERS_OF_A_REFUSAL = 400  # from the start of a reply

_REFUSAL = re.compile(
    # I cannot rate ...   I won't assign ...   I am unable to assess ...
    r"\b(?:can(?:['\u2019]t|not)|could(?:n['\u2019]t| not)|won['\u2019]t|will not"
    r"|(?:decline|refuse|unable) to)\s+(?:\w+\s+){0,3}?"
    r"(?:rat|scor|judg|evaluat|assess|assign|classify|label|assist|help(?! but)|comply|provid)"
    # Sorry, but ...   I apologize, but ...
    r"|\b(?:sorry|apologi[sz]e),?\s+but\b"
    # As an AI, I ...
    r"|\bas an ai\b",
    re.IGNORECASE,
)


class Verdict(NamedTuple):
    """The score or label in a reply, or the reason why there is none.

    Attributes
    ----------
    status : str
        ``ok``, or what became of the reply: ``malformed, refused, truncated, empty``; where no
        reply came, ``error`` or ``missing``.
    score_llm, s_inf : float or None
        The score, on the prompt's scale, and the influence degree.
    label : str or None
        ``Positive`` or ``Negative``.
    responses : dict or None
        ``{"positive": (five texts), "adversarial": (five texts)}``.
    reason : str
        Why the status is not ``ok``.
    span : tuple of int, or None
        The position of the score or label in the reply: its first character, and the one after it.
    """

    status: str
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: dict | None = None
    reason: str = ""
    span: tuple[int, int] | None = None


def parse_reply(
    prompt,
    reply: str | None,
    row: dict | None = None,
    structured: bool = False,
    tags: thinking.Table | None = None,
) -> Verdict:
    """Return the `Verdict` of a reply. Never raises, whatever the reply is.

    Parameters
    ----------
    prompt : dre.judges.prompts.Prompt
        The prompt that was answered.
    reply : str or None
        The reply as it came.
    row : dict or None
        The row that the prompt was rendered with. If its texts hold tags such as ``</think>``, such
        tags in the reply may be a quotation, and are not taken for the model's thinking.
    structured : bool
        Whether the prompt's JSON schema went with the request. Then the whole reply has to be the
        JSON object.
    tags : dre.judges.thinking.Table or None
        The tags of thinking; those of the package if it is None.
    """
    reply = reply or ""
    text = reply.strip()
    offset = len(reply) - len(reply.lstrip())
    refuses = False
    try:
        answer = _answer(text, row or {}, tags or thinking.built_in())
        has_thoughts = bool(text)
        text = text[answer.start : answer.end]
        offset += answer.start + len(text) - len(text.lstrip())
        text = text.strip()
        if not text:
            what = "nothing but thinking" if has_thoughts else "empty"
            raise Unclear(f"the reply is {what}", "empty")
        refuses = _REFUSAL.search(text[:_CHARACTERS_OF_A_REFUSAL]) is not None
        if structured:
            values = parse_json.values_of_reply(text, prompt)
        else:
            values = _values_of_text(text, prompt, refuses)
    except Unclear as unclear:
        status = unclear.status or ("refused" if refuses else "malformed")
        reason = unclear.reason
        if structured and status == "malformed" and _is_verdict_as_text(text, prompt):
            reason += "; --plain reads it"
        return Verdict(status, reason=reason)

    # The places are those of the reply as it came.
    return _verdict(values, prompt, offset)


def _values_of_text(text, prompt, refuses):
    """The values of a reply without a schema; one that is cut off inside an object is truncated."""
    try:
        return parse_text.values_of_reply(text, prompt, bare=not refuses)
    except Unclear as unclear:
        if unclear.status is None and parse_json.breaks_off(text):
            raise Unclear("the JSON object breaks off", "truncated") from None
        raise


def _verdict(values: dict[str, Value], prompt, offset) -> Verdict:
    """The verdict that the values of all fields make."""
    if prompt.kind == "generate":
        responses = {field: value.value for field, value in values.items()}
        return Verdict("ok", responses=responses)
    main = values["label" if prompt.kind == "label" else "score"]
    span = (main.start + offset, main.end + offset)
    if prompt.kind == "label":
        return Verdict("ok", label=main.value, span=span)
    influence = values["influence"].value if "influence" in values else None
    return Verdict("ok", score_llm=main.value, s_inf=influence, span=span)


def _is_verdict_as_text(text, prompt):
    """Whether a reply that is no single JSON object is a verdict where none was asked for."""
    try:
        return bool(parse_text.values_of_reply(text, prompt))
    except Unclear:
        return False


def _answer(text, row, tags):
    """Where the answer stands behind the thinking at the start of a reply."""
    whole = thinking.Answer(0, len(text))
    if text.startswith("{") or not tags.has_mark(text):
        return whole
    if tags.has_mark("\n".join(_texts_of_row(row))):
        return whole
    return tags.answer(text)


def _texts_of_row(row):
    """All texts that a judge was shown with a row, those of its examples too."""
    examples = row.get("examples")
    items = [row, *examples] if isinstance(examples, list) else [row]
    texts = []
    for item in items:
        turns = item.get("context") or ()
        texts.extend([turns] if isinstance(turns, str) else turns)
        for name in ("response", "reference", "facts"):
            texts.append(item.get(name))
    return [text for text in texts if isinstance(text, str)]
