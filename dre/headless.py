"""Notebooks as files: read in their order, executed by papermill, and their outputs put into the committed ones."""

import ast
import hashlib
import json
import os
import re
import sys
from pathlib import Path

from dre.errors import DreError
from dre.report import replace

INJECTED = "injected-parameters"  # the tag of the cell that papermill adds
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


class Notebook:
    """A notebook as its file says it; ``needs`` are the names of others whose models or results it uses."""

    def __init__(self, path):
        self.path, self.name = path, path.stem
        self.content = json.loads(path.read_text(encoding="utf-8"))
        self.needs = self.content["metadata"].get("dre", {}).get("needs", [])
        # Lines for the shell or for IPython are no Python.
        code = "\n".join(map(source, code_cells(self.content)))
        self.tree = ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", code, flags=re.MULTILINE))


def source(cell):
    """Return the text of a cell."""
    return "".join(cell["source"])


def code_cells(content):
    """Return the code cells of a notebook but for the one that papermill added."""
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if INJECTED not in cell["metadata"].get("tags", ())]


def notebooks(folder):
    """Return the notebooks of a project by their numbers; each may need some before it (``metadata.dre.needs``)."""
    books = {}
    for path in sorted((folder / "notebooks").glob("[0-9]*.ipynb")):
        try:
            book = Notebook(path)
        except (ValueError, KeyError, SyntaxError) as error:
            raise DreError(f"{path.name} is not a notebook with Python cells: {error}") from error
        if unmet := sorted(set(book.needs) - set(books)):
            raise DreError(f"{path.name} needs {unmet[0]}, which is no notebook before it in notebooks/")
        books[book.name] = book
    return list(books.values())


def execute(book, profile):
    """Execute a notebook into ``build/<profile>/notebooks/`` with this interpreter; a failed cell is a DreError."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    target = profile.build / "notebooks" / book.path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, [str(profile.root), os.environ.get("PYTHONPATH")]))
    os.environ |= {"DRE_ROOT": str(profile.root), "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}
    how = {"kernel_name": "python3", "language": "python", "cwd": book.path.parent, "stderr_file": sys.stderr}
    how["extra_arguments"] = ["--log-level=CRITICAL"]  # else a kernel says that it listens unencrypted
    try:
        papermill.execute_notebook(book.path, target, {"profile": profile.name}, progress_bar=False, **how)
    except PapermillExecutionError as error:
        if error.ename != "Ended":  # see `dre.notebook.Book.needs_public`
            begin = next(iter(error.source.strip().splitlines()), "")  # and papermill has added a cell for the profile
            why = f"failed in cell [{error.exec_count - 1}], which begins {begin!r}: {error.ename}: {error.evalue}"
            raise DreError(f"{book.path.name} {why}\n  as far as it came: {target}") from error


def commit(path, profile):
    """Put the outputs of an executed notebook into the notebook itself; return whether that changed it.

    Timings, messages on stderr and paths of this machine are left out: equal results give the same bytes.
    """
    before = path.read_text(encoding="utf-8")
    content = json.loads(before)
    cells = code_cells(content)
    ran = code_cells(json.loads((profile.build / "notebooks" / path.name).read_text(encoding="utf-8")))
    if list(map(source, cells)) != list(map(source, ran)):
        raise DreError(f"{path.name} was edited after it was executed: run the same command again")
    for count, (cell, done) in enumerate(zip(cells, ran), 1):
        outputs = []
        for output in done["outputs"]:
            if outputs and output.get("name", "stderr") == outputs[-1].get("name"):
                outputs[-1]["text"] += output["text"]  # what was printed comes in parts, as the clock has it
            elif output.get("name") != "stderr":
                outputs.append(output)
        cell["execution_count"], cell["outputs"] = count, [_clean(output, count, profile.root) for output in outputs]
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key in ("tags", "dre")}
    own = content["metadata"].get("dre", {}) | {"executed": {"profile": profile.name, "code": code_hash(content)}}
    content["metadata"] = {"dre": own, "kernelspec": KERNEL, "language_info": {"name": "python"}}
    after = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    replace(path, after)
    return after != before


def _clean(output, count, root):
    """Return an output with the number of its cell, and with names for the folders of this machine."""
    if "execution_count" in output:
        output["execution_count"] = count
    folders = {os.environ.get("DRE_DATA_HOME", ""): "$DRE_DATA_HOME", str(root): ".", str(Path.home()): "~"}
    text = json.dumps(output)
    for folder, short in folders.items():
        if len(folder) > 1 and "image/png" not in text:  # a picture may contain such letters by chance
            text = text.replace(folder, short)
    return json.loads(text)


def code_hash(content):
    """Return a hash of a notebook's code: its outputs stay true when only comments, layout or prose change."""
    lines = [line.rstrip() for cell in code_cells(content) for line in source(cell).splitlines()]
    kept = [line for line in lines if line.strip() and line.strip()[0] != "#"]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()
