"""``make paper``: run the notebooks whose inputs have changed, stop when one fails, and make the page.

A notebook reruns when its code or a file that it read has changed (modules, the profile, data, the locked versions,
what other notebooks wrote), or when a file that it wrote is not as it left it: see `dre.paper.state`.
Without make, as on Windows or under conda, the command is ``python -m dre.paper --profile public``.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from filelock import FileLock, Timeout

from dre.environment import make_paths_absolute
from dre.errors import DreError
from dre.files import replace
from dre.paper import state, words
from dre.paper.headless import code, commit, execute, notebooks, source
from dre.paper.profile import COMMITTED, check_clone, profile, root


def run(profile, jobs=2):
    """Bring results, figures and page of a profile up to date; return the names of the notebooks that ran.

    Deletes what notebooks wrote once and write no more, and brings committed notebooks and numbers in words up to date.
    At most ``jobs`` notebooks run at a time, and one where judges are asked or RETRAIN is set: it records what it does.
    """
    books, changed = notebooks(profile.root), []
    print(
        f"profile {profile.name}: {profile.title}; needs {profile.needs}; {len(books)} notebooks",
        flush=True,
    )
    if profile.name == COMMITTED:
        words.check(profile.root, books)
    if others := {path.name for path in profile.root.glob("notebooks/*.ipynb")} - {
        book.path.name for book in books
    }:
        print(f"not run, since its name is none of the project's: {', '.join(sorted(others))}")
    (profile.build / "state").mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(filter(None, [str(profile.root), os.environ.get("PYTHONPATH")]))
    os.environ |= {
        "DRE_ROOT": str(profile.root),
        "PYTHONPATH": path,
        "TOKENIZERS_PARALLELISM": "false",
    }
    try:
        with FileLock(profile.root / "build" / "paper.lock", timeout=0):
            ran = _run(books, profile, jobs)
            for book in notebooks(profile.root):
                if why := stale(book, profile):
                    raise DreError(
                        f"{book.path.name}: {why} after it was executed: run the same command again"
                    )
            drop_stale(books, profile)
            if profile.name == COMMITTED:
                changed = [book.path for book in books if commit(book.path, profile)] + words.fill(
                    profile.root
                )
            for path in (*dict.fromkeys(changed), page(profile)):
                print(f"brought up to date: {path.relative_to(profile.root)}")
    except Timeout as error:
        raise DreError(
            "another make paper is under way in this folder: wait for it to end"
        ) from error
    return ran


def _run(books, profile, jobs):
    """Run stale notebooks, each after those it needs; return the names of those that ran as they ended."""
    live = any(not judge.startswith("recorded:") for judge in profile.judges)
    if live or os.environ.get("RETRAIN", "0") not in ("", "0"):
        jobs = 1  # what is asked or trained is recorded
    train = [book for book in books if book.trains and profile.name != COMMITTED]
    if jobs > 1 and train:  # for all others, on all cores
        return _run(train, profile, 1) + _run(
            [book for book in books if book not in train], profile, jobs
        )
    after = {}  # how long a chain of notebooks waits for each: the longest begins first
    for book in reversed(books):
        for name in book.needs:
            after[name] = max(after.get(name, 0), after.get(book.name, 0) + 1)
    if jobs > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, os.cpu_count() // jobs)))
    waiting, running, ran, failed = (
        sorted(books, key=lambda book: -after.get(book.name, 0)),
        {},
        [],
        [],
    )
    # Kernels start in the working directory, which threads share.
    with contextlib.chdir(profile.root / "notebooks"), ThreadPoolExecutor(jobs) as pool:
        try:
            while waiting or running:
                unmet = {book.name for book in (*waiting, *running.values())}
                for book in [book for book in waiting if unmet.isdisjoint(book.needs)][
                    : jobs - len(running)
                ]:
                    waiting.remove(book)
                    running[pool.submit(_bring, book, profile)] = book
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    book = running.pop(done)
                    try:
                        ran += [book.name] if done.result() else []
                    except DreError as error:
                        failed.append(str(error))
                        waiting.clear()  # what runs beside it may end
        except BaseException:  # an interrupt: the pool ends when its kernels do
            import psutil

            while not all(future.done() for future in running):
                for process in psutil.Process().children(recursive=True):
                    process.kill()
                time.sleep(0.1)
            raise
    if failed:
        raise DreError("\n".join(failed))
    return ran


def _bring(book, profile):
    """Execute a notebook if it is stale, keep what it read and wrote, and return whether it ran."""
    file, label, started = profile.build / "state" / book.name, f"{book.name:<34}", time.monotonic()
    if not (why := stale(book, profile)):
        print(f"{label} up to date\n", end="", flush=True)
        return False
    print(f"{label} running: {why}\n", end="", flush=True)
    made = state.load(file)
    replace(file, state.text({"before": made["before"] | made["wrote"]}))
    target = execute(book, profile, file)
    made = state.load(file)
    if state.LOCK not in made["read"]:
        raise DreError(f"{book.path.name}: its kernel kept no record of what it read, in {file}")
    made["wrote"][target.relative_to(profile.root).as_posix()] = state.digest(target)
    made["read"] = {
        name: value for name, value in made["read"].items() if name not in made["wrote"]
    }
    for name in [
        name for name in made["read"] if os.environ.get("RETRAIN") and f"/{state.SCORES}" in name
    ]:
        made["read"][name] = state.digest(profile.root / name)  # it may have added to what it read
    made["ended"] = {book.name: _mark(code(json.loads(target.read_text(encoding="utf-8"))))}
    replace(file, state.text(made))
    memory = made["peak"].get("kernel", "unknown")
    print(
        f"{label} done in {time.monotonic() - started:.0f} s, {memory} MB of memory\n",
        end="",
        flush=True,
    )
    return True


def _mark(lines):
    """Return the hash of a notebook's code and of what else decides what it does."""
    return hashlib.sha256(
        json.dumps([sys.version, os.environ.get("RETRAIN", ""), lines]).encode()
    ).hexdigest()


def stale(book, profile):
    """Return in words why a notebook must run; None if all that its last run read and wrote is as it was then."""
    made = state.load(profile.build / "state" / book.name)
    if made["ended"] != {book.name: _mark(book.code)}:
        return (
            "its code, Python or RETRAIN has changed"
            if made["ended"]
            else "no run of it has ended well"
        )
    files = made["read"] | made["wrote"]
    return next(
        (
            f"{name} has changed"
            for name in files
            if state.digest(profile.root / name) != files[name]
        ),
        None,
    )


def drop_stale(books, profile):
    """Delete what notebooks wrote, none writes any more, and nobody has changed since: never a reader's own files."""
    names = {book.name for book in books}
    made = {file: state.load(file) for file in sorted((profile.build / "state").iterdir())}
    kept = {name for file in made if file.name in names for name in made[file]["wrote"]}
    for file, each in made.items():
        for name, value in (each["before"] | each["wrote"]).items():
            if name not in kept and value == state.digest(profile.root / name):
                print(f"deleted, no notebook writes it: {name}")
                (profile.root / name).unlink(missing_ok=True)
        if file.name not in names:
            file.unlink()


def manifest(book, profile):
    """Return what a notebook registered when it last ran; see `dre.paper.notebook.Book`."""
    path = profile.results / "manifest" / f"{book.name}.json"
    return (
        json.loads(path.read_text(encoding="utf-8"))
        if path.is_file()
        else {"items": [], "not_run": []}
    )


def page(profile):
    """Write ``results/<profile>/index.html`` and return its path: the verdicts, then a part for each notebook.

    Figures are linked, not embedded. Numbers in words are of the committed profile: for another one, titles do.
    """
    import mistune

    books, parts = (
        notebooks(profile.root),
        [f"# DRE and SLIDE: results\n\nProfile **{profile.name}**: {profile.title}"],
    )
    titles = {book: _title(book) for book in books}
    verdicts = profile.root / "docs" / "verdicts.md"
    shown = profile.name == COMMITTED and verdicts.exists()
    contents = ["- [What the papers say, and what came out](#verdicts)"] if shown else []
    parts.append(
        "\n".join([*contents, *(f"- [{title}](#{book.name})" for book, title in titles.items())])
    )
    if shown:
        parts.append('<h2 id="verdicts">What the papers say, and what came out</h2>')
        parts.append(re.sub("<!--.*?-->", "", verdicts.read_text(encoding="utf-8")))
    for book, title in titles.items():
        parts += [f'<h2 id="{book.name}">{title}</h2>', *_part(book, profile)]
    path = profile.results / "index.html"
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    replace(path, template.replace("BODY", mistune.html("\n\n".join(parts))))
    return path


def _title(book):
    texts = (source(cell) for cell in book.content["cells"] if cell["cell_type"] == "markdown")
    return next(texts, f"# {book.name}").partition("\n")[0].removeprefix("# ")


def _part(book, profile):
    """What a notebook's part of the page holds: sentences with numbers, tables and figures, in their order."""
    made, parts = manifest(book, profile), []
    items = {
        kind: [one for one in made["items"] if one["kind"] == kind]
        for kind in ("table", "figure", "data")
    }

    def paths(item):
        return [os.path.relpath(profile.root / name, profile.results) for name in item["files"]]

    def table():
        csv, text = paths(item := items["table"].pop(0))
        parts.append(f"{(profile.results / text).read_text(encoding='utf-8')}\n[CSV]({csv})")

    def figure():
        png, pdf = paths(item := items["figure"].pop(0))
        parts.append(f"![{item['name']}]({png})\n\n{item['caption']} ([PDF]({pdf}))")

    for cell in book.content["cells"] if profile.name == COMMITTED else ():
        if cell["cell_type"] == "markdown" and "<!--" in source(cell):
            text = re.sub(
                r"(?s)<!--[\w/]+\.(?:md|csv)-->.*?<!--/-->", "", source(cell)
            )  # the verdicts stand above
            text = re.sub(r"<!--.*?-->|\[!\[.*|^# .*", "", text)  # no places, no badge, no title
            text = re.sub(
                r"\]\((?!http|#)", f"]({os.path.relpath(book.path.parent, profile.results)}/", text
            )
            text = re.sub(r"\]\(#[^)]*", f"](#{book.name}", text)
            parts.append(_without_latex(re.sub("^#+ ", "### ", text, flags=re.MULTILINE)))
        for output in cell.get("outputs", ()):
            for kind, form, show in (
                ("table", "text/markdown", table),
                ("figure", "image/png", figure),
            ):
                if form in output.get("data", ()) and items[kind]:
                    show()
    for kind, show in (
        ("table", table),
        ("figure", figure),
    ):  # of a profile whose outputs are not committed
        while items[kind]:
            show()
    if items["data"]:
        parts.append(
            "Further tables: "
            + ", ".join(f"[{one['caption']}]({paths(one)[0]})" for one in items["data"])
        )
    return [*parts, *(f"Not run: {one['what']} ({one['why']})" for one in made["not_run"])]


def _without_latex(text):
    """Markdown whose inline formulas are HTML: the page has no renderer. What is displayed stands in the notebooks."""
    text = re.sub(r"(?s)\$\$.*?\$\$", "", text)
    return re.sub(
        r"\$(?=\S)([^$\n]*\S)\$(?!\d)", lambda found: f"<i>{_formula(found[1])}</i>", text
    )


def _formula(latex):
    latex = re.sub(
        r"\\[,;]", " ", re.sub(r"\\(?:mathrm|mathcal|bar)\s*(?:\{([^{}]*)\}|(\w))", r"\1\2", latex)
    )
    for sign, tag in (("_", "sub"), (r"\^", "sup")):
        latex = re.sub(rf"{sign}(?:\{{([^{{}}]*)\}}|(\w))", rf"<{tag}>\1\2</{tag}>", latex)
    return re.sub(
        r"\\(\w+)", lambda found: {"cdot": "·", "kappa": "κ"}.get(found[1], found[1]), latex
    )


def main(argv=None):
    """Run the command line and return its exit status: 0, 1 with an error in words, or 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="make paper", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--profile", default="mini", help="a file in profiles/, by its name (default: mini)"
    )
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count()), help="how many notebooks run at a time"
    )
    args = parser.parse_args(argv)
    make_paths_absolute()  # kernels run in notebooks/
    try:
        folder = root().resolve()
        check_clone(folder)
        run(profile(args.profile, folder), max(1, args.jobs))
    except (DreError, OSError, RuntimeError) as error:  # RuntimeError: a kernel died
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\ninterrupted: finished notebooks are kept; the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    return 0
