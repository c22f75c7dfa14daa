"""``dre judge``: run, estimate, replay, show, status, export, import, compare; and the options that say who judges."""

import json
import sys
import time
from itertools import groupby

from dre import __version__, judges
from dre.commands import inputs
from dre.commands.outputs import check_output, own_output, write_summary
from dre.datasets import readers
from dre.errors import DreError
from dre.files import signature, write
from dre.judges import asking, files, prompts, providers
from dre.judges.store import Store

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
FIRST = 10  # calls that say how fast a server of one's own is


def add(subparsers):
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
        option = action.add_argument
        if first := {"show": ("pair", "its id"), "import": ("source", "replies as JSONL")}.get(
            name
        ):
            option(first[0], help=first[1])
        if name != "compare":
            inputs.add_options(action, optional=name == "status")
        option(
            "--prompt", default="llm_only", help="a prompt's name, or a template file of your own"
        )
        if name in ("run", "replay", "export", "import", "compare"):
            ending = {"export": ".jsonl", "compare": ".csv"}.get(name, ".csv or .jsonl")
            option("-o", "--output", metavar="FILE", help=ending, required=name == "export")
            option("--force", action="store_true", help="write over an output of another run")
        if name in ("run", "estimate", "export"):
            statuses = {
                "type": lambda text: text.split(","),
                "default": [],
                "metavar": "STATUS,...",
            }
            option("--retry", help="ask malformed, refused, ... again", **statuses)
        if name == "compare":
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
                help="your own rated pairs instead: context, response, human, system",
            )
            option(
                "--audit",
                action="store_true",
                help="also dre audit of this judge; both are estimated first",
            )
            option("--json", action="store_true", help="print JSON instead of tables")
        add_options(action, required=name != "status")
        action.set_defaults(run=run)


def add_options(parser, required=True):
    """Add the options that say who judges and how: the same for every command that asks a judge."""
    group = parser.add_argument_group("judge")
    add = group.add_argument
    specs = "openai:, anthropic:, gemini: or ollama:<model>, or recorded:<name>"
    add("--judge", required=required, metavar="SPEC", help=specs)
    add(
        "--store",
        metavar="FILE",
        help="where replies are kept (default: DRE_STORE, or the user's data folder)",
    )
    add(
        "--base-url",
        default="",
        metavar="URL",
        help="another server that speaks the provider's protocol",
    )
    add(
        "--key-env",
        metavar="NAME",
        help="environment variable that holds the key (default: the provider's own)",
    )
    add("--max-usd", type=float, metavar="X", help="stop before this run has spent so many dollars")
    add(
        "--max-usd-total",
        type=float,
        metavar="X",
        help="stop before the whole store has cost so much",
    )
    add(
        "--price", metavar="IN,OUT", help="dollars per million tokens, where the price is not known"
    )
    add("--plain", action="store_true", help="no structured output, for models that have none")
    add(
        "--max-tokens",
        type=int,
        metavar="N",
        help="longest reply, thinking included (default: by prompt and model)",
    )
    add("--temperature", type=float, metavar="T", help="default: the provider's own")
    add(
        "--timeout",
        type=float,
        metavar="S",
        help="seconds a call may take (default: 120; 600 on your own servers)",
    )
    add(
        "--concurrency",
        type=int,
        metavar="N",
        help="calls in flight (default: 16; 4 on your own servers)",
    )
    add(
        "--repeats",
        type=int,
        metavar="N",
        help="replies per pair; a score is their mean (default: 1)",
    )
    add(
        "--param",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further parameter of the API",
    )


def open_from(args, spec=None, **options):
    """Return the judge that the options of `add_options` name; `spec` and `options` go before them.

    None if no judge is named and no option is given. Options that a recording has no use for are said.
    """
    spec, given = (
        spec or args.judge,
        {name: getattr(args, name) for name in OPTIONS} | _params(args.param),
    )
    idle = [
        name
        for name in given
        if given[name] not in (None, "", False) and name not in ("store", "repeats")
    ]
    idle = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
    if spec is None:
        if idle:
            raise DreError(f"{idle}: there is no judge to use it: give --judge, or leave it out")
        return None
    if spec.startswith(RECORDED) and idle:
        print(f"note: {spec} is a recording, for which {idle} does nothing", file=sys.stderr)
    return judges.open(
        spec, **{name: value for name, value in (given | options).items() if value is not None}
    )


def _params(texts):
    """Further parameters of the API, from NAME=JSON."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in (*OPTIONS, "spec"):
            raise DreError(f"--param {text!r}: expected a parameter without an option of its own")
        try:
            found[name] = json.loads(value)
        except ValueError:
            raise DreError(
                f"--param {text!r}: expected NAME=JSON, such as seed=1 or effort='\"low\"'"
            ) from None
    return found


def _given(args, endings=(".csv", ".jsonl")):
    """The judge, its prompt, the pairs, and what makes the output, once it is clear that this can be written."""
    output, recorded = getattr(args, "output", None), args.judge.startswith(RECORDED)
    if output:
        check_output(output, endings, args.input)
    if recorded and args.action in ("export", "import"):
        raise DreError(
            f"{args.judge} is a recording, which takes and gives no batch: name a judge that can be asked"
        )
    judge = open_from(args)
    prompt = judge.prompt(args.prompt) if recorded else prompts.load(args.prompt)
    needs = [name for name in ("context", "response") if recorded or name in prompt.slots]
    pairs, bad, data = inputs.read(args, needs, whole=True)
    if bad:
        print(
            f"{len(bad):,} bad record(s) left out, first line {bad[0]['line']}: {bad[0]['reason']}",
            file=sys.stderr,
        )
    known = prompt if isinstance(prompt, str) else f"{prompt.name} {prompt.sha256[:12]}"
    made = {"judge": judge.signature, "prompt": known, "data": data[:12], "version": __version__}
    if output:
        own_output(output, made, args.force)
    return judge, prompt, pairs, made


def _run(args):
    """Ask, and write the table; 1 if it is not complete."""
    judge, prompt, pairs, made = _given(args)
    print(judge.estimate(pairs, prompt, args.retry))
    done = _finish(judge.score(pairs, prompt, args.retry), made, args.output)
    if not args.judge.startswith(RECORDED):
        spent = f", ${judge.last.spent:.4f} spent" if judge.price else ""
        print(f"{judge.last.calls:,} calls{spent}; store: {judge.store.path}")
    if not args.output:
        print(
            "no table was written: give -o FILE.csv to have one; what is stored is not asked again"
        )
    if judge.last.stopped == "budget":
        print(judge.last.why)
    return done


def _estimate(args):
    """Print what a run would take; a server of one's own, which costs nothing, is asked for the first pairs."""
    judge, prompt, pairs, _ = _given(args)
    print(judge.estimate(pairs, prompt, args.retry))
    if (
        args.judge.startswith(RECORDED)
        or providers.is_public_service(judge.address)
        or (judge.price and judge.price.output)
    ):
        return None
    lacking = judge.missing(pairs, prompt, args.retry)
    first = pairs[pairs["pair_id"].isin([one.pair_id for one in lacking[:FIRST]])]
    start = time.monotonic()
    done = _finish(judge.score(first, prompt, args.retry)) if lacking else 0
    if calls := judge.last.calls:
        left, pace = len(lacking) - calls, (time.monotonic() - start) / calls
        took = f"{calls} calls, now stored, took {asking.minutes(calls * pace)}"
        print(f"{took}: the other {left:,} take about {asking.minutes(left * pace)}")
    return done


def _replay(args):
    judge, prompt, pairs, made = _given(args)
    table = judge.score(pairs, prompt, ask=False)
    lacking = table.loc[table["n_samples"] < judge.repeats, "pair_id"]
    if len(lacking):
        what = f"replies to {len(lacking)} pairs are not stored, first {lacking.iloc[0]}"
        raise DreError(
            f"{what}: compare judge, prompt, options with `dre judge status`, or ask with `dre judge run`"
        )
    return _finish(table, made, args.output)


def _export(args):
    judge, prompt, pairs, made = _given(args, (".jsonl",))
    n = files.export_prompts(judge, pairs, prompt, args.output, args.retry)
    write_summary(args.output, {"signature": signature(made)})
    print(f"{n:,} prompts are in {args.output}")


def _import(args):
    judge, prompt, pairs, made = _given(args)
    stored, before, failed = files.import_replies(judge, pairs, prompt, args.source)
    print(f"{stored:,} replies stored, {before:,} were stored before, {failed:,} requests failed")
    return _finish(judge.score(pairs, prompt, ask=False), made, args.output)


def _show(args):
    """Print what a judge is asked about a pair, what it said, and how that was read; 1 if it was not asked."""
    judge, prompt, pairs, _ = _given(args)
    row = pairs[pairs["pair_id"] == args.pair]
    if row.empty:
        raise DreError(
            f"{args.input} has no pair {args.pair!r}: its first is {pairs['pair_id'].iloc[0]!r}"
        )
    verdict = judge.score(row, prompt, ask=False).iloc[0]
    try:
        sent = [] if isinstance(prompt, str) else prompt.render(row.iloc[0].to_dict())
    except DreError as error:  # a recorded judge was shown numbers that are not in the file
        sent = [{"role": "not shown here", "content": str(error)}]
    for message in sent:
        print(f"--- {message['role']} ---\n{message['content']}\n")
    for asked, reply in [] if args.judge.startswith(RECORDED) else judge.replies(row, prompt):
        what = f"{reply.outcome}, from {reply.model or judge.model}" if reply else "not asked yet"
        print(f"--- reply {asked.repeat + 1}: {what} ---\n{reply.text if reply else ''}\n")
    print("--- read as ---")
    for name in ("status", "score_llm", "s_inf", "label", "responses", "reason"):
        if not readers.absent(verdict[name]):
            print(f"{name}: {verdict[name]}")
    return int(verdict["status"] == "missing")


def _compare(args):
    from dre.commands import (
        judge_passport as passport,  # the data rooms, which no other action of this command needs
    )

    return passport.run(args, open_from(args, repeats=1))


def _status(args):
    """Print what is stored, and, given pairs and a judge, how their replies are read."""
    if args.input:
        if not args.judge:
            raise DreError(
                "a file of pairs needs the judge who was asked: give --judge, or leave the file out"
            )
        judge, prompt, pairs, _ = _given(args)
        _finish(judge.score(pairs, prompt, ask=False))
        return
    store = Store(args.store)
    print(
        f"store: {store.path}"
        if (rows := store.summary())
        else f"store: {store.path}: nothing is stored yet"
    )
    for (judge, base_url, prompt, params), group in groupby(rows, key=lambda row: row[:4]):
        print(f"{judge}{f' at {base_url}' if base_url else ''}, prompt {prompt}, {params}")
        for *_, status, source, count, cost, read, written in group:
            money = "cost unknown" if cost is None else f"${cost:.4f}"
            print(
                f"  {status}: {count:,} ({source}; {money}; {read or 0:,} tokens in, {written or 0:,} out)"
            )


def _finish(table, made=None, path=None):
    """Write the table and print what became of the pairs; 1 if replies are missing."""
    counts = table["status"].value_counts()
    if path:
        write_summary(path, {"signature": signature(made), "statuses": counts.to_dict()})
        write(table, path)
    print(
        f"{len(table):,} pairs: "
        + ", ".join(f"{count:,} {status}" for status, count in counts.items())
    )
    for status in counts.index.difference(["ok"]):
        first = table[table["status"] == status].iloc[0]
        more = "; give a larger --max-tokens" if status == "truncated" else ""
        print(f"  {status}, e.g. {first['pair_id']}: {first['reason']}{more}", file=sys.stderr)
    return int(bool({"missing", "error"} & set(counts.index)))
