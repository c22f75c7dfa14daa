"""The README of a profile's results: every file, the notebook that wrote it, and a line about it.

It is made from the manifests of all notebooks, also of those that a run leaves alone.
"""

import posixpath

import pandas as pd

from dre.paper.headless import manifest, notebooks
from dre.paper.profile import Profile
from dre.tables import EMPTY, Table

#: What may lie beside the notebooks' files.
_BESIDE = {
    "augmented": "contexts with replies that the profile's judge wrote",
    "bill_of_run.md": "what live judges were asked, and what it took",
    "manifest": "what each notebook wrote, with hashes, and what it did not run",
    "words": "numbers that README and docs show",
}
_NOTE = "`make paper` writes this page. Figures are in [{0}]({0})."


def readme(profile: Profile) -> str:
    """Return the README: a row for each table of a notebook, and for what lies beside these."""
    rows = []
    for book in notebooks(profile.root):
        notebook = f"[{book.name}](../../notebooks/{book.path.name})"
        for item in manifest(book, profile)["items"]:
            links = _links(profile, item["files"])
            if links and item["kind"] in ("table", "data"):
                rows.append({"file": links, "notebook": notebook, "content": item["caption"]})
    for name, content in _BESIDE.items():
        links = _links(profile, [f"results/{profile.name}/{name}"])
        if links:
            rows.append({"file": links, "notebook": EMPTY, "content": content})

    title = f"Results of profile {profile.name}"
    note = _NOTE.format(f"../../figures/{profile.name}")
    df = pd.DataFrame(rows, columns=["file", "notebook", "content"])
    table = Table(df, "README", title, note, rows=len(rows))
    _caption, _, text = table.markdown().partition("\n\n")
    return f"# {title}\n\n{text}"


def _links(profile, names):
    """Return links to those files of a project that exist, for a page among the results."""
    links = []
    for name in names:
        if (profile.root / name).exists():
            path = posixpath.relpath(name, f"results/{profile.name}")
            links.append(f"[{path}]({path})")
    return ", ".join(links)
