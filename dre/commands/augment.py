"""``dre augment generate``: have responses written for contexts that have none (Algorithm 1)."""

import argparse
import random
import sys

from dre.augment import algorithm
from dre.commands import inputs, judge_options
from dre.commands.outputs import check_output, own_output, write_summary
from dre.datasets import dialogues, overlap, ratings
from dre.environment import VERSION
from dre.judges import asking
from dre.signature import Signature

_CONTEXTS_HELP = (
    "JSONL with id, context (turns) and, if there are any, positive_responses, "
    "adversarial_negative_responses; or NAME:SPLIT such as convai2-augmented:train; or a public "
    "pool: " + ", ".join(dialogues.PUBLIC)
)
_REPORTED_FAILURES = 10


def add(subparsers):
    """Add the ``augment`` command."""
    augment = subparsers.add_parser(
        "augment", help="have responses written for contexts that have none (Algorithm 1)"
    )
    actions = augment.add_subparsers(dest="action", required=True, metavar="action")
    text = "write five positives and five adversarials for each context and check them"
    parser = actions.add_parser("generate", help=text, description=text)
    option = parser.add_argument
    option("contexts", help=_CONTEXTS_HELP)
    option("--sample", type=int, metavar="N", help="use N of the contexts, drawn with --seed")
    option("--seed", type=int, default=0, metavar="S", help="seed of the sample (default: 0)")
    judge_options.add_options(parser)
    option(
        "--checker",
        metavar="SPEC",
        help="the judge that checks, with the same options (default: the one that writes)",
    )
    for name, metavar in (("base-url", "URL"), ("key-env", "NAME"), ("price", "IN,OUT")):
        option(f"--checker-{name}", metavar=metavar, help=f"as --{name}, for the checker")
    option("--rounds", type=int, default=3, metavar="N", help="most rounds (default: 3)")
    option(
        "--again",
        choices=("refine", "generate"),
        default="refine",
        help="in another round, revise what was rejected, or write all ten anew (default: refine)",
    )
    option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="where to write the responses of the accepted contexts (.jsonl)",
    )
    option(
        "--rejected",
        metavar="FILE",
        help="where to write the last drafts of the other contexts (.jsonl)",
    )
    option("--force", action="store_true", help="write over an output of another run")
    inputs.add_form_options(parser)
    parser.set_defaults(run=_generate)


def _generate(args: argparse.Namespace) -> int:
    """Run Algorithm 1 and write what was accepted; return 1 if a context was not accepted."""
    check_output(args.output, (".jsonl",), args.contexts)
    if args.rejected:
        check_output(args.rejected, (".jsonl",), args.contexts, args.output)
    contexts = _contexts(args)
    judge = judge_options.open_from(args)
    checker = _checker(args, judge)

    signature = Signature.of(
        judge=judge.signature,
        checker=(checker or judge).signature,
        rounds=f"{args.rounds} {args.again}",
        data=dialogues.data_hash(contexts),
        version=VERSION,
    )
    outputs = [args.output, *([args.rejected] if args.rejected else [])]
    for path in outputs:
        own_output(path, signature, args.force)

    result = algorithm.generate(contexts, judge, checker, args.rounds, args.again)
    is_public = args.contexts in dialogues.PUBLIC
    counts = result.report["status"].value_counts().to_dict()
    for path in outputs:
        write_summary(path, signature, {"statuses": counts})
        is_rejected = path != args.output
        n_written = result.save(path, rejected=is_rejected, turns=not is_public)
        kind = "rejected contexts" if is_rejected else "contexts"
        print(f"{n_written:,} {kind} written to {path}")
    return _say(result, judge)


def _contexts(args):
    """Return the contexts to write for; public ones share nothing with what people rated."""
    form = inputs.form_of(args, tuple(dialogues.FIELDS.values()))
    contexts = dialogues.contexts_by_name(args.contexts, form, inputs.tell)
    if args.contexts in dialogues.PUBLIC:
        contexts = overlap.without_overlap(contexts, ratings.rated_tables())
    if args.sample is not None:
        n_sampled = min(args.sample, len(contexts))
        contexts = random.Random(args.seed).sample(contexts, n_sampled)
    return contexts


def _checker(args, judge):
    """Return the judge that checks, or None if it is the one that writes."""
    options = {
        "base_url": args.checker_base_url or "",
        "key_env": args.checker_key_env,
        "price": args.checker_price,
    }
    if not args.checker:
        # The model that writes also checks: what is not said of the checker is as for the writer.
        options = {name: value for name, value in options.items() if value}
        if not options:
            return None
    return judge_options.open_from(args, args.checker or args.judge, store=judge.store, **options)


def _say(result, judge):
    """Print what became of the contexts; return 1 if one was not accepted."""
    report = result.report
    n_by_status = report["status"].value_counts()
    counts = ", ".join(f"{n:,} {status}" for status, n in n_by_status.items())
    spent = f"; {asking.spent_in_words(result.spent, result.uncertain)}" if judge.price else ""
    print(f"{len(report):,} contexts: {counts}{spent}")
    if result.stopped:
        print(
            f"stopped early ({result.stopped}): what was answered is stored, "
            "so run the same command to go on",
            file=sys.stderr,
        )
    unaccepted = report[report["status"] != "accepted"]
    for row in unaccepted.head(_REPORTED_FAILURES).itertuples():
        print(f"  {row.id}: {row.status} after round {row.rounds}. {row.reason}")
    return 1 if len(unaccepted) else 0
