"""Choose the number of epochs of recipe ``paper`` on held-out contexts of DailyDialog++ dev.

Every candidate is trained with the first seed of profile ``public`` on exactly the contexts that profile trains on, and
measured on the contexts it holds out: accuracy of each half of them at the threshold chosen on the other half. The
test set is never loaded. The rule, fixed before the run: the candidate with the highest accuracy of SLM (Prob & Dis).

Run ``python experiments/choose_paper_recipe.py``; it writes results/choices/paper.csv. Finished trainings are kept in
build/public/models, where ``make paper PROFILE=public`` finds those of the candidate it uses.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dre.classification import choose_threshold, correct, variants
from dre.data import pairs
from dre.pipeline.profile import profile
from dre.slm import runs
from dre.stats.bootstrap import cluster_mean_interval

EPOCHS, SEED = (3, 5), 0
OUT = Path(__file__).resolve().parents[1] / "results" / "choices" / "paper.csv"


def decisions(slm, table, half):
    """Right (1) or wrong (0) for each pair (columns: the variants); thresholds come from the other half."""
    found = {}
    for name, scores in variants(slm.score(table)).items():
        found[name] = np.full(len(table), np.nan)
        for this in (0, 1):
            threshold = choose_threshold(scores[half != this], table["kind"][half != this])
            found[name][half == this] = correct(table[half == this], scores[half == this], threshold)
    return pd.DataFrame(found)


def main():
    """Train, measure, write."""
    settings = profile("public")
    entry = settings.sets[0]
    _, dev, _ = runs.contexts(entry, settings.rated)
    table = pairs(dev, kinds="pa")
    half = table["context_id"].map({c.context_id: i % 2 for i, c in enumerate(dev)}).to_numpy()
    rows = []
    for epochs in EPOCHS:
        trained = replace(settings, epochs=settings.epochs | {"paper": epochs})
        found = decisions(runs.train_or_load(trained, entry, "paper", SEED), table, half)
        row = {"epochs": epochs, "seed": SEED, "contexts": len(dev)}
        for name in found:
            interval = cluster_mean_interval(found[name].to_numpy(), table["context_id"].to_numpy()).iloc[0]
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
