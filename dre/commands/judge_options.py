"""The options that say who judges and how, for all commands."""

import argparse
import inspect
import json
from typing import Any

from dre import judges
from dre.errors import DreError
from dre.judges.providers import SPECS

_OPTIONS = {
    "store": ("FILE", str, "file in which replies are kept (default: DRE_STORE or a data folder)"),
    "base_url": ("URL", str, "address of another server that speaks the provider's protocol"),
    "key_env": ("NAME", str, "environment variable with the key (default: the provider's own)"),
    "max_usd": ("X", float, "stop before this run has spent X dollars"),
    "price": ("IN,OUT", str, "dollars per million tokens, for a model whose price is not known"),
    "max_tokens": ("N", int, "longest reply in tokens, thinking included (default: 2048)"),
    "temperature": ("T", float, "how much replies vary (default: as the provider has it)"),
    "concurrency": ("N", int, "calls that are made at the same time (default: 8)"),
}


def add_options(parser: argparse.ArgumentParser, required: bool = True, prompt: str = "") -> None:
    """Add the options that say who judges and how: the same for every command that asks a judge.

    ``prompt`` is the help of ``--prompt``, which a command without it does not have.
    """
    group = parser.add_argument_group("judge")
    option = group.add_argument
    option("--judge", required=required, metavar="SPEC", help=SPECS)
    if prompt:
        of_prompt = group.add_mutually_exclusive_group().add_argument
        of_prompt("--prompt", metavar="NAME|FILE", help=prompt)
        text = "ask the judge this question, from 0 to 5: 'How polite is the reply?'"
        of_prompt("--criterion", metavar="QUESTION", help=text)
    for name, (metavar, kind, text) in _OPTIONS.items():
        option(f"--{name.replace('_', '-')}", metavar=metavar, type=kind, help=text)
    text = "do not ask for structured output, for models that have none"
    option("--plain", action="store_true", default=None, help=text)
    text = "a further parameter of the provider's API, such as seed=1"
    option("--param", action="append", default=[], metavar="NAME=JSON", help=text)


def prompt_from(args: argparse.Namespace, default: str | None = None) -> Any:
    """Return the prompt that the options ask for: a name, a path or a `Prompt`."""
    if not args.criterion:
        return args.prompt or default
    from dre.judges import criterion

    return criterion.prompt_for(args.criterion)


def open_from(args: argparse.Namespace, spec: str | None = None, **options: Any) -> Any:
    """Return the judge that the options of `add_options` name; None if they name none.

    ``spec`` is another judge than ``--judge``; ``options`` go before those of the command line.
    """
    spec = spec or args.judge
    given = {name: getattr(args, name) for name in (*_OPTIONS, "plain")}
    given |= _parameters(args.param) | options
    chosen = {name: value for name, value in given.items() if value is not None}
    if spec is None and chosen:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise DreError(f"{flags}: there is no judge to use it: give --judge")
    return judges.open(spec, **chosen) if spec else None


def _parameters(texts):
    """Return the parameters of a provider's API; DreError for one of a judge itself."""
    if not texts:
        return {}
    from dre.judges.judge import Judge

    own = {*_OPTIONS, *inspect.signature(Judge).parameters} - {"logprobs"}
    parameters = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            name = ""
        if not name or name in own:
            raise DreError(
                f"--param {text!r}: expected NAME=JSON, such as seed=1, of a parameter of the "
                "provider's API"
            )
    return parameters
