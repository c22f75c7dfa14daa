"""``dre train``."""

import argparse

import pandas as pd

from dre import classification, tables
from dre.commands import inputs
from dre.datasets import dialogues, registry
from dre.paper.profile import profile

_PERCENTAGES = ("positive", "adversarial", "random_rejected", "overall")
_CONTEXTS = (
    "contexts with labelled responses: NAME:SPLIT such as mini:train, or a file as `dre augment` "
    "writes it"
)


def add(subparsers: argparse._SubParsersAction) -> None:
    """Add the command ``dre train``."""
    text = "train a small model, or go on with a training that was interrupted"
    parser = subparsers.add_parser("train", help=text, description=text)
    option = parser.add_argument
    option("--train", metavar="CONTEXTS", required=True, help=_CONTEXTS)
    text = "contexts for the learning curves, the threshold and the final table"
    option("--dev", metavar="CONTEXTS", help=text)
    option("--out", metavar="FOLDER", required=True, help="folder for the model")
    text = "encoder to start from: minilm (default), distilbert, a Hub id or a folder"
    option("--encoder", default="minilm", metavar="NAME", help=text)
    text = "epochs of every stage, in place of the recipe's own"
    option("--epochs", type=int, metavar="N", help=text)
    option(
        "--recipe",
        default="ours",
        metavar="NAME",
        help="how it is trained: ours (default, as the model of the package); as in the papers: "
        "paper, paper-robust, released",
    )
    option("--seed", type=int, default=0, metavar="N", help="seed of the training (default: 0)")
    text = "train without disentanglement, as the control of Figures 3 and 4 (--recipe paper)"
    option("--plain", action="store_true", help=text)
    parser.set_defaults(run=train)


def train(args: argparse.Namespace) -> None:
    """Train, and print what came out."""
    # Imported here, since they load torch, which takes seconds.
    from dre.paper import contexts as paper_contexts
    from dre.slm import recipes
    from dre.slm.train import fit

    recipe = recipes.get(args.recipe, args.epochs, not args.plain)
    contexts = inputs.read_contexts(args.train)
    dev = inputs.read_contexts(args.dev) if args.dev else []
    extra = None
    if recipe.mixture:
        are_fetched = ", which are fetched now, once" if registry.absent() else ""
        print(
            f"recipe {recipe.name} learns from English dialogues and a judge's grades, too, of "
            f"the public data (24 MB){are_fetched}; recipe paper takes your contexts alone",
            flush=True,
        )
        extra = paper_contexts.extra(profile("public"), dev)
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
