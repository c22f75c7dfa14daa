"""Verdicts by one rule: what the papers claim, what was measured, and the word that follows.

``data/claims.csv`` has a row for each claim: its words, the value of no effect, the papers' side of
that (``+`` or ``-``), the printed size, and the premise it needs. A claim is measured up to three
times:

- with the papers' small model, or with none where it needs none (``effect``);
- with our small model (``ours_effect``);
- simulated, with a small model as good as the papers print it (``simulated_effect``).

`word` makes the verdict of the first two; nobody writes one. A simulation gets no verdict: the
claim would follow, or it would not.

An effect is a place in a table of ``results/public``, written as ``table: row; values: column``. A
number is written out or is such a place.
"""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dre import stats
from dre.errors import DreError
from dre.paper.profile import COMMITTED
from dre.paper.sentences import in_words
from dre.tables import number

CLAIMS = "data/claims.csv"
LEGEND = {
    "reproduced": "the effect is there, as large as printed or larger",
    "smaller": "it is there, but smaller than printed",
    "not shown": "our numbers are too noisy to say",
    "not supported": "we see nothing, and would have seen an effect of the printed size",
    "contradicted": "we see the opposite",
    "not testable": "what the claim needs was not available",
}
FOLLOWS = {True: "would follow", False: "would not follow"}
#: What is said where the row is a question of ours and no claim of the papers.
ANSWERS = {
    "reproduced": "yes",
    "smaller": "yes",
    "contradicted": "no, the opposite",
    "not supported": "no",
}
_NOT_ASKED = "—"


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


def judged(root: Path) -> pd.DataFrame:
    """Return the claims of a project, with what follows for each.

    Added are ``verdict`` and ``ours`` (words of `LEGEND`, or of `ANSWERS` for our own questions),
    ``simulated`` (of `FOLLOWS`), each "" where nothing was measured, and ``verdict_text``,
    ``ours_text``, ``simulated_text``: the number and the word, in Markdown.
    """
    claims = pd.read_csv(root / CLAIMS, dtype=str, keep_default_na=False)
    results = root / "results" / COMMITTED
    outcomes = [_outcome(claim, results) for claim in claims.to_dict(orient="records")]
    return pd.concat([claims, pd.DataFrame(outcomes, index=claims.index)], axis=1)


def counts(claims: pd.DataFrame) -> pd.DataFrame:
    """Return how often each verdict was given, with the paper's small model and with ours.

    Our own questions do not count.
    """
    claims = claims.loc[claims["question"] == "", :]
    rows = []
    for name, meaning in LEGEND.items():
        row = {
            "verdict": name,
            "meaning": meaning,
            "paper": list(claims["verdict"]).count(name),
            "ours": list(claims["ours"]).count(name),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def markdown(root: Path, main: bool = False) -> str:
    """Return counts, claims with verdicts and revised rows in Markdown.

    With `main` only the counts, and the main claims in words, without numbers of ours.
    """
    claims = judged(root)
    if main:
        main_claims = claims.loc[claims["main"] == "yes", :]
        return f"{_counts_table(claims)}\n{_main_table(main_claims)}"
    parts = [_counts_table(claims), _claims_table(claims)]
    revised = claims.loc[claims["revised"] != "", :]
    if len(revised):
        parts.append(_revised_list(revised))
    return "\n".join(parts)


def _counts_table(claims):
    lines = [
        "| verdict | what it means | with the paper's small model, or none | with ours |",
        "|:--|:--|--:|--:|",
    ]
    for row in counts(claims).to_dict(orient="records"):
        cells = [f"**{row['verdict']}**", row["meaning"], str(row["paper"]), str(row["ours"])]
        lines.append(f"| {' | '.join(cells)} |")
    claims = claims.loc[claims["question"] == "", :]
    n_ours = int((claims["ours"] != "").sum())
    lines.append(f"| all | | {len(claims)} | {n_ours} |")
    n_follow = int((claims["simulated"] == FOLLOWS[True]).sum())
    n_simulated = int((claims["simulated"] != "").sum())
    sentence = (
        f"{n_simulated} of the claims were also simulated with a small model as good as printed: "
        f"{n_follow} would follow from one."
    )
    return "\n".join(lines) + f"\n\n{sentence}\n"


def _main_table(claims):
    lines = [
        "| what the papers say | paper's small model | ours | as good as printed | notebook |",
        "|:--|:--|:--|:--|:--|",
    ]
    for claim in claims.to_dict(orient="records"):
        cells = [
            claim["claim"],
            claim["verdict"],
            claim["ours"] or _NOT_ASKED,
            claim["simulated"] or _NOT_ASKED,
            claim["notebook"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _claims_table(claims):
    lines = [
        "| what the papers say | in the paper | with the paper's small model, or none | with ours "
        "| from one as good as printed | premise | resampled | notebook |",
        "|:--|:--|:--|:--|:--|:--|:--|:--|",
    ]
    for claim in claims.to_dict(orient="records"):
        cells = [
            claim["claim"],
            claim["printed"],
            claim["verdict_text"],
            claim["ours_text"] or _NOT_ASKED,
            claim["simulated_text"] or _NOT_ASKED,
            claim["premise"] or _NOT_ASKED,
            claim["resampled"],
            claim["notebook"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _revised_list(claims):
    lines = ["**Rows that were revised after their numbers were seen**", ""]
    for claim in claims.to_dict(orient="records"):
        lines.append(f"- *{claim['claim']}*: {claim['revised']}")
    return "\n".join(lines) + "\n"


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
    """Return the words on one claim, and each with its number as text."""
    verdict, verdict_text = _decided(claim, "", results)
    ours, ours_text = _decided(claim, "ours_", results)
    outcome = {
        "verdict": verdict,
        "verdict_text": verdict_text,
        "ours": ours,
        "ours_text": ours_text,
        "simulated": "",
        "simulated_text": "",
    }
    if claim["simulated_effect"]:
        effect = _cell(claim, claim["simulated_effect"], results)
        measured = effect.in_words(claim["simulated_measured"])
        follows = _verdict(claim, effect, results) in ("reproduced", "smaller")
        outcome["simulated"] = FOLLOWS[follows]
        outcome["simulated_text"] = f"{measured}: {FOLLOWS[follows]}"
    return outcome


def _decided(claim, prefix, results):
    """Return the verdict of the columns with a prefix, and its text; both "" without an effect."""
    is_ours = bool(prefix)
    if is_ours and not claim["ours_effect"]:
        return "", ""
    measured = claim[f"{prefix}measured"]
    verdict = "not testable"
    sensitivity = ""
    if claim[f"{prefix}effect"]:
        effect = _cell(claim, claim[f"{prefix}effect"], results)
        measured = effect.in_words(measured)
        if _premise_is_met(claim, prefix, results):
            verdict = _verdict(claim, effect, results)
        if verdict == "not shown":
            visible = stats.smallest_seen(effect.number("_low"), effect.number("_high"))
            digits = 2 if visible < 1 else 1
            sensitivity = f" (four studies of five would see {number(visible, digits)})"
    if claim["question"]:
        verdict = ANSWERS.get(verdict, verdict)
    return verdict, f"{measured}: **{verdict}**{sensitivity}"


def _premise_is_met(claim, prefix, results):
    """Tell whether a claim has no premise, or one whose number is large enough."""
    if not claim["premise"]:
        return True
    if not claim["least"]:  # a premise without a number is one that nothing here meets
        return False
    premise = _number(claim, claim[f"{prefix}premise_effect"], results)
    return premise >= _number(claim, claim["least"], results)


def _verdict(claim, effect, results):
    return word(
        low=effect.number("_low"),
        high=effect.number("_high"),
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
