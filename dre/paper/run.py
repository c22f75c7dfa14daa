"""``make paper``: train and ask what notebooks read, run those that are stale, build the book.

A notebook is stale when its code, the package, the profile, the locked versions, data, recordings,
stored replies, trained models or a notebook that it needs has changed. All of that is one hash,
which stands beside its executed copy in ``build/``. Without make, as on Windows or under conda, the
command is ``python -m dre.paper --profile public``.
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
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from dre.datasets import registry
from dre.environment import make_paths_absolute
from dre.errors import DreError
from dre.files import replace
from dre.judges.ask import drop_calls
from dre.judges.judge import new_run
from dre.judges.store import Store
from dre.paper import check, verdicts, website, words
from dre.paper.books import Notebook, commit, notebooks, up_to_its_end, without_prose_of_committed
from dre.paper.notebook import RUN, files_of
from dre.paper.profile import COMMITTED, RECORDED, Profile, check_clone, profile, root

#: What every notebook depends on, besides its code and its profile.
_INPUTS = ("requirements.lock", "dre/**/*", "data/**/*", "results/**/*", "docs/*.png")
_INDEX = ["file", "notebook", "caption"]


def run(settings: Profile, jobs: int = 2) -> list[str]:
    """Bring results, figures and book of a profile up to date; return the notebooks that ran.

    Parameters
    ----------
    settings : the profile. Of its notebooks those that it names are run, by default all.
    jobs : how many notebooks run at a time. With RETRAIN it is one, since such a run records.

    Raises
    ------
    DreError
        At once if the profile cannot be carried out, or another run is under way. At the end, when
        all else is done, if a judge did not answer all or a notebook failed.
    """
    try:
        settings.build.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.root / "build" / "paper.lock", timeout=0):
            return _run(settings, jobs)
    except Timeout:
        raise DreError("another make paper is under way here: wait for its end") from None


def _run(settings, jobs):
    print(f"profile {settings.name}: {settings.title}; needs {settings.needs}", flush=True)
    settings = with_needed(settings)
    not_come = []
    new_marks = marks(settings)
    if any(_is_stale(settings, book, mark) for book, mark in new_marks.items()):
        not_come = _prepare(settings)
        # A judge that has not answered all is asked again by the next run, and so all run again.
        new_marks = marks(settings, is_complete=not not_come)
    stale = {book: mark for book, mark in new_marks.items() if _is_stale(settings, book, mark)}
    ran, failures = _execute_together(settings, stale, jobs)

    _write_index(settings)
    print(verdicts.write(settings), flush=True)
    if settings.name == COMMITTED:
        ended = [book for book, mark in new_marks.items() if not _is_stale(settings, book, mark)]
        try:
            _bring_committed_files_up_to_date(settings, ended)
        except DreError as error:
            failures.append(str(error))
    if not stale:
        print(f"up to date: {', '.join(book.name for book in new_marks)}")
    try:
        if stale or not website.folder(settings).is_dir():
            _build_book(settings)
    except DreError as error:
        failures.append(str(error))
    if failures or not_come:
        raise DreError("\n".join([*failures, *not_come]))
    return ran


def with_needed(settings: Profile) -> Profile:
    """Return a profile with the names of all notebooks that it runs: its own, and what they need.

    DreError if there is no such notebook.
    """
    books = {book.name: book for book in notebooks(settings.root)}
    names = set(settings.notebooks or books)
    unknown = sorted(names - set(books))
    if unknown:
        raise DreError(f"there is no notebook {unknown[0]}: expected some of {', '.join(books)}")
    for book in reversed(books.values()):
        if book.name in names:
            names.update(book.needs)
    return settings.model_copy(update={"notebooks": tuple(sorted(names))})


def _prepare(settings):
    """Fetch, train and ask what notebooks read; return in words what did not come.

    All of this goes on where it was if it was ended.
    """
    _fetch_public_data(settings)
    for line in check.check(settings):
        print(line, flush=True)
    from dre.paper import ask, bill  # which load judges and models

    paid_run = new_run()
    not_come = []
    with contextlib.chdir(settings.root / "notebooks"):  # from where notebooks read
        try:
            if settings.name != COMMITTED:
                ask.train(settings)
            not_come = ask.ask(settings, run=paid_run)
        finally:
            if settings.has_live_judge:
                bill.write(settings)
                print(bill.in_words(settings, paid_run), flush=True)
    return not_come


def _fetch_public_data(settings):
    """Fetch the public data that a profile reads; a DreError says what to do without a network."""
    missing = registry.absent() if settings.reads_public_data else []
    if not missing:
        return
    print(f"public data: {registry.amount(missing)}, are fetched into {registry.home()}, once")
    try:
        for name in missing:
            registry.fetch(name)
    except DreError as error:
        raise DreError(
            f"nothing was run, since public data are absent: {error}\n"
            "  without a network: run `dre data fetch` where there is one, copy its folder here, "
            "and set DRE_DATA_HOME to it. `make paper` alone runs profile mini, which needs no data"
        ) from error


# Which notebooks are stale


def marks(settings: Profile, is_complete: bool = True) -> dict[Notebook, str]:
    """Return for each notebook that a profile names the hash of all that it depends on.

    With `is_complete` false they are marks that no run finds again: it runs all of them anew.
    """
    shared = hashlib.sha256(f"{sys.version} {os.environ.get('RETRAIN')} {is_complete}".encode())
    asked = settings.model_dump_json(exclude={"title", "needs", "notebooks", "root"})
    shared.update(asked.encode())
    for path in _inputs(settings, asked):
        with path.open("rb") as file:
            shared.update(hashlib.file_digest(file, "sha256").digest())
        shared.update(path.name.encode())
    if settings.has_live_judge:
        store = Store()
        shared.update(store.bill("account", "judge", "prompt").to_csv().encode())
        store.close()
    by_name = {}
    chosen = {}
    for book in notebooks(settings.root):
        decisive = [shared.hexdigest(), book.code_hash, *(by_name[name] for name in book.needs)]
        by_name[book.name] = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()
        if book.name in settings.notebooks:
            chosen[book] = by_name[book.name]
    return chosen


def _inputs(settings, asked):
    """Yield the files that notebooks may read: the project's, trainings, those of the profile."""
    outputs = {settings.root / "results" / path.stem for path in settings.root.glob("profiles/*")}
    for pattern in _INPUTS:
        for path in sorted(settings.root.glob(pattern)):
            is_made = "__pycache__" in path.parts or outputs.intersection(path.parents)
            if path.is_file() and not is_made:
                yield path
    yield from sorted(settings.build.glob("models/*/slm.json"))
    for text in re.findall(r'"([^"]+)"', asked):
        path = settings.root / text
        if path.is_file():
            yield path
    recordings = [judge.model.removeprefix(RECORDED) for judge in settings.judge_settings]
    for name in (settings.encoder, *settings.metrics.values(), *recordings):
        folder = settings.root / name
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _executed_copy(settings, book):
    return settings.build / "notebooks" / book.path.name


def _mark_file(settings, book):
    """Where the mark of a notebook stands since it ended; it is gone while the notebook runs."""
    return _executed_copy(settings, book).with_suffix(".mark")


def _is_stale(settings, book, mark):
    """Whether a notebook has to run: it did not end with this mark, or what it wrote is gone."""
    mark_file = _mark_file(settings, book)
    if not mark_file.is_file() or mark_file.read_text() != mark:
        return True
    written = [settings.root / entry["file"] for entry in files_of(settings, book.name)]
    return not all(file.is_file() for file in (_executed_copy(settings, book), *written))


# Running them


def _execute_together(settings, stale, jobs):
    """Execute notebooks, each after those that it needs; return the names of those that ended.

    Also returned is in words what failed: other notebooks than those that need it run nevertheless.
    """
    jobs = 1 if os.environ.get("RETRAIN") else max(1, jobs)
    search_path = [str(settings.root), os.environ.get("PYTHONPATH", "")]
    os.environ |= {
        "DRE_ROOT": str(settings.root),
        RUN: settings.name,
        "PYTHONPATH": os.pathsep.join(filter(None, search_path)),
        "TOKENIZERS_PARALLELISM": "false",
    }
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    waiting = list(stale)
    running = {}  # future -> notebook
    ended = []
    failures = {}  # name -> why
    # Kernels start in the working directory, which all threads share.
    with contextlib.chdir(settings.root / "notebooks"), ThreadPoolExecutor(jobs) as pool:
        try:
            while waiting or running:
                for book in list(waiting):
                    failed = failures.keys() & set(book.needs)
                    if failed:
                        waiting.remove(book)
                        failures[book.name] = f"{book.name} was not run: it needs {min(failed)}"
                        continue
                    unfinished = {one.name for one in [*waiting, *running.values()]}
                    if len(running) < jobs and unfinished.isdisjoint(book.needs):
                        waiting.remove(book)
                        running[pool.submit(_execute, settings, book, stale[book])] = book
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    book = running.pop(future)
                    error = future.exception()
                    if error is None:
                        ended.append(book.name)
                    else:
                        failures[book.name] = str(error)
                        print(error, flush=True)
        except BaseException:  # such as an interrupt: the pool ends when its kernels do
            while not all(future.done() for future in running):
                _kill_kernels()
                time.sleep(0.1)
            raise
    return ended, list(failures.values())


def _kill_kernels():
    """Kill the processes that this one has started."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _execute(settings, book, mark):
    """Execute a notebook into the build folder. Its mark is written last: a killed run has none."""
    import papermill

    print(f"{book.name}: running\n", end="", flush=True)  # at once: another one may begin, too
    started = time.monotonic()
    executed = _executed_copy(settings, book)
    content = book.content
    if settings.name != COMMITTED:
        content = without_prose_of_committed(content)
    try:
        _mark_file(settings, book).unlink(missing_ok=True)
        replace(executed, json.dumps(content))
        papermill.execute_notebook(
            executed,
            executed,
            {"profile": settings.name},
            kernel_name="python3",
            language="python",
            progress_bar=False,
            request_save_on_cell_execute=False,
            stderr_file=sys.stderr,  # such as the epochs of a training
            extra_arguments=["--log-level=CRITICAL"],
        )
        if settings.name != COMMITTED:
            content = up_to_its_end(json.loads(executed.read_text(encoding="utf-8")))
            replace(executed, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
        replace(_mark_file(settings, book), mark)
    except Exception as error:  # whatever it is: other notebooks run
        raise DreError(
            f"{book.path.name} {_failure(error)}; as far as it came: {executed}"
        ) from error
    print(f"{book.name}: done in {time.monotonic() - started:.0f} s\n", end="", flush=True)


def _failure(error: Any) -> str:
    """Return in which cell and at which line a notebook failed, and how."""
    from papermill.exceptions import PapermillExecutionError

    if not isinstance(error, PapermillExecutionError):  # such as a kernel that died
        return f"failed: {error!r} (was memory short? --jobs 1 takes less)"
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))  # without colours
    lines = re.findall(r"^-+> *\d+ *(.*)", traceback, re.MULTILINE) or [error.source.strip()]
    cell = error.exec_count - 1  # papermill has added one
    return f"failed in cell [{cell}] at {lines[0]!r}: {error.ename}: {error.evalue}"


# What a run leaves


def _write_index(settings):
    """Write ``index.csv``: which notebook wrote which file. Delete what none writes any more."""
    path = settings.results / "index.csv"
    last = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=_INDEX)
    listed = []
    have_all_ended = True
    for book in notebooks(settings.root):
        if _mark_file(settings, book).is_file():
            listed += files_of(settings, book.name)
        else:  # as in a new clone, where a notebook that has not run has committed files
            have_all_ended = False
    tables = [pd.DataFrame(listed, columns=_INDEX)]
    tables += [] if have_all_ended else [last]
    index = pd.concat(tables).drop_duplicates("file").sort_values("notebook", kind="stable")
    for name in set(last["file"]) - set(index["file"]):
        print(f"deleted, no notebook writes it: {name}")
        (settings.root / name).unlink(missing_ok=True)
    replace(path, index.to_csv(index=False, lineterminator="\n"))


def _bring_committed_files_up_to_date(settings, ended):
    """Put outputs of notebooks that ended into the committed ones, and numbers into docs."""
    changed = []
    for book in ended:
        if commit(book, _executed_copy(settings, book), settings.root):
            changed.append(book.path)
    for path in [*changed, *words.fill(settings.root)]:
        print(f"brought up to date: {path.relative_to(settings.root)}")


def _build_book(settings):
    """Build the website of the notebooks that there are, if its packages and settings are there."""
    if not (settings.root / "docs" / "conf.py").is_file():
        return
    if not website.is_installed():
        advice = f"{website.HOW_TO_INSTALL} --profile {settings.name}"
        print(f"no book, since its packages are not installed: {advice}")
        return
    website.build(settings)
    index = website.folder(settings) / "index.html"
    print(f"the book: {index.relative_to(settings.root)}")


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 after an error, or 130 if interrupted."""
    parser = argparse.ArgumentParser(
        prog="make paper", description=(__doc__ or "").partition("\n")[0]
    )
    add = parser.add_argument
    add("--profile", help="a file in profiles/, by its name (default: mini; with --book: public)")
    add("--only", metavar="03", help="run one notebook, after those that it needs")
    add("--book", action="store_true", help="run no notebook, only build the book")
    add("--jobs", type=int, default=2, help="how many notebooks run at a time")
    add("--estimate", action="store_true", help="say what a run would take; nothing is asked")
    args = parser.parse_args(argv)
    make_paths_absolute()  # kernels run in notebooks/
    try:
        folder = root().resolve()
        check_clone(folder)
        settings = profile(args.profile or (COMMITTED if args.book else "mini"), folder)
        if args.only:
            names = [book.name for book in notebooks(folder) if book.name.startswith(args.only)]
            settings = settings.model_copy(update={"notebooks": tuple(names or [args.only])})
        if args.estimate:
            from dre.paper import estimate

            print(estimate.report(with_needed(settings)))
        elif args.book:
            _build_book(settings)
        else:
            run(settings, args.jobs)
    except (DreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\ninterrupted: finished notebooks are kept; the same command goes on from there",
            file=sys.stderr,
        )
        if drop_calls():  # a second interrupt does not wait for the calls in flight
            os._exit(130)
        return 130
    return 0
