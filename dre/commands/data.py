"""``dre data``: list, fetch and verify the public data."""

from itertools import groupby

from dre.commands.outputs import WRONG
from dre.datasets.registry import absent, amount, fetch, home, mismatch, size_of, sources
from dre.errors import DreError


def add(subparsers) -> None:
    """Add the command ``dre data`` with its actions."""
    data = subparsers.add_parser("data", help="list, fetch and verify the public data")
    actions = data.add_subparsers(dest="action", required=True, metavar="action")
    for action, run, text in (
        ("list", _list, "say which public data there are, and which are here"),
        ("fetch", _fetch, "download what is missing"),
        ("verify", _verify, "check the hash of every file"),
    ):
        parser = actions.add_parser(action, help=text, description=text)
        parser.add_argument(
            "names",
            nargs="*",
            help="sources as `dre data list` names them (default: all; `fetch` leaves out those "
            "that only profile full reads)",
        )
        parser.set_defaults(run=run)


def _paths(args):
    """Return the paths of the files of the sources that are named, of all by default."""
    source_names = {source["name"] for source in sources().values()}
    unknown = sorted(set(args.names) - source_names)
    if unknown:
        raise DreError(
            f"unknown data source {unknown[0]!r}: use one of {', '.join(sorted(source_names))}"
        )
    names = args.names or source_names
    return [path for path, source in sources().items() if source["name"] in names]


def _list(args):
    print(f"{'name':24}{'present':11}{'size':>8}  {'licence':20}what")
    for name, group in groupby(_paths(args), key=lambda path: sources()[path]["name"]):
        paths = list(group)
        present = sum((home() / path).is_file() for path in paths)
        megabytes = sum(size_of(sources()[path]) or 0 for path in paths) / 1e6
        size = f"{megabytes:.1f} MB" if megabytes else "?"
        source = sources()[paths[0]]
        count = f"{present} of {len(paths)}"
        print(f"{name:24}{count:11}{size:>8}  {source['licence']:20}{source['what']}")
    print(f"\ndata directory: {home()}")


def _fetch(args):
    paths = []
    left_out = {}
    for path in _paths(args):
        source = sources()[path]
        if source.get("by_name") and not args.names:
            left_out.setdefault(source["name"], []).append(path)
        else:
            paths.append(path)
    missing = absent(paths)
    if missing:
        print(f"to be fetched into {home()}: {amount(missing)}", flush=True)
    for path in paths:
        fetch(path)  # prints what it downloads
    print(f"all files are in {home()}")
    for name, names_of_files in left_out.items():
        print(f"not fetched unless named ({amount(names_of_files)}): dre data fetch {name}")


def _verify(args):
    """Return 1 if a file has another hash, or if one that was asked for by name is absent."""
    right = absent = wrong = 0
    for path in _paths(args):
        if not (home() / path).is_file():
            absent += 1
            print(home() / path, "is absent")
            continue
        difference = mismatch(path)
        if difference:
            wrong += 1
            print(home() / path, difference)
        else:
            right += 1
    print(f"{right} right, {absent} absent, {wrong} wrong")
    if wrong or (args.names and absent):
        return WRONG
    return 0
