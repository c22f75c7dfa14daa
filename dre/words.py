"""Numbers in words: what the cells of notebooks say by name (`dre.notebook.Book.say`) stands in README, docs and prose.

Two comments that no reader sees enclose it; a notebook's own names stand alone, those of others after its number::

    correlates at <!--slm-->0.19 / 0.21 / −0.12<!--/-->, and is right in <!--03.right-->87.8<!--/--> % of cases
    <!--docs/verdicts.md-->the text of this file<!--/-->

All other comments are left as they are.
"""

import ast
import json
import re

from dre.errors import DreError
from dre.profile import COMMITTED
from dre.report import replace

MARK = re.compile(r"<!--([\w./]+)-->")
PLACE = re.compile(r"<!--(\w[\w./]*)-->(?:(?!<!--).)*<!--/-->", re.DOTALL)


def check(root, books):
    """Raise DreError where prose of the project in `root` shows a name that no cell of `books` says; nothing is run."""
    calls = [(book, node) for book in books for node in ast.walk(book.tree) if isinstance(node, ast.Call)]
    calls = [(book, node) for book, node in calls if ast.unparse(node.func) == "book.say"]
    names = [f"{book.name[:2]}.{keyword.arg}" for book, node in calls for keyword in node.keywords]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DreError(f"{min(twice)} is said twice: a name stands for one number of a notebook")
    fill(root, write=False, said=dict.fromkeys(names, ""))


def fill(root, write=True, said=None):
    """Fill all places of the project in `root`; return the paths of the files in which that changes something.

    With `write` False none is changed. `said`: words by full name, by default those that notebooks have written.
    """
    if said is None:
        files = {path.stem[:2]: path for path in root.glob(f"results/{COMMITTED}/words/*.json")}
        words = {number: json.loads(path.read_text(encoding="utf-8")) for number, path in files.items()}
        said = {f"{number}.{name}": text for number in words for name, text in words[number].items()}
    changed = []
    # docs first: README and a notebook include one of them
    for path in (*sorted(root.glob("docs/*.md")), *root.glob("README.md"), *sorted(root.glob("notebooks/*.ipynb"))):
        text = after = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            after = _filled(text, path, root, said)
        elif MARK.search(text):
            book = json.loads(text)
            for cell in (cell for cell in book["cells"] if cell["cell_type"] == "markdown"):
                cell["source"] = _filled("".join(cell["source"]), path, root, said).splitlines(keepends=True)
            after = json.dumps(book, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        if after != text:
            changed.append(path)
            if write:
                replace(path, after)
    return changed


def _filled(text, path, root, said):
    """Return the text of a file or cell with its places filled; an unknown name or half a place is a DreError."""
    own = path.name[:2]

    def words(place):
        name = place[1]
        if (root / name).is_file():
            return f"<!--{name}-->\n\n{MARK.sub('', (root / name).read_text(encoding='utf-8')).strip()}\n\n<!--/-->"
        if (full := name if "." in name else f"{own}.{name}") not in said:
            raise DreError(f"{path.name}: <!--{name}--> shows what no cell says by book.say(..., {name}=...)")
        return f"<!--{name}-->{said[full]}<!--/-->"

    for name in MARK.findall(PLACE.sub("", text)):
        if {name, f"{own}.{name}"} & {"/", *said}:
            raise DreError(f"{path.name}: <!--{name}--> is half a place: <!--name-->words<!--/-->")
    return PLACE.sub(words, text)
