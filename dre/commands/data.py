"""``dre data``: show how a file is read; list, fetch and verify the public data."""

import sys
from itertools import groupby

from dre.commands import inputs
from dre.commands.outputs import WRONG
from dre.datasets import readers
from dre.datasets.registry import absent, amount, fetch, home, mismatch, sources
from dre.errors import DreError

_SHOWN = 3  # pairs that `dre data show` prints


def add(subparsers) -> None:
    """Add the command ``dre data`` with its actions."""
    text = "show how a file is read; list, fetch and verify the public data"
    data = subparsers.add_parser("data", help=text)
    actions = data.add_subparsers(dest="action", required=True, metavar="action")
    text = "show how the first records of a file are read: as turns and response"
    parser = actions.add_parser("show", help=text, description=text)
    inputs.add_options(parser)
    parser.set_defaults(run=_show)
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


def _show(args):
    """Print the first pairs of a file, and what cannot be used or looks wrong.

    Returns the exit status: 2 if another command would refuse the file.
    """
    form = inputs.form_of(args)
    reading = readers.read(readers.records(args.input), form)
    for row in reading.pairs.head(_SHOWN if args.limit is None else args.limit).to_dict("records"):
        system = f", system {row['system']}" if row["system"] else ""
        print(f"line {row['line']}, id {row['id']}{system}")
        for number, turn in enumerate(row["context"], 1):
            print(f"  {number:>2}. {inputs.short(turn)}")
        print(f"   → {inputs.short(row['response'])}\n")
    n_pairs, n_bad = len(reading.pairs), len(reading.bad_records)
    print(f"{args.input}: {n_pairs:,} pairs, {n_bad:,} records that cannot be used")
    for note in reading.notes:
        inputs.tell(note)
    if reading.bad_records:
        explanation = inputs.about_bad_records(args.input, reading.bad_records, n_pairs + n_bad)
        print(f"{'note' if args.skip_bad else 'error'}: {explanation}", file=sys.stderr)
    readers.refuse_doubts(reading.doubts, args.input)
    if not n_pairs and not n_bad:
        raise DreError(f"{args.input}: there is no pair in it: expected at least one")
    return 0 if n_pairs and (args.skip_bad or not n_bad) else WRONG


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
        megabytes = sum(sources()[path].get("size", 0) for path in paths) / 1e6
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
