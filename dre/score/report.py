"""One static page on scores: means, a picture of all scores, the lowest replies and why."""

import html
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dre.judges import is_recording
from dre.score import systems
from dre.tables import number, with_interval

_LOWEST = 20  # replies that are shown
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:45em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left}"
    "pre{white-space:pre-wrap;background:#f4f4f4;padding:.5em}svg{width:100%}"
    "main>div{overflow-x:auto}"
)


def page(metric: Any, pairs: pd.DataFrame, table: pd.DataFrame, summary: Mapping) -> str:
    """Return the page as HTML, in which every text is escaped. It loads nothing.

    Parameters
    ----------
    metric : the `dre.DRE` that scored.
    pairs : the pairs, row by row those of ``table``.
    table : the scores.
    summary : what `dre.score.systems.summarise` says of them, with ``scale`` and ``notes``.
    """
    means = [
        {"system": row["system"] or "(no name)", "n": row["n"]}
        | {name: _mean(row, name) for name in ("score", *systems.BASELINES)}
        for row in summary["systems"]
    ]
    lowest = pd.Series(table["score"]).nsmallest(_LOWEST).index
    replies = [_reply(pairs.loc[i], table.loc[i], _asked(metric, pairs, table, i)) for i in lowest]
    sentences = [*systems.verdict(dict(summary)), *summary["notes"]]
    parts = [
        f"<p>Score: {_text(summary['scale'])}. In brackets 95 % over contexts.</p>",
        f"<div>{_table(means)}</div>",
        _picture(table),
        *(f"<p>{_text(sentence)}</p>" for sentence in sentences),
        "<h2>The lowest replies</h2>",
        *replies,
        f"<p><small>{_text(metric.signature())}</small></p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Scores</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style></head><body><main><h1>Scores</h1>{''.join(parts)}"
        "</main></body></html>\n"
    )


def _mean(row, name):
    """Return a mean as text, with its interval where there is one."""
    if row.get(name) is None:
        return ""
    has_interval = row.get(f"{name}_low") is not None
    return with_interval(row, name, ".2f") if has_interval else number(row[name])


def _table(rows):
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table: Any = pd.DataFrame(rows, columns=columns)
    return table.to_html(index=False, border=0, na_rep="")


def _text(value):
    return html.escape(str(value))


def _picture(table):
    """Return a picture with a line for each system and a stroke for each score."""
    low, high = table["score"].min(), table["score"].max()
    scale = 560 / (high - low or 1)
    lines = []
    for row, (system, scores) in enumerate(table.dropna(subset="score").groupby("system")["score"]):
        y = 40 * row + 20
        lines.append(f'<text x="0" y="{y - 4}">{_text(system)}</text>')
        for x in 20 + (scores - low) * scale:
            lines.append(f'<path d="M{x:.1f} {y}v12" stroke="#0006"/>')
    bottom = 40 * table["system"].nunique() + 20
    ends = f'<text x="20" y="{bottom}">{number(low)}</text>'
    ends += f'<text x="580" y="{bottom}" text-anchor="end">{number(high)}</text>'
    label = "The score of each reply, by system"
    box = f"0 0 600 {bottom + 8}"
    return f'<svg viewBox="{box}" role="img" aria-label="{label}">{"".join(lines)}{ends}</svg>'


def _asked(metric, pairs, table, index):
    """Return what a judge was asked about a pair, and what it said; "" where none was asked."""
    if metric.judge is None or is_recording(metric.judge.spec) or not metric.prompt:
        return ""
    if not hasattr(metric.judge, "requests"):  # a function of the user's
        return ""
    numbers = table.rename(columns={"scaled_distance": "s_d", "fits": "s_p"})
    extra = [name for name in ("s_d", "s_p", "score_slm") if name in numbers]
    rows = metric.for_prompt(pairs.join(numbers[extra]).loc[[index]])
    requests = metric.judge.requests(rows, metric.prompt)
    texts = [message["content"] for message in requests[0].messages]
    stored = metric.judge.store.get([request.key for request in requests])
    return "\n\n".join([*texts, *(f"Reply: {reply.text}" for reply, *_ in stored.values())])


def _reply(pair, row, asked):
    turns = "".join(f"<br>{_text(turn)}" for turn in pair["context"])
    asked = f"<details><summary>The judge</summary><pre>{_text(asked)}</pre></details>"
    reason = f"<p>{_text(row['reason'])}</p>" if row["reason"] else ""
    system = f"{_text(row['system'])}, " if row["system"] else ""
    return (
        f"<h3>{number(row['score'])} ({system}id {_text(row['id'])})</h3><p>{turns[4:]}</p>"
        f"<p>→ {_text(pair['response'])}</p>{reason}{asked if 'Reply: ' in asked else ''}"
    )
