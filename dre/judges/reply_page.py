"""One page of judged pairs: what was sent, what came back, and how it was read."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dre.templates import render

TEMPLATE = Path(__file__).with_name("reply_page.html")
MARK = "<!-- made by dre judge show -->"  # in a page, which the command may write anew


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

    @property
    def has_score(self) -> bool:
        """Whether there is a score."""
        return not math.isnan(self.score)


def page(pairs: Sequence[ShownPair], run_facts: dict[str, Any]) -> str:
    """Return the page as HTML; every text is escaped.

    Parameters
    ----------
    pairs
        The pairs, in any order. The page has the lowest scores first, and pairs without one last.
    run_facts
        ``judge``, ``prompt``, ``input`` and ``signature``, as texts.
    """
    statuses = Counter(pair.status for pair in pairs)
    shown_pairs = sorted(pairs, key=_worst_first)
    return render(TEMPLATE, mark=MARK, pairs=shown_pairs, statuses=statuses, **run_facts)


def _worst_first(pair):
    """Return what pairs are sorted by: those with a score first, the lowest before others."""
    return not pair.has_score, pair.score if pair.has_score else 0.0, pair.pair_id
