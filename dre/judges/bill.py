"""The bill of a store: what was asked of whom, and on whose account, and what it took.

Seconds are from a call to its reply. Calls run side by side, so a run takes less time than their
sum. A reply counts once, in the run that paid for it; a run that finds it in the store pays
nothing.
"""

from collections.abc import Iterable, Sequence

import pandas as pd

from dre.judges.asking import spent_in_words
from dre.judges.store import CallGroup

#: What a line of a bill sums up.
SUMS = {
    "calls": "n_calls",
    "calls_timed": "n_timed",
    "calls_priced": "n_priced",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "usd": "cost_usd",
    "usd_uncertain": "uncertain_usd",
    "seconds": "seconds",
}
_WHO = ("judge", "base_url", "account")
#: Calls that brought no reply but may have been billed; what they cost is an upper bound.
WITHOUT_REPLY = ("pending", "unanswered")


def lines(groups: Iterable[CallGroup], by: Sequence[str] = _WHO) -> pd.DataFrame:
    """Return a bill with a line for each judge and account.

    Parameters
    ----------
    groups : list of CallGroup
        What `dre.judges.store.Store.summary` returned.
    by : sequence of str
        Of ``judge``, ``base_url`` (the server, "" for the provider's own) and ``account``: what
        makes a line.

    Returns
    -------
    DataFrame
        The columns of `by`, and those of `SUMS`: calls; how many of them have seconds, and how many
        a price; tokens; US dollars, and the part of them that may not have been billed; seconds
        from call to reply. ``calls_without_reply`` were billed, perhaps, and brought none. A sum is
        NaN if none of its parts is known.
    """
    table = pd.DataFrame(list(groups), columns=CallGroup._fields)
    for column, field in SUMS.items():
        table[column] = table[field]
    is_absent = table["status"].isin(WITHOUT_REPLY)
    table["calls_without_reply"] = table["n_calls"].where(is_absent, 0)
    columns = [*SUMS, "calls_without_reply"]
    table[columns] = table[columns].astype(float)
    sums = table.groupby([*by], sort=False)[columns].sum(min_count=1)
    return pd.DataFrame(sums).reset_index()


def in_words(line: dict) -> str:
    """Return a line of a bill, or a sum of lines, in words."""
    texts = [f"{line['calls']:,.0f} calls"]
    n_absent = line["calls_without_reply"]
    if n_absent:
        texts[0] += f" ({n_absent:,.0f} without a reply)"
    texts.append(_money(line))
    for column, direction in (("input_tokens", "in"), ("output_tokens", "out")):
        n_tokens = line[column]
        texts.append(f"{0 if pd.isna(n_tokens) else n_tokens:,.0f} tokens {direction}")
    texts.append(_seconds(line))
    return ", ".join(texts)


def _money(line):
    """Say what calls cost, and of how many this is not known."""
    if not line["calls_priced"]:
        return "cost unknown"
    text = spent_in_words(line["usd"], line["usd_uncertain"])
    n_unknown = line["calls"] - line["calls_priced"]
    return f"{text} (cost of {n_unknown:,.0f} calls unknown)" if n_unknown else text


def _seconds(line):
    """Say how long calls took, and how many of them were timed."""
    n_timed = line["calls_timed"]
    if not n_timed:
        return "not timed"
    text = f"{line['seconds']:,.1f} s from call to reply"
    if n_timed < line["calls"]:
        text += f" ({n_timed:,.0f} calls were timed: not those of batches or without a reply)"
    return text
