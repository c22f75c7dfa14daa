"""``dre slm train``."""

import argparse

from dre.datasets import dialogues
from dre.errors import DreError
from dre.paper.profile import profile

CONTEXTS = "NAME:SPLIT such as dailydialog++:train, or a file as dre augment generate writes it"


def add(subparsers) -> None:
    """Add the command ``slm``."""
    command = subparsers.add_parser("slm", help="train the small model")
    actions = command.add_subparsers(metavar="action", required=True)
    parser = actions.add_parser(
        "train", help="train one, or go on with a training that was interrupted"
    )
    option = parser.add_argument
    option("--train", metavar="CONTEXTS", required=True, help=CONTEXTS)
    option("--dev", metavar="CONTEXTS", help="data for the curves and the threshold")
    option("--out", metavar="FOLDER", required=True, help="where the model goes")
    option("--encoder", default="minilm", help="minilm (default), distilbert, a Hub id or a folder")
    option("--epochs", type=int, metavar="N", help="of every stage, instead of the recipe's own")
    option(
        "--recipe",
        default="paper",
        help="paper (default), paper-robust, released, graded, ours",
    )
    option(
        "--extra",
        metavar="PROFILE",
        help="whose dialogues and grades our own recipes learn from: public",
    )
    option("--seed", type=int, default=0, metavar="N", help="default: 0")
    option(
        "--plain",
        action="store_true",
        help="without disentanglement, the control of Figures 3 and 4",
    )
    parser.set_defaults(run=train)


def train(args: argparse.Namespace) -> None:
    """Train, and print what came out."""
    # Imported here, since they load torch, which takes seconds.
    from dre.slm import provenance, recipes
    from dre.slm.train import fit

    recipe = recipes.get(args.recipe, args.epochs, not args.plain)
    if recipe.mixture and not args.extra:
        raise DreError(
            f"recipe {recipe.name} learns from dialogues and grades as well: say --extra public"
        )
    if args.extra and not recipe.mixture:
        raise DreError(f"recipe {recipe.name} takes no --extra")

    contexts = dialogues.contexts_by_name(args.train)
    dev = dialogues.contexts_by_name(args.dev) if args.dev else []
    extra = None
    if args.extra:
        extra = provenance.extra(profile(args.extra), dev, version=3)
    slm = fit(contexts, dev, args.out, recipe, args.seed, args.encoder, extra=extra)

    description = slm.provenance
    print(
        f"{args.out}: {description['contexts']['train']:,} contexts, "
        f"fingerprint {description['fingerprint'][:12]}, "
        f"d in [{description['d_min']:.4f}, {description['d_max']:.4f}]"
    )
