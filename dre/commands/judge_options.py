"""The options that say who judges and how, for all commands."""

import argparse
import json
from typing import Any

from dre import judges
from dre.errors import DreError
from dre.judges.providers import SPECS

_OPTIONS = {
    "store": (
        "FILE",
        str,
        "file in which replies are kept (default: DRE_STORE or your data folder)",
    ),
    "base_url": ("URL", str, "address of another server that speaks the provider's protocol"),
    "key_env": ("NAME", str, "environment variable with the key (default: the provider's own)"),
    "max_usd": ("X", float, "stop before this run has spent X dollars"),
    "price": ("IN,OUT", str, "dollars per million tokens, for a model whose price is not known"),
    "max_tokens": ("N", int, "longest reply in tokens, thinking included (default: 2048)"),
    "temperature": ("T", float, "how much replies vary (default: as the provider has it)"),
    "timeout": ("S", float, "seconds that a call may take (default: 300)"),
    "concurrency": ("N", int, "calls that are made at the same time (default: 8)"),
    "repeats": ("N", int, "replies for each pair; its score is their mean (default: 1)"),
}


def add_options(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the options that say who judges and how: the same for every command that asks a judge."""
    option = parser.add_argument_group("judge").add_argument
    option("--judge", required=required, metavar="SPEC", help=SPECS)
    for name, (metavar, kind, text) in _OPTIONS.items():
        option(f"--{name.replace('_', '-')}", metavar=metavar, type=kind, help=text)
    option(
        "--plain",
        action="store_true",
        default=None,
        help="do not ask for structured output, for models that have none",
    )
    option(
        "--param",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further parameter of the provider's API, such as seed=1",
    )


def add_prompt_options(option: Any, help_text: str, default: str | None = None) -> None:
    """Add ``--prompt`` and ``--criterion`` by a parser's ``add_argument``."""
    option("--prompt", default=default, metavar="NAME|FILE", help=help_text)
    option(
        "--criterion",
        metavar="QUESTION",
        help="ask the judge this question, from 0 to 5: 'How polite is the reply?'",
    )


def prompt_from(args: argparse.Namespace, default: str | None = None) -> Any:
    """Return what the options of `add_prompt_options` ask for: a name, a path or a `Prompt`."""
    if not args.criterion:
        return args.prompt or default
    if args.prompt:
        raise DreError("--prompt and --criterion are two prompts: give one of them")
    from dre.judges import criterion

    return criterion.prompt_for(args.criterion)


def open_from(args: argparse.Namespace, spec: str | None = None, **options: Any) -> Any:
    """Return the judge that the options of `add_options` name; None if they name none.

    ``spec`` is another judge than ``--judge``; ``options`` go before those of the command line.
    """
    spec = spec or args.judge
    given = {name: getattr(args, name) for name in (*_OPTIONS, "plain")}
    for text in args.param:
        name, _, value = text.partition("=")
        try:
            given[name] = json.loads(value)
        except ValueError:
            name = ""
        if not name or name in _OPTIONS:
            raise DreError(
                f"--param {text!r}: expected NAME=JSON, such as seed=1, of a parameter without an "
                "option of its own"
            )
    chosen = {name: value for name, value in (given | options).items() if value is not None}
    if spec is None:
        if chosen:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
            raise DreError(f"{flags}: there is no judge to use it: give --judge")
        return None
    return judges.open(spec, **chosen)
