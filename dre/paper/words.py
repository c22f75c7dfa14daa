"""Numbers in words: what the cells of notebooks say by name (`dre.paper.notebook.Book.say`) stands in README, docs and prose.

Two comments that no reader sees enclose it; a notebook's own names stand alone, those of others after its number::

    correlates at <!--slm-->0.19 / 0.21 / −0.12<!--/-->, and is right in <!--03.right-->87.8<!--/--> % of cases
    <!--docs/verdicts.md-->the text of this file, or the rows of a CSV<!--/-->

All other comments are left as they are.
"""

import ast
import json
import re
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.files import replace
from dre.paper import verdicts
from dre.paper.headless import code_cells, source
from dre.paper.profile import COMMITTED
from dre.tables import PARTS, Table

SAYS = re.compile(r"book\.say\(")
MARK = re.compile(r"<!--([\w./]+)-->")
PLACE = re.compile(r"<!--(\w[\w./]*)-->(?:(?!<!--).)*<!--/-->", re.DOTALL)


def check(root, books):
    """Raise DreError where prose of the project in `root` shows a name that no cell of `books` says; nothing is run."""
    names = []
    for book in books:
        for cell in filter(SAYS.search, map(source, code_cells(book.content))):
            calls = [node for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Call)]
            calls = [node for node in calls if SAYS.match(ast.unparse(node))]
            names += [
                f"{book.name[:2]}.{keyword.arg}" for node in calls for keyword in node.keywords
            ]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DreError(f"{min(twice)} is said twice: a name stands for one number of a notebook")
    fill(root, write=False, words=dict.fromkeys(names, ""))


def said(root):
    """Return what the notebooks of a project have said, in their last runs, by full name."""
    files = {path.stem[:2]: path for path in root.glob(f"results/{COMMITTED}/words/*.json")}
    words = {number: json.loads(path.read_text(encoding="utf-8")) for number, path in files.items()}
    return {f"{number}.{name}": text for number in words for name, text in words[number].items()}


def fill(root, write=True, words=None):
    """Fill all places of the project in `root`; return the paths of the files in which that changes something.

    With `write` False none is changed. `words`: by full name, by default what is `said`.
    """
    files, words, changed = words is None, said(root) if words is None else words, []
    # docs first: README and a notebook include one of them
    for path in (
        *sorted(root.glob("docs/*.md")),
        *root.glob("README.md"),
        *sorted(root.glob("notebooks/*.ipynb")),
    ):
        text = after = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            after = _filled(text, path, root, words, files)
        elif MARK.search(text):
            book = json.loads(text)
            for cell in (cell for cell in book["cells"] if cell["cell_type"] == "markdown"):
                cell["source"] = _filled(
                    "".join(cell["source"]), path, root, words, files
                ).splitlines(keepends=True)
            after = json.dumps(book, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        if after != text:
            changed.append(path)
            if write:
                replace(path, after)
    return changed


def _of_file(root, name, place):
    """Return what a file is shown as: its text, the rows of a CSV, or the verdicts on its claims (README: the main)."""
    if name == verdicts.CLAIMS:
        return verdicts.markdown(root, main=place.name == "README.md")
    if name.endswith(".csv"):
        table = pd.read_csv(root / name)
        own = [column for column in table if not column.endswith(PARTS)]
        return (
            Table(table, Path(name).stem, name, rows=len(table), columns=own)
            .markdown()
            .partition("\n\n")[2]
        )
    return re.sub("<!--.*?-->", "", (root / name).read_text(encoding="utf-8"), flags=re.DOTALL)


def _filled(text, path, root, words, files):
    """Return the text of a file or cell with its places filled; an unknown name or half a place is a DreError.

    Without `files`, before a run, what stands for a file of results stays as it is.
    """
    own = path.name[:2]

    def shown(place):
        name = place[1]
        if name.endswith(".csv") and not files:
            return place[0]
        if (root / name).is_file():
            return f"<!--{name}-->\n\n{_of_file(root, name, path).strip()}\n\n<!--/-->"
        if (full := name if "." in name else f"{own}.{name}") not in words:
            raise DreError(
                f"{path.name}: <!--{name}--> is no file, and no cell says it: book.say(..., {name}=...)"
            )
        return f"<!--{name}-->{words[full]}<!--/-->"

    for name in MARK.findall(PLACE.sub("", text)):
        if {name, f"{own}.{name}"} & {"/", *words}:
            raise DreError(f"{path.name}: <!--{name}--> is half a place: <!--name-->words<!--/-->")
    return PLACE.sub(shown, text)
