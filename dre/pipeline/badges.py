"""Set the repository's address everywhere it is used (``make badges REPO=owner/name``).

It is stated once, in ``pyproject.toml``; Colab badges, setup cells and ``CITATION.cff`` repeat it.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

from dre.errors import DreError

FILES = ("pyproject.toml", "CITATION.cff", "README.md", "notebooks/*.ipynb")
COLAB = "https://colab.research.google.com/github/{slug}/blob/main/notebooks/{name}.ipynb"


def repository(root):
    """Return ``owner/name`` as ``[project.urls] Repository`` of ``pyproject.toml`` states it."""
    project = tomllib.loads((Path(root) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["urls"]["Repository"].removeprefix("https://github.com/")


def rename(root, slug):
    """Replace the address in all of `FILES` by that of `slug` (``owner/name``); return the changed paths."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", slug):
        raise DreError(f"'{slug}' is not owner/name: say, for example, REPO=someone/dre")
    old = re.compile(rf"(github\.com/|/github/){re.escape(repository(root))}(?![\w-])")
    changed = []
    for path in (path for pattern in FILES for path in sorted(Path(root).glob(pattern))):
        before = path.read_text(encoding="utf-8")
        after = old.sub(lambda match: match[1] + slug, before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def main(argv=None, root="."):
    """Run the command line: without ``--repo`` print the address, with it set it."""
    parser = argparse.ArgumentParser(prog="make badges")
    parser.add_argument("--repo", help="owner/name on GitHub")
    args = parser.parse_args(argv)
    try:
        changed = rename(root, args.repo) if args.repo else []
    except DreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"repository: {repository(root)}; files changed: {', '.join(map(str, changed)) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
