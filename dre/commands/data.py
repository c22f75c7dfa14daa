"""``dre data``: show how a file is read; fetch the public data and check them."""

import argparse
from itertools import groupby

from dre.commands import inputs
from dre.datasets.registry import absent, amount, fetch, home, sources
from dre.errors import DreError

_SHOWN = 3  # pairs that `dre data show` prints


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre data`` with its actions."""
    text = "show how a file is read; fetch the public data and check them"
    data = subparsers.add_parser("data", help=text)
    actions = data.add_subparsers(dest="action", required=True, metavar="action")
    text = "show how the first records of a file are read: as turns and response"
    parser = actions.add_parser("show", help=text, description=text)
    inputs.add_options(parser)
    parser.set_defaults(run=_show)
    text = "say which public data are here, download what is missing, and check the hash of all"
    parser = actions.add_parser("fetch", help=text, description=text)
    text = "sources (default: all, without those that only profile full reads)"
    parser.add_argument("names", nargs="*", help=text)
    parser.set_defaults(run=_fetch)


def _show(args):
    """Print the first pairs of a file; raise what another command would say of it."""

    def show(pairs):
        for row in pairs.head(args.limit or _SHOWN).to_dict("records"):
            system = f", system {row['system']}" if row["system"] else ""
            print(f"line {row['line']}, id {row['id']}{system}")
            for number, turn in enumerate(row["context"], 1):
                print(f"  {number:>2}. {inputs.short(turn)}")
            print(f"   → {inputs.short(row['response'])}\n")
        print(f"{args.input}: {len(pairs):,} pairs", flush=True)

    inputs.read(args, show=show)


def _fetch(args):
    """List the sources, download their files, and raise DreError for one with another hash."""
    names = {source["name"] for source in sources().values()}
    unknown = sorted(set(args.names) - names)
    if unknown:
        raise DreError(f"no data source {unknown[0]!r}: expected one of {', '.join(sorted(names))}")
    wanted = []
    print(f"{'name':24}{'here':11}{'size':>9}  {'licence':20}what")
    for name, group in groupby(sources(), key=lambda path: sources()[path]["name"]):
        paths = list(group)
        if args.names and name not in args.names:
            continue
        source = sources()[paths[0]]
        missing = absent(paths)
        count = f"{len(paths) - len(missing)} of {len(paths)}"
        megabytes = sum(sources()[path].get("size", 0) for path in paths) / 1e6
        size = f"{megabytes:.1f} MB" if megabytes else "?"
        print(f"{name:24}{count:11}{size:>9}  {source['licence']:20}{source['what']}")
        if source.get("by_name") and not args.names and missing:
            print(f"  not fetched unless named: dre data fetch {name}")
            paths = [path for path in paths if path not in missing]
        wanted += paths
    missing = absent(wanted)
    if missing:
        print(f"to be fetched into {home()}: {amount(missing)}", flush=True)
    here = [path for path in wanted if path not in missing]
    for path in here + missing:
        fetch(path)  # checks the hash, and says what it downloads
    print(f"{len(wanted)} files are in {home()}, each with its hash")
