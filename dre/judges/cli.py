"""``dre judge run | estimate | status | replay | export | import | compare``, and the options that say who judges."""

import json
import sys
from pathlib import Path

from dre import judges
from dre.errors import DreError
from dre.judges import files
from dre.judges.store import Store
from dre.report import Table, replace


def add(subparsers):
    """Add the command ``dre judge``."""
    judge = subparsers.add_parser("judge", help="score pairs with a language model")
    actions = judge.add_subparsers(dest="action", required=True, metavar="action")
    status = actions.add_parser("status", help="what is stored")
    status.add_argument("--store", metavar="FILE")
    status.set_defaults(run=_status)
    for name, run, text in (
        ("run", _score, "ask for what is not stored yet, and write the scores"),
        ("estimate", _score, "calls, tokens and money that a run would take"),
        ("replay", _score, "write the scores from a store or a recording; ask nothing"),
        ("export", _score, "write the missing prompts as a batch file"),
        ("import", _import, "take in replies to exported prompts"),
    ):
        action = actions.add_parser(name, help=text)
        if name == "import":
            action.add_argument("source", help="replies as JSONL")
        action.add_argument("pairs", help="JSONL: one object per line with pair_id, context, response")
        action.add_argument("--prompt", default="llm_only", help="a prompt's name, or a template file of your own")
        action.add_argument("-o", "--output", metavar="FILE", help=".csv or .jsonl (export: .jsonl)")
        action.add_argument("--retry", default="", metavar="STATUS,...", help="ask malformed, refused, ... again")
        add_options(action)
        action.set_defaults(run=run)
    trial = actions.add_parser("compare", help="try a judge on public rated pairs, beside the recorded judges")
    trial.add_argument("--sets", metavar="NAME,...", help="default: personachat-usr,topicalchat-usr,fed-turn")
    trial.add_argument("--n", type=int, default=120, help="pairs in all, drawn over sets and ratings (default: 120)")
    trial.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    trial.add_argument("--prompt", default="llm_only", help="a prompt's name, or a template file of your own")
    trial.add_argument("-o", "--output", metavar="FILE.csv", help="where the table is written")
    add_options(trial)
    trial.set_defaults(run=_compare)


def add_options(parser, required=True):
    """Add the options that say who judges and how: the same for every command that asks a judge."""
    group = parser.add_argument_group("judge")
    add = group.add_argument
    specs = "openai:, anthropic:, gemini: or ollama:<model>, or recorded:<name>"
    add("--judge", required=required, metavar="SPEC", help=specs)
    add("--store", metavar="FILE", help="where replies are kept (default: DRE_STORE, or the user's data folder)")
    add("--base-url", default="", metavar="URL", help="another server that speaks the provider's protocol")
    add("--key-env", metavar="NAME", help="environment variable that holds the key (default: the provider's own)")
    add("--max-usd", type=float, metavar="X", help="stop before this run has spent so many dollars")
    add("--max-usd-total", type=float, metavar="X", help="stop before the whole store has cost so much")
    add("--price", metavar="IN,OUT", help="dollars per million tokens, where the price is not known")
    add("--plain", action="store_true", help="no structured output, for models that have none")
    add("--max-tokens", type=int, metavar="N", help="longest reply, thinking included (default: by prompt and model)")
    add("--temperature", type=float, metavar="T", help="default: the provider's own")
    add("--timeout", type=float, metavar="S", help="seconds a call may take (default: 120; 600 on your own servers)")
    add("--concurrency", type=int, metavar="N", help="calls in flight (default: 16; 4 on your own servers)")
    add("--repeats", type=int, metavar="N", help="replies per pair; a score is their mean (default: 1)")
    add("--param", action="append", default=[], metavar="NAME=JSON", help="a further parameter of the API")


def open_from(args, spec=None, **options):
    """Return the judge that the options of `add_options` name; `spec` and `options` go before them."""
    names = "store base_url key_env max_usd max_usd_total price plain max_tokens temperature timeout concurrency repeats"
    given = {name: getattr(args, name) for name in names.split()}
    for text in args.param:
        name, _, value = text.partition("=")
        try:
            given[name] = json.loads(value)
        except ValueError:
            raise DreError(f"--param {text!r}: expected NAME=JSON, such as seed=1 or effort='\"low\"'") from None
    given = {name: value for name, value in (given | options).items() if value is not None}
    return judges.open(spec or args.judge, **given)


def _asked(args):
    """The judge, the pairs, and the statuses to ask again, once it is clear that the output can be written."""
    path = args.output
    if path and (Path(path).suffix not in (".csv", ".jsonl") or not Path(path).resolve().parent.is_dir()):
        raise DreError(f"{path}: expected a name that ends in .csv or .jsonl, in a folder that is there")
    pairs = [row for _, row in files.read_jsonl(args.pairs)]
    return open_from(args), pairs, [status for status in args.retry.split(",") if status]


def _score(args):
    """Run, replay, estimate or export; 1 if the table is not complete."""
    judge, pairs, retry = _asked(args)
    if args.action == "export":
        if not (args.output or "").endswith(".jsonl"):
            raise DreError("give -o FILE.jsonl for the prompts")
        print(f"{files.export_prompts(judge, pairs, args.prompt, args.output, retry):,} prompts are in {args.output}")
    elif args.action != "replay":
        print(judge.estimate(pairs, args.prompt, retry))
    if args.action in ("export", "estimate"):
        return 0
    ask = args.action == "run" and not args.judge.startswith("recorded:")
    frame = judge.score(pairs, args.prompt, retry, ask=ask)
    lacking = frame.loc[frame["n_samples"] < judge.repeats, "pair_id"]
    if len(lacking) and not ask:
        what = f"replies to {len(lacking)} pairs are not stored, first {lacking.iloc[0]}"
        raise DreError(f"{what}: compare judge, prompt, options with `dre judge status`, or ask with `dre judge run`")
    done = _finish(frame, args.output)
    if ask:
        spent = f", ${judge.last.spent:.4f} spent" if judge.price else ""
        print(f"{judge.last.calls:,} calls{spent}; store: {judge.store.path}")
    if judge.last.stopped == "budget":
        print(judge.last.why)
    return done


def _import(args):
    judge, pairs, _ = _asked(args)
    stored, before, failed = files.import_replies(judge, pairs, args.prompt, args.source)
    print(f"{stored:,} replies stored, {before:,} were stored before, {failed:,} requests failed")
    return _finish(judge.score(pairs, args.prompt, ask=False), args.output)


def _compare(args):
    """Print a judge's row beside the recorded judges'; 1 if not all pairs were scored."""
    from dre.judges import compare  # the data rooms and SciPy, which no other action of this command needs

    judge, names = open_from(args, repeats=1), args.sets.split(",") if args.sets else compare.SETS
    table, did = compare.compare(judge, names, args.n, args.repeats or 2, args.seed, args.prompt)
    caption = f"Spearman with people, mean of {', '.join(names)}: {did['pairs']} pairs, 95 % over contexts"
    headers = {"difference": "Less the judge asked", "pairs": "Pairs to show 0.05"}
    print(shown := Table(table, "compare", caption, headers=headers, digits={"pairs": 0}))
    for what, value in (
        ("retest (Spearman of first and second replies)", f"{did['retest']:.2f}"),
        ("replies without a score", f"{did['malformed']:.1%}"),
        ("dollars per 1,000 replies", f"{did['usd']:.2f}"),
        ("seconds per 1,000 replies", f"{did['seconds']:.0f}"),
        ("asked now", f"{did['calls']:,} calls, ${did['spent']:.4f}"),
    ):
        print(f"{what}: {'unknown' if value.startswith('nan') else value}")
    if args.output:
        replace(Path(args.output), shown.csv())
    if did["stopped"]:
        print(f"stopped ({did['stopped']}); what was answered is stored: the same command goes on")
    return int(bool(did["stopped"]))


def _status(args):
    store = Store(args.store)
    print(f"store: {store.path}" if (rows := store.summary()) else f"store: {store.path}: nothing is stored yet")
    for judge, base_url, prompt, params, outcome, source, count, cost, read, written in rows:
        money = "cost unknown" if cost is None else f"${cost:.4f}"
        print(f"{judge}{f' at {base_url}' if base_url else ''}, prompt {prompt}, {params}")
        print(f"  {outcome}: {count:,} ({source}; {money}; {read or 0:,} tokens in, {written or 0:,} out)")
    return 0


def _finish(frame, path):
    """Write the table and print what became of the pairs; 1 if replies are missing."""
    if path:
        text = frame.to_csv(index=False) if path.endswith(".csv") else frame.to_json(orient="records", lines=True)
        replace(Path(path), text)
    counts = frame["status"].value_counts()
    print(f"{len(frame):,} pairs: " + ", ".join(f"{count:,} {status}" for status, count in counts.items()))
    for status in counts.index.difference(["ok"]):
        first = frame[frame["status"] == status].iloc[0]
        more = "; give a larger --max-tokens" if status == "truncated" else ""
        print(f"  {status}, e.g. {first['pair_id']}: {first['reason']}{more}", file=sys.stderr)
    return int(bool({"missing", "error"} & set(counts.index)))
