"""The bill of a profile: what its live judges were asked, table by table, and what that took.

It is read from the store, where each call stands on the account of a profile, one of its judges and
one of its tables, whichever run paid. A reply that two tables read stands with the first of them.
"""

import math

import pandas as pd

from dre.files import replace
from dre.judges.store import Store
from dre.paper.profile import Profile

NAME = "bill_of_run"
_BETWEEN = " | "  # the parts of an account
_SUMS = ["replies", "unpriced", "errors", "lost", "input_tokens", "output_tokens"]
_SUMS += ["usd", "usd_lost", "seconds"]


def account(profile: Profile, judge: str, table: str) -> str:
    """Return the account on which a profile asks a judge, by its name there, for a table."""
    return _BETWEEN.join([profile.name, judge, table])


def calls(profile: Profile, run: str | None = None) -> pd.DataFrame:
    """Return what calls of a profile took: ``judge, table, prompt`` and the sums of `Store.bill`.

    Parameters
    ----------
    profile : the profile.
    run : str, optional
        Only what this run paid for; by default what all runs of the profile did.
    """
    store = Store()
    bill = store.bill("account", "prompt", run=run)
    store.close()
    beginning = f"{profile.name}{_BETWEEN}"
    bill = bill[bill["account"].str.startswith(beginning)].reset_index(drop=True)
    parts = [text.removeprefix(beginning).rpartition(_BETWEEN) for text in bill["account"]]
    return bill.assign(judge=[part[0] for part in parts], table=[part[2] for part in parts])


def lines(profile: Profile, run: str | None = None) -> pd.DataFrame:
    """Return the bill of a profile: a line for each judge and table, and the sums; or no line."""
    bill = calls(profile, run).astype(dict.fromkeys(_SUMS, float))
    if bill.empty:
        return bill
    by_table = bill.groupby(["judge", "table"], sort=False, as_index=False)[_SUMS]
    by_table = pd.DataFrame(by_table.sum(min_count=1))
    sums = {"judge": "all judges", "table": "in all", **by_table[_SUMS].sum(min_count=1)}
    return pd.concat([by_table, pd.DataFrame([sums])], ignore_index=True)


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
    usd = "price unknown" if math.isnan(row["usd"]) else f"${row['usd']:.4f}"
    if 0 < row["unpriced"] < row["replies"]:
        usd += f" and {row['unpriced']:,.0f} replies of unknown price"
    lost = f", of this at most ${row['usd_lost']:.4f} for lost calls" if row["lost"] else ""
    return f"{row['replies']:,.0f} replies, {row['errors']:,.0f} errors, {usd}{lost}"


def write(profile: Profile) -> None:
    """Write the bill beside the profile's tables, as ``bill_of_run.csv``.

    Errors cost nothing. Of lost calls no whole answer came; they count at the most that they can
    cost. Seconds are from call to reply and added up, although calls ran side by side.
    """
    table = lines(profile)
    if not table.empty:
        replace(profile.results / f"{NAME}.csv", table.to_csv(index=False, lineterminator="\n"))
