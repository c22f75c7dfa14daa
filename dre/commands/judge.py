"""``dre judge``: ask a language model for scores, see what it would cost, read what is stored."""

import argparse
import sys
from typing import Any

import pandas as pd

from dre import fusion
from dre.commands import inputs, judge_options, outputs
from dre.datasets import readers
from dre.environment import VERSION
from dre.errors import DreError
from dre.files import write
from dre.judges import is_recording, prompts
from dre.judges.ask import printable
from dre.signature import Signature
from dre.tables import show

_BILL = ["judge", "prompt", "replies", "errors", "lost", "unpriced"]
_BILL += ["input_tokens", "output_tokens", "usd"]
_DIGITS = {"input_tokens": 0, "output_tokens": 0, "usd": 4}


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre judge``."""
    judge = subparsers.add_parser("judge", help="score pairs with a language model")
    actions = judge.add_subparsers(dest="action", required=True, metavar="action")
    for name, run, text in (
        ("run", _run, "score pairs: ask for what is not stored yet"),
        ("estimate", _estimate, "say what a run would take: calls, tokens and money"),
        ("show", _show, "show what a judge was asked, what it said, how that was read; the bill"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.set_defaults(run=run)
        if name == "show":
            action.add_argument("pair", help="id of the pair to show")
        inputs.add_options(action)
        judge_options.add_options(action, prompt="a prompt's name, or a template file of your own")
        if name == "run":
            outputs.add_options(action, "write the scores there", ".csv", ".jsonl")
            action.add_argument(
                "--retry",
                help="ask again for replies of these statuses: malformed, refused, truncated, "
                "empty",
                type=lambda text: text.split(","),
                default=[],
                metavar="STATUS,...",
            )


def _opened(args):
    """Return the judge, the prompt, and the pairs that the arguments name."""
    judge = judge_options.open_from(args)
    name = judge_options.prompt_from(args, "llm_only")
    is_own = is_recording(judge.spec) and isinstance(name, str) and name not in prompts.names()
    prompt: Any = name if is_own else prompts.load(name)
    slots = {"context", "response"} if is_own else prompt.slots
    needed = [slot for slot in ("context", "response") if slot in slots]
    return judge, prompt, inputs.read(args, needed, whole=True)


def _run(args):
    """Score pairs and write the table; 1 if a reply is missing, 2 if none can be read."""
    judge, prompt, file = _opened(args)
    signature = Signature.of(
        judge=judge.signature,
        prompt=prompt if isinstance(prompt, str) else prompt.reading(),
        **file.made_of,
        version=VERSION,
    )
    outputs.refuse_to_replace(args, signature, args.input)
    print(judge.estimate(file.pairs, prompt, args.retry), flush=True)
    table = judge.score(file.pairs, prompt, args.retry)
    if not isinstance(prompt, str) and prompt.kind == "score":
        table["score_llm"] = fusion.to_llm_scale(table["score_llm"], *prompt.scale)
    # The same columns as of `dre score`, so that `dre compare` matches contexts.
    names = file.pairs[["line", "id", "system", "context_id"]].reset_index(drop=True)
    table = pd.concat([names, table], axis=1)
    if args.output:
        outputs.write_summary(args.output, signature, {})
        write(table[inputs.filled(table, table)], args.output)
    counts = table["status"].value_counts()
    print(f"{len(table):,} pairs: {', '.join(f'{n:,} {name}' for name, n in counts.items())}")
    for status in counts.index.difference(["ok"]):
        example = table[table["status"] == status].iloc[0]
        print(f"  {status}, e.g. {example['pair_id']}: {example['reason']}", file=sys.stderr)
    if judge.last.calls or judge.last.lost:
        print(f"{judge.last.calls:,} replies, {judge.last.money}; store: {judge.store.path}")
    if judge.last.why:
        print(judge.last.why)
    if counts.index.isin(["missing", "error"]).any():
        return outputs.TRY_LATER
    return 0 if "ok" in counts else outputs.WRONG


def _estimate(args):
    """Print what a run would take."""
    judge, prompt, file = _opened(args)
    print(judge.estimate(file.pairs, prompt))


def _show(args):
    """Print what a judge is asked about a pair, its replies, how they were read, and the bill."""
    judge, prompt, file = _opened(args)
    rows = file.pairs[file.pairs["pair_id"] == args.pair]
    if rows.empty:
        raise DreError(f"{args.input} has no pair {args.pair!r}: ids are in the column pair_id")
    verdict = judge.score(rows, prompt, ask=False).iloc[0]
    is_live = not is_recording(judge.spec)
    if is_live:
        requests = judge.requests(rows, prompt)
        for message in requests[0].messages:
            print(f"--- {message['role']} ---\n{message['content']}\n")
        for reply, *_ in judge.store.get([request.key for request in requests]).values():
            text = "\n".join(printable(line) for line in reply.text.splitlines())
            print(f"--- reply: {reply.outcome}, from {printable(reply.model)} ---\n{text}\n")
    print("--- read as ---")
    for name in ("status", "score_llm", "s_inf", "label", "responses", "reason"):
        if not readers.absent(verdict[name]):
            print(f"{name}: {verdict[name]}")
    if is_live:
        note = (
            f"Store: {judge.store.path}. Lost calls have no reply, and count at their most. "
            "Dollars are without unpriced replies."
        )
        bill = judge.store.bill("judge", "prompt")
        print()
        show(bill, "The bill of all judges", note, _BILL, {"usd": "Dollars"}, _DIGITS)
    return outputs.TRY_LATER if verdict["status"] == "missing" else 0
