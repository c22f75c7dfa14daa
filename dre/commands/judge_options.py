"""The options that say who judges and how, and words for what calls cost: for all commands."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from dre import judges
from dre.errors import DreError

OPTIONS = (
    "store",
    "base_url",
    "key_env",
    "max_usd",
    "max_usd_total",
    "price",
    "plain",
    "max_tokens",
    "temperature",
    "timeout",
    "concurrency",
    "repeats",
)
RECORDED = "recorded:"
#: Calls that brought no reply but may have been billed; what they cost is an upper bound.
WITHOUT_REPLY = ("unanswered", "pending")


def add_options(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the options that say who judges and how: the same for every command that asks a judge."""
    option = parser.add_argument_group("judge").add_argument
    specs = "openai:, anthropic:, gemini: or ollama:<model>, or recorded:<name>"
    option("--judge", required=required, metavar="SPEC", help=specs)
    option(
        "--store",
        metavar="FILE",
        help="where replies are kept (default: DRE_STORE, or the user's data folder)",
    )
    option(
        "--base-url",
        default="",
        metavar="URL",
        help="another server that speaks the provider's protocol",
    )
    option(
        "--key-env",
        metavar="NAME",
        help="environment variable that holds the key (default: the provider's own)",
    )
    option(
        "--max-usd", type=float, metavar="X", help="stop before this run has spent so many dollars"
    )
    option(
        "--max-usd-total",
        type=float,
        metavar="X",
        help="stop before all stored calls of this judge have cost so much",
    )
    option(
        "--price", metavar="IN,OUT", help="dollars per million tokens, where the price is not known"
    )
    option("--plain", action="store_true", help="no structured output, for models that have none")
    option(
        "--max-tokens",
        type=int,
        metavar="N",
        help="longest reply, thinking included (default: by prompt and model)",
    )
    option("--temperature", type=float, metavar="T", help="default: the provider's own")
    option(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds a call may take (default: 120; 600 on your own servers)",
    )
    option(
        "--concurrency",
        type=int,
        metavar="N",
        help="calls in flight (default: 16; 4 on your own servers)",
    )
    option(
        "--repeats",
        type=int,
        metavar="N",
        help="replies per pair; a score is their mean (default: 1)",
    )
    option(
        "--param",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further parameter of the API",
    )


def open_from(args: argparse.Namespace, spec: str | None = None, **options: Any) -> Any:
    """Return the judge that the options of `add_options` name.

    Parameters
    ----------
    args : argparse.Namespace
    spec : str, optional
        Another judge than ``--judge``.
    **options
        Of `dre.judges.open`; they go before those of the command line.

    Returns
    -------
    Judge, Recorded or None
        None if no judge is named and no option of a judge is given.

    Raises
    ------
    DreError
        If there are options of a judge, but no judge.
    """
    spec = spec or args.judge
    judge_options = {name: getattr(args, name) for name in OPTIONS}
    params = _api_parameters(args.param)
    if "store" in params:  # OpenAI's parameter, not the option that says where replies are kept
        options["api_params"] = {"store": params.pop("store")}
    judge_options.update(params)

    unused = []  # by a recording
    for name, value in judge_options.items():
        if value not in (None, "", False) and name not in ("store", "repeats"):
            unused.append(f"--{name.replace('_', '-')}")
    flags = ", ".join(unused)
    if spec is None:
        if flags:
            raise DreError(f"{flags}: there is no judge to use it: give --judge, or leave it out")
        return None
    if spec.startswith(RECORDED) and flags:
        print(f"note: {spec} is a recording, for which {flags} does nothing", file=sys.stderr)

    judge_options.update(options)
    chosen = {name: value for name, value in judge_options.items() if value is not None}
    return judges.open(spec, **chosen)


def _api_parameters(texts: Sequence[str]) -> dict[str, Any]:
    """Return the further parameters of the API, from ``NAME=JSON``."""
    params = {}
    for text in texts:
        name, _, value = text.partition("=")
        has_own_option = name in OPTIONS and name != "store"
        if name in ("spec", "api_params") or has_own_option:
            raise DreError(f"--param {text!r}: expected a parameter without an option of its own")
        try:
            params[name] = json.loads(value)
        except ValueError:
            raise DreError(
                f"--param {text!r}: expected NAME=JSON, such as seed=1 or effort='\"low\"'"
            ) from None
    return params


def usd_without_reply(judge: Any) -> float:
    """Return the dollars that calls without a reply may have cost, of all in the judge's store.

    Whether a provider billed such a call is not known, so each counts at the most it can cost.
    """
    total = 0.0
    for *_, status, _, _, cost, _, _ in judge.store.summary():
        if status in WITHOUT_REPLY:
            total += cost or 0.0
    return total


def spent_in_words(spent_usd: float, uncertain_usd: float) -> str:
    """Say what calls cost: for certain, and at most more for those that brought no reply."""
    uncertain_usd = min(max(0.0, uncertain_usd), spent_usd)
    text = f"${spent_usd - uncertain_usd:.4f} spent"
    if uncertain_usd > 0:
        text += f", and at most ${uncertain_usd:.4f} more for calls without a reply"
    return text
