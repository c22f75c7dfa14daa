"""One static page on scores: means, comparisons, the worst replies, and where scores disagree."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre.score import systems
from dre.tables import EMPTY, number
from dre.templates import render

TEMPLATE = Path(__file__).with_name("report.html")
_WORST = 20  # replies that are shown
_MOST_DISAGREEMENTS = 10  # of systems, and of judge and SLM
_MOST_STROKES = 150  # single scores of a system in the picture; of more, as many quantiles
_AXIS_STEPS = 6  # at most so many on the axis of the picture
_MARGIN = 3  # percent of the picture's width left and right of the lowest and highest score
_SMALLEST_P = 0.001  # a smaller one is not printed

#: Printed names of columns.
_HEADERS = {
    "n_missing": "missing",
    "score_slm": "small model",
    "score_llm": "judge",
    "p_holm": "p (Holm)",
    "n_contexts": "contexts",
    "visible": "could be seen",
}
_SYSTEM_COLUMNS = ("system", "n", "n_missing", *systems.MEASURES)
_COMPARISON_COLUMNS = ("a", "b", "measure", "difference", "p_holm", "n_contexts", "visible")


class Cell(NamedTuple):
    """A cell of a table: its column's name, a text, and its interval, "" if it has none."""

    header: str
    text: str
    interval: str


class Strip(NamedTuple):
    """A system in the picture. Places are percent of the picture's width.

    ``strokes`` are those of single scores, and ``mean``, ``low`` and ``high`` those of the mean
    with its interval; ``low`` and ``high`` are None where there is no interval.
    """

    system: str
    n: int
    strokes: list[float]
    mean: float
    low: float | None
    high: float | None
    text: str  # what the picture shows, in words


def page(table: pd.DataFrame, pairs: pd.DataFrame, summary: dict) -> str:
    """Return the page as HTML; every text is escaped.

    Parameters
    ----------
    table
        The scores, as ``dre score`` writes them.
    pairs
        The contexts and responses they are of, row by row.
    summary
        What ``dre score`` says about them, with its signature as a line.
    """
    table = table.assign(context=pairs["context"].to_numpy(), response=pairs["response"].to_numpy())
    for column in ("system", "reason", "left_out"):
        table[column] = table[column].astype(object).fillna("")
    scored = table[table["score"].notna()]
    worst = pd.DataFrame(scored).nsmallest(_WORST, "score")
    disputed = _disputed(scored)

    columns = systems.without_repeats(summary["systems"], _SYSTEM_COLUMNS)
    comparisons = systems.comparison_rows(summary) if summary["comparisons"] else []
    strips, axis = _picture(scored, summary["systems"])
    return render(
        TEMPLATE,
        input=summary["input"],
        scale=summary["scale"],
        contexts=summary["contexts"],
        signature=summary["signature"],
        notes=summary["notes"],
        strips=strips,
        axis=axis,
        systems=_cells(summary["systems"], columns),
        comparisons=_cells(comparisons, _COMPARISON_COLUMNS),
        shows_all=len(scored) <= _WORST,
        worst=_cards(_single_rows(worst), ["score"]),
        between=_cards(_far_apart(scored), ["score"]),
        apart=_cards(_single_rows(disputed), ["score_slm", "score_llm"]),
    )


def _picture(scored, rows) -> tuple[list[Strip], list[tuple[str, float]]]:
    """Return a strip for each system with scores, and the axis: texts and their places."""
    scores = scored["score"]
    if scores.empty:
        return [], []
    axis_values = _axis(scores.min(), scores.max())
    first = min(axis_values[0], scores.min())
    last = max(axis_values[-1], scores.max())

    def place(value) -> Any:
        if value is None:
            return None
        from_left = (100 - 2 * _MARGIN) * float(value - first) / (last - first)
        return round(_MARGIN + from_left, 2)

    strips = []
    for row in rows:
        own_scores = scores[scored["system"] == row["system"]].to_numpy(float)
        if row.get("score") is None:
            continue
        strokes = own_scores
        if len(strokes) > _MOST_STROKES:
            strokes = np.quantile(strokes, np.linspace(0, 1, _MOST_STROKES))
        low = row.get("score_low")
        high = row.get("score_high")
        text = f"mean {number(row['score'])}"
        if low is not None:
            text += f", 95 % interval {number(low)} to {number(high)}"
        text += f"; scores from {number(own_scores.min())} to {number(own_scores.max())}"
        strip = Strip(
            system=row["system"],
            n=len(own_scores),
            strokes=[place(score) for score in strokes],
            mean=place(row["score"]),
            low=place(low),
            high=place(high),
            text=text,
        )
        strips.append(strip)
    step = axis_values[1] - axis_values[0]
    decimals = max(0, -math.floor(math.log10(step)))
    axis = [(number(value, decimals), place(value)) for value in axis_values]
    return strips, axis


def _axis(low: float, high: float) -> list[float]:
    """Return round values from below the lowest score to above the highest, two or more."""
    if low == high:
        low -= 0.5
        high += 0.5
    rough = (high - low) / _AXIS_STEPS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return [k * step for k in range(first, last + 1)]


def _disputed(scored):
    """Return the rows that judge and SLM rank most differently."""
    columns = ["score_slm", "score_llm"]
    has_both = scored[columns].notna().all(axis=1)
    ranks = scored.loc[has_both, columns].rank(pct=True)
    distance = (ranks["score_slm"] - ranks["score_llm"]).abs()
    return scored.loc[distance.sort_values(ascending=False).index[:_MOST_DISAGREEMENTS]]


def _far_apart(scored):
    """Return the worst and the best reply to each context in which systems differ most."""
    means = scored.groupby(["context_id", "system"])["score"].mean().unstack()
    spread = (means.max(axis=1) - means.min(axis=1)).nlargest(_MOST_DISAGREEMENTS)
    return [
        scored[scored["context_id"] == context_id].sort_values("score").iloc[[0, -1]]
        for context_id in spread[spread > 0].index
    ]


def _single_rows(table):
    """Return the rows of a table, each as a table."""
    return [table.iloc[[i]] for i in range(len(table))]


def _cells(rows: Sequence[dict], columns: Iterable[str]) -> list[list[Cell]]:
    """Return the cells of rows, in those columns that say something."""
    told = []
    for name in columns:
        if any(row.get(name) not in (None, "") for row in rows):
            told.append(name)
    return [[_cell(row, name) for name in told] for row in rows]


def _cell(row: dict, name: str) -> Cell:
    """Return the cell of a row in a column."""
    value = row.get(name)
    digits = systems.DIGITS.get(name, 2 if name in systems.MEASURES else 3)
    low = row.get(f"{name}_low")
    high = row.get(f"{name}_high")
    if isinstance(value, str) or value is None:
        text = value or EMPTY
    elif name == "p_holm" and value < _SMALLEST_P:
        text = f"below {_SMALLEST_P}"
    else:
        text = number(value, digits)
    interval = "" if low is None else f"[{number(low, digits)}, {number(high, digits)}]"
    return Cell(_HEADERS.get(name, name.replace("_", " ")), text, interval)


def _cards(groups: Iterable[pd.DataFrame], score_names: Sequence[str]) -> list[dict]:
    """Return for each context its turns, and the replies of a table to it with their scores."""
    cards = []
    for rows in groups:
        replies = rows.to_dict("records")
        for reply in replies:
            reply["scores"] = [(_HEADERS.get(name, name), reply[name]) for name in score_names]
        cards.append({"turns": rows["context"].iloc[0], "replies": replies})
    return cards
