"""Verdicts by one rule: what the papers claim, what was measured, and the word that follows.

``data/claims.csv`` has a row for each claim: its words, what is measured, the value of no effect,
the papers' side of that (``+`` or ``-``), the printed size, and the premise it needs. A claim is
measured up to five times:

- with the papers' small model, or with none where it needs none (``effect``);
- with our small model (``ours_effect``);
- simulated, with a small model as good as the papers print it (``simulated_effect``);
- with a weak judge in the place of the strong one, which is shown the numbers of our small model
  (``weak_effect``), or numbers as good as printed (``weak_simulated_effect``).

`word` makes the verdict where a small model is real; nobody writes one. A simulation gets no
verdict: the claim would follow, or it would not.

An effect is a place in a table of ``results/public``, written as ``table: row; values: column``. A
row that is a method is written by its fields: ``table4: family=METEOR: TopicalChat``. A number is
written out or is such a place.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dre import stats
from dre.errors import DreError
from dre.paper import methods
from dre.paper.profile import COMMITTED
from dre.paper.sentences import in_words
from dre.tables import markdown_rows, number

CLAIMS = "data/claims.csv"
LEGEND = {
    "reproduced": "the effect is there, as large as printed or larger",
    "smaller": "it is there, but smaller than printed",
    "not shown": "our numbers are too noisy to say",
    "not supported": "we see nothing, and would have seen an effect of the printed size",
    "contradicted": "we see the opposite",
    "not testable": "what the claim needs was not available",
}
#: What a simulation shows, by whether its effect is clearly on the papers' side.
FOLLOWS = {True: "would follow", False: "would not follow"}
#: What is said of it with a weak judge where the interval holds no effect and the printed one.
TOO_FEW = "may follow or not"
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

    Added are the words ``verdict`` and ``ours`` (of `LEGEND`, or of `ANSWERS` for our own
    questions) and ``simulated`` (of `FOLLOWS`), and their numbers ``verdict_number``,
    ``ours_number`` and ``simulated_number``. The same with a weak judge are ``weak,
    weak_simulated, weak_number`` and ``weak_simulated_number``. Each is "" where nothing was
    measured. ``measure`` says what the numbers are, and ``visible`` and ``weak_visible`` how large
    an effect would have been seen where a verdict is *not shown*.
    """
    claims = pd.read_csv(root / CLAIMS, dtype=str, keep_default_na=False)
    results = root / "results" / COMMITTED
    outcomes = [_outcome(claim, results) for claim in claims.to_dict(orient="records")]
    added = pd.DataFrame(outcomes, index=claims.index)
    return pd.concat([claims.drop(columns="measure"), added], axis=1)


def counts(claims: pd.DataFrame) -> pd.DataFrame:
    """Return how often each verdict was given, with the paper's small model and with ours.

    Our own questions do not count.
    """
    claims = claims.loc[claims["question"] == "", :]
    counts = pd.DataFrame(LEGEND.items(), columns=["verdict", "meaning"])
    for name, column in {"paper": "verdict", "ours": "ours"}.items():
        counts[name] = [list(claims[column]).count(verdict) for verdict in LEGEND]
    return counts


def markdown(root: Path, main: bool = False) -> str:
    """Return counts, verdicts, numbers and revised rows in Markdown.

    With `main` only the counts, and the main claims in words, without numbers of ours.
    """
    claims = judged(root)
    if main:
        main_claims = claims.loc[claims["main"] == "yes", :]
        return f"{_counts_table(claims)}\n{_main_table(main_claims)}"
    claims["row"] = [str(row) for row in range(1, len(claims) + 1)]
    parts = [
        _counts_table(claims),
        "## The verdicts\n",
        _verdicts_table(claims),
        *_weak_part(claims),
        "## The numbers\n",
        _numbers_table(claims),
    ]
    revised = claims.loc[claims["revised"] != "", :]
    if len(revised):
        parts += ["## Rows that were revised after their numbers were seen\n", _revised(revised)]
    return "\n".join(parts)


def in_sentences(root: Path) -> dict[str, str]:
    """Return each claim with its place in the papers, and its verdicts, for boxes in notebooks.

    The names are made from the words of a claim: ``claim.slide_agrees_with_people`` and so on, and
    ``verdict.slide_agrees_with_people``.
    """
    words = {}
    for claim in judged(root).to_dict(orient="records"):
        name = _name(claim["claim"])
        place = "" if claim["question"] else f" ({claim['source']})"
        words[f"claim.{name}"] = claim["claim"] + place
        if not claim["ours"]:
            parts = [f"**{claim['verdict']}**"]
        else:
            parts = [f"with *paper* **{claim['verdict']}**", f"with *ours* **{claim['ours']}**"]
        if claim["simulated"]:
            parts.append(f"it {claim['simulated']} from a small model as good as printed")
        if claim["weak"]:
            parts[0] = f"strong judge: {parts[0]}"
            parts.append(f"weak judge: with *ours* **{claim['weak']}**")
        if claim["weak_simulated"]:
            parts.append(f"it {claim['weak_simulated']} from a small model as good as printed")
        words[f"verdict.{name}"] = "; ".join(parts)
    return words


def names(root: Path) -> list[str]:
    """Return the names of `in_sentences`, which need no results."""
    claims = pd.read_csv(root / CLAIMS, dtype=str, keep_default_na=False)
    slugs = [_name(claim) for claim in claims["claim"]]
    return [f"{kind}.{slug}" for slug in slugs for kind in ("claim", "verdict")]


def _name(claim):
    """Return a claim's words as a name."""
    return re.sub(r"\W+", "_", claim.lower()).strip("_")


def _table(header, alignment, rows):
    """Return a Markdown table; an empty cell becomes a dash."""
    cells = [[cell or _NOT_ASKED for cell in row] for row in rows]
    return f"{header}\n{alignment}\n{markdown_rows(cells)}\n"


def _bold(claims, *columns):
    """Return claims with the words of some columns in bold."""
    bold = claims[[*columns]].map(lambda word: word and f"**{word}**")
    return claims.assign(**bold)


def _counts_table(claims):
    rows = []
    for verdict, *cells in counts(claims).to_numpy():
        rows.append([f"**{verdict}**", *map(str, cells)])
    claims = claims.loc[claims["question"] == "", :]
    n_ours = int((claims["ours"] != "").sum())
    rows.append(["all", " ", str(len(claims)), str(n_ours)])
    header = "| verdict | what it means | with the paper's small model, or none | with ours |"
    table = _table(header, "|:--|:--|--:|--:|", rows)

    n_follow = int((claims["simulated"] == FOLLOWS[True]).sum())
    n_simulated = int((claims["simulated"] != "").sum())
    sentence = (
        f"{n_simulated} of the claims were also simulated with a small model as good as printed: "
        f"{n_follow} would follow from one."
    )
    return f"{table}\n{sentence}\n"


def _main_table(claims):
    columns = ["claim", "verdict", "ours", "simulated", "notebook"]
    header = "| what the papers say | paper's small model | ours | as good as printed | notebook |"
    return _table(header, "|:--|:--|:--|:--|:--|", claims[columns].to_numpy())


def _verdicts_table(claims):
    lacking = [f" (Not available: {premise}.)" if premise else "" for premise in claims["premise"]]
    shown = _bold(claims.assign(claim=claims["claim"] + lacking), "verdict", "ours")
    columns = ["row", "claim", "source", "verdict", "ours", "simulated", "notebook"]
    header = "| row | what the papers say | where | paper's, or none | ours | if as printed | in |"
    return _table(header, "|--:|:--|:--|:--|:--|:--|:--|", shown[columns].to_numpy())


def _weak_part(claims):
    """Return the verdicts with a weak judge, which stand in a table of their own."""
    claims = claims.loc[claims["weak"] != "", :]
    if claims.empty:
        return []
    columns = ["row", "claim", "weak", "weak_number", "weak_visible"]
    columns += ["weak_simulated", "weak_simulated_number"]
    header = (
        "| row | what the papers say | ours | its number | could be seen | if as printed "
        "| its number |"
    )
    rows = _bold(claims, "weak")[columns].to_numpy()
    table = _table(header, "|--:|:--|:--|--:|--:|:--|--:|", rows)
    return ["## The verdicts with a weak judge\n", table]


def _numbers_table(claims):
    columns = ["row", "measure", "printed", "verdict_number", "ours_number", "simulated_number"]
    columns += ["visible", "resampled"]
    header = (
        "| row | what is measured | in the paper | paper's, or none | ours | if as printed "
        "| could be seen | resampled |"
    )
    return _table(header, "|--:|:--|:--|--:|--:|--:|--:|:--|", claims[columns].to_numpy())


def _revised(claims):
    rows = claims[["row", "revised"]].to_numpy()
    return _table("| row | what changed, and why |", "|--:|:--|", rows)


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
    """Return the words on one claim, and their numbers as text."""
    outcome = {"measure": _cell(claim, claim["effect"], results).in_words(claim["measure"])}
    visible = {}
    for name, prefix in {"verdict": "", "ours": "ours_", "weak": "weak_"}.items():
        outcome[name], outcome[f"{name}_number"], visible[name] = _decided(claim, prefix, results)
    outcome |= {"visible": visible["verdict"] or visible["ours"], "weak_visible": visible["weak"]}
    for prefix, form in (("", "simulated_measured"), ("weak_", "weak_measured")):
        outcome |= {f"{prefix}simulated": "", f"{prefix}simulated_number": ""}
        if claim[f"{prefix}simulated_effect"]:
            effect = _cell(claim, claim[f"{prefix}simulated_effect"], results)
            verdict = _verdict(claim, effect, results)
            outcome[f"{prefix}simulated"] = FOLLOWS[verdict in ("reproduced", "smaller")]
            if prefix and verdict == "not shown":  # few pairs: the simulations have many draws
                outcome[f"{prefix}simulated"] = TOO_FEW
            outcome[f"{prefix}simulated_number"] = effect.in_words(claim[form])
    return outcome


def _decided(claim, prefix, results):
    """Return the verdict of the columns with a prefix, its number, and the effect to be seen.

    All are "" without an effect, and the last one for every verdict but *not shown*.
    """
    if not claim[f"{prefix}effect"]:
        return "", "", ""
    effect = _cell(claim, claim[f"{prefix}effect"], results)
    verdict = "not testable"
    visible = ""
    if _premise_is_met(claim, prefix, results):
        verdict = _verdict(claim, effect, results)
    if verdict == "not shown":
        smallest = stats.smallest_seen(effect.number("_low"), effect.number("_high"))
        visible = number(smallest, 2 if smallest < 1 else 1)
    if claim["question"]:
        verdict = ANSWERS.get(verdict, verdict)
    return verdict, effect.in_words(claim[f"{prefix}measured"]), visible


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
    table, row, column = fields
    row_values = row.split("; ")
    if "=" in row:
        row_values = [str(methods.from_text(row))]
    return _Cell(results / f"{table}.csv", row_values, column)


def write(settings) -> str:
    return ""
