"""One static page on scores: means, comparisons, the worst replies, and where scores disagree."""

import html
import string
from pathlib import Path

import pandas as pd

from dre.score import systems as compare
from dre.tables import number

WORST, MOST = 20, 10  # replies, disagreements that are shown
TEMPLATE = Path(__file__).with_name("report.html")


def page(table, pairs, summary):
    """Return the page as HTML, of what ``dre score`` has: scores, their pairs (row by row) and the summary."""
    table = table.assign(context=pairs["context"].to_numpy(), response=pairs["response"].to_numpy())
    table[["system", "reason"]] = table[["system", "reason"]].astype(object).fillna("")
    scored = table[table["score"].notna()]
    both = scored[["score_slm", "score_llm"]].notna().all(axis=1)
    ranks = scored.loc[both, ["score_slm", "score_llm"]].rank(pct=True)
    apart = scored.loc[
        (ranks["score_slm"] - ranks["score_llm"]).abs().sort_values(ascending=False).index[:MOST]
    ]
    by_system = scored.groupby(["context_id", "system"])["score"].mean().unstack()
    spread = (by_system.max(axis=1) - by_system.min(axis=1)).nlargest(MOST)
    between = [
        scored[scored["context_id"] == id].sort_values("score") for id in spread[spread > 0].index
    ]
    parts = {
        "systems": _table(summary["systems"], ["system", "n", "n_missing", *compare.MEASURES]),
        "comparisons": _table(
            compare.comparison_rows(summary),
            ["a", "b", "measure", "difference", "p_holm", "n_contexts", "visible"],
        ),
        "notes": "".join(f"<p>{html.escape(note)}</p>" for note in summary["notes"]),
        "worst": _cards(
            [one for _, one in scored.nsmallest(WORST, "score").groupby(level=0, sort=False)]
        ),
        "between": _cards([pd.concat([one.iloc[:1], one.iloc[-1:]]) for one in between]),
        "apart": _cards(
            [one for _, one in apart.groupby(level=0, sort=False)], ("score_slm", "score_llm")
        ),
    }
    said = {
        name: html.escape(str(summary[name]))
        for name in ("input", "scale", "contexts", "signature")
    }
    return string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(said | parts)


def _table(rows, columns):
    """Some columns of rows, with their intervals."""
    columns = [name for name in columns if any(row.get(name) not in (None, "") for row in rows)]
    lines = [[_cell(row, name) for name in columns] for row in rows]
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines
    )
    return f"<table><tr>{head}</tr>{body}</table>" if lines else "<p>There is one system.</p>"


def _cell(row, name):
    value, ends = row.get(name), [row.get(f"{name}{end}") for end in ("_low", "_high")]
    if value is None or isinstance(value, str):
        return html.escape(value or "—")
    return number(value, 3) + (
        f" [{number(ends[0], 3)}, {number(ends[1], 3)}]" if None not in ends else ""
    )


def _cards(groups, names=("score",)):
    """Contexts, each with the replies of a table to it."""
    cards = []
    for rows in groups:
        turns = "".join(
            f'<p class="turn">{html.escape(turn)}</p>' for turn in rows["context"].iloc[0]
        )
        for row in rows.to_dict("records"):
            scores = ", ".join(
                f"{name.replace('_', ' ')} <b>{number(row[name], 2)}</b>" for name in names
            )
            turns += f'<p class="reply">{html.escape(row["response"])}</p>'
            who, why = html.escape(row["system"]), html.escape(row["reason"])
            turns += f'<p class="small reply">{who} {scores} {why}</p>'
        cards.append(f"<article>{turns}</article>")
    return "".join(cards) or "<p>There is nothing to show.</p>"
