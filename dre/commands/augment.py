"""``dre augment generate | report``: responses for contexts that have none, and what gives such a set away."""

import random

from dre import __version__
from dre.augment import algorithm, quality
from dre.commands import judge as judging
from dre.commands.outputs import check_output, own_output, refuse_to_replace, write_summary
from dre.datasets import dialogues, overlap, ratings
from dre.files import write
from dre.signature import Signature

CONTEXTS = (
    "JSONL with id, context (turns) and, if there are any, positive_responses, adversarial_negative_responses; or "
    "NAME:SPLIT such as convai2-augmented:train; or a public pool: " + ", ".join(dialogues.PUBLIC)
)


def add(subparsers):
    """Add the ``augment`` command."""
    augment = subparsers.add_parser(
        "augment", help="have responses written for contexts that have none (Algorithm 1)"
    )
    actions = augment.add_subparsers(dest="action", required=True, metavar="action")
    parser = actions.add_parser("generate", help="write 5 + 5 responses per context and check them")
    option = parser.add_argument
    option("contexts", help=CONTEXTS)
    option("--sample", type=int, metavar="N", help="so many of the contexts, drawn with --seed")
    option("--seed", type=int, default=0, metavar="S", help="of the sample (default: 0)")
    judging.add_options(parser)
    option(
        "--checker",
        metavar="SPEC",
        help="who checks, with the same options (default: the judge itself)",
    )
    for name, what in (("base-url", "URL"), ("key-env", "NAME"), ("price", "IN,OUT")):
        option(f"--checker-{name}", metavar=what, help=f"as --{name}, for the checker")
    option("--rounds", type=int, default=3, metavar="N", help="rounds at most (default: 3)")
    option(
        "--again",
        choices=("refine", "generate"),
        default="refine",
        help="revise what was rejected, or write anew",
    )
    option(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the accepted contexts' responses: .jsonl",
    )
    option("--rejected", metavar="FILE", help="the last drafts of the other contexts: .jsonl")
    option("--force", action="store_true", help="write over an output of another run")
    parser.set_defaults(run=generate)
    parser = actions.add_parser("report", help="overlap, give-aways, diversity and leakage of sets")
    option = parser.add_argument
    option("contexts", nargs="+", help=CONTEXTS)
    option(
        "--held-out",
        nargs="+",
        default=[],
        metavar="NAME",
        help="contexts or rated sets to share nothing with",
    )
    option(
        "--at-most", type=int, default=1000, metavar="N", help="contexts of a set (default: 1000)"
    )
    option("-o", "--output", metavar="FILE", help="write the table there: .csv")
    option("--force", action="store_true", help="write over a file that is there")
    parser.set_defaults(run=report)


def generate(args):
    """Ask, write what was accepted; 1 if a context was not."""
    check_output(args.output, (".jsonl",), args.contexts)
    if args.rejected:
        check_output(args.rejected, (".jsonl",), args.contexts, args.output)
    contexts, public = dialogues.named(args.contexts), args.contexts in dialogues.PUBLIC
    if public:  # a set to train on is held apart from what models are tested on
        contexts = overlap.without_overlap(contexts, ratings.rated_tables())
    if args.sample is not None:
        contexts = random.Random(args.seed).sample(contexts, min(args.sample, len(contexts)))
    judge, checker = judging.open_from(args), None
    own = {
        "base_url": args.checker_base_url or "",
        "key_env": args.checker_key_env,
        "price": args.checker_price,
    }
    if args.checker or any(own.values()):
        checker = judging.open_from(args, args.checker or args.judge, store=judge.store, **own)
    signature = Signature.of(
        judge=judge.signature,
        checker=(checker or judge).signature,
        rounds=f"{args.rounds} {args.again}",
        data=dialogues.data_hash(contexts),
        version=__version__,
    )
    outputs = [path for path in (args.output, args.rejected) if path]
    for path in outputs:
        own_output(path, signature, args.force)
    result = algorithm.generate(contexts, judge, checker, args.rounds, args.again)
    table = result.report
    for path in outputs:
        write_summary(path, signature, {"statuses": table["status"].value_counts().to_dict()})
        n = result.save(path, rejected=path != args.output, turns=not public)
        print(f"{n:,} {'contexts' if path == args.output else 'rejected ones'} written to {path}")
    counts = ", ".join(f"{n:,} {status}" for status, n in table["status"].value_counts().items())
    print(
        f"{len(table):,} contexts: {counts}"
        + (f"; ${result.spent:.4f} spent" if judge.price else "")
    )
    if result.stopped:
        print(
            f"stopped early ({result.stopped}): what was answered is stored, run the same command to go on"
        )
    left = table[table["status"] != "accepted"]
    for row in left.head(10).itertuples():
        print(f"  {row.id}: {row.status} after round {row.rounds}. {row.reason}")
    return int(len(left) > 0)


def report(args):
    """Print the quality report, one line per measure, and write it if asked."""
    if args.output:
        check_output(args.output, (".csv",), *args.contexts, *args.held_out)
        refuse_to_replace(args.output, args.force)
    reserved = []
    for name in args.held_out:
        reserved += ratings.rated_tables([name]) if name in ratings.RATED else dialogues.named(name)
    sets = {name: dialogues.named(name) for name in args.contexts}
    table = quality.report(
        sets, dict.fromkeys(sets, reserved) if reserved else None, at_most=args.at_most
    )
    if args.output:
        write(table, args.output)
    for row in table.to_dict("records"):
        print(f"{row['set']}: {row['contexts']:,} contexts, {row['measured']:,} measured")
        for name in quality.MEASURES:
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            print(f"  {name.replace('_', ' '):<22} {row[name]:6.1f} %  [{low:.1f}, {high:.1f}]")
