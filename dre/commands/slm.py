"""``dre slm train``."""

import argparse

import pandas as pd

from dre import classification, tables
from dre.commands import inputs
from dre.datasets import dialogues
from dre.errors import DreError
from dre.paper.profile import profile

_PERCENTAGES = ("positive", "adversarial", "random_rejected", "overall")
CONTEXTS = (
    "contexts with labelled responses: NAME:SPLIT such as mini:train, or a file as `dre augment` "
    "writes it"
)


def add(subparsers) -> None:
    """Add the command ``slm``."""
    command = subparsers.add_parser("slm", help="train the small model")
    actions = command.add_subparsers(metavar="action", required=True)
    parser = actions.add_parser(
        "train",
        help="train one, or go on with a training that was interrupted",
        description="train a small model, or go on with a training that was interrupted",
    )
    option = parser.add_argument
    option("--train", metavar="CONTEXTS", required=True, help=CONTEXTS)
    option(
        "--dev",
        metavar="CONTEXTS",
        help="contexts for the learning curves, the threshold and the final table",
    )
    option("--out", metavar="FOLDER", required=True, help="folder for the model")
    option(
        "--encoder",
        default="minilm",
        metavar="NAME",
        help="encoder to start from: minilm (default), distilbert, a Hub id or a folder",
    )
    option(
        "--epochs",
        type=int,
        metavar="N",
        help="epochs of every stage, in place of the recipe's own",
    )
    option(
        "--recipe",
        metavar="NAME",
        help="how it is trained: ours (default, as the model of the package); as in the papers: "
        "paper, paper-robust, released",
    )
    option(
        "--extra",
        metavar="PROFILE",
        help="further dialogues and grades, which recipe ours needs: public",
    )
    option("--seed", type=int, default=0, metavar="N", help="seed of the training (default: 0)")
    inputs.add_form_options(parser)
    option(
        "--plain",
        action="store_true",
        help="train without disentanglement, as the control of Figures 3 and 4",
    )
    parser.set_defaults(run=train)


def train(args: argparse.Namespace) -> None:
    """Train, and print what came out."""
    # Imported here, since they load torch, which takes seconds.
    from dre.paper import contexts as paper_contexts
    from dre.slm import recipes
    from dre.slm.train import fit

    name = args.recipe or ("paper" if args.plain else "ours")
    recipe = recipes.get(name, args.epochs, not args.plain)
    if args.extra and not recipe.mixture:
        raise DreError(f"recipe {recipe.name} takes no --extra")

    form = inputs.form_of(args, tuple(dialogues.FIELDS.values()))
    contexts = dialogues.contexts_by_name(args.train, form, inputs.tell)
    dev = dialogues.contexts_by_name(args.dev, form, inputs.tell) if args.dev else []
    if recipe.mixture and not args.extra:
        raise DreError(
            f"recipe {recipe.name} learns from more than labelled contexts: it needs English "
            "dialogues and pairs that a judge has graded, which are not given. --extra public "
            "takes those of the public data (24 MB, fetched once). With your contexts alone choose "
            "--recipe paper, which is much weaker"
        )
    extra = None
    if args.extra:
        extra = paper_contexts.extra(profile(args.extra), dev)
    slm = fit(contexts, dev, args.out, recipe, args.seed, args.encoder, extra=extra)

    description = slm.provenance
    print(
        f"{args.out}: {description['contexts']['train']:,} contexts, "
        f"fingerprint {description['fingerprint'][:12]}, "
        f"d in [{description['d_min']:.4f}, {description['d_max']:.4f}]"
    )
    if dev:
        _show_worth(slm, dev, args.dev)
    else:
        print("what it is worth is not known: give --dev, contexts that it does not learn from")


def _show_worth(slm, dev, dev_name):
    """Print how well a model decides about dev contexts, beside the model of the package."""
    from dre.slm.model import SLM
    from dre.slm.provenance import DEFAULT

    negatives = "ar" if any(context.randoms for context in dev) else "a"
    table = dialogues.pairs(dev, kinds="p" + negatives)
    rows = []
    for name, model in (("this model", slm), ("model of the package", SLM.load(DEFAULT))):
        scores = model.score(table)["score_slm"]
        # The package's threshold was chosen on other contexts, so its own is chosen here, too.
        threshold = classification.choose_threshold(scores, table["kind"], negatives)
        decisions = classification.correct(table, scores, threshold)
        shares = classification.accuracy(table, decisions)
        rows.append({"model": name, "threshold": threshold, "contexts": len(dev), **shares})
    print()
    tables.show(
        pd.DataFrame(rows),
        f"Accuracy on {dev_name} (%)",
        "A response is accepted from the threshold on. It is chosen on these contexts for either "
        "model, so both look a little too good. Chance is 50; brackets: 95 % over contexts.",
        ["model", "contexts", "threshold", *_PERCENTAGES],
        digits={**dict.fromkeys(_PERCENTAGES, 0), "threshold": 4},
    )
    if rows[0]["overall"] < rows[1]["overall"]:
        print("the model of the package is better here: score with it (leave --slm out)")
