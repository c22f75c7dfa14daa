"""``dre augment``: have responses written for contexts that have none (Algorithm 1)."""

import argparse

from dre.augment import algorithm
from dre.commands import inputs, judge_options
from dre.commands.outputs import check_output, own_output, write_summary
from dre.datasets import dialogues, overlap, ratings
from dre.environment import VERSION
from dre.signature import Signature

_CONTEXTS_HELP = (
    "JSONL with id and context (turns); or NAME:SPLIT such as convai2-augmented:train; or a public "
    "pool: " + ", ".join(dialogues.PUBLIC)
)


def add(subparsers):
    """Add the ``augment`` command."""
    text = "write five positives and five adversarials for each context and check them"
    parser = subparsers.add_parser("augment", help=text, description=text)
    option = parser.add_argument
    option("contexts", help=_CONTEXTS_HELP)
    option("--limit", type=inputs.number_of_pairs, metavar="N", help="use the first N contexts")
    option("--checker", metavar="SPEC", help="the judge that checks (default: the one that writes)")
    option("--rounds", type=int, default=3, metavar="N", help="most rounds (default: 3)")
    option(
        "--again",
        choices=("refine", "generate"),
        default="refine",
        help="in another round, revise what was rejected, or write all ten anew (default: refine)",
    )
    option("-o", "--output", required=True, metavar="FILE", help="accepted contexts (.jsonl)")
    option("--force", action="store_true", help="write over an output of another run")
    judge_options.add_options(parser)
    inputs.add_form_options(parser)
    parser.set_defaults(run=_generate)


def _generate(args: argparse.Namespace) -> int:
    """Run Algorithm 1 and write what was accepted; return 1 if a context was not accepted."""
    check_output(args.output, (".jsonl",), args.contexts)
    form = inputs.form_of(args, tuple(dialogues.FIELDS.values()))
    contexts = dialogues.contexts_by_name(args.contexts, form, inputs.tell)
    is_public = args.contexts in dialogues.PUBLIC
    if is_public:
        contexts = overlap.without_overlap(contexts, ratings.rated_tables())
    contexts = contexts[: args.limit]
    judge = judge_options.open_from(args)
    # Another model is not on the same server.
    options = {"store": getattr(judge, "store", None), "base_url": ""}
    checker = args.checker and judge_options.open_from(args, args.checker, **options)
    signature = Signature.of(
        judge=judge.signature,
        checker=(checker or judge).signature,
        rounds=f"{args.rounds} {args.again}",
        data=dialogues.data_hash(contexts),
        version=VERSION,
    )
    own_output(args.output, signature, args.force)

    result = algorithm.generate(contexts, judge, checker, args.rounds, args.again)
    counts = result.report["status"].value_counts().to_dict()
    write_summary(args.output, signature, {"statuses": counts})
    n_written = result.save(args.output, turns=not is_public)
    print(f"{n_written:,} of {len(contexts):,} contexts written to {args.output}")
    in_words = ", ".join(f"{n:,} {status}" for status, n in counts.items())
    print(f"{in_words}; ${result.spent:.4f} spent")
    if result.stopped:
        print(f"stopped early ({result.stopped}): the same command goes on")
    unaccepted = result.report.query("status != 'accepted'")
    for row in unaccepted.head(10).to_dict("records"):
        print(f"  {row['id']}: {row['status']} after round {row['rounds']}. {row['reason']}")
    return 1 if len(unaccepted) else 0
