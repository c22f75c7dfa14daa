"""Notebooks as files: read in their order, executed by papermill, and their outputs put into the committed ones."""

import ast
import hashlib
import io
import json
import os
import re
import sys
import tokenize
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from dre.errors import DreError
from dre.files import replace

INJECTED = "injected-parameters"  # the tag of the cell that papermill adds
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
KNOWN = re.compile(r"\d\d_[a-z\d_]+\.ipynb")  # not 04_correlation-Copy1.ipynb
NO_CODE = {
    getattr(tokenize, kind)
    for kind in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")
}


class Notebook:
    """A notebook as its file says it; ``needs`` are the names of others whose results it uses.

    What ``trains`` makes the models of the others, where they are not recorded.
    """

    def __init__(self, path):
        self.path, self.name = path, path.stem
        self.content = json.loads(path.read_text(encoding="utf-8"))
        about = self.content["metadata"].get("dre", {})
        self.needs, self.trains = about.get("needs", []), about.get("trains", False)
        self.code = code(self.content)


def source(cell):
    """Return the text of a cell."""
    return "".join(cell["source"])


def code_cells(content):
    """Return the code cells of a notebook but for the one that papermill added."""
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if INJECTED not in cell["metadata"].get("tags", ())]


def code(content):
    """Return what counts of each code cell, its lines but for comments and blank ones; a faulty one is a DreError."""
    cells = []
    for number, cell in enumerate(code_cells(content), 1):
        # A line for the shell or for IPython is no Python.
        text = re.sub(
            r"^(\s*)([%!].*)",
            lambda line: line[1] + repr(line[2]),
            source(cell),
            flags=re.MULTILINE,
        )
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise DreError(f"cell [{number}], line {error.lineno}: {error.msg}") from error
        tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in NO_CODE
        ]
        kept = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
        cells.append(
            [line for count, line in enumerate(source(cell).split("\n"), 1) if count in kept]
        )
    return cells


def code_hash(content):
    """Return a hash of a notebook's code."""
    return hashlib.sha256(
        "\n".join(line for lines in code(content) for line in lines).encode()
    ).hexdigest()


def notebooks(folder):
    """Return the notebooks of a project by their numbers; each may need some before it (``metadata.dre.needs``)."""
    books = {}
    for path in sorted((folder / "notebooks").glob("*.ipynb")):
        if not KNOWN.fullmatch(path.name):
            continue
        try:
            book = Notebook(path)
        except (ValueError, KeyError, DreError) as error:
            raise DreError(f"{path.name} is not a notebook with Python cells: {error}") from error
        if unmet := sorted(set(book.needs) - set(books)):
            raise DreError(
                f"{path.name} needs {unmet[0]}, which is no notebook before it in notebooks/"
            )
        books[book.name] = book
    return list(books.values())


def execute(book, profile, file):
    """Execute a notebook, return the path of its executed copy in ``build/<profile>/notebooks/``; DreError if it fails.

    The kernel, of this interpreter, starts in the working directory and adds to the state `file`: see `dre.paper.state`.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    target = profile.build / "notebooks" / book.path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    watch = f"__import__('dre.paper.state').paper.state.watch({str(file)!r}, {str(profile.root)!r})"
    how = {
        "kernel_name": "python3",
        "language": "python",
        "progress_bar": False,
        "request_save_on_cell_execute": False,
    }
    # The first argument, since else a kernel says that it listens unencrypted.
    how["extra_arguments"] = ["--log-level=CRITICAL", f"--InteractiveShellApp.code_to_run={watch}"]
    label = partial(
        re.sub, r"(^|[\r\n])(?=[^\r\n])", rf"\g<1>{book.name} | "
    )  # before each line, or state of a bar
    how["stderr_file"] = SimpleNamespace(
        write=lambda text: sys.stderr.write(label(text)), flush=sys.stderr.flush
    )
    try:
        papermill.execute_notebook(book.path, target, {"profile": profile.name}, **how)
    except PapermillExecutionError as error:
        shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))
        lines = (
            re.findall(r"^-+> *\d+ *(.*)", shown, re.MULTILINE)
            or error.source.strip().splitlines()
            or [""]
        )
        # Papermill has added a cell for the profile. An assertion that says nothing shows itself.
        why = f"failed in cell [{error.exec_count - 1}] at {lines[0]!r}: {error.ename}: {error.evalue or lines[-1]}"
        raise DreError(f"{book.path.name} {why}\n  as far as it came: {target}") from error
    except RuntimeError as error:
        raise DreError(
            f"{book.path.name}: {error} (was memory short? --jobs 1 takes less)"
        ) from error
    return target


def commit(path, profile):
    """Put the outputs of an executed notebook into the notebook itself; return whether that changed it.

    Timings, messages on stderr and paths of this machine are left out: equal results give the same bytes. The caller
    has seen to it that both have the same `code`.
    """
    before = path.read_text(encoding="utf-8")
    content = json.loads(before)
    ran = json.loads((profile.build / "notebooks" / path.name).read_text(encoding="utf-8"))
    for count, (cell, done) in enumerate(zip(code_cells(content), code_cells(ran), strict=True), 1):
        outputs = []
        for output in done["outputs"]:
            if outputs and output.get("name", "stderr") == outputs[-1].get("name"):
                outputs[-1]["text"] += output[
                    "text"
                ]  # what was printed comes in parts, as the clock has it
            elif output.get("name") != "stderr":
                outputs.append(output)
        cell["execution_count"], cell["outputs"] = (
            count,
            [_clean(output, count, profile.root) for output in outputs],
        )
        cell["metadata"] = {
            key: value for key, value in cell["metadata"].items() if key in ("tags", "dre")
        }
    own = content["metadata"].get("dre", {}) | {
        "executed": {"profile": profile.name, "code": code_hash(content)}
    }
    content["metadata"] = {"dre": own, "kernelspec": KERNEL, "language_info": {"name": "python"}}
    after = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    replace(path, after)
    return after != before


def _clean(output, count, root):
    """Return an output with the number of its cell, and with names for the folders of this machine in its texts."""
    if "execution_count" in output:
        output["execution_count"] = count
    folders = {
        os.environ.get("DRE_DATA_HOME", ""): "$DRE_DATA_HOME",
        str(root): ".",
        str(Path.home()): "~",
    }
    texts = output.get("data", output)
    for kind in texts.keys() & {"text", "text/plain", "text/markdown", "text/html"}:
        text = "".join(texts[kind])
        for folder, short in folders.items():
            # As Windows has it plain, quoted, or in an address. Whole names only: /a is not in /a-b nor in http://x/a.
            for form in {folder, folder.replace("\\", "\\\\"), folder.replace("\\", "/")} - {
                "",
                "/",
            }:
                text = re.sub(
                    rf"((?<=://)|(?<![\w./\\-])){re.escape(form)}(?![\w-]|\.\w)", short, text
                )
        texts[kind] = text.splitlines(keepends=True)
    return output
