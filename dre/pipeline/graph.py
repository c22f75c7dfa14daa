"""The notebooks as a graph: what each needs, writes and takes as parameters, as its file says."""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from dre.errors import DreError

MAGIC = re.compile(r"^(\s*)[%!].*$", re.M)
NAMED = re.compile(r"^\d\d_\w+$")


@dataclass(frozen=True)
class Notebook:
    """One notebook of the paper.

    Parameters
    ----------
    path : Path
        Of the ``.ipynb`` file.
    needs : tuple of str
        Names of the notebooks that must have run before.
    outputs : tuple of str
        Files it must have written, relative to the root; ``{profile}`` stands for the profile's name.
    cells : tuple of (str, str, tuple)
        Type, source and tags of each cell. Outputs are not part of a notebook's identity.
    """

    path: Path
    needs: tuple
    outputs: tuple
    cells: tuple

    @property
    def name(self):
        """The file name without ending, such as ``02_slm_training``."""
        return self.path.stem

    @property
    def code(self):
        """Pairs of (cell number from 1, source) of the code cells."""
        return [(i, source) for i, (kind, source, _) in enumerate(self.cells, 1) if kind == "code"]

    @property
    def title(self):
        """The first heading."""
        lines = (line for kind, source, _ in self.cells if kind == "markdown" for line in source.splitlines())
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), self.name)

    @property
    def parameters(self):
        """Names assigned in the cell tagged "parameters"."""
        found = set()
        for number, (_, source, tags) in enumerate(self.cells, 1):
            if "parameters" in tags:
                tree = parse(source, f"{self.path.name}, cell {number}")
                found |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return found


def parse(source, where):
    """Return the syntax tree of a cell; IPython's ``%`` and ``!`` lines are left out."""
    plain = MAGIC.sub(r"\1pass", source)
    try:
        return ast.parse(plain)
    except SyntaxError as error:
        raise DreError(f"{where}, line {error.lineno}: not valid Python ({error.msg})") from None


def read(path):
    """Read one notebook file.

    Raises
    ------
    DreError
        If it is not a notebook, or its ``dre`` metadata is missing or malformed.
    """
    path = Path(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        cells = tuple(
            (c["cell_type"], "".join(c["source"]), tuple(c.get("metadata", {}).get("tags", ()))) for c in raw["cells"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DreError(f"{path.name} is not a notebook file: {type(error).__name__} {error}") from None
    declared = raw.get("metadata", {}).get("dre")
    if not isinstance(declared, dict) or not isinstance(declared.get("needs"), list):
        raise DreError(
            f'{path.name}: its metadata has no "dre": {{"needs": [...], "outputs": [...]}}; '
            "every notebook declares what it needs (an empty list is fine)"
        )
    return Notebook(path, tuple(declared["needs"]), tuple(declared.get("outputs", ())), cells)


def discover(folder):
    """Return the notebooks ``NN_name.ipynb`` of `folder` in an order that respects their needs.

    Raises
    ------
    DreError
        If one needs a notebook that does not exist, or they need each other in a circle.
    """
    books = {p.stem: read(p) for p in sorted(Path(folder).glob("*.ipynb")) if NAMED.match(p.stem)}
    if not books:
        raise DreError(f"no notebooks in {folder}: expected files such as 00_start_here.ipynb")
    for book in books.values():
        for need in book.needs:
            if need not in books:
                raise DreError(f"{book.path.name} needs '{need}', which is not there: {', '.join(books)}")
    ordered = []
    while len(ordered) < len(books):
        done = {book.name for book in ordered}
        ready = next((b for b in books.values() if b.name not in done and done.issuperset(b.needs)), None)
        if ready is None:
            raise DreError(f"these notebooks need each other in a circle: {', '.join(set(books) - done)}")
        ordered.append(ready)
    return ordered
