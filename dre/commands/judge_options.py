"""The options that say who judges and how, for all commands."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from dre import judges
from dre.commands.outputs import check_output, refuse_to_replace
from dre.errors import DreError
from dre.files import replace
from dre.judges.providers import SPECS

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
    "keep_going",
    "thinking_tags",
)
RECORDED = "recorded:"
#: Options that may differ between the judges of one run: ``--price openai:gpt-5-mini=0.25,2``.
_OF_ONE_JUDGE = ("base_url", "key_env", "price")


class _Once(argparse.Action):
    """An option that counts once, so that a second judge is not silently the only one."""

    def __call__(self, parser, namespace, values, option_string=None):
        """Store the value, or refuse a second one."""
        if getattr(namespace, self.dest) is not None:
            parser.error(
                f"{option_string} is given twice: this command takes one judge, "
                "dre judge run takes several"
            )
        setattr(namespace, self.dest, values)


def add_options(
    parser: argparse.ArgumentParser,
    required: bool = True,
    several: bool = False,
    repeats_help: str = "replies for each pair; its score is their mean (default: 1)",
) -> None:
    """Add the options that say who judges and how: the same for every command that asks a judge.

    With ``several`` there may be more than one ``--judge``, and ``args.judge`` is a list.
    """
    option = parser.add_argument_group("judge").add_argument
    option(
        "--judge",
        action="append" if several else _Once,
        required=required,
        metavar="SPEC",
        help=f"{SPECS}; give several to ask them side by side" if several else SPECS,
    )
    option(
        "--store",
        metavar="FILE",
        help="file in which replies are kept (default: DRE_STORE, or a file in your data folder)",
    )
    repeated: dict = {"action": "append"} if several else {}
    option(
        "--base-url",
        **repeated,
        metavar="URL",
        help="address of another server that speaks the provider's protocol",
    )
    option(
        "--key-env",
        **repeated,
        metavar="NAME",
        help="environment variable that holds the key (default: the provider's own)",
    )
    option("--max-usd", type=float, metavar="X", help="stop before this run has spent X dollars")
    option(
        "--max-usd-total",
        type=float,
        metavar="X",
        help="stop before all calls in the store, of any judge and run, have cost X dollars",
    )
    option(
        "--price",
        **repeated,
        metavar="IN,OUT",
        help="price in dollars per million tokens, for a model whose price is not known",
    )
    option(
        "--plain",
        action="store_true",
        help="do not ask for structured output, for models that have none",
    )
    option(
        "--max-tokens",
        type=int,
        metavar="N",
        help="longest reply in tokens, thinking included (default: depends on prompt and model)",
    )
    option(
        "--temperature",
        type=float,
        metavar="T",
        help="how much replies vary (default: as the provider has it)",
    )
    option(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds that a call may take (default: 120; 600 on your own servers)",
    )
    option(
        "--concurrency",
        type=int,
        metavar="N",
        help="calls that are made at the same time (default: 16; 4 on your own servers)",
    )
    option("--repeats", type=int, metavar="N", help=repeats_help)
    option(
        "--keep-going",
        action="store_true",
        help="go on although none of the first ten replies can be read",
    )
    option(
        "--thinking-tags",
        metavar="FILE",
        help="further tags of thinking in replies (.yaml), as dre/judges/thinking_tags.yaml has",
    )
    option(
        "--param",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further parameter of the provider's API, such as seed=1",
    )


def add_prompt_options(option: Any, help_text: str, default: str | None = None) -> None:
    """Add ``--prompt``, ``--criterion`` and ``--write-prompt`` by a parser's ``add_argument``."""
    option("--prompt", default=default, metavar="NAME|FILE", help=help_text)
    option(
        "--criterion",
        metavar="QUESTION",
        help="ask the judge this question, from 0 to 5: 'How polite is the reply?'",
    )
    option(
        "--write-prompt",
        metavar="FILE",
        help="also write the prompt that --criterion makes, as a template for --prompt (.txt)",
    )


def prompt_from(args: argparse.Namespace, default: str | None = None) -> Any:
    """Return what the options of `add_prompt_options` ask for: a name, a path or a `Prompt`.

    The file of ``--write-prompt`` is written.
    """
    if args.write_prompt and not args.criterion:
        raise DreError("--write-prompt writes the prompt of --criterion: give one")
    if not args.criterion:
        return args.prompt or default
    if args.prompt:
        raise DreError("--prompt and --criterion are two prompts: give one of them")
    specs = [args.judge] if isinstance(args.judge, str) else args.judge or []
    for spec in specs:
        if spec.startswith(RECORDED):
            raise DreError(
                f"--criterion asks a new question, and {spec} only repeats what it was asked "
                "before: name a judge that can be asked, such as openai:<model>"
            )
    from dre.judges import criterion

    prompt = criterion.prompt_for(args.criterion)
    if args.write_prompt:
        text = criterion.template_for(args.criterion)
        check_output(args.write_prompt, (".txt",))
        refuse_to_replace(args.write_prompt, getattr(args, "force", False), text)
        replace(args.write_prompt, text)
    return prompt


def of_each_judge(args: argparse.Namespace) -> list[argparse.Namespace]:
    """Return the arguments for each judge of a run, with ``judge`` as one text.

    ``--price openai:gpt-5-mini=0.25,2`` holds for that judge alone, and so do the other options of
    `_OF_ONE_JUDGE`. Raises DreError if a judge is named twice.
    """
    specs = args.judge
    for spec in specs:
        if specs.count(spec) > 1:
            raise DreError(f"--judge {spec} is given twice: --repeats 2 asks it for two replies")
    separate = []
    for spec in specs:
        changed: dict = {"judge": spec}
        for name in _OF_ONE_JUDGE:
            changed[name] = _value_for(spec, specs, getattr(args, name))
        if spec.startswith(RECORDED) and len(specs) > 1:  # the options are for the other judges
            changed |= dict.fromkeys(OPTIONS)
            changed |= {"store": args.store, "repeats": args.repeats, "param": []}
        options = vars(args) | changed
        separate.append(argparse.Namespace(**options))
    return separate


def _value_for(spec, specs, values):
    """Return the value of an option for a judge: its own, else that for all judges."""
    for_all = None
    for_judge = None
    for value in [values] if isinstance(values, str) else values or []:
        owners = [other for other in specs if value.startswith(f"{other}=")]
        if not owners:
            for_all = value
        elif spec in owners:
            for_judge = value.removeprefix(f"{spec}=")
    return for_all if for_judge is None else for_judge


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


def _api_parameters(texts: Sequence[str]) -> dict:
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
