"""Tables in README and docs come from files in ``results/``: this module copies them in, and tells where they differ.

A block looks like this, with the file's text between the two comments::

    <!-- include results/public/table3.md -->
    <!-- end -->
"""

import os
import re

from dre.errors import DreError

BLOCK = re.compile(r"(<!-- include (?P<path>\S+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)


def filled(text, folder, name="README.md"):
    """Return the ``text`` of the page called `name` with every block filled from its file below ``folder``.

    Raises
    ------
    DreError
        If a file is missing.
    """

    def fill(match):
        path = folder / match["path"]
        if not path.is_file():
            raise DreError(f"{name} includes {match['path']}, which does not exist: run `make paper PROFILE=public`")
        return f"{match[1]}\n{path.read_text(encoding='utf-8').strip()}\n\n{match[4]}"

    return BLOCK.sub(fill, text)


def pages(folder):
    """Return the pages of the project in ``folder`` that may hold blocks: the README and those in ``docs/``."""
    return [*folder.glob("README.md"), *sorted(folder.glob("docs/*.md"))]


def fill(folder):
    """Fill the pages of the project in ``folder`` and return those that changed."""
    before = {path: path.read_text(encoding="utf-8") for path in pages(folder)}
    after = {path: filled(text, folder, path.name) for path, text in before.items()}
    changed = [path for path in before if after[path] != before[path]]
    for path in changed:
        part = path.with_name(path.name + ".part")
        part.write_text(after[path], encoding="utf-8")
        os.replace(part, path)
    return changed
