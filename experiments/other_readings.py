"""Other readings of the paper's training: recipes ``paper-robust`` (Eq. 12 on robust parts), ``released`` (in stages).

Both as `dre.slm.recipes` has them, on the training contexts and with the encoder of profile ``public``; nothing is
tuned for them. Measured as notebooks 03 and 04 measure recipe ``paper``: accuracy on DailyDialog++ test at a threshold
chosen on its held-out contexts, and Spearman correlation with people on three rated sets. Notebook 03 says what came
out.

Run ``python experiments/other_readings.py [seed ...]`` (default: 0 1 2; of one core about 10 minutes a seed for
``paper-robust``, 40 for ``released``). It writes results/choices/readings.csv, one row for each recipe over its seeds,
and keeps finished trainings in build/choices.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from dre import classification, ratings, stats
from dre.dialogues import pairs
from dre.profile import profile
from dre.slm import contexts, fit, recipes

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "choices" / "readings.csv"
RATED = ("dailydialog-zhao", "personachat-usr", "topicalchat-usr")


def measured(slms, dev, test, settings):
    """Return accuracies on test in percent, and correlations with people, means over the models of several seeds."""
    dev, test = pairs(dev, "pa"), pairs(test, "par")
    thresholds = [classification.choose_threshold(slm.score(dev)["score_slm"], dev["kind"]) for slm in slms]
    right = [classification.correct(test, slm.score(test)["score_slm"], t) for slm, t in zip(slms, thresholds)]
    row = classification.accuracy(test, np.column_stack(right), settings.resamples)
    for name in RATED:
        table = ratings.rated(name)
        said = pd.concat([slm.score(table)["score_slm"] for slm in slms], axis=1)
        found = stats.correlate({"slm": said}, table["human"], table["context_id"], n=settings.resamples).loc["slm"]
        row |= {ratings.RATED[name]: found["r"], f"{ratings.RATED[name]}_low": found["low"]}
        row |= {f"{ratings.RATED[name]}_high": found["high"]}
    return row


def main():
    """Train, measure, write."""
    settings, rows = profile("public"), []
    train, dev, test = contexts(settings.sets[0], settings.rated)
    seeds = [int(seed) for seed in sys.argv[1:] or "012"]
    for name in ("paper-robust", "released"):
        folders = {seed: ROOT / "build" / "choices" / f"{name}-seed{seed}" for seed in seeds}
        slms = [
            fit(train, dev, folder, recipes.get(name), seed, settings.encoder, progress=False)
            for seed, folder in folders.items()
        ]
        rows.append({"recipe": name, **measured(slms, dev, test, settings)})
        print(rows[-1], flush=True)
    pd.DataFrame(rows).to_csv(OUT, index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
