"""Choose the learning rate of recipe ``paper`` by cross-validation over the contexts profile ``public`` trains on.

Every candidate is trained twice, on one half of the training contexts of DailyDialog++ and then on the other, and
measured on the half it has not seen: accuracy on each half of those at the threshold chosen on the rest of them. The
contexts that later choose thresholds take no part, and the test set is never loaded. The rule, fixed before the run:
the candidate with the highest accuracy of SLM (Prob & Dis); where it leads by less than 0.1 point, the first named.

Run ``python experiments/choose_paper_recipe.py``; it writes results/choices/paper.csv and keeps finished trainings in
build/choices.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dre.classification import choose_threshold, correct, variants
from dre.data import pairs
from dre.pipeline.profile import profile
from dre.slm import recipes, runs
from dre.slm.training import describe, fit
from dre.stats.bootstrap import cluster_mean_interval

BASE = recipes.get("paper")
CANDIDATES = {f"learning rate {rate:g}": replace(BASE, learning_rate=rate) for rate in (5e-5, 1e-4)}
SEED = 0
ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "choices" / "paper.csv"


def decisions(slm, contexts):
    """Right (1) or wrong (0) for each pair (columns: the variants); thresholds come from the other half."""
    table = pairs(contexts, kinds="pa")
    half = table["context_id"].map({c.context_id: i % 2 for i, c in enumerate(contexts)}).to_numpy()
    found = {"context_id": table["context_id"].to_numpy()}
    for name, scores in variants(slm.score(table)).items():
        found[name] = np.full(len(table), np.nan)
        for this in (0, 1):
            threshold = choose_threshold(scores[half != this], table["kind"][half != this])
            found[name][half == this] = correct(table[half == this], scores[half == this], threshold)
    return pd.DataFrame(found)


def main():
    """Train, measure, write."""
    settings = profile("public")
    train, _, _ = runs.contexts(settings.sets[0], settings.rated)
    order = np.random.default_rng(SEED).permutation(len(train))
    halves = [[train[i] for i in sorted(order[fold::2])] for fold in (0, 1)]
    rows = []
    for candidate, recipe in CANDIDATES.items():
        parts = []
        for fold in (0, 1):
            recipe = recipes.get(recipe, epochs=settings.epochs["paper"])
            name = describe(halves[fold], [], recipe, SEED, settings.encoder)["fingerprint"][:12]
            slm = fit(halves[fold], [], ROOT / "build" / "choices" / f"paper-{name}", recipe, SEED, settings.encoder)
            parts.append(decisions(slm, halves[1 - fold]))
        found = pd.concat(parts)
        row = {"candidate": candidate, "contexts": len(train), "folds": 2, "seed": SEED}
        for name in found.columns.drop("context_id"):
            interval = cluster_mean_interval(found[name].to_numpy(), found["context_id"].to_numpy()).iloc[0]
            row |= {
                name: 100 * interval["mean"],
                f"{name}_low": 100 * interval["low"],
                f"{name}_high": 100 * interval["high"],
            }
        rows.append(row)
        print(row, flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(OUT, index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
