"""Other readings of the paper's training: recipes ``paper-robust`` (Eq. 12 on robust parts), ``released`` (in stages).

Both as `dre.slm.recipes` has them, on the training contexts and with the encoder of profile ``public``; nothing is
tuned for them. Measured as notebooks 03 and 04 measure recipe ``paper``: accuracy on DailyDialog++ test at a threshold
chosen on its held-out contexts, and Spearman correlation with people on three rated sets. Notebook 03 says what came
out.

Run ``python experiments/other_readings.py [--recipes NAME ...] [--seeds N ...]`` (default: both, seed 0; of one core
about 15 minutes for ``paper-robust``, an hour for ``released``). It writes results/choices/readings.csv, one row for
each recipe over these seeds, and keeps finished trainings in build/choices.
"""

import argparse
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
    """Train, measure, write; the row of a recipe replaces an earlier one."""
    parser = argparse.ArgumentParser(description="other readings of the paper's training")
    parser.add_argument("--recipes", nargs="+", default=["paper-robust", "released"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    args, settings = parser.parse_args(), profile("public")
    train, dev, test = contexts(settings.sets[0], settings.rated, version=settings.models["paper"].data)
    for name in args.recipes:
        folders = {seed: ROOT / "build" / "choices" / f"{name}-seed{seed}" for seed in args.seeds}
        slms = [
            fit(train, dev, folder, recipes.get(name), seed, settings.encoder, progress=False)
            for seed, folder in folders.items()
        ]
        row = pd.DataFrame([{"recipe": name, **measured(slms, dev, test, settings)}])
        before = pd.read_csv(OUT) if OUT.exists() else row[:0]
        table = pd.concat([before[before["recipe"] != name], row]).sort_values("recipe")
        table.to_csv(OUT, index=False, float_format="%.6g", lineterminator="\n")
        print(row.T.to_string(header=False), flush=True)


if __name__ == "__main__":
    main()
