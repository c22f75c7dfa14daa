"""Tables in the README come from files in ``results/``: this module copies them in, and tells where they differ.

A block looks like this, with the file's text between the two comments::

    <!-- include results/public/table3.md -->
    <!-- end -->
"""

import re

from dre.errors import DreError

BLOCK = re.compile(r"(<!-- include (?P<path>\S+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)


def filled(text, folder):
    """Return the README's ``text`` with every block filled from its file below ``folder``.

    Raises
    ------
    DreError
        If a file is missing.
    """

    def fill(match):
        path = folder / match["path"]
        if not path.is_file():
            raise DreError(f"README.md includes {match['path']}, which does not exist: run `make paper PROFILE=public`")
        return f"{match[1]}\n{path.read_text(encoding='utf-8').strip()}\n\n{match[4]}"

    return BLOCK.sub(fill, text)


def fill(folder):
    """Fill README.md in ``folder`` and return whether it changed."""
    path = folder / "README.md"
    if not path.exists():
        return False
    before = path.read_text(encoding="utf-8")
    after = filled(before, folder)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before
