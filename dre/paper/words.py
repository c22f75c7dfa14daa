"""Numbers in words: numbers that cells of notebooks name, in README and docs.

`dre.paper.notebook.Book.note` names numbers. A place for one is enclosed by two comments that no
reader sees. The name comes after the number of the notebook::

    correlates at <!--04.slm-->0.19<!--/-->, and is right in <!--03.right-->87.8<!--/--> % of cases

A place can also be named after a file, and then shows its text, or the rows of a CSV. Notebooks may
have places of this kind, too::

    <!--docs/verdicts.md--> ... <!--/-->

So may a claim of ``data/claims.csv`` and its verdict, by the words of the claim::

    <!--claim.the_best_threshold_is_0_5--> ... <!--/-->

All other comments are left as they are.
"""

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dre.errors import DreError
from dre.files import replace
from dre.paper import coverage, verdicts
from dre.paper.headless import Notebook, code_cells, source
from dre.paper.profile import COMMITTED
from dre.tables import ENDINGS, Table

_NAMING_CALL = "book.note("
_MARK = re.compile(r"<!--([\w./]+)-->")
_MARKED_TEXT = re.compile(r"<!--(\w[\w./]*)-->(?:(?!<!--).)*<!--/-->", re.DOTALL)


def check_names(root: Path, books: Sequence[Notebook]) -> None:
    """Raise a DreError where README or docs show a name that no cell of `books` names.

    No notebook is run for it.
    """
    names = [name for book in books for name in names_in(book)]
    for name in names:
        if names.count(name) > 1:
            raise DreError(f"{name} is named twice: a name stands for one number of a notebook")
    if (root / verdicts.CLAIMS).is_file():
        names += verdicts.names(root)
    fill(root, write=False, words=dict.fromkeys(names, ""))


def names_in(book: Notebook) -> list[str]:
    """Return the names of numbers in a notebook's cells, such as ``08.gain``."""
    names = []
    for cell in code_cells(book.content):
        if _NAMING_CALL not in source(cell):
            continue
        for node in ast.walk(ast.parse(source(cell))):
            if isinstance(node, ast.Call) and ast.unparse(node).startswith(_NAMING_CALL):
                keywords = [keyword.arg for keyword in node.keywords if keyword.arg]
                names += [f"{book.name[:2]}.{name}" for name in keywords]
    return names


def said(root: Path) -> dict[str, str]:
    """Return the texts of all named numbers, from the last runs of the notebooks, by full name."""
    words = {}
    for path in sorted(root.glob(f"results/{COMMITTED}/words/*.json")):
        notebook_number = path.stem[:2]
        for name, text in json.loads(path.read_text(encoding="utf-8")).items():
            words[f"{notebook_number}.{name}"] = text
    return words


def fill(root: Path, write: bool = True, words: dict[str, str] | None = None) -> list[Path]:
    """Fill all places of a project, and return the files in which that changes something.

    Parameters
    ----------
    root : Path
        The folder of the project.
    write : bool
        Whether the files are changed, too.
    words : dict, optional
        Texts by full name, by default those that were `said`. With `words`, as before a run, places
        of tables stay as they are.

    Raises
    ------
    DreError
        If a place has an unknown name, or only one of its two comments.
    """
    with_tables = words is None
    if words is None:
        words = said(root)
        if (root / verdicts.CLAIMS).is_file():
            words |= verdicts.in_sentences(root)
    changed = []
    # docs come first: README and a notebook include one of them.
    documents = [
        *sorted(root.glob("docs/*.md")),
        *root.glob("README.md"),
        *sorted(root.glob("notebooks/*.ipynb")),
    ]
    for path in documents:
        before = path.read_text(encoding="utf-8")
        document = _Document(root, path, words, with_tables)
        after = document.fill(before) if path.suffix == ".md" else document.fill_notebook(before)
        if after != before:
            changed.append(path)
            if write:
                replace(path, after)
    return changed


class _Document:
    """A document with places, and what fills them."""

    def __init__(self, root: Path, path: Path, words: dict[str, str], with_tables: bool):
        self.root = root
        self.path = path
        self.words = words
        self.with_tables = with_tables

    def fill_notebook(self, text: str) -> str:
        """Return the text of a notebook's file with the places of its prose filled."""
        if not _MARK.search(text):
            return text
        content = json.loads(text)
        for cell in content["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = self.fill(source(cell)).splitlines(keepends=True)
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"

    def fill(self, text: str) -> str:
        """Return a text with its places filled."""
        for name in _MARK.findall(_MARKED_TEXT.sub("", text)):
            if name == "/" or name in self.words:
                raise DreError(
                    f"{self.path.name}: <!--{name}--> is half a place: <!--name-->words<!--/-->"
                )
        return _MARKED_TEXT.sub(self._filled, text)

    def _filled(self, match):
        name = match[1]
        if name.endswith(".csv") and not self.with_tables:
            return match[0]
        if (self.root / name).is_file():
            return f"<!--{name}-->\n\n{self._text_of_file(name).strip()}\n\n<!--/-->"
        if name not in self.words:
            raise DreError(
                f"{self.path.name}: <!--{name}--> is not a file, and no cell names it: "
                f"book.note(..., {name.rpartition('.')[2]}=...)"
            )
        return f"<!--{name}-->{self.words[name]}<!--/-->"

    def _text_of_file(self, name):
        """Return the text of a file, the rows of a CSV, or the verdicts (all of them in docs)."""
        if name == verdicts.CLAIMS:
            return verdicts.markdown(self.root, main=self.path.parent.name != "docs")
        if name == coverage.ITEMS:
            return coverage.markdown(self.root)
        if name.endswith(".csv"):
            return _rows(self.root / name)
        text = (self.root / name).read_text(encoding="utf-8")
        return re.sub("<!--.*?-->", "", text, flags=re.DOTALL)


def _rows(path):
    """Return all rows of a CSV as a Markdown table without caption."""
    df = pd.read_csv(path)
    columns = [column for column in df if not column.endswith(ENDINGS)]
    table = Table(df, path.stem, path.name, rows=len(df), columns=columns)
    _caption, _, rows = table.markdown().partition("\n\n")
    return rows
