"""Tables in README and docs come from files in ``results/``: this module copies them in, and tells where they differ.

A block looks like this, with the file's text between the two comments::

    <!-- include results/public/table3.md -->
    <!-- end -->
"""

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
    changed = []
    for path in pages(folder):
        before = path.read_text(encoding="utf-8")
        after = filled(before, folder, path.name)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed
