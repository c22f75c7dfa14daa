"""The bill of a profile: what its live judges were asked, table by table, and what that took.

It is read from the store, where each call stands on the account of a profile and one of its tables.
So it has the calls of all runs of the profile, also of those that were ended or killed. A reply
that two tables read stands with the one that asked for it first.
"""

import pandas as pd

from dre.judges import bill
from dre.judges.store import Store
from dre.paper.profile import Profile
from dre.tables import Table

NAME = "bill_of_run"
#: The columns that are shown, and how they are called.
_HEADERS = {
    "judge": "Judge",
    "table": "Asked for",
    "calls": "Calls",
    "calls_without_reply": "Without a reply",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "usd": "Dollars",
    "usd_uncertain": "Of them perhaps not billed",
    "seconds": "Seconds",
}
_IN_ALL = "in all"
_NOTE = (
    "Calls of all runs of the profile. Seconds are from call to reply and added up; calls ran side "
    "by side. A dash: not known (no price, or a reply of a batch)."
)


def account(profile: Profile, table: str) -> str:
    """Return the account on which a profile has a judge asked for a table."""
    return f"{profile.name}: {table}"


def lines(profile: Profile, run: str | None = None) -> pd.DataFrame:
    """Return the bill of a profile: a line for each judge and table, as the plan orders them.

    Parameters
    ----------
    profile : the profile.
    run : str, optional
        Only what this run paid for; by default what all runs of the profile did.

    Returns
    -------
    Columns ``judge, table`` and those of `dre.judges.bill.lines`.
    """
    store = Store()
    try:
        groups = store.summary(run)
    finally:
        store.close()
    beginning = account(profile, "")
    own_groups = [group for group in groups if group.account.startswith(beginning)]
    table = bill.lines(own_groups, ["judge", "account"])
    names = [text.removeprefix(beginning) for text in table["account"]]
    return table.drop(columns="account").assign(table=names).sort_values(["judge", "table"])


def in_words(profile: Profile, run: str) -> str:
    """Return the bill as a run prints it at its end; "" if nobody was ever asked."""
    of_all_runs = lines(profile)
    if of_all_runs.empty:
        return ""
    texts = [f"the bill of profile {profile.name}, with all its runs (store {Store().path}):"]
    for line in _with_sums(of_all_runs):
        texts.append(f"  {line['judge']}, {line['table']}: {bill.in_words(line)}")
    of_run = lines(profile, run)
    now = bill.in_words(_sums(of_run)) if len(of_run) else "nobody was asked, all was stored"
    return "\n".join([*texts, f"of this, this run: {now}"])


def _with_sums(table):
    """Return the lines of a bill, and after those of a judge with several their sums."""
    rows = []
    for judge, of_judge in table.groupby("judge", sort=False):
        rows += of_judge.to_dict("records")
        if len(of_judge) > 1:
            rows.append({"judge": judge, "table": _IN_ALL} | _sums(of_judge))
    return rows


def _sums(table):
    """Return the sums of some lines of a bill."""
    sums = table.drop(columns=["judge", "table"]).sum(min_count=1)
    return {str(column): float(value) for column, value in sums.items()}


def write(profile: Profile) -> None:
    """Write the bill beside the profile's tables, as ``bill_of_run.md`` and ``.csv``."""
    table = lines(profile)
    if table.empty:
        return
    total = {"judge": "all judges", "table": _IN_ALL} | _sums(table)
    printed = pd.DataFrame([*_with_sums(table), total]).loc[:, list(_HEADERS)]
    counts = dict.fromkeys(["calls", "calls_without_reply", "input_tokens", "output_tokens"], 0)
    printed = printed.astype(dict.fromkeys(counts, "Int64"))
    shown = Table(
        printed,
        NAME,
        f"What the judges of profile {profile.name} were asked, and what it took",
        _NOTE,
        headers=_HEADERS,
        digits=counts | {"usd": 4, "usd_uncertain": 4, "seconds": 0},
        rows=len(printed),
        columns=list(_HEADERS),
    )
    shown.save(profile.results, with_markdown=True)
