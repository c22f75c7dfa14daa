"""The ``dre`` command: each room adds its own words, and is imported only when one of them is given."""

import argparse
import difflib
import importlib
import os
import sys
from pathlib import Path

from dre import __version__
from dre.errors import DreError

ROOMS = {  # word -> (module whose add(subparsers) defines it, help)
    "data": ("dre.commands.data", "list, fetch and verify the public data"),
    "slm": ("dre.commands.slm", "train the small model"),
    "judge": ("dre.commands.judge", "score pairs with a language model"),
    "augment": (
        "dre.commands.augment",
        "write labelled responses for contexts (Algorithm 1) and examine them",
    ),
    "score": (
        "dre.commands.score",
        "score the responses of one's own dialogue systems, and compare systems",
    ),
    "compare": (
        "dre.commands.compare",
        "compare new scores with old ones, and fail if a system became worse",
    ),
    "audit": (
        "dre.commands.audit",
        "how often a judge, a metric or an SLM prefers a good reply to one made to fool it",
    ),
    "calibrate": ("dre.commands.calibrate", "learn a fusion's weight from one's own ratings"),
}
#: what the core does without -> the extra that has it
EXTRAS = dict.fromkeys(
    ("torch", "transformers", "sentence_transformers", "sklearn", "huggingface_hub"), "slm"
)
EXTRAS |= dict.fromkeys(("matplotlib", "seaborn"), "notebooks")


class Parser(argparse.ArgumentParser):
    """Options are not abbreviated; for one that is not known the command's own usage and the nearest are shown."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options | {"allow_abbrev": False})

    def parse_known_args(self, args=None, namespace=None):
        """Parse as `argparse` does, but take what is left over as an error of this command."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            near = difflib.get_close_matches(
                left[0].partition("=")[0], self._option_string_actions, 1
            )
            self.error(
                f"unrecognized argument {left[0]}" + (f": did you mean {near[0]}?" if near else "")
            )
        return found, left


def main(argv=None):
    """Run the command line `argv` (default: that of the process) and return its exit status.

    0: done. 1: as the command says. 2: bad input or a refused operation, named on standard error. 130: interrupted.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(
                stream, "reconfigure"
            ):  # a file or pipe on Windows has not every sign of a table
                stream.reconfigure(encoding="utf-8", errors="replace")
        args = _parser(words[0] if words else None).parse_args(words or ["--help"])
        _make_store_absolute(args)
        status = args.run(args) or 0
        sys.stdout.flush()  # here, where a reader that has gone is known
        return status
    except BrokenPipeError:  # such as `dre data list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRAS:
            raise
        extra = f"[{EXTRAS[name]}]"
        print(
            f"error: this needs {name}: pip install 'dre-companion{extra}', in a clone '.{extra}'",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print(
            "interrupted: what was finished is kept; run the same command again to go on",
            file=sys.stderr,
        )
        return 130


def _make_store_absolute(args):
    """Let ``--store`` name the same file wherever the work goes on."""
    store = getattr(args, "store", None)
    if store and store != ":memory:":
        args.store = str(Path(store).expanduser().absolute())


def _parser(word):
    """Return the parser with the options of `word`; the other words are only named."""
    parser = Parser(
        prog="dre", description="Score dialogue responses, with data and judges at hand."
    )
    parser.add_argument("--version", action="version", version=f"dre {__version__}")
    subparsers = parser.add_subparsers(dest="word", required=True, metavar="command")
    chosen = ROOMS[word][0] if word in ROOMS else None
    if chosen:
        importlib.import_module(chosen).add(subparsers)
    for other, (module, text) in ROOMS.items():
        if module != chosen:
            subparsers.add_parser(other, help=text)
    return parser
