"""Replies without a verdict: why there is none, and what would help.

What a provider says beside an empty text stands in the place of that text, as a JSON object: its
thinking, the tool that it called, or why it refused. Such a text is shown, and never read as a
verdict.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from dre.judges.parse import Verdict

#: Statuses of a reply from which nothing could be read. A refusal was read.
UNREADABLE = ("malformed", "empty", "truncated")
#: So many first replies that are all unreadable end a run.
FIRST_REPLIES = 10
#: Share of its limit from which on a reply may have been cut by it.
_NEAR_THE_LIMIT = 0.9
_LONGEST_QUOTATION = 120  # characters of a reply that a message repeats

_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thoughts")
# <ponder>   [REASON]   <|plan|>   what may begin the thinking of a model that is not in the table
_TAG = re.compile(r"\s*(<[|\w][\w:| -]{2,40}>|\[[A-Z_ ]{4,40}\]|\u25c1[\w ]{2,40}\u25b7)")
_TOOLS = ("tool_calls", "function_call")
_REFUSALS = ("finish_reason", "finishReason", "blockReason", "content_filter")
_LARGER_LIMIT = "give a larger --max-tokens"
_ASK_AGAIN = "dre judge run --retry {status} asks again"


class Limits(NamedTuple):
    """What a reply was allowed: ``max_tokens``, and how its provider is asked to think less."""

    less_thinking: str
    max_tokens: int


def with_details(text: Any, details: dict[str, Any]) -> Any:
    """Return the text of a reply or, if it is empty, what came beside it, as JSON."""
    has_text = bool(text.strip()) if isinstance(text, str) else bool(text)
    filled = {name: value for name, value in details.items() if value}
    if has_text or not filled:
        return text
    return json.dumps(filled, ensure_ascii=False, default=str)


def of_provider(outcome: str, text: str, output_tokens: int | None, limits: Limits) -> Verdict:
    """Return the verdict of a reply whose outcome the provider decided.

    Parameters
    ----------
    outcome : str
        ``refused``, ``truncated``, ``empty`` or ``malformed``.
    text : str
        Of the reply, or its details (`with_details`).
    output_tokens : int or None
        How long it is.
    limits : Limits
        What it was allowed.
    """
    details = _details(text)
    thoughts = _thoughts_in_words(details)
    if outcome == "truncated":
        reason = _truncated(output_tokens, limits)
        return Verdict(outcome, reason=f"{reason}; {thoughts}" if thoughts else reason)
    if outcome == "malformed":
        return Verdict(outcome, reason=TOO_LARGE)
    if outcome == "empty":
        return Verdict(outcome, reason=_empty(details, thoughts, limits))
    return Verdict(outcome, reason=_refused(outcome, details))


#: Why a reply that is larger than `dre.judges.wire.MOST_BYTES` is malformed.
TOO_LARGE = "the reply is larger than any verdict (see docs/judges.md), and was not read"


def _truncated(output_tokens, limits):
    reason = f"the provider says truncated: {_LARGER_LIMIT}"
    if output_tokens is not None and output_tokens < _NEAR_THE_LIMIT * limits.max_tokens:
        reason += (
            f", or start the server with a longer context (it was cut after {output_tokens:,} of "
            f"{limits.max_tokens:,} tokens)"
        )
    return reason


def _empty(details, thoughts, limits):
    if thoughts:
        return f"the reply is empty: {thoughts}; {limits.less_thinking}"
    tools = details.get("tool_calls") or details.get("function_call")
    if tools:
        return (
            f"the reply is empty: the model called a tool ({_quoted(json.dumps(tools))}), though "
            "none was offered; start the server without tools, or ask another model"
        )
    return "the reply is empty"


def _refused(outcome, details):
    reason = f"the provider says {outcome}"
    for name, value in details.items():
        reason += f" ({name}: {_quoted(str(value))})"
    words = json.dumps(details)
    if "SAFETY" in words or "blockReason" in words:
        reason += (
            '; --param safety_settings=\'[{"category": "HARM_CATEGORY_...", '
            '"threshold": "BLOCK_NONE"}]\' lets more pass'
        )
    elif "content_filter" in words:
        reason += "; on Azure, the filter of a deployment can be changed"
    return reason


def advised(verdict: Verdict, text: str, output_tokens: int | None, limits: Limits) -> Verdict:
    """Return the verdict that was read in a reply, with what would help where it is none."""
    advice = ""
    tag = _TAG.match(text)
    if verdict.status == "malformed" and tag:
        advice = (
            f"if {tag[1]} begins the model's thinking, name its tags in a file for --thinking-tags"
        )
    if verdict.status == "truncated" and "breaks off" in verdict.reason:
        # What ended long before its limit was not cut by it.
        is_near = output_tokens is None or output_tokens >= _NEAR_THE_LIMIT * limits.max_tokens
        advice = _LARGER_LIMIT if is_near else _ASK_AGAIN.format(status="truncated")
    elif verdict.status == "empty" and "thinking" in verdict.reason:
        advice = limits.less_thinking
    return verdict._replace(reason=f"{verdict.reason}; {advice}") if advice else verdict


def none_readable(verdicts: Sequence[Verdict], text: str) -> str:
    """Say that none of some replies could be read, why, and what the last of them says."""
    counts = Counter(verdict.status for verdict in verdicts)
    [(status, _)] = counts.most_common(1)
    example = [verdict for verdict in verdicts if verdict.status == status][-1]
    statuses = ", ".join(f"{n} {name}" for name, n in counts.most_common())
    said = f"; the last begins {_quoted(text)}" if text.strip() else ""
    return (
        f"none of its first {len(verdicts)} replies can be read ({statuses}): {example.reason}"
        f"{said}. Mend that, or go on all the same with --keep-going (in a profile "
        "keep_going: true)"
    )


def _details(text) -> dict:
    """Return what `with_details` put in the place of a text; nothing for a text of the model's."""
    try:
        details = json.loads(text)
    except ValueError:
        return {}
    known = {*_THOUGHTS, *_TOOLS, *_REFUSALS}
    if isinstance(details, dict) and details.keys() <= known:
        return details
    return {}


def _thoughts_in_words(details):
    """Say how much thinking came beside the text; "" for none."""
    for name in _THOUGHTS:
        if isinstance(details.get(name), str):
            return f"{len(details[name]):,} characters came as {name}"
    return ""


def _quoted(text):
    """Return the beginning of a text in quotation marks, whatever signs it has."""
    one_line = " ".join(text.split())
    return f"{one_line[:_LONGEST_QUOTATION]!r}"
