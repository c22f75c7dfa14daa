"""``dre judge run | estimate | status | export | import | replay | batch``."""

import importlib


def register(subparsers):
    """Add the ``judge`` command."""
    judge = subparsers.add_parser("judge", help="score pairs with a language model")
    actions = judge.add_subparsers(dest="action", required=True, metavar="action")
    run = _asking(actions.add_parser("run", help="ask for what is not stored yet, and write the scores"))
    run.add_argument("--max-usd", type=float, metavar="X", help="stop before so many dollars are spent")
    _retrying(run, "ask again what was malformed, refused, truncated or empty")
    run.set_defaults(handler=_lazy("run_judge"))
    estimate = _asking(actions.add_parser("estimate", help="calls, tokens, money and time a run would take"))
    _retrying(estimate, "as for run")
    estimate.set_defaults(handler=_lazy("estimate_run"))
    status = actions.add_parser("status", help="what is stored")
    status.add_argument("--store", help="the store's file")
    status.set_defaults(handler=_lazy("show_status"))
    replay = _asking(actions.add_parser("replay", help="write the scores from what is stored; ask nothing"))
    replay.set_defaults(handler=_lazy("replay_run"))
    export = _asking(actions.add_parser("export", help="write the missing prompts, or a recording, to files"))
    export.add_argument("--recorded", metavar="FOLDER", help="write what is stored of these pairs, with a manifest")
    _retrying(export, "write also what was malformed, refused, truncated or empty")
    export.set_defaults(handler=_lazy("export_files"))
    read = _asking(actions.add_parser("import", help="read replies, or a recording, from files"), optional=True)
    read.add_argument("--replies", metavar="FILE", help="replies to exported prompts")
    read.add_argument("--recorded", metavar="FOLDER", help="a recording: everything in it goes into the store")
    _retrying(read, "as for the export: replace such replies by those of the file")
    read.set_defaults(handler=_lazy("import_files"))
    batch = actions.add_parser("batch", help="the provider's batch API, at half the price")
    steps = batch.add_subparsers(dest="step", required=True, metavar="step")
    for name, text in _STEPS.items():
        step = _asking(steps.add_parser(name, help=text))
        if name == "submit":
            step.add_argument("--max-usd", type=float, metavar="X", help="submit nothing that may cost more dollars")
        if name == "adopt":
            step.add_argument("--id", required=True, help="the provider's id of the batch")
        step.set_defaults(handler=_lazy("run_batch"))


_STEPS = {
    "submit": "submit what is missing",
    "poll": "what the provider says",
    "collect": "store the replies of batches that have ended, and write the scores",
    "forget": "give up a submission that was cut short",
    "adopt": "say which of the provider's batches a submission that was cut short is",
}


def _asking(parser, optional=False):
    """Add what says which judgements are meant, and how they are asked for."""
    add = parser.add_argument
    add(
        "pairs",
        nargs="?" if optional else None,
        help="JSONL: an object a line with pair_id, context, response, ...",
    )
    judge_options(parser, optional)
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", default="llm_only", help="a prompt's name (default: llm_only)")
    prompt.add_argument("--prompt-file", metavar="FILE", help="a template of your own")
    add(
        "--mode",
        choices=("single", "mean", "logprob"),
        help="default: mean if --repeats is above 1, else single",
    )
    add("--repeats", type=int, default=1, metavar="N", help="replies a pair (default: 1)")
    add("--seed", type=int)
    add("-o", "--output", metavar="FILE", help="write the table there: .csv or .jsonl")
    return parser


def judge_options(parser, optional=False):
    """Add what says who is asked and how: the arguments that `dre.judges.commands.judge_of` takes."""
    add = parser.add_argument
    add(
        "--judge",
        required=not optional,
        metavar="PROVIDER:MODEL",
        help="openai, anthropic, gemini, ollama or files",
    )
    add("--base-url", default="", metavar="URL", help="another server that speaks the provider's protocol")
    add("--key-env", metavar="NAME", help="environment variable that holds the key")
    add("--store", help="the store's file")
    add(
        "--max-tokens",
        type=int,
        metavar="N",
        help="longest reply, thinking included (default: 1024, or 4096 to generate; 8192 or 12288 where the model "
        "thinks, and for ollama)",
    )
    add("--temperature", type=float, help="default: the provider's own")
    add("--top-p", type=float)
    add("--plain", action="store_true", help="no structured output")
    add("--param", action="append", default=[], metavar="NAME=JSON", help="a further parameter of the API")
    add("--price", metavar="IN,OUT", help="dollars per million tokens, where the table has no price")
    add("--concurrency", type=int, default=16, metavar="N", help="calls in flight (default: 16)")
    add("--timeout", type=float, default=120.0, metavar="S", help="seconds a call may take (default: 120)")


def _retrying(parser, text):
    parser.add_argument("--retry", default="", metavar="STATUS,...", help=text)


def _lazy(name):
    """Return a handler that is imported when it is called: `dre --help` stays instant."""
    return lambda args: getattr(importlib.import_module("dre.judges.commands"), name)(args)
