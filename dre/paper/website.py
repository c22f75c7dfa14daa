"""``make book``: README, notebooks and docs as a website.

`prepare` copies the pages into a source folder and adds what a website needs: links between pages,
folded cells, numbers of equations, coloured verdicts and the list of pages. Sphinx then builds the
pages; no notebook is executed. ``docs/conf.py`` has the settings of Sphinx.
"""

import hashlib
import importlib.util
import json
import posixpath
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from dre.environment import ADDRESS
from dre.errors import DreError
from dre.files import replace
from dre.paper import coverage
from dre.paper.folding import folded_part
from dre.paper.headless import INJECTED, Notebook, notebooks, source
from dre.paper.profile import COMMITTED, Profile
from dre.paper.verdicts import LEGEND

HOW_TO_INSTALL = "make book, or pip install -r requirements-book.lock"
_PACKAGES = ("sphinx", "myst-nb", "sphinx-book-theme", "sphinx-mathjax-offline")
#: Words in tables that are shown in colour: the verdicts, and the statuses of docs/coverage.md.
STATUSES = (*LEGEND, *coverage.STATUSES)

#: Pages in the order of the list beside each page. Docs that are not named come last.
_USE = (
    "run_the_paper",
    "files",
    "score",
    "compare",
    "judges",
    "own_judge",
    "prompts",
    "train",
    "augment",
    "setup",
)
_RESULTS = ("summary", "trust", "verdicts", "coverage", "table4")
_OTHER_PAGES = ("dre/slm/default/README.md", "CONTRIBUTING.md", "CHANGELOG.md")
_HOME = "index.md"
_TITLES = {"docs/verdicts.md": "What the papers say, and what came out"}

#: The beginning of a line in a box that gives the verdict on a claim.
_VERDICT = "> **Verdict.**"
_LINK = re.compile(r"(!?)(\[(?:[^\[\]]|\[[^\]]*\])*\]\()((?:[^()\s]|\([^()\s]*\))+)(\))")


def is_installed() -> bool:
    """Tell whether the packages of extra ``book`` are there."""
    modules = ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx-mathjax-offline")
    return all(importlib.util.find_spec(module) for module in modules)


def folder(profile: Profile) -> Path:
    """Return where the website of a profile is: ``build/book`` for the committed one."""
    if profile.name == COMMITTED:
        return profile.root / "build" / "book"
    return profile.build / "book"


def build(profile: Profile) -> bool:
    """Build the website of a profile, and return whether anything has changed since the last time.

    The committed profile takes the committed notebooks, another one what its last run left in
    ``build/<profile>/notebooks``.

    Raises
    ------
    DreError
        If a package is missing, a link leads nowhere, or Sphinx has a warning.
    """
    if not is_installed():
        raise DreError(f"the book needs {', '.join(_PACKAGES)}: {HOW_TO_INSTALL}")
    target = folder(profile)
    source_folder = target.with_name(target.name + "-source")
    mark_file = target / ".inputs"
    versions = [f"{package} {version(package)}" for package in _PACKAGES]
    mark = "\n".join([*versions, prepare(profile, source_folder)])
    if mark_file.is_file() and mark_file.read_text(encoding="utf-8") == mark:
        return False

    mark_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    memory = source_folder / ".doctrees"
    command += ["-c", str(profile.root / "docs"), "-d", str(memory)]
    result = subprocess.run(
        [*command, str(source_folder), str(target)], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        # Sphinx reads a page once. It must read this one again to give the same warning again.
        shutil.rmtree(memory, ignore_errors=True)
        raise DreError(f"the book has warnings:\n{result.stderr.strip()}")
    replace(mark_file, mark)
    return True


def prepare(profile: Profile, target: Path) -> str:
    """Write the sources of the website, and return a hash of them and of its settings."""
    site = _Site(profile)
    files = site.files()
    for file in sorted(target.rglob("*")):
        name = file.relative_to(target).as_posix()
        if file.is_file() and name not in files and not name.startswith(".doctrees"):
            file.unlink()

    digest = hashlib.sha256()
    for path in sorted([profile.root / "docs" / "conf.py", *profile.root.glob("docs/_static/*")]):
        digest.update(path.read_bytes())
    for name, content in sorted(files.items()):
        digest.update(f"{name}\n".encode())
        digest.update(content)
        path = target / name
        # An unchanged file keeps its date, by which Sphinx knows that it need not read it again.
        if not (path.is_file() and path.read_bytes() == content):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return digest.hexdigest()


class _Site:
    """The pages of a website and their files."""

    def __init__(self, profile: Profile):
        self.root = profile.root
        self.books = self._executed_notebooks(profile)
        # The path of each page in the project, and in the sources of the website.
        names = [f"docs/{path.name}" for path in sorted(self.root.glob("docs/*.md"))]
        names += [name for name in _OTHER_PAGES if (self.root / name).is_file()]
        names += [f"notebooks/{book.path.name}" for book in self.books]
        self.pages = {"README.md": _HOME, **dict(zip(names, names))}
        self.pictures = set()

    def _executed_notebooks(self, profile):
        books = notebooks(self.root)
        if profile.name == COMMITTED:
            return books
        executed = [profile.build / "notebooks" / book.path.name for book in books]
        return [Notebook(path) for path in executed if path.is_file()]

    def files(self) -> dict[str, bytes]:
        """Return the content of each file of the website's sources, by its name."""
        files = {}
        for name, target in self.pages.items():
            if name.endswith(".md"):
                text = (self.root / name).read_text(encoding="utf-8")
                if name in _TITLES and not text.startswith("# "):
                    text = f"# {_TITLES[name]}\n\n{text}"
                text = self.markdown(text, name)
                if target == _HOME:
                    text += self._list_of_pages()
                files[target] = text.encode()
        for book in self.books:
            name = f"notebooks/{book.path.name}"
            content = _with_website_cells(book, lambda text, page=name: self.markdown(text, page))
            files[name] = json.dumps(content, ensure_ascii=False, indent=1).encode()
        for name in sorted(self.pictures):
            files[name] = (self.root / name).read_bytes()
        return files

    def markdown(self, text: str, page: str) -> str:
        """Return the Markdown of a page as the website needs it."""
        blocks = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
        for number in range(0, len(blocks), 2):  # between two of these stands a block of code
            block = re.sub("<!--.*?-->", "", blocks[number], flags=re.DOTALL)
            block = _LINK.sub(lambda link: self._link(link, page), block)
            blocks[number] = _coloured(block)
        return "".join(blocks)

    def _link(self, link, page):
        """Return a link with the address that it has on the website."""
        is_picture, label, address, end = link.groups()
        path, _, fragment = address.partition("#")
        if ":" in path:
            return link[0]
        if fragment:
            # The anchor of a heading, from the one that GitHub or Jupyter gives it.
            fragment = "#" + re.sub(r"[^\w-]", "", fragment.lower())
        if not path:
            return f"{label}{fragment}{end}"

        name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if not (self.root / name).exists():
            raise DreError(f"{page}: a link leads to {name}, which does not exist")
        if is_picture:
            self.pictures.add(name)
        elif name not in self.pages:
            kind = "tree" if (self.root / name).is_dir() else "blob"
            return f"{label}{ADDRESS}/{kind}/main/{name}{fragment}{end}"
        here = posixpath.dirname(self.pages[page]) or "."
        target = self.pages.get(name) or name
        new_path = posixpath.relpath(target, here)
        return f"{is_picture}{label}{new_path}{fragment}{end}"

    def _list_of_pages(self):
        """Return the list that stands beside each page."""
        by_number = {int(book.name[:2]): f"notebooks/{book.name}" for book in self.books}
        docs = [name[5:-3] for name in self.pages if name.startswith("docs/")]
        further_docs = [name for name in sorted(docs) if name not in (*_USE, *_RESULTS)]
        groups = {
            "The paper": [page for number, page in by_number.items() if number <= 5],
            "Beyond the paper": [page for number, page in by_number.items() if 6 <= number <= 9],
            "Appendices": [page for number, page in by_number.items() if number > 9],
            "Results": [f"docs/{name}" for name in _RESULTS if name in docs],
            "Use it": [f"docs/{name}" for name in (*_USE, *further_docs) if name in docs],
            "The project": [name[:-3] for name in _OTHER_PAGES if name in self.pages],
        }
        text = ""
        for caption, names in groups.items():
            if names:
                lines = [f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n", *names, "```\n"]
                text += "\n".join(lines)
        return text


def _coloured(text):
    """Return Markdown whose verdicts and statuses, in tables and boxes, have a class for colour."""
    words = re.compile(rf"\*\*({'|'.join(STATUSES)})\*\*")
    span = r'<span class="status \1">\1</span>'
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(("|", _VERDICT)):
            lines[number] = words.sub(span, line).replace("status not ", "status not-")
    return "\n".join(lines).replace("status printed only", "status printed-only")


def _with_website_cells(book, markdown):
    """Return the content of a notebook with tags that fold cells, and with numbered equations."""
    cells = []
    equations = 0
    setup_is_over = False
    for cell in book.content["cells"]:
        text = source(cell)
        tags = list(cell["metadata"].get("tags", ()))
        new_cell = dict(cell)
        if cell["cell_type"] == "markdown":
            without_badge = re.sub(r"^\[!\[.*\n*", "", text, flags=re.MULTILINE)
            text, equations = _numbered(without_badge, int(book.name[:2]), equations)
            new_cell["source"] = markdown(text)
        elif INJECTED in tags:
            continue
        else:
            outputs = [output for output in cell["outputs"] if output.get("name") != "stderr"]
            new_cell["outputs"] = [_website_output(output, markdown) for output in outputs]
            if not setup_is_over:
                tags.append("hide-cell")
                setup_is_over = "setup(" in text
            elif part := folded_part(cell):
                tags.append(f"hide-{part}")
        metadata: dict = {"tags": tags} if tags else {}
        new_cell["metadata"] = metadata
        for output in cell.get("outputs", ()):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if alt:
                metadata["mystnb"] = {"image": {"alt": alt}}
        is_silent = tags == ["hide-cell"]
        if is_silent and cells and cells[-1]["metadata"] == new_cell["metadata"]:
            cells[-1] = _joined(cells[-1], new_cell)  # one bar in the place of two
        else:
            cells.append(new_cell)
    # This name colours lines for the shell as well.
    language = {"name": "python", "pygments_lexer": "ipython3"}
    metadata = {**book.content["metadata"], "language_info": language}
    return {**book.content, "cells": cells, "metadata": metadata}


def _joined(cell, next_cell):
    """Return two cells that are folded with their outputs as one cell."""
    return {
        **cell,
        "source": f"{source(cell).rstrip()}\n\n{source(next_cell)}",
        "outputs": [*cell["outputs"], *next_cell["outputs"]],
    }


def _numbered(text, chapter, count):
    """Return Markdown whose displayed equations have numbers such as (4.2), and the new count."""
    parts = re.split(r"(\$\$.+?\$\$)", text, flags=re.DOTALL)
    for number in range(1, len(parts), 2):
        formula = parts[number][2:-2].strip()
        if r"\tag" not in formula:
            count += 1
            formula = rf"{formula} \tag{{{chapter}.{count}}}"
        parts[number] = f"$${formula}$$"
        # Sphinx would put several lines into an environment that takes no number.
        if r"\\" in formula:
            parts[number] = f"\\begin{{equation*}}\n{formula}\n\\end{{equation*}}"
    return "".join(parts), count


def _website_output(output, markdown):
    """Return an output of a cell as the website shows it."""
    formats = output.get("data", {})
    if "text/markdown" not in formats:
        return output
    text = markdown("".join(formats["text/markdown"]))
    return {**output, "data": {"text/markdown": text}}
