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
from dre.tables import markdown_rows

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
    listed = " or ".join(repr(status) for status in STATUSES)
    for row in items.to_dict(orient="records"):
        status = row["status"]
        in_full = row.get("full_status", "")
        faults = {
            f"found status {status!r}, expected {listed}": status not in STATUSES,
            "found no note, expected what differs or why it was not run": (
                status != "done" and not row["note"]
            ),
            "found no notebook, expected its number": (
                status != "printed only" and not row["notebook"]
            ),
            f"found full_status {in_full!r}, expected {listed}, or nothing where it is as in the "
            "other profiles": in_full and in_full not in STATUSES,
            "found no test, expected the one that runs its code path in full": (
                in_full == "done" and not row["test"]
            ),
            "found no full_note, expected what becomes of it in full": (
                in_full and not row["full_note"]
            ),
        }
        for fault, is_there in faults.items():
            if is_there:
                raise DreError(f"{ITEMS}, {row['paper']}, {row['item']!r}: {fault}")
    return items


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
    for paper, items_of_paper in items.groupby("paper", sort=False):
        rows = [["item", "status", "what differs, or why not", "in `full`", "notebook"]]
        for item in items_of_paper.to_dict(orient="records"):
            notebook = item["notebook"]
            link = ""
            if notebook:
                name, number = cell_of(root, notebook, item["cell_with"])
                label = notebook if number is None else f"{notebook}, cell {number}"
                link = f"[{label}](../notebooks/{name})"
            status = f"**{item['status']}**"
            rows.append([item["item"], status, item["note"], _in_full(item), link])
        blocks.append(f"## {paper}\n\n{_table('|:--|:--|:--|:--|:--|', rows)}")
    return "\n\n".join(blocks) + "\n"


def _in_full(row):
    """Return what becomes of an item in profile ``full``, and the test that runs its code path."""
    if not row["full_status"]:
        return ""
    text = f"**{row['full_status']}**: {row['full_note']}"
    return f"{text} (`{row['test']}`)" if row["test"] else text


def _table(alignment, rows):
    """Return a Markdown table, whose first row is the header."""
    header, *lines = markdown_rows(rows).splitlines()
    return "\n".join([header, alignment, *lines])


def _counts(items):
    """Return a table that counts the statuses of each paper."""
    counts = pd.crosstab(items["paper"], items["status"], margins=True, margins_name="all")
    counts = counts.reindex([*items["paper"].unique(), "all"], columns=list(STATUSES))
    rows = [["paper", *STATUSES]]
    for row in counts.fillna(0).astype(int).itertuples():
        rows.append([str(cell) for cell in row])
    return _table("|:--|--:|--:|--:|", rows)
