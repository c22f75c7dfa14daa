"""One static page on scores: means, comparisons, the worst replies, and where scores disagree."""

import html
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dre.score import systems
from dre.tables import number

_WORST = 20  # replies that are shown
_MOST_DISAGREEMENTS = 10  # of systems, and of judge and SLM
TEMPLATE = Path(__file__).with_name("report.html")


def page(table: pd.DataFrame, pairs: pd.DataFrame, summary: dict[str, Any]) -> str:
    """Return the page as HTML.

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
    for column in ("system", "reason"):
        table[column] = table[column].astype(object).fillna("")
    scored = table[table["score"].notna()]
    worst = pd.DataFrame(scored).nsmallest(_WORST, "score")
    disputed = _disputed(scored)

    system_columns = ["system", "n", "n_missing", *systems.MEASURES]
    comparison_columns = ["a", "b", "measure", "difference", "p_holm", "n_contexts", "visible"]
    notes = [f"<p>{html.escape(note)}</p>" for note in summary["notes"]]
    sections = {
        "systems": _table(summary["systems"], system_columns),
        "comparisons": _table(systems.comparison_rows(summary), comparison_columns),
        "notes": "".join(notes),
        "worst": _cards(_single_rows(worst), ["score"]),
        "between": _cards(_far_apart(scored), ["score"]),
        "apart": _cards(_single_rows(disputed), ["score_slm", "score_llm"]),
    }
    for name in ("input", "scale", "contexts", "signature"):
        sections[name] = html.escape(str(summary[name]))
    template = string.Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(sections)


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
    groups = []
    for context_id in spread[spread > 0].index:
        rows = scored[scored["context_id"] == context_id].sort_values("score")
        groups.append(pd.concat([rows.iloc[:1], rows.iloc[-1:]]))
    return groups


def _single_rows(table):
    """Return the rows of a table, each as a table."""
    return [table.iloc[[i]] for i in range(len(table))]


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return those columns of rows that say something, with their intervals."""
    if not rows:
        return "<p>There is one system.</p>"
    columns = [name for name in columns if any(row.get(name) not in (None, "") for row in rows)]
    headers = [systems.HEADERS.get(name, name.replace("_", " ")) for name in columns]
    head = "".join(f"<th>{header}</th>" for header in headers)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{_cell(row, name)}</td>" for name in columns)
        body += f"<tr>{cells}</tr>"
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(row, name):
    """Return a cell: a text, or a number with its interval if it has one."""
    value = row.get(name)
    if value is None or value == "":
        return "—"
    if isinstance(value, str):
        return html.escape(value)
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None:
        return number(value, 3)
    return f"{number(value, 3)} [{number(low, 3)}, {number(high, 3)}]"


def _cards(groups: Iterable[pd.DataFrame], score_names: Sequence[str]) -> str:
    """Return a card for each context, with the replies of a table to it and their scores."""
    cards = []
    for rows in groups:
        lines = [f'<p class="turn">{html.escape(turn)}</p>' for turn in rows["context"].iloc[0]]
        for row in rows.to_dict("records"):
            scores = [
                f"{name.replace('_', ' ')} <b>{number(row[name], 2)}</b>" for name in score_names
            ]
            system, reason = html.escape(row["system"]), html.escape(row["reason"])
            lines.append(f'<p class="reply">{html.escape(row["response"])}</p>')
            lines.append(f'<p class="small reply">{system} {", ".join(scores)} {reason}</p>')
        cards.append(f"<article>{''.join(lines)}</article>")
    return "".join(cards) or "<p>There is nothing to show.</p>"
