"""What the ``dre judge`` commands do."""

import json
import sys
from pathlib import Path

from dre import judges
from dre.errors import DreError
from dre.judges import files, pairs, prices, recording, table
from dre.judges.batch import Batches
from dre.judges.estimate import estimate
from dre.judges.judge import Judge
from dre.judges.policy import Policy
from dre.judges.progress import Bar
from dre.judges.store import Store


def run_judge(args):
    """Estimate, ask, write the table; 1 if it is not complete."""
    judge, plan = _plan(args)
    _check_output(args.output)
    print(estimate(plan, judge.price, args.concurrency))
    print(f"store: {judge.store.path}")
    outcome = judge.run(plan, Bar(len(plan.missing), judge.price is not None, disable=False)) if plan.missing else None
    _finish(judge, plan, args, outcome)
    if outcome and outcome.stopped == "budget":
        print(f"stopped before ${args.max_usd:g} would be passed: ${outcome.spent:.4f} spent; raise --max-usd to go on")
    return int(bool(plan.missing))


def estimate_run(args):
    """Print what a run would take."""
    judge, plan = _plan(args)
    print(estimate(plan, judge.price, args.concurrency))


def replay_run(args):
    """Write the table from the store; refuse if something is missing."""
    _check_output(args.output)
    if args.judge.startswith("recorded:"):
        return _replay_recording(args)
    judge, plan = _plan(args)
    if plan.missing:
        first = next(iter(plan.missing.values())).pair_id
        raise DreError(
            f"{len(plan.missing)} judgements are not stored, the first for {first}: check judge, prompt and parameters "
            "(`dre judge status` lists what is stored), or ask for them with `dre judge run`"
        )
    _finish(judge, plan, args, None)


def _replay_recording(args):
    frame = judges.open(args.judge).score(pairs.read(args.pairs), prompt=args.prompt_file or args.prompt)
    if args.output:
        table.write(frame, args.output)
    _summarise(frame, frame["mode"].iloc[0])


def export_files(args):
    """Write prompts as a batch file, or what is stored as a recording."""
    judge, plan = _plan(args)
    if args.recorded:
        own = Path(args.prompt_file).read_text(encoding="utf-8") if args.prompt_file else None
        print(f"{recording.export(plan, judge.mode, args.recorded, own):,} judgements written to {args.recorded}")
        return
    if not args.output or not args.output.endswith(".jsonl"):
        raise DreError("give -o FILE.jsonl for the prompts, or --recorded FOLDER for what is stored")
    print(f"{files.export(plan, args.output):,} prompts written to {args.output}")


def import_files(args):
    """Read replies to exported prompts, or a recording, into the store."""
    if args.recorded:
        with Store(args.store) as store:
            count, note = recording.load(args.recorded, store)
        print(f"{count:,} judgements read into {store.path}")
        return _say(note)
    if not (args.pairs and args.judge and args.replies):
        raise DreError("give the pairs, --judge and --replies FILE as for the export, or --recorded FOLDER")
    judge, plan = _plan(args)
    _check_output(args.output)
    stored, before, failed, note = files.import_replies(plan, judge.store, args.replies, judge.price)
    print(f"{stored:,} replies stored, {before:,} were stored before, {failed:,} requests failed")
    _finish(judge, plan, args, None)
    return _say(note) or int(bool(plan.missing))


def _say(note):
    if note:
        print(f"warning: {note}", file=sys.stderr)
    return int(bool(note))


def run_batch(args):
    """Submit, poll or collect batches."""
    judge, plan = _plan(args)
    batches = Batches(judge, plan)
    if args.step == "submit":
        for batch in batches.submit():
            print(f"submitted {batch}")
        print(f"{len(plan.missing):,} judgements missing, all of them in a batch now")
    elif args.step == "poll":
        for batch, said, _ in batches.poll():
            print(f"{batch}: {said}")
    elif args.step == "collect":
        _check_output(args.output)
        stored, failed, waiting = batches.collect()
        print(f"{stored:,} replies stored, {failed:,} requests failed, {waiting:,} batches have not ended")
        _finish(judge, plan, args, None)
        return int(bool(plan.missing))
    elif args.step == "adopt":
        batches.adopt(args.id)
    else:
        for batch in batches.forget():
            print(f"given up {batch}")


def show_status(args):
    """Print what is stored, a line a setting and status."""
    with Store(args.store) as store:
        settings = store.settings()
        print(f"store: {store.path}")
        shown = None
        for number, status, source, count, cost, _, tokens_in, tokens_out in store.counts():
            if number != shown:
                shown, one = number, settings[number]
                where = f" at {one.base_url}" if one.base_url else ""
                print(f"{one.provider}:{one.model}{where}, prompt {one.prompt} ({one.prompt_sha256[:8]}), {one.params}")
            money = "cost unknown" if cost is None else f"${cost:.4f}"
            tokens = f"{tokens_in or 0:,} tokens in, {tokens_out or 0:,} out"
            print(f"  {status}: {count:,} ({source}; {money}; {tokens})")
        if not settings:
            print("nothing is stored yet")


def _plan(args):
    """Return the judge and the plan the arguments name."""
    if args.judge.startswith("recorded:"):
        raise DreError(f"{args.judge} can only be replayed: dre judge replay")
    rows = pairs.read(args.pairs)
    judge = judge_of(args, mode=args.mode, repeats=args.repeats, seed=args.seed)
    retry = [status for status in getattr(args, "retry", "").split(",") if status]
    return judge, judge.plan(rows, args.prompt_file or args.prompt, retry)


def judge_of(args, **options):
    """Return the judge that the arguments of `dre.judges.cli.judge_options` name."""
    if args.concurrency < 1 or args.timeout <= 0:
        raise DreError("--concurrency and --timeout must be above 0")
    return Judge(
        args.judge,
        store=args.store,
        base_url=args.base_url,
        key_env=args.key_env,
        price=prices.given(args.price) if args.price else None,
        max_usd=getattr(args, "max_usd", None),
        policy=Policy(concurrency=args.concurrency, timeout=args.timeout),
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        plain=args.plain,
        extra=_extra(args.param),
        **options,
    )


def _extra(params):
    extra = {}
    for text in params:
        name, equals, value = text.partition("=")
        try:
            extra[name] = json.loads(value)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise DreError(f'--param {text!r}: expected NAME=JSON, such as reasoning_effort="low"')
    return extra or None


def _check_output(path):
    """Refuse an output that cannot be written before money is spent on it."""
    if path and Path(path).suffix not in (".csv", ".jsonl"):
        raise DreError(f"{path}: expected a name that ends in .csv or .jsonl")
    if path and not Path(path).resolve().parent.is_dir():
        raise DreError(f"{path}: its directory is not there: create it first")


# The limit is part of what a judgement is kept under, so a new one starts afresh.
_ADVICE = {"truncated": "; give a larger --max-tokens (all pairs are then asked anew)"}


def _say_left_out(frame, mode):
    """Say how many replies do not count in the scores that are there."""
    scored = frame[frame["status"] == "ok"]
    lost = int((scored["n_samples"] - scored["n_ok"]).sum())
    if lost:
        what = "no usable rating token" if mode == "logprob" else "no score"
        print(f"  {lost:,} of {scored['n_samples'].sum():,} replies to scored pairs have {what}", file=sys.stderr)


def _finish(judge, plan, args, outcome):
    """Write the table and print what became of the pairs."""
    frame = table.of_plan(plan, judge.mode, outcome.errors if outcome else {})
    if args.output:
        table.write(frame, args.output)
    _summarise(frame, judge.mode)
    if outcome:
        money = f", ${outcome.spent:.4f} spent" if judge.price else ""
        print(f"{outcome.calls:,} calls, {outcome.retries:,} of them retries{money}")


def _summarise(frame, mode):
    counts = frame["status"].value_counts()
    print(f"{len(frame):,} pairs, mode {mode}: " + ", ".join(f"{n:,} {status}" for status, n in counts.items()))
    for status in counts.index.difference(["ok"]):
        first = frame[frame["status"] == status].iloc[0]
        print(f"  {status}, e.g. {first['pair_id']}: {first['reason']}{_ADVICE.get(status, '')}", file=sys.stderr)
    _say_left_out(frame, mode)
