"""Notebooks as files: their order, their execution by papermill, and their committed outputs."""

import ast
import errno
import hashlib
import io
import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from tokenize import COMMENT, DEDENT, ENDMARKER, INDENT, NEWLINE, NL, generate_tokens

from dre.errors import DreError
from dre.files import replace
from dre.paper.profile import COMMITTED, Profile

INJECTED = "injected-parameters"  # the tag of the cell that papermill adds
OF_COMMITTED = "public"  # the tag of prose that states results of the committed profile
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
SIGN_OF_LIFE = 30.0  # seconds after which a running notebook that writes nothing shows where it is

_DISK_IS_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # EDQUOT: not on Windows
_PROJECT_NAME = re.compile(r"\d\d_[a-z\d_]+\.ipynb")  # not 04_correlation-Copy1.ipynb
#: What a notebook prints of Python's version, and of the build of torch, such as ``+cpu``.
_PYTHON = re.compile(r" · Python 3\.[\w.+]+(?= · )")
_BUILD_OF_TORCH = re.compile(r"(\btorch[ :]\d+\.\d+\.[\w.]+)\+\w+")
_NO_CODE = {COMMENT, NL, NEWLINE, INDENT, DEDENT, ENDMARKER}


class Notebook:
    """A notebook as its file says it.

    Attributes
    ----------
    path, name, content
        Its file, the name of the file without ending, and the parsed JSON.
    needs : list of str
        The names of the notebooks whose results it uses.
    trains : bool
        Whether it makes the models of the others, where they are not recorded.
    code : list of list of str
        The lines of each code cell, as `code` returns them.
    """

    def __init__(self, path: Path):
        self.path = path
        self.name = path.stem
        self.content = json.loads(path.read_text(encoding="utf-8"))
        metadata = self.content["metadata"].get("dre", {})
        self.needs = metadata.get("needs", [])
        self.trains = metadata.get("trains", False)
        self.code = code(self.content)


def manifest(book: Notebook, profile: Profile) -> dict:
    """Return what a notebook registered when it last ran, as `dre.paper.notebook.Book` says.

    Its keys are ``items``, a list of dicts with ``kind, name, caption, files``, and ``not_run``,
    a list of dicts with ``what, why``.
    """
    file = profile.results / "manifest" / f"{book.name}.json"
    if not file.is_file():
        return {"items": [], "not_run": []}
    return json.loads(file.read_text(encoding="utf-8"))


def source(cell: dict) -> str:
    """Return the text of a cell."""
    return "".join(cell["source"])


def code_cells(content: dict) -> list[dict]:
    """Return the code cells of a notebook but for the one that papermill added."""
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if not _is_injected(cell)]


def _is_injected(cell):
    return INJECTED in cell["metadata"].get("tags", ())


def code(content: dict) -> list[list[str]]:
    """Return the lines of each code cell that are more than comments and white space.

    DreError if a cell is not Python.
    """
    cells = []
    for number, cell in enumerate(code_cells(content), 1):
        # A line for the shell or for IPython is not Python. It becomes a text.
        python = re.sub(r"(?m)^(\s*)([%!].*)", lambda line: line[1] + repr(line[2]), source(cell))
        try:
            ast.parse(python)
        except SyntaxError as error:
            raise DreError(f"cell [{number}], line {error.lineno}: {error.msg}") from error

        code_lines = set()
        for token in generate_tokens(io.StringIO(python).readline):
            if token.type not in _NO_CODE:
                code_lines.update(range(token.start[0], token.end[0] + 1))
        lines = source(cell).split("\n")
        cells.append([line for number, line in enumerate(lines, 1) if number in code_lines])
    return cells


def code_hash(content: dict) -> str:
    """Return a hash of a notebook's code."""
    lines = [line for cell_lines in code(content) for line in cell_lines]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def notebooks(folder: Path) -> list[Notebook]:
    """Return the notebooks of a project by their numbers; each may need some before it."""
    books = {}
    for path in sorted((folder / "notebooks").glob("*.ipynb")):
        if not _PROJECT_NAME.fullmatch(path.name):
            continue
        try:
            book = Notebook(path)
        except (ValueError, KeyError, DreError) as error:
            raise DreError(f"{path.name} is not a notebook with Python cells: {error}") from error
        unmet = sorted(set(book.needs) - set(books))
        if unmet:
            raise DreError(
                f"{path.name} needs {unmet[0]}, which is not a notebook before it in notebooks/"
            )
        books[book.name] = book
    return list(books.values())


class _SignsOfLife:
    """What a running notebook shows on standard error, each line after the notebook's name.

    These are its kernel's own messages, as they come, and where it is if none came for
    `SIGN_OF_LIFE` seconds: ``02_slm_training: cell 11 of 40, 3 min``.
    """

    def __init__(self, book: Notebook):
        self.name = book.name
        self.cells = len(book.code)
        self.cell = 0
        self.started = self.last_sign = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join()

    def start_cell(self, cell, cell_index):
        """Count a cell that begins: a hook of nbclient, which names the arguments."""
        if not _is_injected(cell):
            self.cell += 1

    def write(self, text):
        """Show what the kernel writes to standard error: papermill takes this object for a file."""
        # The name comes before each line, and before each state of a progress bar.
        labelled = re.sub(r"(^|[\r\n])(?=[^\r\n])", rf"\g<1>{self.name} | ", text)
        self.last_sign = time.monotonic()
        sys.stderr.write(labelled)

    def flush(self):
        """Flush standard error."""
        sys.stderr.flush()

    def _watch(self):
        """Print from time to time which cell is being run."""
        while not self._ended.wait(SIGN_OF_LIFE / 10):
            now = time.monotonic()
            if now - self.last_sign < SIGN_OF_LIFE:
                continue
            self.last_sign = now
            minutes = (now - self.started) / 60
            position = f"cell {self.cell} of {self.cells}, {minutes:.0f} min"
            sys.stderr.write(f"{self.name}: {position}\n")
            sys.stderr.flush()


def execute(book: Notebook, profile: Profile, record: Path) -> Path:
    """Execute a notebook and return its executed copy, in ``build/<profile>/notebooks/``.

    The kernel, of this interpreter, starts in the working directory and adds to `record`: see
    `dre.paper.state`. A notebook that fails, a kernel that dies and a full disk are a DreError.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    executed = profile.build / "notebooks" / book.path.name
    executed.parent.mkdir(parents=True, exist_ok=True)
    paths = f"{str(record)!r}, {str(profile.root)!r}"
    watch = f"__import__('dre.paper.state').paper.state.watch({paths})"
    try:
        with _SignsOfLife(book) as signs_of_life:
            papermill.execute_notebook(
                book.path,
                executed,
                {"profile": profile.name},
                kernel_name="python3",
                language="python",
                progress_bar=False,
                request_save_on_cell_execute=False,
                stderr_file=signs_of_life,
                on_cell_execute=signs_of_life.start_cell,
                # The log level comes first, since else a kernel says that it listens unencrypted.
                extra_arguments=[
                    "--log-level=CRITICAL",
                    f"--InteractiveShellApp.code_to_run={watch}",
                ],
            )
    except PapermillExecutionError as error:
        raise DreError(
            f"{book.path.name} {_failure(error)}\n  as far as it came: {executed}"
        ) from error
    except RuntimeError as error:
        raise DreError(
            f"{book.path.name}: {error} (was memory short? --jobs 1 takes less)"
        ) from error
    except OSError as error:
        if error.errno not in _DISK_IS_FULL:
            raise
        raise DreError(
            f"{executed}: cannot be written ({error.strerror}): "
            "free space, then run the same command again"
        ) from error
    if profile.name != COMMITTED:
        content = json.loads(executed.read_text(encoding="utf-8"))
        mark_prose(content, profile.name)
        replace(executed, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return executed


def mark_prose(content: dict, profile_name: str) -> None:
    """Say in each cell of prose that states results of the committed profile whose they are.

    Parameters
    ----------
    content : a notebook, which is changed.
    profile_name : the profile that was run.
    """
    mark = f"*Of profile `{COMMITTED}`, and not of this run of `{profile_name}`:*"
    for cell in content["cells"]:
        is_prose = cell["cell_type"] == "markdown"
        if is_prose and OF_COMMITTED in cell["metadata"].get("tags", ()):
            blocks = source(cell).split("\n\n")
            # It stands behind the title and the badge.
            place = 0
            while place < len(blocks) and blocks[place].startswith(("#", "[![")):
                place += 1
            cell["source"] = "\n\n".join([*blocks[:place], mark, *blocks[place:]])


def _failure(error):
    """Return in words in which cell, at which line and with which error a notebook failed."""
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))  # without colours
    lines = re.findall(r"^-+> *\d+ *(.*)", traceback, re.MULTILINE)
    lines = lines or error.source.strip().splitlines() or [""]
    # An assertion without a message shows its own line.
    message = error.evalue or lines[-1]
    # Papermill has added a cell for the profile.
    cell = error.exec_count - 1
    return f"failed in cell [{cell}] at {lines[0]!r}: {error.ename}: {message}"


def commit(path: Path, profile: Profile) -> bool:
    """Put the outputs of an executed notebook into itself; return whether that changed it.

    Timings, messages on standard error, paths of this machine, its Python and its build of torch
    are left out: equal results give the same bytes. The caller has seen to it that both have the
    same `code`.
    """
    before = path.read_text(encoding="utf-8")
    content = json.loads(before)
    executed_text = (profile.build / "notebooks" / path.name).read_text(encoding="utf-8")
    executed_cells = code_cells(json.loads(executed_text))
    for number, (cell, executed) in enumerate(
        zip(code_cells(content), executed_cells, strict=True), 1
    ):
        outputs = _joined(executed["outputs"])
        cell["execution_count"] = number
        cell["outputs"] = [_clean(output, number, profile.root) for output in outputs]
        metadata = cell["metadata"]
        kept = ("tags", "dre", "cellView")
        cell["metadata"] = {key: metadata[key] for key in metadata if key in kept}

    own_metadata = content["metadata"].get("dre", {})
    own_metadata["executed"] = {"profile": profile.name, "code": code_hash(content)}
    content["metadata"] = {
        "dre": own_metadata,
        "kernelspec": _KERNEL,
        "language_info": {"name": "python"},
    }
    after = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    replace(path, after)
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
    """Return an output with the number of its cell and with names for folders of this machine."""
    if "execution_count" in output:
        output["execution_count"] = number
    folders = {
        os.environ.get("DRE_DATA_HOME", ""): "$DRE_DATA_HOME",
        str(root): ".",
        str(Path.home()): "~",
    }
    texts = output.get("data", output)
    for kind in texts.keys() & {"text", "text/plain", "text/markdown", "text/html"}:
        text = "".join(texts[kind])
        text = _PYTHON.sub("", text)
        text = _BUILD_OF_TORCH.sub(r"\1", text)
        for folder, name in folders.items():
            text = _with_folder_named(text, folder, name)
        texts[kind] = text.splitlines(keepends=True)
    return output


def _with_folder_named(text, folder, name):
    """Return a text in which a folder has another name, in each form that Windows writes it in."""
    plain, quoted, address = folder, folder.replace("\\", "\\\\"), folder.replace("\\", "/")
    for form in (plain, quoted, address):
        if form in ("", "/"):
            continue
        # Whole names only: /a is neither in /a-b nor in http://x/a.
        whole_name = rf"((?<=://)|(?<![\w./\\-])){re.escape(form)}(?![\w-]|\.\w)"
        text = re.sub(whole_name, name, text)
    return text
