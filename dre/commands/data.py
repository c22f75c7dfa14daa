"""``dre data``: list, fetch and verify the public data."""

from itertools import groupby

from dre.datasets.registry import fetch, home, mismatch, sources
from dre.errors import DreError


def add(subparsers):
    """Add the command ``dre data``."""
    data = subparsers.add_parser("data", help="list, fetch and verify the public data")
    actions = data.add_subparsers(dest="action", required=True, metavar="action")
    for action, run, text in (
        ("list", _list, "what is registered, and what is here"),
        ("fetch", _fetch, "download what is missing"),
        ("verify", _verify, "check every hash"),
    ):
        parser = actions.add_parser(action, help=text)
        parser.add_argument(
            "names", nargs="*", help="sources as `dre data list` names them (default: all)"
        )
        parser.set_defaults(run=run)


def _paths(args):
    """Return the paths of the files of the sources that are named, of all by default."""
    known = {source["name"] for source in sources().values()}
    if unknown := sorted(set(args.names) - known):
        raise DreError(f"unknown data source {unknown[0]!r}: use one of {', '.join(sorted(known))}")
    return [path for path, source in sources().items() if source["name"] in (args.names or known)]


def _list(args):
    print(f"{'name':24}{'present':11}{'size':>8}  {'licence':20}what")
    for name, group in groupby(_paths(args), key=lambda path: sources()[path]["name"]):
        files = {path: sources()[path] for path in group}
        here, first = sum((home() / path).is_file() for path in files), next(iter(files.values()))
        size = sum(file.get("size", 0) for file in files.values()) / 1e6
        present, size = f"{here} of {len(files)}", f"{size:.1f} MB" if size else "?"
        print(f"{name:24}{present:11}{size:>8}  {first['licence']:20}{first['what']}")
    print(f"\ndata directory: {home()}")


def _fetch(args):
    for path in _paths(args):
        fetch(path)  # says what it downloads
    print(f"all files are in {home()}")


def _verify(args):
    """Return 1 if a file has another hash, or one of a source asked for by name is absent."""
    found = {
        path: mismatch(path) if (home() / path).is_file() else "is absent" for path in _paths(args)
    }
    for path in filter(found.get, found):
        print(home() / path, found[path])
    right, absent = (list(found.values()).count(state) for state in (None, "is absent"))
    print(f"{right} right, {absent} absent, {(wrong := len(found) - right - absent)} wrong")
    return 1 if wrong or (args.names and absent) else 0
