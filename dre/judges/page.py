"""One page of judged pairs: what was sent, what came back, and how it was read."""

import html
import math
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dre.tables import number

TEMPLATE = Path(__file__).with_name("replies.html")
MARK = "<!-- made by dre judge show -->"  # in a page, which the command may write anew
_SCORE_DECIMALS = 2


class ShownReply(NamedTuple):
    """A reply to a pair: a line that says where it is from, and its text."""

    origin: str
    text: str


class ShownPair(NamedTuple):
    """A judged pair as a page shows it.

    Attributes
    ----------
    pair_id, system, response, status, reason, label : str
        Those of the table of verdicts; "" where there is none.
    turns : sequence of str
        The context, oldest first.
    score : float
        On the prompt's scale; NaN where there is none.
    messages : list of dict
        What was sent: ``role`` and ``content``.
    replies : list of ShownReply
        What came back.
    """

    pair_id: str
    system: str
    turns: Sequence[str]
    response: str
    status: str
    score: float
    label: str
    reason: str
    messages: list[dict[str, str]]
    replies: list[ShownReply]


def page(pairs: Sequence[ShownPair], run_facts: dict[str, Any]) -> str:
    """Return the page as HTML; every text is escaped.

    Parameters
    ----------
    pairs
        The pairs, in any order. The page has the lowest scores first, and pairs without one last.
    about
        ``judge``, ``prompt``, ``input`` and ``signature``, as texts.
    """
    statuses: dict[str, int] = {}
    for pair in pairs:
        statuses[pair.status] = statuses.get(pair.status, 0) + 1
    counts = ", ".join(f"{count:,} {status}" for status, count in statuses.items())
    options = [
        f'<option value="{_text(status)}">{_text(status)} ({count:,})</option>'
        for status, count in statuses.items()
    ]
    sections = {name: _text(value) for name, value in run_facts.items()}
    sections["counts"] = _text(f"{len(pairs):,} pairs: {counts}")
    sections["statuses"] = "".join(options)
    sections["cards"] = "\n".join(_card(pair) for pair in sorted(pairs, key=_worst_first))
    template = string.Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(sections)


def _worst_first(pair):
    """Return what pairs are sorted by: those with a score first, the lowest before others."""
    has_no_score = math.isnan(pair.score)
    return has_no_score, 0.0 if has_no_score else pair.score, pair.pair_id


def _card(pair):
    """Return the card of a pair."""
    has_score = not math.isnan(pair.score)
    verdict = number(pair.score, _SCORE_DECIMALS) if has_score else pair.label or "no score"
    kind = "ok" if pair.status == "ok" else "status"
    name = f"{pair.pair_id} · {pair.system}" if pair.system else pair.pair_id
    lines = [
        f'<p class="head"><span class="score">{_text(verdict)}</span>'
        f'<span class="{kind}">{_text(pair.status)}</span><span class="id">{_text(name)}</span></p>'
    ]
    for turn in pair.turns:
        lines.append(f'<p class="turn">{_text(turn)}</p>')
    lines.append(f'<p class="response">{_text(pair.response)}</p>')
    if pair.reason:
        lines.append(f'<p class="soft">Read as {_text(pair.status)}: {_text(pair.reason)}</p>')
    lines.append(_details(pair))
    score = f"{pair.score:.6g}" if has_score else ""
    return (
        f'<article data-status="{_text(pair.status)}" data-score="{score}">'
        f"{''.join(lines)}</article>"
    )


def _details(pair):
    """Return what was sent and what came back, which opens at a click."""
    blocks = []
    for message in pair.messages:
        blocks.append(f"<h3>Sent ({_text(message['role'])})</h3>")
        blocks.append(f"<pre>{_text(message['content'])}</pre>")
    for reply in pair.replies:
        blocks.append(f"<h3>{_text(reply.origin)}</h3><pre>{_text(reply.text)}</pre>")
    if not blocks:
        return ""
    return f"<details><summary>Prompt and reply</summary>{''.join(blocks)}</details>"


def _text(value):
    """Return a text that no browser takes for markup."""
    return html.escape(str(value), quote=True)
