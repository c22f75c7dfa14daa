"""What became of every item of the four papers: the tables of docs/coverage.md.

``data/paper/items.csv`` has a row for each equation, algorithm, prompt, table, figure and claim.
Its ``cell_with`` is a text that stands in the cell where the item is: the page names that cell.
``full_status`` and ``full_note`` say what becomes of it in profile ``full``, where that is another
thing. ``test`` names the test that runs its code path.
"""

import json
from pathlib import Path

import pandas as pd

from dre.errors import DreError

ITEMS = "data/paper/items.csv"
#: The words of column ``status``, and what they mean.
STATUSES = {
    "done": "it is computed, drawn or run here",
    "partly": "something differs or is missing, as the row says",
    "printed only": "only the paper has it, for the reason that the row gives",
}


def load(root: Path) -> pd.DataFrame:
    """Return the items of the papers as text; an item without a valid status is a DreError."""
    items = pd.read_csv(root / ITEMS, dtype=str, keep_default_na=False)
    for row in items.to_dict(orient="records"):
        location = f"{ITEMS}, {row['paper']}, {row['item']!r}"
        status = row["status"]
        if status not in STATUSES:
            raise DreError(f"{location}: found status {status!r}, expected {_listed(STATUSES)}")
        if status != "done" and not row["note"]:
            raise DreError(
                f"{location}: found no note, expected what differs or why it was not run"
            )
        if status != "printed only" and not row["notebook"]:
            raise DreError(f"{location}: found no notebook, expected its number")
        in_full = row.get("full_status", "")
        if in_full and in_full not in STATUSES:
            raise DreError(
                f"{location}: found full_status {in_full!r}, expected {_listed(STATUSES)}, or "
                "nothing where it is as in the other profiles"
            )
        if in_full == "done" and not row["test"]:
            raise DreError(
                f"{location}: found no test, expected the one that runs its code path in full"
            )
        if in_full and not row["full_note"]:
            raise DreError(f"{location}: found no full_note, expected what becomes of it in full")
    return items


def _listed(words):
    return " or ".join(repr(word) for word in words)


def cell_of(root: Path, notebook: str, text: str) -> tuple[str, int | None]:
    """Return the file name of a notebook, and the number of the code cell where an item is.

    Parameters
    ----------
    root : Path
        The folder of the project.
    notebook : str
        The number of the notebook, such as ``"04"``.
    text : str
        What stands in the cell or, if that is a text, before it. Without such a cell the number is
        None.
    """
    paths = sorted((root / "notebooks").glob(f"{notebook}_*.ipynb"))
    if not paths:
        raise DreError(f"{ITEMS}: found notebook {notebook}, which does not exist")
    cells = json.loads(paths[0].read_text(encoding="utf-8"))["cells"]
    number = 0
    is_found = False
    for cell in cells:
        content = "".join(cell["source"]) + json.dumps(cell["metadata"])
        is_found = is_found or (bool(text) and text in content)
        if cell["cell_type"] == "code":
            number += 1
            if is_found:
                return paths[0].name, number
    return paths[0].name, number if is_found else None


def markdown(root: Path) -> str:
    """Return the counts of statuses and a table for each paper, in Markdown."""
    items = load(root)
    blocks = [_counts(items)]
    for paper, rows in items.groupby("paper", sort=False):
        lines = [
            f"## {paper}\n",
            "| item | status | what differs, or why not | in `full` | notebook |",
            "|:--|:--|:--|:--|:--|",
        ]
        for row in rows.to_dict(orient="records"):
            notebook = row["notebook"]
            link = ""
            if notebook:
                name, number = cell_of(root, notebook, row["cell_with"])
                label = notebook if number is None else f"{notebook}, cell {number}"
                link = f"[{label}](../notebooks/{name})"
            cells = [row["item"], f"**{row['status']}**", row["note"], _in_full(row), link]
            lines.append(f"| {' | '.join(cells)} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _in_full(row):
    """Return what becomes of an item in profile ``full``, and the test that runs its code path."""
    if not row["full_status"]:
        return ""
    text = f"**{row['full_status']}**: {row['full_note']}"
    return f"{text} (`{row['test']}`)" if row["test"] else text


def _counts(items):
    """Return a table that counts the statuses of each paper."""
    counts = pd.crosstab(items["paper"], items["status"])
    counts = counts.reindex(columns=list(STATUSES), fill_value=0)
    counts = counts.reindex(items["paper"].unique())
    lines = [f"| paper | {' | '.join(STATUSES)} |", "|:--|--:|--:|--:|"]
    for paper, numbers in counts.iterrows():
        lines.append(f"| {paper} | {' | '.join(str(number) for number in numbers)} |")
    total = counts.sum()
    lines.append(f"| all | {' | '.join(str(number) for number in total)} |")
    return "\n".join(lines)
