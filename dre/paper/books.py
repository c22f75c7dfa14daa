"""Notebooks as files: their order, their code, and their committed outputs."""

import hashlib
import json
import os
import re
from pathlib import Path

from dre.errors import DreError
from dre.files import replace
from dre.paper.profile import COMMITTED

INJECTED = "injected-parameters"  # the tag of the cell that papermill adds
_PROJECT_NAME = re.compile(r"\d\d_[a-z\d_]+\.ipynb")  # not 04_correlation-Copy1.ipynb
#: What a notebook prints of Python's version, and of the build of torch, such as ``+cpu``.
_MACHINE = re.compile(r" · Python 3\.[\w.+]+(?= · )|(?<=\d)\+(?:cpu|cu\d+)\b")


class Notebook:
    """A notebook as its file says it.

    Attributes
    ----------
    path, name, content
        Its file, the name of the file without ending, and the parsed JSON.
    needs : list of str
        The names of the notebooks whose results it uses.
    """

    def __init__(self, path: Path):
        self.path = path
        self.name = path.stem
        self.content = json.loads(path.read_text(encoding="utf-8"))
        self.needs = self.content["metadata"].get("dre", {}).get("needs", [])

    @property
    def code_hash(self) -> str:
        """A hash of its code cells."""
        texts = [source(cell) for cell in code_cells(self.content)]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def source(cell: dict) -> str:
    """Return the text of a cell."""
    return "".join(cell["source"])


def code_cells(content: dict) -> list[dict]:
    """Return the code cells of a notebook but for the one that papermill added."""
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if INJECTED not in cell["metadata"].get("tags", ())]


def notebooks(folder: Path) -> list[Notebook]:
    """Return the notebooks of a project by their numbers; each may need some before it."""
    books = {}
    for path in sorted((folder / "notebooks").glob("*.ipynb")):
        if not _PROJECT_NAME.fullmatch(path.name):
            continue
        try:
            book = Notebook(path)
        except (ValueError, KeyError) as error:
            raise DreError(f"{path.name} is not a notebook: {error}") from error
        unmet = sorted(set(book.needs) - set(books))
        if unmet:
            raise DreError(f"{path.name} needs {unmet[0]}, which is no notebook before it")
        books[book.name] = book
    return list(books.values())


def without_prose_of_committed(content: dict) -> dict:
    """Return a notebook without the prose that states results of the committed profile.

    Its cells have the name of that profile as a tag.
    """
    kept = []
    for cell in content["cells"]:
        is_prose = cell["cell_type"] == "markdown"
        if not (is_prose and COMMITTED in cell["metadata"].get("tags", ())):
            kept.append(cell)
    cells = []
    for cell in reversed(kept):
        if not _is_over_nothing(cell, cells[-1:]):
            cells.append(cell)
    return {**content, "cells": cells[::-1]}


def _is_over_nothing(cell, following):
    """Tell whether a cell is a heading alone, and another one, or the end, follows it."""
    heading = re.fullmatch(r"(##+) .*", source(cell).strip())
    if heading is None or cell["cell_type"] == "code":
        return False
    if not following:
        return True
    next_heading = re.match(r"(#+) ", source(following[0]))
    is_prose = following[0]["cell_type"] == "markdown"
    return is_prose and next_heading is not None and len(next_heading[1]) <= len(heading[1])


def up_to_its_end(content: dict) -> dict:
    """Return an executed notebook without the cells behind the one that has ended it."""
    cells = []
    for cell in content["cells"]:
        outputs = cell.get("outputs", [])
        goes_on = [output for output in outputs if output.get("ename") != "SystemExit"]
        cells.append({**cell, "outputs": goes_on} if outputs else cell)
        if len(goes_on) < len(outputs):
            break
    return {**content, "cells": cells}


def commit(book: Notebook, executed: Path, root: Path) -> bool:
    """Put the outputs of an executed copy into a notebook; return whether that changed it.

    A notebook whose code was changed while it ran is left alone.

    Messages on standard error, folders of this machine, its Python and its build of torch are left
    out, so that equal results give equal files.
    """
    if Notebook(book.path).code_hash != book.code_hash:
        return False
    before = book.path.read_text(encoding="utf-8")
    content = json.loads(before)
    executed_cells = code_cells(json.loads(executed.read_text(encoding="utf-8")))
    pairs = zip(code_cells(content), executed_cells, strict=True)
    for number, (cell, executed_cell) in enumerate(pairs, 1):
        outputs = _joined(executed_cell["outputs"])
        cell["execution_count"] = number
        cell["outputs"] = [_clean(output, number, root) for output in outputs]
    about = content["metadata"].setdefault("dre", {})
    about["executed"] = {"profile": COMMITTED, "code": book.code_hash}
    after = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    replace(book.path, after)
    return after != before


def _joined(outputs):
    """Return outputs without standard error; what was printed comes in parts, which are joined."""
    joined = []
    for output in outputs:
        stream = output.get("name")
        if stream == "stderr":
            continue
        if stream is not None and joined and joined[-1].get("name") == stream:
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def _clean(output, number, root):
    """Return an output with the number of its cell and without traces of this machine."""
    if "execution_count" in output:
        output["execution_count"] = number
    folders = {os.environ.get("DRE_DATA_HOME"): "$DRE_DATA_HOME", str(root): "."}
    folders[str(Path.home())] = "~"
    texts = output.get("data", output)
    for kind in texts.keys() & {"text", "text/plain", "text/markdown", "text/html"}:
        text = _MACHINE.sub("", "".join(texts[kind]))
        for folder, name in folders.items():
            if folder and folder != "/":
                text = re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w-])", name, text)
        texts[kind] = text.splitlines(keepends=True)
    return output
