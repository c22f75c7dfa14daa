"""What the ``dre augment`` commands of Algorithm 1 do."""

import sys
from collections import Counter
from functools import partial
from pathlib import Path

from dre.augment import contexts
from dre.augment.algorithm import Asking, bar
from dre.augment.forecast import forecast
from dre.augment.result import Result
from dre.augment.walk import KINDS, Walk
from dre.errors import DreError
from dre.judges import files
from dre.judges.commands import judge_of

SHOWN = 10  # contexts that are named


def run_generate(args):
    """Forecast, ask, write what was accepted; 1 if a context was not."""
    _check_outputs(args)
    walk = _walk(args)
    walk.go()
    print(forecast(walk))
    walk.restart()
    print(f"store: {walk.judge.store.path}")
    asking = Asking(args.max_usd, partial(bar, disable=False))
    result = Result(walk.go(asking), asking.stopped, asking.spent)
    status = _finish(result, args)
    money = f", ${asking.spent:.4f} spent" if walk.judge.price else ""
    print(f"{asking.calls:,} calls, {asking.retries:,} of them retries{money}")
    if asking.stopped == "budget":
        print(f"stopped before ${args.max_usd:g} would be passed: raise --max-usd to go on")
    return status


def show_estimate(args):
    """Print what a run would still take."""
    walk = _walk(args)
    walk.go()
    print(forecast(walk))


def show_status(args):
    """Print where every context is; write what is there. Nothing is asked."""
    _check_outputs(args)
    walk = _walk(args)
    _finish(Result(walk.go()), args)


def export_prompts(args):
    """Write what each context lacks next, as batch files."""
    walk = _walk(args)
    walk.go()
    own = [step.plan for step in walk.steps if step.judge is walk.judge]
    checks = [step.plan for step in walk.steps if step.judge is not walk.judge]
    if any(plan.missing for plan in checks) and not args.checker_output:
        raise DreError("the checker is another model, and a batch is for one model: give --checker-output FILE too")
    for path, plans in ((args.output, own), (args.checker_output, checks)):
        if path:
            print(f"{files.export(plans, path):,} prompts written to {path}{_kinds(plans)}")


def import_replies(args):
    """Store replies to exported prompts; 1 if a context is not accepted yet."""
    _check_outputs(args)
    walk = _walk(args)
    walk.go()
    targets = [files.Target(step.plan, step.judge.store, step.judge.price) for step in walk.steps]
    torn = False
    for path in args.replies:
        stored, before, failed, note = files.import_among(targets, path)
        print(f"{path}: {stored:,} replies stored, {before:,} were stored before, {failed:,} requests failed")
        if note:
            print(f"warning: {note}", file=sys.stderr)
        torn = torn or bool(note)
    walk.restart()
    return max(_finish(Result(walk.go()), args), int(torn))


def _walk(args):
    """Return the `Walk` the arguments name."""
    judge, checker = judge_of(args), None
    if args.checker:
        own = {"judge": args.checker, "base_url": args.checker_base_url, "key_env": args.checker_key_env}
        checker = judge_of(type(args)(**vars(args) | own | {"price": args.checker_price}))
    elif args.checker_base_url or args.checker_key_env or args.checker_price:
        raise DreError("--checker-base-url, --checker-key-env and --checker-price go with --checker PROVIDER:MODEL")
    wording = {name: path for name in KINDS if (path := getattr(args, f"{name}_prompt"))}
    found = contexts.named(args.contexts, args.sample, args.seed)
    return Walk(found, judge, checker, args.rounds, args.again, wording)


def _kinds(plans):
    counts = Counter()
    for plan in plans:
        counts[plan.prompt.name] += len(plan.missing)
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f" ({said})" if said else ""


def _check_outputs(args):
    """Refuse an output that cannot be written before money is spent on it."""
    endings = {"output": ".jsonl", "rejected": ".jsonl", "report": ".csv", "responses": ".csv"}
    for name, ending in endings.items():
        path = getattr(args, name)
        if path and Path(path).suffix != ending:
            raise DreError(f"{path}: expected a name that ends in {ending}")
        if path and not Path(path).resolve().parent.is_dir():
            raise DreError(f"{path}: its directory is not there: create it first")


def _finish(result, args):
    """Write what is asked for and print what became of the contexts; 1 if one is not accepted."""
    if args.output:
        print(f"{result.save(args.output):,} contexts written to {args.output}")
    if args.rejected:
        print(f"{result.save(args.rejected, rejected=True):,} contexts written to {args.rejected}")
    for path, frame in ((args.report, "report"), (args.responses, "responses")):
        if path:
            files.write_atomically(
                path, getattr(result, frame).to_csv(index=False, lineterminator="\n")[:-1].split("\n")
            )
    _say(result.items)
    return int(not all(item.accepted for item in result.items))


def _say(items):
    counts = Counter(_where(item) for item in items)
    print(f"{len(items):,} contexts: " + ", ".join(f"{n:,} {where}" for where, n in sorted(counts.items())))
    replies = Counter(failed[2] for item in items for failed in item.failed)
    if replies:
        print("replies of no use: " + ", ".join(f"{n:,} {status}" for status, n in sorted(replies.items())))
    told = [item for item in items if item.status not in ("accepted", "missing")]
    for item in told[:SHOWN]:
        print(f"  {item.context.id}: {item.status} after round {item.round}: {item.reason}", file=sys.stderr)
    if len(told) > SHOWN:
        print(f"  and {len(told) - SHOWN:,} more: --report FILE.csv names all", file=sys.stderr)


def _where(item):
    """Where a context is, in a few words."""
    if item.status == "missing":
        return f"before {item.waiting[0]} of round {item.round}"
    return "with a failed call" if item.status == "error" else item.status
