"""The ``dre`` command. The module of a word adds its own options, and is imported only for it."""

import argparse
import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence

from dre.commands.outputs import TRY_LATER, WRONG
from dre.environment import VERSION, how_to_install
from dre.errors import DreError, TryLater

#: The words after ``dre`` with their help. ``add(subparsers)`` of the module of a word defines it.
ROOMS = {
    "score": "score the responses of your dialogue systems, and compare the systems",
    "compare": "compare new scores with old ones, and fail if a system became worse",
    "judge": "score pairs with a language model: run, estimate, show",
    "train": "train a small model",
    "augment": "write labelled responses for contexts (Algorithm 1)",
    "data": "show how a file is read; fetch the public data: show, fetch",
}
#: What to do in place of commands that there were.
_BATCH = "docs/judges.md has a batch service in Python"
GONE = {
    "slm": "give `dre train`",
    "augment generate": "give `dre augment`",
    "data list": "`dre data fetch` says what is here",
    "data verify": "`dre data fetch` checks the hash of every file",
    "audit": "notebook 09 shows what fools a score",
    "calibrate": "docs/score.md does it in Python",
    "judge passport": "docs/judges.md compares a judge with people in Python",
    "judge replay": "`dre judge run` asks nothing that is stored",
    "judge status": "`dre judge show` ends with the bill",
    "judge export": _BATCH,
    "judge import": _BATCH,
}
#: Packages that the core does without, and the extra of the distribution that has them.
_SLM = ("torch", "transformers", "sentence_transformers", "sklearn", "huggingface_hub")
_EXTRAS = {
    **dict.fromkeys(_SLM, "slm"),
    **dict.fromkeys(("matplotlib", "seaborn"), "notebooks"),
    **dict.fromkeys(("bert_score", "gensim"), "metrics"),
}
_INTERRUPTED = 130  # exit status, as shells have it


class Parser(argparse.ArgumentParser):
    """A parser without abbreviated options, which names the nearest of what it does not know."""

    def __init__(self, *args, **options):
        super().__init__(*args, **{**options, "allow_abbrev": False})

    def parse_known_args(self, args=None, namespace=None):
        """Parse as `argparse` does, but take what is left over as an error of this command."""
        values, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            advice = _nearest(name, self._option_string_actions)
            self.error(f"unrecognized argument {unknown[0]}{advice}")
        return values, unknown

    def error(self, message):
        """End with what is wrong, in one line, and say where all options are listed."""
        self.exit(WRONG, f"{self.prog}: error: {message}\n{self.prog} --help lists all options\n")

    def _check_value(self, action, value):
        """Refuse a word that is none of an argument's choices, and name the nearest."""
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(map(str, action.choices))
            advice = _nearest(str(value), action.choices) or f": expected one of {choices}"
            if isinstance(action, argparse._SubParsersAction):
                self.error(f"there is no {action.metavar} {value!r}{advice}")
            raise argparse.ArgumentError(action, f"there is no {value!r}{advice}")


def _nearest(word, known_words):
    """Return the question whether the nearest of some words was meant; "" if none is near."""
    nearest = difflib.get_close_matches(word, list(known_words), 1, 0.66)
    return f": did you mean {nearest[0]}?" if nearest else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of the process) and return its exit status.

    0: done. 1: not all could be done now, so try later: what was finished is kept. 2: an option, a
    file or a key has to be mended first. 3: a limit that the user gave is not kept. 130:
    interrupted.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        for stream in (sys.stdout, sys.stderr):
            # A file or pipe on Windows does not have every sign of a table.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="replace")
        for name in (" ".join(words[:2]), *words[:1]):
            if name in GONE:
                raise DreError(f"there is no `dre {name}` any more: {GONE[name]}")
        parser = _parser(words[0] if words else None)
        args = parser.parse_args(words or ["--help"])
        status = args.run(args) or 0
        sys.stdout.flush()  # here, where a reader that has gone is known
        return status
    except BrokenPipeError:  # such as `dre data show FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DreError as error:
        print(f"error: {error}", file=sys.stderr)
        return TRY_LATER if isinstance(error, TryLater) else WRONG
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        command = how_to_install(_EXTRAS[package])
        print(f"error: this needs {package}: {command}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print(
            "interrupted: what was finished is kept; run the same command again to go on",
            file=sys.stderr,
        )
        from dre.judges import ask

        if ask.drop_calls():  # a second interrupt does not wait for the calls in flight
            os._exit(_INTERRUPTED)
        return _INTERRUPTED


def _parser(word):
    """Return the parser with the options of a word; the other words are only named."""
    parser = Parser(
        prog="dre",
        description="Score replies in dialogues, and compare the systems that wrote them.",
    )
    parser.add_argument("--version", action="version", version=f"dre {VERSION}")
    subparsers = parser.add_subparsers(dest="word", required=True, metavar="command")
    if word in ROOMS:
        importlib.import_module(f"dre.commands.{word}").add(subparsers)
    for other_word, text in ROOMS.items():
        if other_word != word:
            subparsers.add_parser(other_word, help=text)
    return parser
