"""Fingerprints: what a notebook's result depends on, hashed without importing any of it.

The modules a notebook uses are found by reading ``import`` statements, starting from its cells. A string that
is the name of one of our modules counts as an import of it, so lazily imported modules are found as well.
"""

import ast
import hashlib
import json
import platform
from functools import cache
from pathlib import Path

from dre.pipeline.graph import parse

PACKAGE = "dre"
# Folders and files of the repository that a room reads, besides the files that lie in the room itself.
READS = {
    "dre.data": ("data/mini", "data/paper", "data/recorded"),
    "dre.judges": ("data/recorded",),
    "dre.published": ("data/paper",),
    "dre.cases": ("data/cases.jsonl",),
}


def sha256(path):
    """Return the sha256 of a file as 64 hex digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(value):
    """Return the sha256 of `value` (JSON types) as 64 hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _data_files(folder):
    """Yield the files in `folder` and below that are not Python, without those of packages inside it."""
    for path in folder.iterdir():
        if path.is_dir():
            if path.name != "__pycache__" and not (path / "__init__.py").exists():
                yield from _data_files(path)
        elif path.suffix not in (".py", ".pyc"):
            yield path


class Modules:
    """The modules of the package below `root`, and which of them import which."""

    def __init__(self, root):
        self.root = Path(root)
        self.paths = {}
        for path in sorted((self.root / PACKAGE).rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        self.imports = cache(self._imports)

    def closure(self, book):
        """Return the names of all modules that the cells of `book` import, directly or not, sorted."""
        todo = set()
        for number, source in book.code:
            todo |= self._named(parse(source, f"{book.path.name}, cell {number}"), package="")
        found = set()
        while todo:
            name = todo.pop()
            found.add(name)
            todo |= self.imports(name) - found
        return sorted(found)

    def files(self, modules):
        """Return the files behind `modules`: source, data files beside it, and what their rooms read."""
        files = {self.paths[name] for name in modules}
        for folder in {path.parent for path in files}:
            files |= set(_data_files(folder))
        for room, read in READS.items():
            if any(name == room or name.startswith(room + ".") for name in modules):
                paths = (p for name in read for p in (self.root / name, *(self.root / name).rglob("*")))
                files |= {p for p in paths if p.is_file()}
        return sorted(files)

    def _imports(self, name):
        path = self.paths[name]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        return self._named(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)), package)

    def _named(self, tree, package):
        """Return the modules of ours that a syntax tree names; importing a.b.c runs a and a.b as well."""
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    up = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join([*up, *filter(None, [node.module])])
                names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in self.paths:
                names.add(node.value)
        parts = (name.split(".") for name in names)
        return {".".join(p[:i]) for p in parts for i in range(1, len(p) + 1)} & set(self.paths)


def fingerprints(books, profile, parameters, root):
    """Return ``{notebook name: fingerprint}`` for `books` (ordered by need).

    Parameters
    ----------
    books : list of Notebook
    profile : Profile
    parameters : dict
        Of papermill, JSON types; each notebook is given those it declares.
    root : Path
        The project's root.
    """
    root = Path(root)
    modules, hashed = Modules(root), cache(sha256)
    shared = [
        platform.python_version(),
        hashed(root / "profiles" / f"{profile.name}.yaml"),
        hashed(root / "requirements.lock") if (root / "requirements.lock").exists() else None,
    ]
    found = {}
    for book in books:
        files = {str(p.relative_to(root)): hashed(p) for p in modules.files(modules.closure(book))}
        given = {key: value for key, value in parameters.items() if key in book.parameters}
        needs = [found[name] for name in book.needs]
        found[book.name] = digest([shared, book.cells, book.needs, book.outputs, files, given, needs])
    return found
