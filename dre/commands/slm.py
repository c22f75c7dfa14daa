"""``dre slm train``."""

from dre.datasets import dialogues
from dre.errors import DreError
from dre.paper.profile import profile


def add(subparsers):
    """Add the command ``slm``."""
    actions = subparsers.add_parser("slm", help="train the small model").add_subparsers(
        metavar="action", required=True
    )
    parser = actions.add_parser(
        "train", help="train one, or go on with a training that was interrupted"
    )
    option = parser.add_argument
    text = "NAME:SPLIT such as dailydialog++:train, or a file as dre augment generate writes it"
    option("--train", metavar="CONTEXTS", required=True, help=text)
    option("--dev", metavar="CONTEXTS", help="data for the curves and the threshold")
    option("--out", metavar="FOLDER", required=True, help="where the model goes")
    option("--encoder", default="minilm", help="minilm (default), distilbert, a Hub id or a folder")
    option("--epochs", type=int, metavar="N", help="of every stage, instead of the recipe's own")
    option(
        "--recipe",
        default="paper",
        help="paper (default), paper-robust, released, graded, cross, both",
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


def train(args):
    """Train, and print what came out."""
    from dre.slm import provenance as data  # load torch
    from dre.slm import recipes
    from dre.slm.train import fit

    recipe = recipes.get(args.recipe, args.epochs, not args.plain)
    if bool(recipe.mixture) != bool(args.extra):
        what = (
            "learns from dialogues and grades as well: say --extra public"
            if recipe.mixture
            else "takes no --extra"
        )
        raise DreError(f"recipe {recipe.name} {what}")
    contexts, dev = (
        dialogues.contexts_by_name(name) if name else [] for name in (args.train, args.dev)
    )
    extra = data.extra(profile(args.extra), dev, version=3) if args.extra else None
    slm = fit(contexts, dev, args.out, recipe, args.seed, args.encoder, extra=extra)
    n, name, low, high = (
        slm.provenance[name] for name in ("contexts", "fingerprint", "d_min", "d_max")
    )
    print(
        f"{args.out}: {n['train']:,} contexts, fingerprint {name[:12]}, d in [{low:.4f}, {high:.4f}]"
    )
