"""``make book``: Sphinx makes a website of README, notebooks and docs.

It reads copies, which are the pages as they stand; no notebook is executed. ``docs/conf.py`` has
the settings, and ``docs/_toc.yml`` the list of pages.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from dre.errors import DreError
from dre.paper.profile import COMMITTED, Profile

HOW_TO_INSTALL = "pip install -r requirements-book.lock, then python -m dre.paper --book"
_MODULES = ("myst_nb", "sphinx_book_theme", "sphinx-mathjax-offline", "sphinx_external_toc")
#: The pages beside the notebooks, and what they show and link to.
_PAGES = ("dre/slm/default/README.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
_FILES = ("CITATION.cff", "LICENSE", "data", "figures", "results")


def is_installed() -> bool:
    """Tell whether the packages of extra ``book`` are there."""
    return all(importlib.util.find_spec(module) for module in _MODULES)


def folder(profile: Profile) -> Path:
    """Return where the website of a profile is: ``build/book`` for the committed one."""
    if profile.name == COMMITTED:
        return profile.root / "build" / "book"
    return profile.build / "book"


def build(profile: Profile) -> None:
    """Build the website of a profile.

    The committed profile takes the committed notebooks, another one what its last run left in
    ``build/<profile>/notebooks``.

    Raises
    ------
    DreError
        If a package is missing or Sphinx fails. In the committed profile a warning is a failure,
        such as that a link leads nowhere. Another one may lack a notebook that others link to.
    """
    if not is_installed():
        raise DreError(f"the book needs packages that are not installed: {HOW_TO_INSTALL}")
    is_committed = profile.name == COMMITTED
    source = profile.build / "book-source"
    notebooks = profile.root if is_committed else profile.build
    for old in (source, folder(profile)):
        shutil.rmtree(old, ignore_errors=True)
    (source / "notebooks").mkdir(parents=True)
    for name in (*_PAGES, *_FILES):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (profile.root / name).is_dir() else shutil.copy
        copy(profile.root / name, source / name)
    for path in notebooks.glob("notebooks/[0-9]*.ipynb"):
        shutil.copy(path, source / "notebooks")

    command = [sys.executable, "-m", "sphinx", "-b", "html", "--quiet", "--no-color"]
    command += ["--conf-dir", str(source / "docs"), "--doctree-dir", str(source / ".doctrees")]
    if is_committed:
        command.append("--fail-on-warning")
    else:
        command += ["-D", f"html_title=dre, profile {profile.name}"]
    command += [str(source), str(folder(profile))]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DreError(f"Sphinx cannot build the book:\n{result.stderr.strip()}")
