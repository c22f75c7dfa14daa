"""``make paper``: run the notebooks that need to run, in order, and make the report page.

``python -m dre.paper --profile mini`` is what the Makefile calls. A notebook reruns when something its result
depends on has changed (see `dre.pipeline.fingerprint`), or a file it wrote is missing or was altered.
"""

import argparse
import contextlib
import fcntl
import json
import sys
from pathlib import Path

import yaml

from dre.errors import DreError
from dre.pipeline.execute import PROGRESS, CellFailed, execute
from dre.pipeline.fingerprint import digest, fingerprints, sha256
from dre.pipeline.graph import discover
from dre.pipeline.line import Line
from dre.pipeline.outputs import COMMITTED, commit_outputs
from dre.pipeline.preflight import lacks
from dre.pipeline.profile import Profile, profile, root
from dre.pipeline.readme import fill
from dre.pipeline.state import State

__all__ = ["Profile", "commit_outputs", "lacks", "main", "profile", "run"]


def run(profile, parameters=None, anyway=False):
    """Bring results and figures of `profile` up to date and print one line a notebook.

    Parameters
    ----------
    profile : Profile
    parameters : dict, optional
        Papermill parameters (JSON types); each goes to the notebooks that declare it.
    anyway : bool
        Run although something the profile needs is not here.

    Returns
    -------
    list of str
        Names of the notebooks that ran.

    Raises
    ------
    DreError
        Before anything runs: an unknown parameter, or something missing. While running: `CellFailed`.
    """
    parameters = parameters or {}
    books = discover(profile.root / "notebooks")
    _check_parameters(books, parameters)
    print(f"profile {profile.name}: {profile.title}", flush=True)
    with _only_one(profile):
        done = _run(books, profile, {"profile": profile.name, **parameters}, anyway)
        _drop_stale_manifests(books, profile)
        page = _page(books, profile, bool(done))
        if profile.name == COMMITTED and not parameters:
            for path in commit_outputs(books, profile):
                print(f"outputs written into {path.relative_to(profile.root)}")
            for path in fill(profile.root):
                print(f"tables written into {path.relative_to(profile.root)}")
    _summary(books, profile, page, done)
    return done


def _run(books, profile, parameters, anyway):
    state, marks = State(profile), fingerprints(books, profile, parameters, profile.root)
    reasons = {book.name: state.reason(book, marks[book.name]) for book in books}
    if any(reasons.values()):
        _refuse_lacks(profile, anyway)
    done = []
    for number, book in enumerate(books, 1):
        head = f"[{number}/{len(books)}] {book.name:<28} "
        if reasons[book.name] is None:
            print(f"{head}up to date", flush=True)
            continue
        with Line(head, reasons[book.name], profile.build / PROGRESS) as line:
            state.forget(book)
            execute(book, profile, parameters)
            state.finish(book, marks[book.name])
            line.done()
        done.append(book.name)
    return done


def _check_parameters(books, parameters):
    known = set().union(*(book.parameters for book in books)) - {"profile"}
    if "profile" in parameters:
        raise DreError("the profile is no parameter here: say PROFILE=name to make, or --profile name")
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise DreError(
            f"unknown parameter '{unknown[0]}': the notebooks declare {', '.join(sorted(known)) or 'none'} "
            "besides profile (cells tagged 'parameters')"
        )


def _refuse_lacks(profile, anyway):
    found = lacks(profile)
    if not found:
        return
    print(f"{profile.name} needs {profile.needs}\nmissing here:")
    for lack in found:
        print(f"  - {lack}")
    if not anyway:
        raise DreError(
            f"profile {profile.name} cannot run in full here ({len(found)} missing, see above): provide it, "
            "take another profile, or run what can be run with ARGS=--anyway"
        )


@contextlib.contextmanager
def _only_one(profile):
    """Hold the profile's lock: two runs at once would write the same files."""
    profile.build.mkdir(parents=True, exist_ok=True)
    with open(profile.build / ".lock", "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DreError(f"another run of profile {profile.name} is under way: wait for it to end") from None
        yield


def _drop_stale_manifests(books, profile):
    names = {book.name for book in books}
    for path in (profile.results / "manifest").glob("*.json"):
        if path.stem not in names:
            path.unlink()


def _page(books, profile, ran):
    """Make the report page unless nothing that it shows has changed; return its path."""
    path, mark = profile.results / "index.html", profile.build / "state" / "page"
    template = (p for p in (Path(__file__).parent / "report" / "page").iterdir() if p.is_file())
    shown = [*sorted((profile.results / "manifest").glob("*.json")), *sorted(template)]
    key = digest([[sha256(p) for p in shown], profile.title, profile.needs, [b.title for b in books]])
    known = path.exists() and mark.exists() and mark.read_text() == key + sha256(path)
    if ran or not known:
        from dre.report.page import page

        page(profile, sorted((book.name, book.title) for book in books))
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(key + sha256(path))
    return path


def _summary(books, profile, page, done):
    files = {"table": [], "figure": [], "text": []}
    for book in books:
        manifest = profile.results / "manifest" / f"{book.name}.json"
        for item in json.loads(manifest.read_text(encoding="utf-8"))["items"] if manifest.exists() else ():
            files[item["kind"]].append(item["files"][0])
    if not done:
        print("nothing to do")
    print(f"\nreport page  {page.relative_to(profile.root)}")
    for kind, names in files.items():
        for i, name in enumerate(names):
            print(f"{kind + 's' if not i else '':<12} {name}")
    print(f"notebooks    {(profile.build / 'notebooks').relative_to(profile.root)}/")


def _parser():
    parser = argparse.ArgumentParser(prog="make paper", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="mini", help="a file in profiles/, by its name (default: mini)")
    parser.add_argument(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set a parameter",
    )
    parser.add_argument("--anyway", action="store_true", help="run although something the profile needs is missing")
    return parser


def main(argv=None):
    """Run the command line and return its exit status: 0, 1 if a cell failed, 2 for bad input."""
    args = _parser().parse_args(argv)
    try:
        run(profile(args.profile, root()), {k: yaml.safe_load(v) for k, v in args.parameters}, args.anyway)
    except CellFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except DreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: cannot use {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted: finished notebooks are kept; the same command goes on from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
