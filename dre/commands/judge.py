"""``dre judge``: ask a language model for scores, see what it would cost, read what is stored."""

import sys
import time
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from dre import __version__
from dre.commands import inputs
from dre.commands.judge_options import (
    RECORDED,
    WITHOUT_REPLY,
    add_options,
    open_from,
    spent_in_words,
    usd_without_reply,
)
from dre.commands.outputs import check_output, own_output, write_summary
from dre.datasets import readers
from dre.errors import DreError
from dre.files import write
from dre.judges import asking, files, prompts, providers
from dre.judges.store import Store
from dre.signature import Signature

TRIAL_CALLS = 10  # so many calls tell how fast a server of one's own is


class _Request(NamedTuple):
    """What an action of ``dre judge`` is about."""

    judge: Any  # a `Judge` or `Recorded`
    prompt: Any  # a `Prompt`, or the name of one that only a recording knows
    pairs: pd.DataFrame
    signature: Signature  # of the table that is written


def add(subparsers: Any) -> None:
    """Add the command ``dre judge``."""
    judge = subparsers.add_parser("judge", help="score pairs with a language model")
    actions = judge.add_subparsers(dest="action", required=True, metavar="action")
    for name, run, text in (
        ("run", _run, "ask for what is not stored yet, and write the scores"),
        ("estimate", _estimate, "calls, tokens and money that a run would take"),
        ("replay", _replay, "write the scores from a store or a recording; ask nothing"),
        ("show", _show, "the prompt of one pair as it is sent, the reply, and how it was read"),
        ("status", _status, "what is stored, and how it reads for a file of pairs"),
        ("export", _export, "write the missing prompts as a batch file"),
        ("import", _import, "take in replies to exported prompts"),
        ("compare", _compare, "try a judge on public rated pairs, beside the recorded judges"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        _add_arguments(action, name)
        add_options(action, required=name != "status")
        action.set_defaults(run=run)


def _add_arguments(action, name):
    """Add the arguments of one action, except those that say who judges."""
    option = action.add_argument
    if name == "show":
        option("pair", help="its id")
    if name == "import":
        option("source", help="replies as JSONL")
    if name != "compare":
        inputs.add_options(action, optional=name == "status")
    option("--prompt", default="llm_only", help="a prompt's name, or a template file of your own")
    endings = {
        "run": ".csv or .jsonl",
        "replay": ".csv or .jsonl",
        "export": ".jsonl",
        "import": ".csv or .jsonl",
        "compare": ".csv",
    }
    if name in endings:
        option("-o", "--output", metavar="FILE", help=endings[name], required=name == "export")
        option("--force", action="store_true", help="write over an output of another run")
    if name in ("run", "estimate", "export"):
        option(
            "--retry",
            help="ask malformed, refused, ... again",
            type=lambda text: text.split(","),
            default=[],
            metavar="STATUS,...",
        )
    if name == "compare":
        _add_compare_options(option)


def _add_compare_options(option):
    option(
        "--sets",
        metavar="NAME,...",
        help="default: personachat-usr,topicalchat-usr,fed-turn",
    )
    option(
        "--n",
        type=int,
        default=120,
        help="pairs in all, drawn over sets and ratings (default: 120)",
    )
    option("--seed", type=int, default=0, help="of the draw (default: 0)")
    option(
        "--rated",
        metavar="FILE",
        help="your own rated pairs instead: context, response, human (a number or a list of them), "
        "and if there are any: id, system",
    )
    option(
        "--audit",
        action="store_true",
        help="also dre audit of this judge; both are estimated first",
    )
    option("--json", action="store_true", help="print JSON instead of tables")


def _request(args, endings=(".csv", ".jsonl")):
    """Return the `_Request` of an action, once it is clear that its output can be written."""
    output = getattr(args, "output", None)
    is_recorded = args.judge.startswith(RECORDED)
    if output:
        check_output(output, endings, args.input)
    if is_recorded and args.action in ("export", "import"):
        raise DreError(
            f"{args.judge} is a recording, which takes and gives no batch: "
            "name a judge that can be asked"
        )
    judge = open_from(args)
    prompt = judge.prompt(args.prompt) if is_recorded else prompts.load(args.prompt)
    needed = [name for name in ("context", "response") if is_recorded or name in prompt.slots]
    pairs, bad_records, data_sha256 = inputs.read(args, needed, whole=True)
    if bad_records:
        first = bad_records[0]
        print(
            f"{len(bad_records):,} bad record(s) left out, "
            f"first line {first['line']}: {first['reason']}",
            file=sys.stderr,
        )
    signature = Signature.of(
        judge=judge.signature,
        prompt=prompt if isinstance(prompt, str) else prompt.reading(),
        data=data_sha256,
        version=__version__,
    )
    if output:
        own_output(output, signature, args.force)
    return _Request(judge, prompt, pairs, signature)


def _run(args):
    """Ask, and write the table; 1 if it is not complete."""
    request = _request(args)
    judge = request.judge
    print(judge.estimate(request.pairs, request.prompt, args.retry))
    is_recorded = args.judge.startswith(RECORDED)
    uncertain_before = 0.0 if is_recorded else usd_without_reply(judge)
    table = judge.score(request.pairs, request.prompt, args.retry)
    status = _finish(table, request.signature, args.output)
    if not is_recorded:
        money = ""
        if judge.price:
            uncertain_usd = usd_without_reply(judge) - uncertain_before
            money = f", {spent_in_words(judge.last.spent, uncertain_usd)}"
        print(f"{judge.last.calls:,} calls{money}; store: {judge.store.path}")
    if not args.output:
        print(
            "no table was written: give -o FILE.csv to have one; what is stored is not asked again"
        )
    if judge.last.stopped == "budget":
        print(judge.last.why)
    return status


def _estimate(args):
    """Print what a run would take.

    A server of one's own, which costs nothing, is asked for the first pairs, to time it.
    """
    request = _request(args)
    judge = request.judge
    print(judge.estimate(request.pairs, request.prompt, args.retry))
    if args.judge.startswith(RECORDED):
        return None
    costs_money = judge.price and judge.price.output
    if providers.is_public_service(judge.address) or costs_money:
        return None
    missing = judge.missing(request.pairs, request.prompt, args.retry)
    if not missing:
        return 0
    first_ids = [call.pair_id for call in missing[:TRIAL_CALLS]]
    first_pairs = request.pairs[request.pairs["pair_id"].isin(first_ids)]
    start = time.monotonic()
    status = _finish(judge.score(first_pairs, request.prompt, args.retry))
    calls = judge.last.calls
    if calls:
        seconds = time.monotonic() - start
        calls_left = len(missing) - calls
        seconds_left = calls_left * seconds / calls
        print(
            f"{calls} calls, now stored, took {asking.minutes(seconds)}: "
            f"the other {calls_left:,} take about {asking.minutes(seconds_left)}"
        )
    return status


def _replay(args):
    """Write the table from what is stored or recorded; DreError if a reply is missing."""
    request = _request(args)
    table = request.judge.score(request.pairs, request.prompt, ask=False)
    missing_ids = table.loc[table["n_samples"] < request.judge.repeats, "pair_id"]
    if len(missing_ids):
        raise DreError(
            f"replies to {len(missing_ids)} pairs are not stored, first {missing_ids.iloc[0]}: "
            "compare judge, prompt, options with `dre judge status`, or ask with `dre judge run`"
        )
    return _finish(table, request.signature, args.output)


def _export(args):
    """Write the missing prompts as a batch file."""
    request = _request(args, (".jsonl",))
    n = files.export_prompts(request.judge, request.pairs, request.prompt, args.output, args.retry)
    write_summary(args.output, request.signature, {})
    print(f"{n:,} prompts are in {args.output}")


def _import(args):
    """Take in replies to exported prompts, and write the table."""
    request = _request(args)
    stored, stored_before, failed = files.import_replies(
        request.judge, request.pairs, request.prompt, args.source
    )
    print(
        f"{stored:,} replies stored, {stored_before:,} were stored before, "
        f"{failed:,} requests failed"
    )
    table = request.judge.score(request.pairs, request.prompt, ask=False)
    return _finish(table, request.signature, args.output)


def _show(args):
    """Print what a judge is asked about a pair, its replies, and how they were read.

    Returns the exit status: 1 if it was not asked yet.
    """
    request = _request(args)
    judge = request.judge
    row = request.pairs[request.pairs["pair_id"] == args.pair]
    if row.empty:
        first_id = request.pairs["pair_id"].iloc[0]
        raise DreError(f"{args.input} has no pair {args.pair!r}: its first is {first_id!r}")
    verdict = judge.score(row, request.prompt, ask=False).iloc[0]
    for message in _messages(request.prompt, row.iloc[0].to_dict()):
        print(f"--- {message['role']} ---\n{message['content']}\n")
    if not args.judge.startswith(RECORDED):
        for call, reply in judge.replies(row, request.prompt):
            outcome = "not asked yet"
            if reply:
                outcome = f"{reply.outcome}, from {reply.model or judge.model}"
            print(f"--- reply {call.repeat + 1}: {outcome} ---\n{reply.text if reply else ''}\n")
    print("--- read as ---")
    for name in ("status", "score_llm", "s_inf", "label", "responses", "reason"):
        if not readers.absent(verdict[name]):
            print(f"{name}: {verdict[name]}")
    return 1 if verdict["status"] == "missing" else 0


def _messages(prompt, row):
    """Return the messages of a prompt about a pair, as far as they can be shown."""
    if isinstance(prompt, str):  # only a recording knows its text
        return []
    try:
        return prompt.render(row)
    except DreError as error:  # a recorded judge was shown numbers that are not in the file
        return [{"role": "not shown here", "content": str(error)}]


def _compare(args):
    # It needs the public data and the audit, which no other action does.
    from dre.commands import judge_passport

    return judge_passport.run(args, open_from(args, repeats=1))


def _status(args):
    """Print what is stored, and, given pairs and a judge, how their replies are read."""
    if args.input:
        if not args.judge:
            raise DreError(
                "a file of pairs needs the judge who was asked: give --judge, or leave the file out"
            )
        request = _request(args)
        _finish(request.judge.score(request.pairs, request.prompt, ask=False))
        return
    store = Store(args.store)
    rows = store.summary()
    print(f"store: {store.path}{'' if rows else ': nothing is stored yet'}")
    for (judge, base_url, prompt, params), group in groupby(rows, key=lambda row: row[:4]):
        address = f" at {base_url}" if base_url else ""
        print(f"{judge}{address}, prompt {prompt}, {params}")
        for *_, status, source, count, cost, tokens_in, tokens_out in group:
            money = "cost unknown"
            if cost is not None:
                money = f"at most ${cost:.4f}" if status in WITHOUT_REPLY else f"${cost:.4f}"
            tokens = f"{tokens_in or 0:,} tokens in, {tokens_out or 0:,} out"
            print(f"  {status}: {count:,} ({source}; {money}; {tokens})")


def _finish(table, signature=None, path=None):
    """Write the table and print what became of the pairs; 1 if replies are missing."""
    counts = table["status"].value_counts()
    if path and signature:
        write_summary(path, signature, {"statuses": counts.to_dict()})
        write(table, path)
    statuses = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    print(f"{len(table):,} pairs: {statuses}")
    for status in counts.index.difference(["ok"]):
        example = table[table["status"] == status].iloc[0]
        advice = "; give a larger --max-tokens" if status == "truncated" else ""
        print(
            f"  {status}, e.g. {example['pair_id']}: {example['reason']}{advice}", file=sys.stderr
        )
    has_missing = bool({"missing", "error"} & set(counts.index))
    return 1 if has_missing else 0
