"""The ``dre`` command: a thin parser; each room registers its own subcommands."""

import argparse
import importlib
import sys

from dre.errors import DreError

# Each module offers register(subparsers) and sets defaults(handler=callable(args) -> int | None).
# They import torch, pandas and the like inside their handlers, so `dre --help` stays instant.
ROOMS = ("dre.data.cli", "dre.slm.cli", "dre.judges.cli", "dre.augment.cli", "dre.scoring.cli")


def main(argv=None):
    """Run the ``dre`` command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="dre", description="Score dialogue responses, with data and judges at hand.")
    rooms = parser.add_subparsers(dest="room", required=True, metavar="command")
    for room in ROOMS:
        importlib.import_module(room).register(rooms)
    args = parser.parse_args(argv)
    try:
        return args.handler(args) or 0
    except DreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept; run the same command again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
