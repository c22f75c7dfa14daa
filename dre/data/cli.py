"""``dre data list | fetch | verify``."""

import shutil
import sys


def register(subparsers):
    """Add the ``data`` command."""
    data = subparsers.add_parser("data", help="list, fetch and verify the public data")
    actions = data.add_subparsers(dest="action", required=True, metavar="action")
    actions.add_parser("list", help="what is registered, and what is here").set_defaults(handler=list_sources)
    fetch = actions.add_parser("fetch", help="download what is missing")
    fetch.add_argument("names", nargs="*", help="sources (default: all)")
    fetch.add_argument("--force", action="store_true", help="download again what is here")
    fetch.set_defaults(handler=fetch_sources)
    verify = actions.add_parser("verify", help="check the hash of every file that is here")
    verify.add_argument("names", nargs="*", help="sources (default: all)")
    verify.set_defaults(handler=verify_sources)


def list_sources(args):
    """Print one line a source."""
    from dre.data import registry
    from dre.data.fetch import home, present

    rows = []
    for name in registry.names():
        files = registry.group(name)
        here = sum(present(file) for file in files)
        state = "yes" if here == len(files) else f"{here} of {len(files)}" if here else "no"
        rows.append((name, str(len(files)), _size(files), files[0].licence, state, files[0].what))
    _print_table(("name", "files", "size", "licence", "present", "what"), rows, right=(1, 2))
    print(f"\ndata directory: {home()}")


def fetch_sources(args):
    """Download the files that are missing; the first that cannot be had ends the command."""
    from tqdm import tqdm

    from dre.data.fetch import fetch, home

    files = _chosen(args.names)
    with tqdm(files, unit="file") as progress:
        for source in progress:
            progress.set_postfix_str(source.path.rsplit("/", 1)[-1][:40])
            fetch(source, force=args.force)
    print(f"{len(files)} files are in {home()}")


def verify_sources(args):
    """Check every file; return 1 if one has another hash, or one of a source asked for by name is absent."""
    from dre.data.fetch import present, verify
    from dre.errors import DreError

    counts = {"right": 0, "absent": 0, "wrong": 0}
    for source in _chosen(args.names):
        if not present(source):
            counts["absent"] += 1
            print(f"absent: {source.relative}")
            continue
        try:
            verify(source)
            counts["right"] += 1
        except DreError as error:
            counts["wrong"] += 1
            print(f"wrong: {error}")
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["wrong"] or (args.names and counts["absent"]) else 0


def _chosen(names):
    from dre.data import registry

    return [file for name in names or registry.names() for file in registry.group(name)]


def _size(files):
    if any(file.size is None for file in files):
        return "—"
    total = sum(file.size for file in files)
    return f"{total / 1e6:.1f} MB"


def _print_table(header, rows, right=()):
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None  # a pipe takes whole lines
    for row in (header, tuple("-" * width for width in widths), *rows):
        cells = (cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths)))
        print("  ".join(cells).rstrip()[:room])
