"""``dre augment``: have responses written for contexts that have none (Algorithm 1)."""

import argparse

from dre.augment import algorithm
from dre.commands import inputs, judge_options, outputs
from dre.datasets import dialogues, overlap, ratings
from dre.environment import VERSION
from dre.signature import Signature

_CONTEXTS_HELP = (
    "JSONL with id and context (turns); or NAME:SPLIT such as convai2-augmented:train; or a public "
    "pool: " + ", ".join(dialogues.PUBLIC)
)


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre augment``."""
    text = "write five positives and five adversarials for each context and check them"
    parser = subparsers.add_parser("augment", help=text, description=text)
    option = parser.add_argument
    option("contexts", help=_CONTEXTS_HELP)
    inputs.add_limit(parser, "use the first N contexts")
    option("--checker", metavar="SPEC", help="the judge that checks (default: the one that writes)")
    option("--rounds", type=int, default=3, metavar="N", help="most rounds (default: 3)")
    outputs.add_options(parser, "write the accepted contexts there", ".jsonl", required=True)
    judge_options.add_options(parser)
    parser.set_defaults(run=_generate)


def _generate(args):
    """Run Algorithm 1 and write what was accepted; return 1 if a context was not accepted."""
    contexts = inputs.read_contexts(args.contexts)
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
        rounds=args.rounds,
        data=dialogues.data_hash(contexts),
        version=VERSION,
    )
    outputs.refuse_to_replace(args, signature, args.contexts)

    result = algorithm.generate(contexts, judge, checker, args.rounds)
    counts = result.report["status"].value_counts().to_dict()
    outputs.write_summary(args.output, signature, {"statuses": counts})
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
