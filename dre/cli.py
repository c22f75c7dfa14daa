"""The ``dre`` command: each room adds its own words, and is imported only when one of them is given."""

import argparse
import importlib
import os
import sys

from dre.errors import DreError

ROOMS = {  # word -> (module whose add(subparsers) defines it, help)
    "data": ("dre.fetch", "list, fetch and verify the public data"),
    "slm": ("dre.slm.cli", "train the small model"),
    "judge": ("dre.judges.cli", "score pairs with a language model"),
    "augment": ("dre.augment.cli", "write labelled responses for contexts (Algorithm 1) and examine them"),
    "score": ("dre.score.cli", "score the responses of one's own dialogue systems, and compare systems"),
    "calibrate": ("dre.score.cli", "learn a fusion's weight from one's own ratings"),
}
GENERATE = "use `dre augment generate`, which goes on where it stopped and holds the cost with --max-usd"
GONE = {
    "judge batch": "use `dre judge export`, hand the file to the provider's batch API, then `dre judge import`",
    **{f"augment {word}": GENERATE for word in ("estimate", "export", "import", "status", "lexical")},
}


def main(argv=None):
    """Run the command line `argv` (default: that of the process) and return its exit status.

    0: done. 1: as the command says. 2: bad input or a refused operation, named on standard error. 130: interrupted.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if instead := GONE.get(" ".join(words[:2])):
            raise DreError(f"`dre {' '.join(words[:2])}` is no more: {instead}")
        args = _parser(words[0] if words else None).parse_args(words)
        status = args.run(args) or 0
        sys.stdout.flush()  # here, where a reader that has gone is known
        return status
    except BrokenPipeError:  # such as `dre data list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept; run the same command again to go on", file=sys.stderr)
        return 130


def _parser(word):
    """Return the parser with the options of `word`; the other words are only named."""
    parser = argparse.ArgumentParser(prog="dre", description="Score dialogue responses, with data and judges at hand.")
    subparsers = parser.add_subparsers(dest="word", required=True, metavar="command")
    chosen = ROOMS[word][0] if word in ROOMS else None
    if chosen:
        importlib.import_module(chosen).add(subparsers)
    for other, (module, text) in ROOMS.items():
        if module != chosen:
            subparsers.add_parser(other, help=text)
    return parser
