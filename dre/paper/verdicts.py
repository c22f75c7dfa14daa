"""Verdicts by one rule: what the papers claim, what a profile measured, and the word that follows.

``data/claims.csv`` has a row for each claim. Its columns, besides the claim's words:

- ``source``: where it stands in the papers, or "ours" for a question that they do not ask;
- ``notebook``: the one whose tables, with those that it needs, have all of the row's numbers;
- ``main``: "yes" for the claims that matter most;
- ``printed``: what the papers print, in words;
- ``effect, ours_effect``: a place as `dre.paper.words.cell` takes it, in tables of the profile, for
  the papers' small model (or none) and for ours. Where a live judge has another row than a recorded
  one, its place comes behind " or ";
- ``expected``: on which side of no effect the papers are, such as ``> 0``;
- ``size``: the printed effect, a number or a place, if the papers print one;
- ``premise``: what the claim needs, in words, and ``needs, ours_needs`` the number that shows it,
  such as ``table: row: column >= 0.35``. A premise without a number is one that nothing here meets.

`word` makes each verdict; nobody writes one.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from dre.errors import DreError
from dre.files import replace
from dre.paper import words
from dre.paper.profile import Profile
from dre.tables import ENDINGS, with_interval

CLAIMS = "data/claims.csv"
#: The words for a verdict, and what they mean.
LEGEND = {
    "reproduced": "the effect is there, as large as printed or larger",
    "smaller": "it is there, but smaller than printed",
    "not shown": "our numbers are too noisy to say",
    "not supported": "we see nothing, and would have seen an effect of the printed size",
    "contradicted": "we see the opposite",
    "not testable": "what the claim needs was not available",
    "not run": "this profile lacks the number",
}
#: What is said where the row is a question of ours and no claim of the papers.
ANSWERS = {
    "reproduced": "yes",
    "smaller": "yes",
    "contradicted": "no, the opposite",
    "not supported": "no",
}
_COLUMNS = ["claim", "source", "notebook", "printed", "measured", "verdict"]
_COLUMNS += ["ours_measured", "ours", "why"]


def word(
    low: float, high: float, none: float = 0.0, size: float | None = None, side: int = 1
) -> str:
    """Return the verdict on an effect, one of the words in `LEGEND`.

    Parameters
    ----------
    low, high : float
        The ends of the effect's 95 % interval.
    none : float
        The value of no effect.
    size : float, optional
        What the papers print, in the unit of the effect.
    side : 1 or -1
        Whether the papers' side lies above no effect or below it.
    """
    # Turn everything so that no effect is 0 and the papers' side is above it.
    low, high = sorted([side * (low - none), side * (high - none)])
    excludes_size = False
    if size is not None:
        excludes_size = high < side * (size - none)

    if low > 0:
        return "smaller" if excludes_size else "reproduced"
    if high < 0:
        return "contradicted"
    return "not supported" if excludes_size else "not shown"


def judged(root: Path, profile_name: str) -> pd.DataFrame:
    """Return the claims of a project with their verdicts in one profile.

    Returns
    -------
    The columns of the claims, and ``measured, verdict`` (with the papers' small model, or none),
    ``ours_measured, ours`` (with ours, "" where the claim has no such effect) and ``why``: the
    reasons of *not testable* and *not run*. A verdict is one of `LEGEND`, or of `ANSWERS`.
    """
    claims = pd.read_csv(root / CLAIMS, dtype=str, keep_default_na=False)
    outcomes = []
    for claim in claims.to_dict("records"):
        folder = root / "results" / profile_name
        measured, verdict, why = _decided(claim, claim["effect"], claim["needs"], folder)
        outcome = {"measured": measured, "verdict": verdict, "ours_measured": "", "ours": ""}
        if claim["ours_effect"]:
            of_ours = _decided(claim, claim["ours_effect"], claim["ours_needs"], folder)
            outcome["ours_measured"], outcome["ours"], why_ours = of_ours
            why = "; ".join(dict.fromkeys(filter(None, [why, why_ours])))
        outcomes.append(outcome | {"why": why})
    return claims.join(pd.DataFrame(outcomes))


def of_notebook(profile: Profile, number: str) -> pd.DataFrame:
    """Return the verdicts that the tables of one notebook allow, such as those of ``"04"``.

    Columns are ``claim, printed, measured, verdict``, and ``ours_measured, ours`` where a claim of
    the notebook is measured with our small model, too.
    """
    claims = judged(profile.root, profile.name)
    claims = claims.loc[claims["notebook"].str.startswith(number), :]
    columns = ["claim", "printed", "measured", "verdict"]
    if set(claims["ours"]) != {""}:
        columns += ["ours_measured", "ours"]
    return claims.loc[:, columns].reset_index(drop=True)


def counts(claims: pd.DataFrame) -> pd.DataFrame:
    """Return how often each verdict was given, with the papers' small model and with ours.

    Our own questions do not count. A verdict that was never given has no row.
    """
    claims = claims.loc[claims["source"] != "ours", :]
    table = pd.DataFrame(LEGEND.items(), columns=["verdict", "meaning"])
    for name, column in {"paper": "verdict", "ours": "ours"}.items():
        table[name] = [list(claims[column]).count(verdict) for verdict in LEGEND]
    return table.loc[table["paper"] + table["ours"] > 0, :]


def write(profile: Profile) -> str:
    """Write ``verdicts.csv`` and ``verdict_counts.csv`` of a profile; return a line of counts."""
    claims = judged(profile.root, profile.name)
    counted = counts(claims)
    claims["notebook"] = claims["notebook"].str[:2]
    for name, table in {"verdicts": claims[_COLUMNS], "verdict_counts": counted}.items():
        path = profile.results / f"{name}.csv"
        replace(path, table.to_csv(index=False, lineterminator="\n"))
    given = []
    for row in counted.to_dict("records"):
        if row["paper"]:
            given.append(f"{row['paper']} {row['verdict']}")
    return f"verdicts: {', '.join(given)}: results/{profile.name}/verdicts.csv"


def _decided(claim, effect, needs, folder):
    """Return the number of an effect as text, its verdict, and why there is no other."""
    try:
        row, column = _cell(folder, effect)
        _, low, high = (_value(row, f"{column}{ending}") for ending in ("", *ENDINGS[:2]))
        measured = _measured(row, column, claim["printed"])
        if not _is_met(claim["premise"], needs, folder):
            return measured, "not testable", f"needs {claim['premise']}"
        sign, none = claim["expected"].split()
        size = _number(folder, claim["size"]) if claim["size"] else None
    except DreError as error:
        return "", "not run", str(error)
    verdict = word(low, high, float(none), size, {">": 1, "<": -1}[sign])
    if claim["source"] == "ours":
        verdict = ANSWERS.get(verdict, verdict)
    return measured, verdict, ""


def _is_met(premise, needs, folder):
    """Return whether a claim has no premise, or one whose number is large enough."""
    if not needs:
        return not premise
    place, _, least = needs.partition(" >= ")
    return _number(folder, place) >= float(least)


def _cell(folder, places):
    """Return row and column of the first of some places that a profile has."""
    first, *others = places.split(" or ")
    try:
        return words.cell(folder, first)
    except DreError:
        if not others:
            raise
        return _cell(folder, " or ".join(others))


def _number(folder, text):
    """Return the number that a cell of the claims writes out, or names by its place."""
    if ": " not in text:
        return float(text)
    return _value(*_cell(folder, text))


def _value(row, column):
    """Return a number of a row; DreError if it is missing."""
    if not row.get(column):
        raise DreError(f"the row {next(iter(row.values()))!r} has no value in {column!r}")
    return float(row[column])


def _measured(row, column, printed):
    """Return a number with its interval, of which two digits are shown.

    It has a sign, unless the papers print a number without one.
    """
    width = _value(row, f"{column}_high") - _value(row, f"{column}_low")
    decimals = np.clip(1 - np.floor(np.log10(max(width, 1e-9))), 1, 3)
    sign = "" if printed[:1].isdigit() else "+"
    return with_interval(row, column, f"{sign}.{decimals:.0f}f")
