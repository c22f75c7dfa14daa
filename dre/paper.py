"""``make paper``: run the notebooks whose inputs have changed, in order, stop at the first that fails, make the page.

A notebook reruns when its code, a module of the package that it really uses, the profile, the data of this repository,
the locked versions or a notebook it needs has changed, or a file that it wrote is missing.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import sys
import time
from functools import cache

import mistune
from filelock import FileLock, Timeout

from dre import words
from dre.errors import DreError
from dre.headless import commit, execute, notebooks, source
from dre.profile import COMMITTED, profile, root
from dre.report import replace

SCORES = "scores"  # recorded SLM scores in results/: read and, with RETRAIN=1, written by notebooks
MADE = (".csv", ".md", ".tex", ".html", ".json", ".png", ".pdf")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>DRE and SLIDE: results</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }} img {{ max-width: 100% }}
th, td {{ padding: .2rem .7rem; border-bottom: 1px solid #d8dee4 }} td[style*=right] {{ white-space: nowrap }}
</style>
{body}</html>
"""


def run(profile):
    """Bring results, figures and page of a profile up to date; return the names of the notebooks that ran.

    Deletes what no notebook wrote, and brings committed notebooks and numbers in words up to date.
    """
    books = notebooks(profile.root)
    print(f"profile {profile.name}: {profile.title}; needs {profile.needs}", flush=True)
    profile.build.mkdir(parents=True, exist_ok=True)
    if profile.name == COMMITTED:
        words.check(profile.root, books)
    try:
        with FileLock(profile.root / "build" / "paper.lock", timeout=0):
            ran, changed = _run(books, profile), []
            drop_stale(books, profile)
            if profile.name == COMMITTED:
                changed = [book.path for book in books if commit(book.path, profile)] + words.fill(profile.root)
            for path in (*dict.fromkeys(changed), page(profile)):
                print(f"brought up to date: {path.relative_to(profile.root)}")
    except Timeout as error:
        raise DreError("another make paper is under way in this folder: wait for it to end") from error
    return ran


def _run(books, profile):
    ran, marks = [], {}
    _sha256.cache_clear(), _tree.cache_clear()
    for number, book in enumerate(books, 1):
        marks[book.name] = fingerprint(profile, book, marks)
        head, state = f"[{number}/{len(books)}] {book.name:<28}", profile.build / "state" / book.name
        before, *files = state.read_text(encoding="utf-8").splitlines() if state.is_file() else [""]
        if before == marks[book.name] and all((profile.root / name).exists() for name in files):
            print(f"{head} up to date", flush=True)
            continue
        print(f"{head} running", flush=True)
        state.unlink(missing_ok=True)
        started = time.monotonic()
        execute(book, profile)
        marks[book.name] = fingerprint(profile, book, marks)  # a notebook that trains records scores
        replace(state, "\n".join([marks[book.name], *written(book, profile)]))
        ran.append(book.name)
        print(f"{head} done in {time.monotonic() - started:.0f} s", flush=True)
    return ran


def manifest(book, profile):
    """Return what a notebook registered when it last ran; see `dre.notebook.Book`."""
    path = profile.results / "manifest" / f"{book.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"items": [], "not_run": []}


def written(book, profile):
    """Return the names of the files that a notebook registered when it last ran."""
    return [name for item in manifest(book, profile)["items"] for name in item["files"]]


def drop_stale(books, profile):
    """Delete what lies in results and figures of a profile and no notebook writes; recorded scores stay."""
    own = {profile.root / name for book in books for name in written(book, profile)}
    own |= {profile.results / "index.html", *(profile.results / "manifest" / f"{book.name}.json" for book in books)}
    for path in sorted([*profile.results.rglob("*"), *profile.figures.rglob("*")]):
        if path.suffix in MADE and path not in own and path.parent.name != SCORES:
            print(f"deleted, no notebook writes it: {path.relative_to(profile.root)}")
            path.unlink()


def fingerprint(profile, book, marks):
    """Hash what a notebook's result depends on (`marks`: these hashes of others); comments and prose do not count."""
    used = modules(profile.root, book.tree)
    files = [*used, *sorted(path for path in (profile.root / "data").rglob("*") if path.is_file())]
    files += [profile.root / "profiles" / f"{profile.name}.yaml", profile.root / "requirements.lock"]
    digests = [_sha256(path) for path in files]
    if profile.root / "dre/slm/scores.py" in used:  # a run may add to recorded scores: read anew
        beside = [*(profile.results / SCORES).glob("*"), *profile.root.glob("dre/slm/default/*.json")]
        digests += map(_sha256.__wrapped__, sorted(beside))
    needed, retrain = [marks[name] for name in book.needs], os.environ.get("RETRAIN", "")
    mark = [sys.version, ast.dump(book.tree), needed, digests, retrain]
    return hashlib.sha256(json.dumps(mark).encode()).hexdigest()


# Code and data as they were when the run began.
_sha256 = cache(lambda path: hashlib.sha256(path.name.encode() + path.read_bytes()).hexdigest())
_tree = cache(lambda path: ast.parse(path.read_text(encoding="utf-8")))


def modules(root, tree):
    """Return the files of the package that code uses, directly or not, found without importing any.

    ``dre/__init__.py`` leads nowhere, but who asks `dre` itself for a name is taken to use all of the package.
    """
    files = {str(path.relative_to(root).with_suffix("")): path for path in (root / "dre").rglob("*.py")}
    files = {name.replace(os.sep, ".").removesuffix(".__init__"): path for name, path in files.items()}
    names, todo = set(), _imported(tree)
    while todo:
        name = todo.pop()
        names.add(name)
        if name in files:
            package = name if files[name].stem == "__init__" and name != "dre" else None
            todo |= _imported(_tree(files[name]), package) - names
        elif name.count(".") == 1:
            todo |= files.keys() - names
    found = {files[name] for name in names & files.keys()}
    beside = {folder for path in found for folder in (path.parent, path.with_suffix(""))}
    return sorted(found | {path for folder in beside for path in folder.glob("*") if path.suffix in (".txt", ".yaml")})


def _imported(tree, package=None):
    """Return what code imports, and what lies above (a.b.c runs a and a.b); of a `package` texts, too: lazy modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names |= {f"{base}{alias.name}" for alias in node.names}
        elif package and isinstance(node, ast.Constant):
            names.add(f"{package}.{node.value}")
    return {
        name[: dot.start()] for name in names if f"{name}.".startswith("dre.") for dot in re.finditer(r"\.|$", name)
    }


def page(profile):
    """Write ``results/<profile>/index.html`` and return its path: of each notebook its first cell and what it made.

    Figures are linked, not embedded. Numbers in first cells are of the committed profile: for another one, titles do.
    """
    parts = [f"# DRE and SLIDE: results\n\nProfile **{profile.name}**: {profile.title}"]
    verdicts = profile.root / "docs" / "verdicts.md"
    if profile.name == COMMITTED and verdicts.exists():
        parts.append('<h2 id="What-the-papers-say,-and-what-came-out">What the papers say, and what came out</h2>')
        parts.append(re.sub("<!--.*?-->", "", verdicts.read_text(encoding="utf-8")))
    for book in notebooks(profile.root):
        texts = [source(cell) for cell in book.content["cells"] if cell["cell_type"] == "markdown"]
        first = re.sub(r"<!--.*?-->|\[!\[.*", "", f"#{(texts or [f'# {book.name}'])[0]}")  # no places, no badge
        parts.append(first if profile.name == COMMITTED else first.partition("\n")[0])
        made = manifest(book, profile)
        for item in made["items"]:
            one, *two = (os.path.relpath(profile.root / name, profile.results) for name in item["files"])
            if item["kind"] == "table":
                parts.append(f"{(profile.results / two[0]).read_text(encoding='utf-8')}\n[CSV]({one})")
            elif item["kind"] == "figure":
                parts.append(f"![{item['name']}]({one})\n\n{item['caption']} ([PDF]({two[0]}))")
            elif item["kind"] == "data":
                parts.append(f"{item['caption']}: [CSV]({one})")
        parts += [f"Not run: {one['what']} ({one['why']})" for one in made["not_run"]]
    path = profile.results / "index.html"
    replace(path, PAGE.format(body=mistune.html("\n\n".join(parts))))
    return path


def main(argv=None):
    """Run the command line and return its exit status: 0, 1 with an error in words, or 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="make paper", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="mini", help="a file in profiles/, by its name (default: mini)")
    args = parser.parse_args(argv)
    try:
        run(profile(args.profile, root()))
    except (DreError, OSError, RuntimeError) as error:  # RuntimeError: a kernel died
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: finished notebooks are kept; the same command goes on from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
