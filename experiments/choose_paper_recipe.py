"""Choose the learning rates of recipe ``paper`` by cross-validation over training contexts.

Every candidate is trained twice, on one half of the contexts of DailyDialog++ that profile ``public`` trains on and
then on the other, and measured on the half it has not seen: accuracy on each half of those at the threshold chosen on
the rest of them. The contexts that later choose thresholds take no part, and the test set is never loaded. The rule,
fixed before the run: of a recipe the candidate with the highest accuracy of SLM (Prob & Dis); where it leads by less
than 0.1 point, the first named.

Run ``python experiments/choose_paper_recipe.py``; it writes results/choices/paper.csv and keeps finished trainings in
build/choices.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dre import stats
from dre.classification import choose_threshold, correct
from dre.datasets.dialogues import pairs
from dre.paper.profile import profile
from dre.slm import fit, recipes
from dre.slm.provenance import contexts, describe

CANDIDATES = {
    f"{name}, learning rate {rate:g}": replace(recipes.get(name), learning_rate=rate)
    for name in ("paper",)
    for rate in (5e-5, 1e-4)
}
SEED = 0
ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "choices" / "paper.csv"
SCORES = {
    "SLM (Dis)": lambda table: 1 - table["s_d"],
    "SLM (Prob)": lambda table: table["s_p"],
    "SLM (Prob & Dis)": lambda table: table["score_slm"],
}


def decisions(slm, contexts):
    """Right (1) or wrong (0) for each pair (columns: the scores); thresholds come from the other half."""
    table = pairs(contexts, kinds="pa")
    half = table["context_id"].map({c.context_id: i % 2 for i, c in enumerate(contexts)}).to_numpy()
    found = {"context_id": table["context_id"].to_numpy()}
    scored = slm.score(table)
    for name, of in SCORES.items():
        scores = of(scored).to_numpy()
        found[name] = np.full(len(table), np.nan)
        for this in (0, 1):
            threshold = choose_threshold(scores[half != this], table["kind"][half != this])
            found[name][half == this] = correct(
                table[half == this], scores[half == this], threshold
            )
    return pd.DataFrame(found)


def _interval(found, name):
    mean = stats.mean(100 * found[name].to_numpy(), found["context_id"].to_numpy())
    return {"": mean["mean"], "_low": mean["low"], "_high": mean["high"]}


def main():
    """Train, measure, write."""
    settings = profile("public")
    train, _, _ = contexts(
        settings.sets[0], settings.rated, version=settings.models["paper-2026-11"].data
    )
    order = np.random.default_rng(SEED).permutation(len(train))
    halves = [[train[i] for i in sorted(order[fold::2])] for fold in (0, 1)]
    rows = []
    for candidate, recipe in CANDIDATES.items():
        parts = []
        for fold in (0, 1):
            recipe = recipes.get(recipe, epochs=settings.models["paper-2026-11"].epochs)
            name = describe(halves[fold], [], recipe, SEED, settings.encoder)["fingerprint"][:12]
            slm = fit(
                halves[fold],
                [],
                ROOT / "build" / "choices" / f"{recipe.name}-{name}",
                recipe,
                SEED,
                settings.encoder,
            )
            parts.append(decisions(slm, halves[1 - fold]))
        found = pd.concat(parts)
        row = {"candidate": candidate, "contexts": len(train), "folds": 2, "seed": SEED}
        for name in SCORES:
            row |= {f"{name}{part}": value for part, value in _interval(found, name).items()}
        rows.append(row)
        print(row, flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(OUT, index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
