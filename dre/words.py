"""Numbers in words: README, docs and the markdown cells of notebooks take them from the CSVs of ``results/``.

A place names a table, the conditions that select one of its rows, and what to say of that row; `fill` writes the words
between the two comments, which no reader sees::

    accuracy <!-- table3 | model=SLM (Prob & Dis), recipe=paper | {overall:.1f} % --><!-- end -->
    <!-- include results/public/table3.md --><!-- end -->

``table3`` is ``results/public/table3.csv``. A table of one row needs no condition. Numbers are rounded as in tables.
"""

import csv
import json
import re
import string

from dre.errors import DreError
from dre.report import number, replace

PLACE = re.compile(
    r"(?P<head><!-- (?:include (?P<path>\S+)|(?P<table>\w+) \|(?P<where>[^|]*)\| (?P<form>.+?)) -->)"
    r".*?<!-- end -->",
    re.DOTALL,
)


def fill(root, write=True):
    """Fill all places of the project in `root`; return the paths of the files that changed.

    With `write` False no file is changed: the paths are those in which a place is unfilled or stale.
    """
    changed = []
    # docs first: README and a notebook include one of them
    for path in (*sorted(root.glob("docs/*.md")), *root.glob("README.md"), *sorted(root.glob("notebooks/*.ipynb"))):
        after = text = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            after = filled(text, root, path.name)
        elif "<!-- " in text:
            book = json.loads(text)
            for cell in book["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = filled("".join(cell["source"]), root, path.name).splitlines(keepends=True)
            after = json.dumps(book, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        if after != text:
            changed.append(path)
            if write:
                replace(path, after)
    return changed


def filled(text, root, where):
    """Return `text` with every place filled from the project in `root`; an error names the file, `where`, and place."""
    after, places = PLACE.subn(lambda place: f"{place['head']}{_said(place, root, where)}<!-- end -->", text)
    if text.count("<!-- ") != 2 * places:
        raise DreError(f"{where}: {text.count('<!-- ')} comments, but {places} places; each place needs one end")
    return after


def _said(place, root, where):
    """Return the words of one place (a match of PLACE)."""
    name, shown = place["path"] or f"results/public/{place['table']}.csv", f"{where}: {place['head']}"
    if not (root / name).is_file():
        raise DreError(f"{shown}: there is no {name}; run make paper PROFILE=public, or correct the name")
    if place["path"]:
        text = re.sub("<!--.*?-->", "", (root / name).read_text(encoding="utf-8"))
        return f"\n\n{text.strip()}\n\n"
    with open(root / name, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # A value may contain commas, as long as no ``name=`` follows.
    parts = [part.partition("=") for part in re.split(r",\s*(?=\w+=)", place["where"].strip()) if part]
    try:
        found = [row for row in rows if all(row[column.strip()] == value.strip() for column, _, value in parts)]
        if len(found) != 1:
            raise DreError(f"{shown}: the conditions select {len(found)} rows of {len(rows)}, expected exactly one")
        return _Words().vformat(place["form"], (), found[0])
    except KeyError as error:
        raise DreError(f"{shown}: the table has no column {error}, but {', '.join(rows[0])}") from error
    except (ValueError, IndexError, AttributeError) as error:
        raise DreError(f"{shown}: cannot say this: {error}") from error


class _Words(string.Formatter):
    """Formats the cells of a CSV: numbers as numbers, others as they are."""

    def format_field(self, value, spec):
        if value == "":
            raise ValueError("this value is missing in the table")
        return number(value, spec) if spec else value
