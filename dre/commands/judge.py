"""``dre judge``: ask a language model for scores, see what it would cost, read what is stored."""

import json
import sys
import time
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre.commands import inputs
from dre.commands.judge_options import (
    RECORDED,
    add_options,
    add_prompt_options,
    of_each_judge,
    open_from,
    prompt_from,
)
from dre.commands.outputs import (
    TRY_LATER,
    WRONG,
    check_output,
    own_output,
    refuse_to_replace,
    write_summary,
)
from dre.datasets import readers
from dre.environment import VERSION
from dre.errors import DreError, TryLater
from dre.files import replace, without_nan, write
from dre.judges import asking, batch, bill, connection, prompts, reply_page
from dre.judges.recorded import Recorded
from dre.judges.store import Store
from dre.signature import Signature
from dre.tables import show

_TRIAL_CALLS = 10  # so many calls tell how fast a server of one's own is
_SEVERAL_JUDGES = ("run", "estimate", "replay")  # actions that take more than one


class _Request(NamedTuple):
    """What an action of ``dre judge`` is about."""

    args: Any  # the arguments, with one judge
    judge: Any  # a `Judge` or `Recorded`
    prompt: Any  # a `Prompt`, or the name of one that only a recording knows
    pairs: pd.DataFrame
    signature: Signature  # of the table that is written


def add(subparsers: Any) -> None:
    """Add the command ``dre judge``."""
    judge = subparsers.add_parser("judge", help="score pairs with a language model")
    actions = judge.add_subparsers(dest="action", required=True, metavar="action")
    for name, run, text in (
        ("run", _run, "score pairs: ask for what is not stored yet"),
        ("estimate", _estimate, "say what a run would take: calls, tokens and money"),
        ("replay", _replay, "write the scores from a store or a recording; ask nothing"),
        ("show", _show, "show what a judge was asked, what it said, and how that was read"),
        ("status", _status, "say what is stored, or how it reads for a file of pairs"),
        ("export", _export, "write the missing prompts for a provider's batch service"),
        ("import", _import, "take in what a batch service replied to exported prompts"),
        (
            "passport",
            _passport,
            "examine a judge on pairs that people have rated, beside the recorded judges",
        ),
    ):
        action = actions.add_parser(name, help=text, description=text)
        _add_arguments(action, name)
        add_options(action, **_judge_options_of(name))
        action.set_defaults(run=run)


def _judge_options_of(name) -> dict:
    """Return how the options of a judge are added to an action."""
    options = {"required": name != "status", "several": name in _SEVERAL_JUDGES}
    if name == "passport":
        options["repeats_help"] = (
            "replies for each pair, which tell how steady the judge is (default: 2; of a "
            "recording at most those that it has)"
        )
    return options


def _add_arguments(action, name):
    """Add the arguments of one action, except those that say who judges."""
    option = action.add_argument
    if name == "show":
        option("pair", nargs="?", help="id of the pair to show, unless --html shows all")
    if name == "import":
        option("source", help="file of replies, as the batch service gives them (.jsonl)")
    if name != "passport":
        inputs.add_options(action, optional=name == "status")
    add_prompt_options(
        option, "a prompt's name, or a template file of your own (default: llm_only)"
    )
    endings = {
        "run": ".csv or .jsonl",
        "replay": ".csv or .jsonl",
        "export": ".jsonl",
        "import": ".csv or .jsonl",
        "passport": ".csv",
    }
    if name in endings:
        option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"file to write ({endings[name]})",
            required=name == "export",
        )
        option("--force", action="store_true", help="write over an output of another run")
    if name in ("run", "estimate", "export"):
        option(
            "--retry",
            help="ask again for replies of these statuses: malformed, refused, truncated, empty",
            type=lambda text: text.split(","),
            default=[],
            metavar="STATUS,...",
        )
    if name == "passport":
        _add_passport_options(option)
    if name == "show":
        option("--html", metavar="FILE", help="write a page of all judged pairs instead (.html)")
        option("--force", action="store_true", help="write over a page that is there")
    if name in ("run", "replay", "passport"):
        option("--json", action="store_true", help="print JSON instead of tables")


def _add_passport_options(option):
    option(
        "--sets",
        metavar="NAME,...",
        help="sets of rated pairs (default: personachat-usr,topicalchat-usr,fed-turn, or those of "
        "them that a recording knows)",
    )
    option(
        "--n",
        type=int,
        default=120,
        metavar="N",
        help="number of pairs, spread over sets and ratings (default: 120)",
    )
    option(
        "--seed", type=int, default=0, metavar="N", help="seed of the draw of pairs (default: 0)"
    )
    option(
        "--rated",
        metavar="FILE",
        help="your own rated pairs instead, with context, response and human (a number or a list "
        "of numbers); they may have id and system",
    )
    option(
        "--audit",
        action="store_true",
        help="also audit the judge as dre audit does; both are estimated first",
    )


def _requests(args, endings=(".csv", ".jsonl")):
    """Return a `_Request` for each judge, once it is clear that the output can be written."""
    output = getattr(args, "output", None)
    if output:
        check_output(output, endings, args.input)
    args.judge = [args.judge] if isinstance(args.judge, str) else args.judge
    prompt_name = prompt_from(args, "llm_only")
    opened = []
    for own_args in of_each_judge(args):
        is_recorded = own_args.judge.startswith(RECORDED)
        if is_recorded and args.action in ("export", "import"):
            raise DreError(
                f"{own_args.judge} is a recording, which takes and gives no batch: "
                "name a judge that can be asked"
            )
        judge = open_from(own_args)
        prompt = judge.prompt(prompt_name) if is_recorded else prompts.load(prompt_name)
        opened.append((own_args, judge, prompt))

    # The pairs need what some judge is shown.
    needed = []
    for name in ("context", "response"):
        if any(isinstance(judge, Recorded) or name in prompt.slots for _, judge, prompt in opened):
            needed.append(name)
    file = inputs.read(args, needed, whole=True)
    pairs = file.pairs
    if file.bad_records:
        first = file.bad_records[0]
        print(
            f"{len(file.bad_records):,} bad record(s) left out, "
            f"first line {first['line']}: {first['reason']}",
            file=sys.stderr,
        )

    signatures = [judge.signature for _, judge, _ in opened]
    _, _, prompt = opened[-1]
    signature = Signature.of(
        judge=signatures if len(signatures) > 1 else signatures[0],
        prompt=prompt if isinstance(prompt, str) else prompt.reading(),
        data=file.sha256,
        limit=getattr(args, "limit", None),
        version=VERSION,
    )
    if output:
        own_output(output, signature, args.force)
    return [
        _Request(own_args, judge, prompt, pairs, signature) for own_args, judge, prompt in opened
    ]


def _request(args, endings=(".csv", ".jsonl")):
    """Return the `_Request` of an action that takes one judge."""
    [request] = _requests(args, endings)
    return request


def _is_recorded(request):
    return isinstance(request.judge, Recorded)


def _print_estimate(request, retry, with_name, file=None):
    """Print what a run would take of one judge."""
    name = f"{request.judge.spec}: " if with_name else ""
    print(f"{name}{request.judge.estimate(request.pairs, request.prompt, retry)}", file=file)


def _run(args):
    """Ask all judges at the same time, and write the table; not 0 if it is not complete."""
    requests = _requests(args)
    for request in requests:
        _print_estimate(request, args.retry, len(requests) > 1, sys.stderr if args.json else None)

    tasks = [partial(_score_or_error, request, args.retry) for request in requests]
    # `--max-usd` holds for all judges of a run together.
    with asking.one_run(*[request.judge for request in requests]):
        # One judge needs no thread of its own, and an interrupt ends it at once.
        outcomes = asking.side_by_side(tasks) if len(tasks) > 1 else [tasks[0]()]
    _raise_if_all_failed(outcomes)
    status = 0
    tables = []
    for request, outcome in zip(requests, outcomes):
        if isinstance(outcome, DreError):
            # What the other judges said counts all the same.
            print(f"error: {outcome}", file=sys.stderr)
            status = max(status, TRY_LATER if isinstance(outcome, TryLater) else WRONG)
            outcome = request.judge.score(request.pairs, request.prompt, ask=False)
        tables.append(outcome)
    return max(status, _finish_run(args, requests, tables))


def _score_or_error(request, retry):
    """Return the table of a judge, or the error that ended its run."""
    try:
        return request.judge.score(request.pairs, request.prompt, retry)
    except DreError as error:
        return error


def _raise_if_all_failed(outcomes):
    """Raise what kept every judge from its work, each reason once, so that nothing is written."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, DreError)]
    if len(errors) < len(outcomes):
        return
    reasons = list(dict.fromkeys(str(error) for error in errors))
    is_for_later = all(isinstance(error, TryLater) for error in errors)
    kind = TryLater if is_for_later else DreError
    raise kind("; ".join(reasons))


def _finish_run(args, requests, tables):
    """Write the table of a run, and print what came out; return the exit status."""
    has_several = len(requests) > 1
    table = tables[0]
    if has_several:
        tables_of_judges = []
        for request, own_table in zip(requests, tables):
            tables_of_judges.append(own_table.assign(judge=request.judge.spec))
        table = pd.concat(tables_of_judges, ignore_index=True)
        table.insert(0, "judge", table.pop("judge"))
    if args.output:
        counts = table["status"].value_counts()
        write_summary(args.output, requests[0].signature, {"statuses": counts.to_dict()})
        write(table, args.output)

    prints_json = getattr(args, "json", False)
    if prints_json:
        print(_as_json(requests, tables, None if args.output else table))
    else:
        _print_run(args, requests, tables)
    for request in requests:
        if request.judge.last.stopped == "budget":
            print(request.judge.last.why, file=sys.stderr if prints_json else None)
    return max(_exit_status(own_table) for own_table in tables)


def _print_run(args, requests, tables):
    """Print what came of each judge, and where it is kept."""
    has_several = len(requests) > 1
    if has_several:
        _show_judges(requests, tables)
    for request, own_table in zip(requests, tables):
        _tell(own_table, request.judge.spec if has_several else "")
        if not _is_recorded(request) and args.action == "run":
            _print_calls(request.judge, has_several)
    if args.action == "run" and not args.output:
        print(
            "no table was written: give -o FILE.csv to have one; what is stored is not asked again"
        )


def _print_calls(judge, with_name):
    """Print how many calls were made, what they cost, and where the replies are."""
    name = f"{judge.spec}: " if with_name else ""
    money = f", {judge.last.money}" if judge.price else ""
    print(f"{name}{judge.last.calls:,} calls{money}; store: {judge.store.path}")


def _judge_rows(requests, tables):
    """Return what came of each judge: how many scores, their mean, and likeness to the first."""
    rows = []
    first_scores = tables[0].set_index("pair_id")["score_llm"]
    for request, table in zip(requests, tables):
        scores = table.set_index("pair_id")["score_llm"]
        run = request.judge.last
        row = {
            "judge": request.judge.spec,
            "pairs": len(table),
            "scored": int(scores.notna().sum()),
            "mean_score": scores.mean(),
            "agrees_with_first": np.nan,
            "statuses": table["status"].value_counts().to_dict(),
            "calls": run.calls,
            "usd_spent": run.spent - run.uncertain if request.judge.price else None,
            "usd_at_most_more": run.uncertain if request.judge.price else None,
        }
        has_varied = scores.nunique() > 1 and first_scores.nunique() > 1
        if request is not requests[0] and has_varied:
            row["agrees_with_first"] = scores.corr(first_scores, method="spearman")
        rows.append(row)
    return rows


def _show_judges(requests, tables):
    """Print one table of all judges."""
    first = requests[0].judge.spec
    note = (
        f"Agrees with first: Spearman's correlation of its scores with those of {first}. "
        "A score is on the prompt's scale."
    )
    columns = ["judge", "pairs", "scored", "mean_score", "agrees_with_first", "calls"]
    show(pd.DataFrame(_judge_rows(requests, tables)), "Judges", note, columns)


def _as_json(requests, tables, table=None):
    """Return what came of a run as JSON; what is not known is null."""
    content = {"signature": str(requests[0].signature), "judges": _judge_rows(requests, tables)}
    if table is not None:
        content["scores"] = table.to_dict("records")
    return json.dumps(without_nan(content), indent=1, ensure_ascii=False)


def _estimate(args):
    """Print what a run would take.

    A server of one's own, which costs nothing, is asked for the first pairs, to time it.
    """
    requests = _requests(args)
    statuses = [_estimate_one(request, args.retry, len(requests) > 1) for request in requests]
    return max(statuses)


def _estimate_one(request, retry, with_name):
    """Print what a run would take of one judge, and return the exit status."""
    judge = request.judge
    _print_estimate(request, retry, with_name)
    if _is_recorded(request):
        return 0
    costs_money = judge.price and judge.price.output
    if connection.is_public_service(judge.address) or costs_money:
        return 0
    unanswered = judge.unanswered(request.pairs, request.prompt, retry)
    if not unanswered:
        return 0
    first_ids = [call.pair_id for call in unanswered[:_TRIAL_CALLS]]
    first_pairs = request.pairs[request.pairs["pair_id"].isin(first_ids)]
    start = time.monotonic()
    table = judge.score(first_pairs, request.prompt, retry)
    _tell(table)
    calls = judge.last.calls
    if calls:
        seconds = time.monotonic() - start
        calls_left = len(unanswered) - calls
        seconds_left = calls_left * seconds / calls
        print(
            f"{calls} calls, now stored, took {asking.minutes(seconds)}: "
            f"the other {calls_left:,} take about {asking.minutes(seconds_left)}"
        )
    return _exit_status(table)


def _replay(args):
    """Write the table from what is stored or recorded; DreError if a reply is missing."""
    requests = _requests(args)
    tables = []
    for request in requests:
        judge = request.judge
        table = judge.score(request.pairs, request.prompt, ask=False)
        missing_ids = table.loc[table["n_samples"] < judge.repeats, "pair_id"]
        if len(missing_ids):
            raise DreError(
                f"replies to {len(missing_ids)} pairs are not stored, first "
                f"{missing_ids.iloc[0]} ({judge.spec}): compare judge, prompt, options with "
                "`dre judge status`, or ask with `dre judge run`"
            )
        tables.append(table)
    return _finish_run(args, requests, tables)


def _export(args):
    """Write the missing prompts as a batch file."""
    request = _request(args, (".jsonl",))
    n = batch.export_prompts(request.judge, request.pairs, request.prompt, args.output, args.retry)
    write_summary(args.output, request.signature, {})
    print(f"{n:,} prompts are in {args.output}")


def _import(args):
    """Take in replies to exported prompts, and write the table."""
    request = _request(args)
    stored, stored_before, failed = batch.import_replies(
        request.judge, request.pairs, request.prompt, args.source
    )
    print(
        f"{stored:,} replies stored, {stored_before:,} were stored before, "
        f"{failed:,} requests failed"
    )
    table = request.judge.score(request.pairs, request.prompt, ask=False)
    return _finish_run(args, [request], [table])


def _show(args):
    """Print what a judge is asked about a pair, its replies, and how they were read.

    With ``--html`` a page shows this of all pairs that were judged. Returns the exit status: 1 if
    the pair was not asked yet.
    """
    if args.html:
        return _write_page(args)
    if not args.pair:
        raise DreError(
            "whose prompt and reply? give the id of a pair before the file, or --html FILE for a "
            "page of all"
        )
    request = _request(args)
    judge = request.judge
    row = request.pairs[request.pairs["pair_id"] == args.pair]
    if row.empty:
        first_id = request.pairs["pair_id"].iloc[0]
        raise DreError(f"{args.input} has no pair {args.pair!r}: its first is {first_id!r}")
    verdict = judge.score(row, request.prompt, ask=False).iloc[0]
    for message in _messages(request.prompt, row.iloc[0].to_dict()):
        print(f"--- {message['role']} ---\n{message['content']}\n")
    if not _is_recorded(request):
        for call, reply in judge.replies(row, request.prompt):
            outcome = "not asked yet"
            if reply:
                outcome = f"{reply.outcome}, from {reply.model or judge.model}"
            print(f"--- reply {call.repeat + 1}: {outcome} ---\n{reply.text if reply else ''}\n")
    print("--- read as ---")
    for name in ("status", "score_llm", "s_inf", "label", "responses", "reason"):
        if not readers.absent(verdict[name]):
            print(f"{name}: {verdict[name]}")
    return TRY_LATER if verdict["status"] == "missing" else 0


def _write_page(args):
    """Write a page of all pairs that were judged; 1 if none was."""
    check_output(args.html, (".html",), args.input)
    request = _request(args)
    judge, prompt = request.judge, request.prompt
    pairs = request.pairs
    if args.pair:
        pairs = pairs[pairs["pair_id"] == args.pair]
        if pairs.empty:
            raise DreError(f"{args.input} has no pair {args.pair!r}")
    table = judge.score(pairs, prompt, ask=False).set_index("pair_id")
    replies = {}
    if not _is_recorded(request):
        for call, reply in judge.replies(pairs, prompt):
            if reply:
                replies.setdefault(call.pair_id, []).append(_shown_reply(call, reply, judge))

    shown_pairs = []
    for row in pd.DataFrame(pairs).to_dict("records"):
        verdict = table.loc[row["pair_id"]]
        if verdict["status"] == "missing":
            continue
        turns = row.get("context")
        shown_pair = reply_page.ShownPair(
            pair_id=row["pair_id"],
            system=_text_or_empty(row.get("system")),
            turns=[turns] if isinstance(turns, str) else turns or [],
            response=_text_or_empty(row.get("response")),
            status=verdict["status"],
            score=float(verdict["score_llm"]),
            label=_text_or_empty(verdict["label"]),
            reason=_text_or_empty(verdict["reason"]),
            messages=_messages(prompt, row),
            replies=replies.get(row["pair_id"], []),
        )
        shown_pairs.append(shown_pair)
    if not shown_pairs:
        print(f"none of {len(pairs):,} pairs was judged yet: ask with dre judge run")
        return TRY_LATER
    about = {
        "judge": judge.spec,
        "prompt": prompt if isinstance(prompt, str) else prompt.name,
        "input": args.input,
        "signature": str(request.signature),
    }
    content = reply_page.page(shown_pairs, about)
    refuse_to_replace(args.html, args.force or _is_own_page(args.html), content)
    replace(args.html, content)
    print(f"{len(shown_pairs):,} of {len(pairs):,} pairs were judged; the page is {args.html}")
    return 0


def _is_own_page(path):
    """Return whether a file is a page that this command wrote, and may write anew."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return reply_page.MARK in file.read(200)
    except (OSError, ValueError):
        return False


def _shown_reply(call, reply, judge):
    """Return a stored reply as a page shows it."""
    origin = f"Reply {call.repeat + 1}: {reply.outcome}, from {reply.model or judge.model}"
    if reply.output_tokens is not None:
        origin += f", {reply.output_tokens:,} tokens"
    if reply.cost is not None:
        origin += f", ${reply.cost:.4f}"
    if reply.seconds is not None:
        origin += f", {reply.seconds:.1f} s"
    return reply_page.ShownReply(origin, reply.text)


def _text_or_empty(value):
    return "" if readers.absent(value) else str(value)


def _messages(prompt, row):
    """Return the messages of a prompt about a pair, as far as they can be shown."""
    if isinstance(prompt, str):  # only a recording knows its text
        return []
    try:
        return prompt.render(row)
    except DreError as error:  # a recorded judge was shown numbers that are not in the file
        return [{"role": "not shown here", "content": str(error)}]


def _passport(args):
    # It needs the public data and the audit, which no other action does.
    from dre.commands import judge_passport

    args.prompt = prompt_from(args, "llm_only")
    return judge_passport.run(args, open_from(args, repeats=1))


def _status(args):
    """Print what is stored, and, given pairs and a judge, how their replies are read."""
    if args.input:
        if not args.judge:
            raise DreError(
                "a file of pairs needs the judge who was asked: give --judge, or leave the file out"
            )
        request = _request(args)
        _tell(request.judge.score(request.pairs, request.prompt, ask=False))
        return
    inputs.refuse_without_file(args)
    store = Store(args.store)
    groups = store.summary()
    print(f"store: {store.path}{'' if groups else ': nothing is stored yet'}")
    for judged, alike in groupby(groups, key=lambda group: group[:4]):
        judge, base_url, prompt, params = judged
        print(f"{_at(judge, base_url)}, prompt {prompt}, {params}")
        for (status, source), of_status in groupby(alike, key=lambda group: group[4:6]):
            [line] = bill.lines(of_status, ["judge"]).to_dict("records")
            money = "cost unknown"
            if line["calls_priced"]:
                usd = line["usd"]
                money = (
                    f"at most ${usd:.4f}" if status in bill.WITHOUT_REPLY else f"${usd:.4f} spent"
                )
            tokens = []
            for column in ("input_tokens", "output_tokens"):
                tokens.append(0 if np.isnan(line[column]) else line[column])
            print(
                f"  {status}: {line['calls']:,.0f} ({source}; {money}; "
                f"{tokens[0]:,.0f} tokens in, {tokens[1]:,.0f} out)"
            )
    for line in bill.lines(groups, ["judge", "base_url"]).to_dict("records"):
        print(f"{_at(line['judge'], line['base_url'])} in all: {bill.in_words(line)}")


def _at(judge, base_url):
    """Return the name of a judge with its address, if that is not the provider's own."""
    return f"{judge} at {base_url}" if base_url else judge


def _tell(table, name=""):
    """Print what became of the pairs of a judge."""
    counts = table["status"].value_counts()
    statuses = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    prefix = f"{name}: " if name else ""
    print(f"{prefix}{len(table):,} pairs: {statuses}")
    for status in counts.index.difference(["ok"]):
        example = table[table["status"] == status].iloc[0]
        print(
            f"  {prefix}{status}, e.g. {example['pair_id']}: {example['reason']}",
            file=sys.stderr,
        )
    if "ok" not in counts:
        print(f"  {prefix}no pair has a score", file=sys.stderr)


def _exit_status(table):
    """Return 1 if replies are missing, which the same command asks for; 2 if none can be read."""
    statuses = set(table["status"])
    if statuses & {"missing", "error"}:
        return TRY_LATER
    return 0 if "ok" in statuses else WRONG
