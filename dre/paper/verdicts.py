"""Verdicts by one rule: what the papers claim, what was measured, and the word that follows.

``data/claims.csv`` has a row for each claim: its words, the effect that measures it (a row and a column of a table in
``results/public``), the value of no effect, the papers' side of that (``+`` or ``-``), the printed size, and the
premise it needs. `word` makes the verdict of these; nobody writes one. A second effect, of notebook 11, says what holds
given the premise. A number of the table is written out, or stands as ``table: row, values: column``.
"""

import pandas as pd

from dre.errors import DreError
from dre.paper.profile import COMMITTED
from dre.paper.sentences import in_words

CLAIMS = "data/claims.csv"
LEGEND = {
    "reproduced": "the interval excludes no effect on the papers' side, and holds the printed size or more",
    "smaller": "the same, below the printed size",
    "not shown": "it holds no effect and the printed size, or none is printed",
    "not supported": "it holds no effect, and excludes the printed size",
    "contradicted": "it excludes no effect on the other side",
    "not testable": "the premise is not met: an SLM half as good as printed, the same sets, LLMs and treatment",
}


def word(low, high, none=0.0, size=None, side=1):
    """Return the verdict on an effect with the interval ``low`` to ``high``, in words of `LEGEND`.

    ``none``: the value of no effect; ``side``: 1 if the papers' side lies above it, -1 below; ``size``: what they print
    in the unit of the effect, or None.
    """
    low, high = sorted((side * (low - none), side * (high - none)))
    size = None if size is None else side * (size - none)
    if low > 0:
        return "smaller" if size is not None and high < size else "reproduced"
    if high < 0:
        return "contradicted"
    return "not supported" if size is not None and high < size else "not shown"


def judged(root):
    """Return the claims of a project as a table, with ``verdict`` and, where it applies, ``given`` (the premise)."""
    claims = pd.read_csv(root / CLAIMS, dtype=str, keep_default_na=False)
    found = [_judged(claim, root) for claim in claims.to_dict("records")]
    return claims.assign(**pd.DataFrame(found, index=claims.index))


def markdown(root, main=False):
    """Return the claims and their verdicts as a Markdown table and a legend; with ``main`` those marked so, alone."""
    table = judged(root)
    table = table[table["main"] == "yes"] if main else table
    lines = [
        "| what the papers say | in print | measured here | verdict | given the premise | notebook |"
    ]
    lines += ["|:--|:--|:--|:--|:--|:--|"]
    for row in table.to_dict("records"):
        cells = [
            row["claim"],
            row["print"],
            row["measured"],
            f"**{row['verdict']}**",
            row["given"],
            row["notebook"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    legend = "; ".join(f"*{name}*: {text}" for name, text in LEGEND.items())
    return "\n".join([*([] if main else [f"{legend}. Brackets: 95 % intervals.", ""]), *lines, ""])


def _judged(claim, root):
    """The verdicts of one claim, and its numbers in words."""

    def cell(text):
        """The CSV, the values of its row and the column of ``table: row; values: column``."""
        parts = [part.strip() for part in text.split(":")]
        if len(parts) != 3:
            what = "expected a number, or table: row; values: column"
            raise DreError(f"{CLAIMS}, {claim['claim']!r:.60}: found {text!r}, {what}")
        return root / f"results/{COMMITTED}/{parts[0]}.csv", parts[1].split("; "), parts[2]

    def number(text, end=""):
        if not text or text.lstrip("-").replace(".", "").isdigit():
            return float(text) if text else None
        path, values, column = cell(text)
        return float(in_words(path, values, f"{{{column}{end}}}"))

    def verdict(effect):
        ends = number(effect, "_low"), number(effect, "_high")
        return word(
            *ends, number(claim["none"]), number(claim["size"]), {"+": 1, "-": -1}[claim["side"]]
        )

    made, met = {"verdict": "not testable", "given": ""}, not claim["premise"]
    if claim["least"]:  # a premise without a number is one that nothing here meets
        met = number(claim["premise"]) >= number(claim["least"])
    made["verdict"] = verdict(claim["effect"]) if met else "not testable"
    made["measured"] = (
        in_words(*cell(claim["effect"])[:2], claim["measured"])
        if claim["effect"]
        else claim["measured"]
    )
    if claim["given_effect"]:
        said = in_words(*cell(claim["given_effect"])[:2], claim["given_measured"])
        made["given"] = f"{said}: **{verdict(claim['given_effect'])}**"
    return made
