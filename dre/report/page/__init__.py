"""The report page: one HTML file with every table and figure, and what was not run and why."""

import base64
import hashlib
import json
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from dre.report.figure import DPI

SCREEN = 110  # dots an inch
SHOWN = ("torch", "transformers", "sentence-transformers", "numpy", "pandas", "scipy", "scikit-learn")


def page(profile, notebooks):
    """Write ``results/<profile>/index.html`` and return its path.

    Images are embedded, so the file can be moved or mailed. Nothing in it comes from a clock: the date is
    that of the commit the results were made from.

    Parameters
    ----------
    profile : object
        With ``name, title, needs, root, results`` (see `dre.pipeline.profile.Profile`).
    notebooks : list of (str, str)
        Name and title of each notebook, in reading order.
    """
    import jinja2

    sections = [_section(profile, name, title) for name, title in notebooks]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("page.html.j2").render(
        profile=profile, sections=sections, provenance=provenance(profile.root)
    )
    path = profile.results / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def provenance(root):
    """Return what the results were made with, as (name, value) pairs: commit and its date, lock, versions."""
    lock = Path(root) / "requirements.lock"
    found = [("Commit", _commit(root)), ("Python", platform.python_version())]
    if lock.exists():
        found.append(("Lock file (sha256)", hashlib.sha256(lock.read_bytes()).hexdigest()[:16]))
    return found + [(name, version(name)) for name in SHOWN]


def _commit(root):
    # results/ and figures/ change by running; only changed sources make a commit's name a half-truth.
    sources = [":!results", ":!figures", ":!notebooks"]
    made = _git(root, "show", "-s", "--date=short", "--format=%h of %cd")
    if not made:
        return "not a git checkout"
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *sources)
    return made + (", with changes not committed" if changed else "")


def _git(root, *arguments):
    try:
        answer = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _section(profile, name, title):
    manifest = profile.results / "manifest" / f"{name}.json"
    record = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else {"items": [], "not_run": []}
    items = [_item(profile, item) for item in record["items"]]
    return {"name": name, "title": title, "items": items, "not_run": record["not_run"]}


def _item(profile, item):
    links = [(name.rpartition(".")[2].upper(), _relative(name, profile)) for name in item["files"]]
    # A table may have the name of the figure it belongs to, so anchors say the kind.
    label = _label(item["name"]) + (" (table)" if item["kind"] == "table" and "figure" in item["name"] else "")
    shown = dict(item, links=links, label=label, anchor=f"{item['kind']}-{item['name']}")
    if item["kind"] == "figure":
        png = next(name for name in item["files"] if name.endswith(".png"))
        content = (profile.root / png).read_bytes()
        shown["data"] = base64.b64encode(content).decode()
        # The width in the file's header, brought from its resolution to the screen's: letters of one size.
        shown["width"] = round(int.from_bytes(content[16:20], "big") * SCREEN / DPI)
    return shown


def _label(name):
    """Return "Table 3" for table3, and so on."""
    word, number = re.fullmatch(r"(.*?)(\d*)", name).groups()
    return f"{word.replace('_', ' ').strip().capitalize()} {number}".strip()


def _relative(name, profile):
    """Return the address of file `name` (relative to the root) from the page in ``results/<profile>/``."""
    own = f"results/{profile.name}/"
    return name.removeprefix(own) if name.startswith(own) else f"../../{name}"
