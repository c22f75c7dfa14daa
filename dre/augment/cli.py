"""``dre augment generate | estimate | export | import | status``, and what the neighbouring modules add."""

import importlib

from dre.augment import lexical_cli
from dre.judges.cli import judge_options


def register(subparsers):
    """Add the ``augment`` command."""
    augment = subparsers.add_parser("augment", help="write or retrieve negative responses for contexts that have none")
    actions = augment.add_subparsers(dest="action", required=True, metavar="action")
    generate = _arguments(actions.add_parser("generate", help="write 5 + 5 responses a context and check them"))
    generate.add_argument("--max-usd", type=float, metavar="X", help="stop before so many dollars are spent")
    _outputs(generate)
    generate.set_defaults(handler=_lazy("run_generate"))
    estimate = _arguments(actions.add_parser("estimate", help="calls, tokens, money and time a run would take"))
    estimate.set_defaults(handler=_lazy("show_estimate"))
    export = _arguments(actions.add_parser("export", help="write the prompts that each context needs next"))
    export.add_argument("-o", "--output", required=True, metavar="FILE", help="prompts in the form of a batch API")
    export.add_argument(
        "--checker-output", metavar="FILE", help="those of the checker, since a batch is for one model only"
    )
    export.set_defaults(handler=_lazy("export_prompts"))
    read = _arguments(actions.add_parser("import", help="read the replies to exported prompts"))
    read.add_argument("--replies", required=True, nargs="+", metavar="FILE", help="replies, by their custom_id")
    _outputs(read)
    read.set_defaults(handler=_lazy("import_replies"))
    status = _arguments(actions.add_parser("status", help="where every context is"))
    _outputs(status)
    status.set_defaults(handler=_lazy("show_status"))
    lexical_cli.register(actions)


def _arguments(parser):
    """Add what says which contexts are meant, who writes and who checks."""
    add = parser.add_argument
    add(
        "contexts",
        help="JSONL: an object a line with id, context (turns) and perhaps split; or convai2-valid, "
        "topicalchat-valid_freq, topicalchat-test_freq",
    )
    add("--sample", type=int, metavar="N", help="so many contexts of the public pool")
    add("--seed", type=int, default=0, metavar="S", help="of the sample (default: 0)")
    judge_options(parser)
    add("--checker", metavar="PROVIDER:MODEL", help="who checks (default: the judge itself)")
    add("--checker-base-url", default="", metavar="URL", help="as --base-url, for the checker")
    add("--checker-key-env", metavar="NAME", help="as --key-env, for the checker")
    add("--checker-price", metavar="IN,OUT", help="as --price, for the checker")
    add("--rounds", type=int, default=3, metavar="N", help="rounds at most (default: 3)")
    add(
        "--again",
        choices=("refine", "generate"),
        default="refine",
        help="after a rejection, have what was rejected revised (default), or all ten written anew",
    )
    for name in ("generate", "refine", "classify"):
        add(f"--{name}-prompt", metavar="FILE", help=f"a template of your own instead of the prompt {name}")
    return parser


def _outputs(parser):
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="write the accepted contexts' responses there: .jsonl")
    add("--rejected", metavar="FILE", help="write the best drafts of the other contexts there: .jsonl")
    add("--report", metavar="FILE", help="write a row a context there: .csv")
    add("--responses", metavar="FILE", help="write a row a response that was tried there: .csv")


def _lazy(name):
    """Return a handler that is imported when it is called: `dre --help` stays instant."""
    return lambda args: getattr(importlib.import_module("dre.augment.commands"), name)(args)
