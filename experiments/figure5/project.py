"""Train a small model of the paper's recipe, and project test contexts as Figure 5 does.

Profile ``public`` has no weights of its models, and a t-SNE needs embeddings. So this script trains
recipe ``paper`` for three epochs on `CONTEXTS` contexts of DailyDialog++ dev, all written by
people. That takes about six minutes of one core. Then it projects the first four contexts of the
test set. Two files in ``results/figure5`` hold what notebook 02 shows: ``points.csv`` and
``training.json``, which says what made the model.

    python experiments/figure5/project.py
"""

import json

import numpy as np

from dre.files import replace
from dre.paper.contexts import contexts
from dre.paper.figures import project
from dre.paper.profile import profile
from dre.slm import fit, recipes

CONTEXTS = 220
EPOCHS = 3
PROJECTED = 4
#: What training.json has of what made the model.
MADE_OF = ("encoder", "fingerprint", "train_hash", "recipe", "seed")


def split(settings) -> tuple[list, list, list]:
    """Return the contexts train, dev and test."""
    [entry] = [entry for entry in settings.sets if entry.key == "dailydialog"]
    train, dev, test = contexts(entry, settings.rated)
    order = np.random.default_rng(settings.seed).permutation(len(train))
    chosen = [train[i] for i in sorted(order[:CONTEXTS])]
    return chosen, list(dev), list(test)


def main() -> None:
    """Train, project, and write the two files."""
    settings = profile("public")
    train, dev, test = split(settings)
    out = settings.build / "models" / "figure5"
    recipe = recipes.get("paper", EPOCHS)
    slm = fit(train, dev, out, recipe, settings.seed, settings.encoder)
    points = project(slm, test[:PROJECTED])

    folder = settings.root / "results" / "figure5"
    replace(folder / "points.csv", points.to_csv(index=False, float_format="%.4g"))
    held_out = [point for point in slm.provenance["curves"] if point["split"] == "dev"]
    record = {key: slm.provenance[key] for key in MADE_OF}
    record |= {"contexts": len(train), "held_out": len(dev)}
    record["triplet_accuracy"] = held_out[-1]["triplet_accuracy"]
    replace(folder / "training.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
