"""The bill of a profile: what its live judges were asked, table by table, and what that took.

It is read from the store, where each call stands on the account of a profile and one of its tables,
whichever run paid for it. A reply that two tables read stands with the one that asked for it first.
"""

import math

import numpy as np
import pandas as pd

from dre.judges.store import Store
from dre.paper.profile import Profile
from dre.tables import Table

NAME = "bill_of_run"
#: The columns that are shown, and how they are called.
_HEADERS = {
    "judge": "Judge",
    "table": "Asked for",
    "replies": "Replies",
    "errors": "Errors",
    "lost": "Lost calls",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "usd": "Dollars",
    "usd_lost": "Of them for lost calls",
    "seconds": "Seconds",
}
_SUMS = list(_HEADERS)[2:]
_DIGITS = dict.fromkeys(_SUMS, 0) | {"usd": 4, "usd_lost": 4}
_NOTE = (
    "Calls of all runs of the profile. Errors cost nothing; of lost calls no whole answer came, "
    "and they count at the most that they can cost. Seconds are from call to reply and added up; "
    "calls ran side by side. A dash: not known."
)


def account(profile: Profile, table: str) -> str:
    """Return the account on which a profile has a judge asked for a table."""
    return f"{profile.name}: {table}"


def lines(profile: Profile, run: str | None = None) -> pd.DataFrame:
    """Return the bill of a profile: a line for each judge and table, and the sums; or no line.

    Parameters
    ----------
    profile : the profile.
    run : str, optional
        Only what this run paid for; by default what all runs of the profile did.
    """
    beginning = account(profile, "")
    store = Store()
    bill = store.bill("judge", "account", run=run)
    store.close()
    is_own = [account.startswith(beginning) for account in bill["account"]]
    bill = bill.loc[np.array(is_own, bool)].astype(dict.fromkeys(_SUMS, float))
    names = [account.removeprefix(beginning) for account in bill["account"]]
    bill = bill.drop(columns=["account", "unpriced"]).assign(table=names)
    if bill.empty:
        return bill
    sums = {"judge": "all judges", "table": "in all", **bill[_SUMS].sum(min_count=1)}
    return pd.concat([bill, pd.DataFrame([sums])], ignore_index=True)


def in_words(profile: Profile, run: str) -> str:
    """Return the bill as a run prints it at its end; "" if nobody was ever asked."""
    table = lines(profile)
    if table.empty:
        return ""
    texts = [f"the bill of profile {profile.name}, with all its runs (store {Store().path}):"]
    for row in table.to_dict("records"):
        texts.append(f"  {row['judge']}, {row['table']}: {_one_line(row)}")
    of_run = lines(profile, run).tail(1).to_dict("records")
    now = _one_line(of_run[0]) if of_run else "nobody was asked, all was stored"
    return "\n".join([*texts, f"of this, this run: {now}"])


def _one_line(row):
    """Return a line of a bill in words."""
    words = [f"{row['replies']:,.0f} replies"]
    words += [f"{row['errors']:,.0f} errors"] if row["errors"] else []
    words += ["price unknown" if math.isnan(row["usd"]) else f"${row['usd']:.4f}"]
    if row["lost"]:
        words.append(f"of this at most ${row['usd_lost']:.4f} for {row['lost']:,.0f} lost calls")
    return ", ".join(words)


def write(profile: Profile) -> None:
    """Write the bill beside the profile's tables, as ``bill_of_run.md`` and ``.csv``."""
    table = lines(profile)
    if table.empty:
        return
    shown = Table(
        table,
        NAME,
        f"What the judges of profile {profile.name} were asked, and what it took",
        _NOTE,
        headers=_HEADERS,
        digits=_DIGITS,
        rows=len(table),
        columns=list(_HEADERS),
    )
    shown.save(profile.results, with_markdown=True)
