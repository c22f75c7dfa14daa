"""The record of a notebook's last run: the files that it read and wrote, each with its hash.

Nothing else decides whether a notebook has to run again. A record is a text file with lines such
as ``read <hash> <path>``, which the kernel adds as it happens:

- ``before``: what earlier runs wrote;
- ``read`` and ``wrote``: what this run read and wrote;
- ``peak``: the largest memory of the kernel, in MB;
- ``ended``: the hash of the notebook's code. This line comes last: a killed run has none.
"""

import ast
import atexit
import contextlib
import functools
import hashlib
import json
import os
import re
import sys
from importlib.util import source_from_cache
from pathlib import Path

import yaml

from dre.errors import DreError

KINDS = ("before", "read", "wrote", "peak", "ended")
LOCK = "requirements.lock"  # the versions of all packages, which every notebook depends on

SCORES = "small-models"  # the folder of recorded scores
#: A notebook takes all files of these folders. If it reads one, it depends on the names of all.
_LISTED_FOLDERS = (SCORES, "curve")

#: Files in the project's folder that do not belong to the project.
_FOREIGN = re.compile(r"\.|build/|.*(site-packages|\.egg-info)/")
#: Fields of a profile that no result depends on: people read them, or they choose what is run.
_WITHOUT_EFFECT = ("title", "needs", "notebooks")


def digest(path: Path) -> str:
    """Return a hash of what a file means to a notebook, or "-" if there is no such file.

    Python modules count without comments and docstrings, profiles by the values that decide a
    result, the lock by its lines that are not empty, folders by the names of their files, and all
    other files by their bytes.
    """
    try:
        return hashlib.sha256(_meaning(path)).hexdigest()
    except (OSError, ValueError, yaml.YAMLError):
        return "-"


def _meaning(path: Path) -> bytes:
    """Return what matters of a file: Python without docstrings, the list of a folder's files."""
    if path.is_dir():
        return "\n".join(sorted(os.listdir(path))).encode()
    content = path.read_bytes()
    if path.suffix == ".py":
        return _code_without_docstrings(content)
    if path.name == LOCK:
        lines = [line.strip() for line in content.decode().splitlines()]
        return "\n".join(line for line in lines if line).encode()
    if path.parent.name == "profiles":
        values = yaml.safe_load(content)
        if isinstance(values, dict):
            for key in _WITHOUT_EFFECT:
                values.pop(key, None)
        return json.dumps(values, default=str).encode()
    return content


@functools.lru_cache(maxsize=500)
def _code_without_docstrings(content):
    """Return the syntax tree of a module as text; the content itself if it is not valid Python."""
    try:
        tree = ast.parse(content)
    except SyntaxError:
        return content
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def load(record: Path) -> dict[str, dict[str, str]]:
    """Return a record: for each of `KINDS` a dict of values by path. Torn lines are left out."""
    values = {kind: {} for kind in KINDS}
    if not record.is_file():
        return values
    for line in record.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError, KeyError):
            kind, value, name = line.split(" ", 2)
            values[kind][name] = value
    return values


def text(values: dict[str, dict[str, str]]) -> str:
    """Return what `load` returned as the text of a record."""
    return "".join(
        f"{kind} {value} {name}\n" for kind in values for name, value in values[kind].items()
    )


class Watch:
    """Writes into a record what this process reads and writes of a project."""

    def __init__(self, record: Path | str, root: Path | str):
        self.root = Path(root)
        self.record = Path(record)
        self._file = open(record, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._names_read = set()

    def add(self, kind: str, value: str, name: str) -> None:
        """Add a line to the record; a DreError if the disk is full."""
        try:
            self._file.write(f"{kind} {value} {name}\n")
        except OSError as error:
            raise DreError(
                f"{self.record}: cannot be written ({error.strerror}): "
                "free space, then run the same command again"
            ) from error

    def note(self, kind: str, path: Path) -> str:
        """Add a file that this process "read" or "wrote", and return its hash."""
        value = digest(path)
        self.add(kind, value, path.relative_to(self.root).as_posix())
        return value

    def note_read(self, opened: str) -> None:
        """Add a file that was opened for reading, if it belongs to the project, once."""
        if opened.endswith(".pyc"):
            with contextlib.suppress(ValueError):  # it lies in no cache folder
                opened = source_from_cache(opened)
        path = Path(os.path.abspath(opened))
        if not path.is_relative_to(self.root):
            return
        name = path.relative_to(self.root).as_posix()
        if name in self._names_read or _FOREIGN.match(name) or not path.exists():
            return
        self._names_read.add(name)
        self.note("read", path)
        if path.parent.name in _LISTED_FOLDERS:
            self.note_read(str(path.parent))

    def hear(self, event: str, args: tuple) -> None:
        """Take an event of `sys.addaudithook`: of all events, opening a file for reading counts."""
        if event != "open":
            return
        path, _, flags = args
        is_for_writing = flags & (os.O_WRONLY | os.O_RDWR)
        if isinstance(path, str | os.PathLike) and not is_for_writing:
            self.note_read(os.fspath(path))

    def note_peak_memory(self) -> None:
        """Add the largest memory that this process had, where the system tells it."""
        try:
            from resource import RUSAGE_SELF, getrusage
        except ImportError:  # Windows
            return
        unit = 2**20 if sys.platform == "darwin" else 2**10
        self.add("peak", str(getrusage(RUSAGE_SELF).ru_maxrss // unit), "kernel")


#: The watch of the notebook that a runner executes in this process; None in a reader's own kernel.
active: Watch | None = None


def watch(record: Path | str, root: Path | str) -> None:
    """Record from now on what this process reads of the project in `root`, and what it `note`s."""
    global active
    active = Watch(record, root)
    sys.addaudithook(active.hear)

    # What this process has read already: its modules and, by way of these, the locked versions.
    active.note_read(str(active.root / LOCK))
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path:
            active.note_read(path)
    atexit.register(active.note_peak_memory)


def note(kind: str, path: Path) -> str:
    """Return the hash of a file that this process "read" or "wrote", and record it if watched."""
    if active is None:
        return digest(path)
    return active.note(kind, path)
