"""Verdicts by one rule: what the papers claim, what was measured, and the word that follows.

``data/claims.csv`` has a row for each claim: its words, the effect that measures it, the value of
no effect, the papers' side of that (``+`` or ``-``), the printed size, and the premise it needs.
`word` makes the verdict of these; nobody writes one. A second effect, of notebook 13, says what
holds given the premise.

An effect is a place in a table of ``results/public``, written as ``table: row; values: column``. A
number is written out or is such a place.
"""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dre.errors import DreError
from dre.paper.profile import COMMITTED
from dre.paper.sentences import in_words

CLAIMS = "data/claims.csv"
LEGEND = {
    "reproduced": (
        "the interval excludes no effect on the papers' side, and holds the printed size or more"
    ),
    "smaller": "the same, below the printed size",
    "not shown": "it holds no effect and the printed size, or none is printed",
    "not supported": "it holds no effect, and excludes the printed size",
    "contradicted": "it excludes no effect on the other side",
    "not testable": (
        "the premise is not met: an SLM half as good as printed, the same sets, LLMs and treatment"
    ),
}


def word(
    low: float, high: float, none: float = 0.0, size: float | None = None, side: int = 1
) -> str:
    """Return the verdict on an effect, one of the words in `LEGEND`.

    Parameters
    ----------
    low, high : float
        The ends of the effect's interval.
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


def judged(root: Path) -> pd.DataFrame:
    """Return the claims of a project with the columns ``verdict``, ``given`` and ``measured``.

    ``given`` is what holds given the premise, if that is known; ``measured`` is text.
    """
    claims = pd.read_csv(root / CLAIMS, dtype=str, keep_default_na=False)
    results = root / "results" / COMMITTED
    outcomes = [_outcome(claim, results) for claim in claims.to_dict(orient="records")]
    columns = pd.DataFrame(outcomes, index=claims.index)
    return claims.assign(**{name: columns[name] for name in columns})


def markdown(root: Path, main: bool = False) -> str:
    """Return the claims with verdicts in Markdown; with `main` the main ones, without legend."""
    claims = judged(root)
    if main:
        claims = claims.loc[claims["main"] == "yes", :]
    lines = [
        "| what the papers say | in print | measured here | verdict "
        "| given the premise | notebook |",
        "|:--|:--|:--|:--|:--|:--|",
    ]
    for claim in claims.to_dict(orient="records"):
        cells = [
            claim["claim"],
            claim["print"],
            claim["measured"],
            f"**{claim['verdict']}**",
            claim["given"],
            claim["notebook"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines) + "\n"
    if main:
        return table
    legend = "; ".join(f"*{name}*: {text}" for name, text in LEGEND.items())
    return f"{legend}. Brackets: 95 % intervals.\n\n{table}"


class _Cell(NamedTuple):
    """A place in a table: the values that choose the row, and a column."""

    csv: Path
    row_values: list[str]
    column: str

    def in_words(self, form: str) -> str:
        return in_words(self.csv, self.row_values, form)

    def number(self, ending: str = "") -> float:
        """Return the number of the column, or of the one with an ending such as ``_low``."""
        return float(self.in_words(f"{{{self.column}{ending}}}"))


def _outcome(claim, results):
    """Return the verdict of one claim, what holds given its premise, and its number in words."""
    outcome = {"verdict": "not testable", "given": ""}
    if _premise_is_met(claim, results):
        outcome["verdict"] = _verdict(claim, claim["effect"], results)

    outcome["measured"] = claim["measured"]
    if claim["effect"]:
        effect = _cell(claim, claim["effect"], results)
        outcome["measured"] = effect.in_words(claim["measured"])
    if claim["given_effect"]:
        effect = _cell(claim, claim["given_effect"], results)
        measured = effect.in_words(claim["given_measured"])
        verdict = _verdict(claim, claim["given_effect"], results)
        outcome["given"] = f"{measured}: **{verdict}**"
    return outcome


def _premise_is_met(claim, results):
    """Tell whether a claim has no premise, or one whose number is large enough."""
    if not claim["premise"]:
        return True
    if not claim["least"]:  # a premise without a number is one that nothing here meets
        return False
    premise = _number(claim, claim["premise"], results)
    return premise >= _number(claim, claim["least"], results)


def _verdict(claim, effect, results):
    cell = _cell(claim, effect, results)
    return word(
        low=cell.number("_low"),
        high=cell.number("_high"),
        none=_number(claim, claim["none"], results),
        size=_number(claim, claim["size"], results) if claim["size"] else None,
        side={"+": 1, "-": -1}[claim["side"]],
    )


def _number(claim, text, results):
    """Return the number that a cell of the claims writes out or names by its place."""
    if text.lstrip("-").replace(".", "").isdigit():
        return float(text)
    return _cell(claim, text, results).number()


def _cell(claim, text, results):
    fields = [field.strip() for field in text.split(":")]
    if len(fields) != 3:
        raise DreError(
            f"{CLAIMS}, {claim['claim']!r:.60}: found {text!r}, "
            "expected a number, or table: row; values: column"
        )
    table, row_values, column = fields
    return _Cell(results / f"{table}.csv", row_values.split("; "), column)
