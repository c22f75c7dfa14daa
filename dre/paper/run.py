"""``make paper``: run the notebooks whose inputs have changed, and build the book.

A notebook runs again when its code or a file that it read has changed (modules, the profile, data,
the locked versions, what other notebooks wrote), or when a file that it wrote is not as it left it:
see `dre.paper.state`. Without make, as on Windows or under conda, the command is
``python -m dre.paper --profile public``.
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from filelock import FileLock, Timeout

from dre.datasets import registry
from dre.environment import make_paths_absolute
from dre.errors import DreError
from dre.files import replace
from dre.judges.ask import drop_calls
from dre.judges.judge import new_run
from dre.paper import bill, check, contents, state, website, words
from dre.paper.headless import Notebook, code, commit, execute, notebooks
from dre.paper.profile import COMMITTED, Profile, check_clone, profile, root


def run(profile: Profile, jobs: int = 2) -> list[str]:
    """Bring results, figures and book of a profile up to date.

    Models are trained first. Then live judges are asked what the notebooks read of them, and the
    notebooks are executed, which ask nobody.

    Deletes what notebooks wrote once and write no more. In the committed profile it brings the
    committed notebooks, and the numbers in README and docs, up to date as well.

    Parameters
    ----------
    profile : Profile
    jobs : int
        How many notebooks run at a time at most. It is one where RETRAIN is set, since such a run
        records what it does.

    Returns
    -------
    list of str
        The names of the notebooks that ran.

    Raises
    ------
    DreError
        If the profile cannot be carried out, a judge cannot be asked, a notebook fails or changes
        while it runs, or another run is under way.
    """
    books = _books_of(profile)
    print(
        f"profile {profile.name}: {profile.title}; needs {profile.needs}; {len(books)} notebooks",
        flush=True,
    )
    if profile.name == COMMITTED:
        words.check_names(profile.root, notebooks(profile.root))
    _name_other_notebooks(profile)
    _make_folder_of_records(profile)
    _fetch_public_data(books, profile)
    _set_environment_of_kernels(profile)
    paid_run = new_run()
    try:
        with FileLock(profile.root / "build" / "paper.lock", timeout=0):
            with _billed(profile, paid_run):
                ran = _bring_results_up_to_date(books, profile, jobs, paid_run)
            # It lists the bill, which is written last.
            replace(profile.results / "README.md", contents.readme(profile))
    except Timeout as error:
        raise DreError(
            "another make paper is under way in this folder: wait for it to end"
        ) from error
    return ran


def _bring_results_up_to_date(books, profile, jobs, paid_run):
    """Do what `run` does, but for the bill; return the names of the notebooks that ran."""
    for line in check.check(profile):
        print(line, flush=True)
    ran = _run_stale(books, profile, jobs, paid_run)
    _check_nothing_changed(profile)
    _drop_stale(profile)
    if profile.name == COMMITTED:
        changed = [book.path for book in books if commit(book.path, profile)]
        changed += words.fill(profile.root)
        for path in dict.fromkeys(changed):  # a notebook may have changed in both ways
            print(f"brought up to date: {path.relative_to(profile.root)}")
    _build_book_if_possible(profile)
    return ran


@contextlib.contextmanager
def _billed(profile, paid_run):
    """Write and print the bill when a run ends, also when it fails or is interrupted."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(DreError, OSError):  # the run has its own error to tell
            _tell_bill(profile, paid_run)
        raise
    _tell_bill(profile, paid_run)


def _tell_bill(profile, paid_run):
    """Write and print the bill of a profile that asks somebody."""
    if profile.has_live_judge:
        bill.write(profile)
        print(bill.in_words(profile, paid_run), flush=True)


def _books_of(profile):
    """Return the notebooks that a profile runs: all of them, unless it names some.

    A DreError if the profile cannot be carried out: if it names something that does not exist, or
    a notebook without those that it needs, unless their results are up to date.
    """
    books = {book.name: book for book in notebooks(profile.root)}
    if not profile.notebooks:
        return list(books.values())
    file = f"profiles/{profile.name}.yaml"
    for name in profile.notebooks:
        if name not in books:
            raise DreError(
                f"{file}: there is no notebook {name}; expected some of {', '.join(sorted(books))}"
            )
        for needed in books[name].needs:
            if needed not in profile.notebooks and (reason := stale(books[needed], profile)):
                raise DreError(
                    f"{file}: {name} needs the results of {needed}, which are not up to date "
                    f"({reason}): add {needed} to 'notebooks'"
                )
    return [book for book in books.values() if book.name in profile.notebooks]


def _fetch_public_data(books, profile):
    """Fetch the public data that a profile reads, before any notebook runs.

    A DreError with what is absent, and what to do, if a file cannot be fetched.
    """
    missing = registry.absent() if profile.reads_public_data else []
    if not missing or not any(stale(book, profile) for book in books):
        return
    print(
        f"public data: {registry.amount(missing)}, are fetched into {registry.home()}, once",
        flush=True,
    )
    for name in missing:
        try:
            registry.fetch(name)
        except DreError as error:
            raise DreError(_what_is_absent(registry.absent(missing), error)) from error


def _what_is_absent(names, error):
    """Return in words which public files are absent after an error, and what to do."""
    counts = Counter(registry.sources()[name]["name"] for name in names)
    of_sources = ", ".join(f"{source} ({n})" for source, n in counts.items())
    return (
        f"no notebook was run, since public data are absent from {registry.home()}: "
        f"{registry.amount(names)}, of {of_sources}\n"
        f"  the first of them: {error}\n"
        "  without a network: run `dre data fetch` where there is one, copy its folder here, and "
        "set DRE_DATA_HOME to it. `make paper` alone runs profile mini, which needs no data"
    )


def _make_folder_of_records(profile):
    """Make the folder of the records of runs; DreError if the project cannot be written to."""
    folder = profile.build / "state"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (profile.root / "build" / "paper.lock").touch()
    except OSError as error:
        raise DreError(
            f"{profile.root} cannot be written to ({error.strerror}), and results are written "
            "there: clone the project into a folder of yours"
        ) from error


def _name_other_notebooks(profile):
    """Print which files in notebooks/ are none of the project's."""
    names = {path.name for path in profile.root.glob("notebooks/*.ipynb")}
    names -= {book.path.name for book in notebooks(profile.root)}
    if names:
        print(f"not run, since its name is none of the project's: {', '.join(sorted(names))}")


def _set_environment_of_kernels(profile):
    """Let kernels import the package of this project, and find its files."""
    search_path = [str(profile.root), os.environ.get("PYTHONPATH")]
    os.environ["DRE_ROOT"] = str(profile.root)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, search_path))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _check_nothing_changed(profile):
    """Raise a DreError if a notebook, or what it depends on, was edited while notebooks ran."""
    for book in _books_of(profile):
        if reason := stale(book, profile):
            raise DreError(
                f"{book.path.name}: {reason} after it was executed: run the same command again"
            )


def _build_book(profile):
    """Build the website and say where it is."""
    is_new = website.build(profile)
    index = (website.folder(profile) / "index.html").relative_to(profile.root)
    print(f"the book, {'built' if is_new else 'up to date'}: {index}")


def _build_book_if_possible(profile):
    """Build the website, if its packages are there and the project has its settings."""
    if not (profile.root / "docs" / "conf.py").is_file():
        return
    if website.is_installed():
        _build_book(profile)
    else:
        print(f"no book, since its packages are not installed: {website.HOW_TO_INSTALL}")


def _run_stale(books, profile, jobs, paid_run):
    """Run the notebooks that are stale; return the names of those that ran, as they ended."""
    if os.environ.get("RETRAIN", "0") not in ("", "0"):
        jobs = 1

    # A notebook that trains the models of all others runs alone, on all cores, and before them.
    training = [book for book in books if book.trains and profile.name != COMMITTED]
    other_books = [book for book in books if book not in training]
    ran = _run_together(training, profile, 1) if training else []
    _prepare(other_books, profile, jobs, paid_run)
    if jobs > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    return ran + _run_together(other_books, profile, jobs)


def _prepare(books, profile, jobs, paid_run):
    """Train what is missing yet, and ask live judges what notebooks read, if one is to be run."""
    is_prepared = jobs == 1 or profile.name == COMMITTED
    if is_prepared and not profile.has_live_judge:
        return  # a notebook that needs a model trains it, and no other does so at the same time
    if not any(stale(book, profile) for book in books):
        return
    from dre.paper import ask  # which loads judges and models

    planned = profile.model_copy(update={"notebooks": tuple(book.name for book in books)})
    with contextlib.chdir(profile.root / "notebooks"):  # from where notebooks read
        if profile.name != COMMITTED:
            ask.train(planned)
        for sentence in ask.ask(planned, run=paid_run):
            print(f"not come: {sentence}", flush=True)


def _run_together(books, profile, jobs):
    """Run stale notebooks, at most `jobs` at a time, each after those that it needs."""
    waiting = _longest_chain_first(books)
    running = {}  # future -> notebook
    ran = []
    failures = []
    # Kernels start in the working directory, which all threads share.
    with contextlib.chdir(profile.root / "notebooks"), ThreadPoolExecutor(jobs) as pool:
        try:
            while waiting or running:
                unfinished = {book.name for book in [*waiting, *running.values()]}
                ready = [book for book in waiting if unfinished.isdisjoint(book.needs)]
                for book in ready[: jobs - len(running)]:
                    waiting.remove(book)
                    running[pool.submit(_bring_up_to_date, book, profile)] = book

                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    book = running.pop(future)
                    try:
                        if future.result():
                            ran.append(book.name)
                    except DreError as error:
                        failures.append(str(error))
                        waiting.clear()  # what runs beside it may end
        except BaseException:  # such as an interrupt: the pool ends when its kernels do
            while not all(future.done() for future in running):
                _kill_kernels()
                time.sleep(0.1)
            raise
    if failures:
        raise DreError("\n".join(failures))
    return ran


def _longest_chain_first(books):
    """Return notebooks in the order to start them: first those that the longest chain waits for."""
    chain = dict.fromkeys((book.name for book in books), 0)
    for book in reversed(books):
        for name in book.needs:
            chain[name] = max(chain.get(name, 0), chain[book.name] + 1)
    return sorted(books, key=lambda book: -chain[book.name])


def _kill_kernels():
    """Kill the processes that this one has started."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _bring_up_to_date(book, profile):
    """Execute a notebook if it is stale, keep what it read and wrote, and return whether it ran."""
    record = profile.build / "state" / book.name
    label = f"{book.name:<34}"
    started = time.monotonic()
    reason = stale(book, profile)
    if not reason:
        print(f"{label} up to date\n", end="", flush=True)
        return False
    print(f"{label} running: {reason}\n", end="", flush=True)

    earlier = state.load(record)
    replace(record, state.text({"before": earlier["before"] | earlier["wrote"]}))
    executed = execute(book, profile, record)

    values = state.load(record)
    if state.LOCK not in values["read"]:
        raise DreError(f"{book.path.name}: its kernel kept no record of what it read, in {record}")
    _complete(values, book, executed, profile)
    replace(record, state.text(values))

    seconds = time.monotonic() - started
    memory = values["peak"].get("kernel", "unknown")
    print(f"{label} done in {seconds:.0f} s, {memory} MB of memory\n", end="", flush=True)
    return True


def _complete(values, book, executed, profile):
    """Add to the record of a kernel what the runner knows: the executed copy, and that it ended."""
    name = executed.relative_to(profile.root).as_posix()
    values["wrote"][name] = state.digest(executed)
    for name in values["wrote"]:
        values["read"].pop(name, None)
    if os.environ.get("RETRAIN"):
        # Such a run may have added to the recorded scores after it read them.
        for name in values["read"]:
            if f"/{state.SCORES}" in name:
                values["read"][name] = state.digest(profile.root / name)
    content = json.loads(executed.read_text(encoding="utf-8"))
    values["ended"] = {book.name: _code_mark(code(content))}


def _code_mark(lines):
    """Return the hash of a notebook's code, of Python's version and of RETRAIN."""
    decisive = [sys.version, os.environ.get("RETRAIN", ""), lines]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def stale(book: Notebook, profile: Profile) -> str | None:
    """Return in words why a notebook must run; None if nothing changed since its last run."""
    values = state.load(profile.build / "state" / book.name)
    if not values["ended"]:
        has_begun = values["read"] or values["before"]
        return "its last run did not end" if has_begun else "not run yet"
    if values["ended"] != {book.name: _code_mark(book.code)}:
        return "its code, Python or RETRAIN has changed"
    for name, value in (values["read"] | values["wrote"]).items():
        if state.digest(profile.root / name) != value:
            return f"{name} has changed"
    return None


def _drop_stale(profile: Profile) -> None:
    """Delete what notebooks wrote once and none writes now, unless somebody has changed it.

    Notebooks that a profile does not name keep what they wrote.
    """
    names = {book.name for book in notebooks(profile.root)}
    records = {file: state.load(file) for file in sorted((profile.build / "state").iterdir())}
    of_notebooks = [values["wrote"] for file, values in records.items() if file.name in names]
    written = set().union(*of_notebooks)
    for file, values in records.items():
        for name, value in (values["before"] | values["wrote"]).items():
            if name not in written and value == state.digest(profile.root / name):
                print(f"deleted, no notebook writes it: {name}")
                (profile.root / name).unlink(missing_ok=True)
        if file.name not in names:
            file.unlink()


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 after an error, or 130 if interrupted."""
    parser = argparse.ArgumentParser(
        prog="make paper", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--profile", help="a file in profiles/, by its name (default: mini; with --book: public)"
    )
    parser.add_argument(
        "--book", action="store_true", help="run no notebook: only build the book of those that ran"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(2, os.cpu_count() or 1),
        help="how many notebooks run at a time",
    )
    parser.add_argument(
        "--estimate",
        action="store_true",
        help="say what a run would take: calls, tokens, dollars, hours, disk; nothing is asked",
    )
    args = parser.parse_args(argv)
    make_paths_absolute()  # kernels run in notebooks/
    try:
        folder = root().resolve()
        check_clone(folder)
        name = args.profile or (COMMITTED if args.book else "mini")
        settings = profile(name, folder)
        if args.estimate:
            _books_of(settings)  # which refuses what could not be run
            from dre.paper import estimate

            print(estimate.report(settings))
        elif args.book:
            _build_book(settings)
        else:
            run(settings, max(1, args.jobs))
    except (DreError, OSError, RuntimeError) as error:  # RuntimeError: a kernel died
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
