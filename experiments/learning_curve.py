"""How good would the papers' SLM be with more contexts? Recipe ``paper`` on sets of growing size, one by one.

For each of three domains the contexts of its training set (profile ``public``, version 2 of the training data:
nothing of dev, test, rated sets or held-out grades) and further ones, whose responses were written on the papers'
request; beside them sets written so that borrowed words tell nothing (``balanced``), and as many contexts of the
papers' request (``same``). Five epochs, of which the one with the best triplet accuracy on held-out contexts is kept.
A smaller set is the beginning of a random order of the largest one, another order for each seed. ``plain`` is the
control of Figures 3 and 4, without disentangling; ``adversarials`` of DailyDialog's are partly people's (its dev) and
partly written for this project (the others).

Beside recipe ``paper`` on MiniLM stand, on DailyDialog's largest set, ``paper-robust`` and ``released`` to its end,
and ``paper`` on all-mpnet-base-v2 (110 M parameters, as many as the encoder of the authors' notebook; two epochs).
That encoder comes from the Hub (sentence-transformers/all-mpnet-base-v2); ``--mpnet FOLDER`` reads it from a folder
whose model.safetensors has the sha256 `MPNET`.

Run ``python experiments/learning_curve.py [--only TEXT ...] [--list]``: it goes through `PLAN` and does what has no
result yet, so it can be cut off at any time. Each training leaves ``results/curve/<name>.json`` (its curves, accuracies
on DailyDialog++ test at a threshold chosen on held-out contexts, how often the score falls when the context is another
one, and Spearman correlation with people on seven sets) and ``<name>.csv.gz`` (its scores of the rated sets). Models
stay in build/curve. About 30 seconds a context of one core, in all.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

from dre import audit, classification, ratings, stats
from dre.dialogues import load, pairs
from dre.profile import profile
from dre.report import replace
from dre.slm import contexts, fit, recipes

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "curve"
EPOCHS = 5
#: domain -> set, and its splits: all on the papers' request
LARGEST = {
    "dailydialog": ("dailydialog++", "dev+adversarials only"),
    "personachat": ("convai2-augmented", "train+paper"),
    "topicalchat": ("topicalchat-augmented", "train+paper"),
}
SIZES = {"dailydialog": (110, 220, 435, "own"), "personachat": (40, 110, 300), "topicalchat": (40, 110, 300)}
WRITTEN = ("personachat", "topicalchat")  # the domains whose responses are all written for this project
#: how a training differs from recipe ``paper`` on MiniLM: recipe, epochs of each stage (None: the recipe's), encoder
VARIANTS = {
    "": ("paper", EPOCHS, "minilm"),
    "plain": ("paper", EPOCHS, "minilm"),  # without disentangling
    "robust": ("paper-robust", EPOCHS, "minilm"),
    "released": ("released", None, "minilm"),
    "mpnet": ("paper", 2, "sentence-transformers/all-mpnet-base-v2"),
}
MPNET = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def plan():
    """Return (domain, size, seed, variant) of every training, those that matter most first."""
    points = [(domain, "all") for domain in LARGEST] + [(domain, "balanced") for domain in WRITTEN]
    points += [(domain, "same") for domain in WRITTEN]
    smaller = [(domain, size) for domain, sizes in SIZES.items() for size in reversed(sizes)]
    wanted = [(*point, 0, "") for point in (*points, *smaller)]
    wanted += [(domain, "all", seed, "") for seed in (1, 2) for domain in LARGEST]
    wanted += [(*point, seed, "") for seed in (1, 2) for point in points]
    wanted += [("dailydialog", "all", 0, variant) for variant in ("released", "robust", "mpnet")]
    wanted += [(*point, 1, "") for point in smaller]
    wanted += [(domain, "all", seed, "plain") for seed in range(3) for domain in LARGEST]
    wanted += [("dailydialog", "all", seed, variant) for seed in (3, 4) for variant in ("", "plain")]
    return list(dict.fromkeys([*wanted, *(("dailydialog", "all", seed, "robust") for seed in (1, 2))]))


def name_of(domain, size, seed, variant):
    """The name of a training."""
    return f"{domain}-{size}{variant and '-'}{variant}-seed{seed}"


def chosen(domain, size, seed, settings):
    """Return (train, dev, test) of a training; dev and test are those of the profile."""
    entry = next(entry for entry in settings.sets if entry.key == domain)
    name, splits = LARGEST[domain]
    if size == "balanced":
        splits = "balanced"
    elif size == "own":
        splits = "dev"
    entry = entry.model_copy(update={"train": (name, splits), "further": None})
    train, dev, test = contexts(entry, settings.rated, version=2)
    if size == "same":
        size = len(chosen(domain, "balanced", seed, settings)[0])
    if isinstance(size, int):
        order = np.random.default_rng(seed).permutation(len(train))[:size]
        train = [train[i] for i in sorted(order)]
    return list(train), list(dev), list(test)


def checked(encoder):
    """Return the folder or Hub id of all-mpnet-base-v2; a folder must hold the weights that the Hub has."""
    weights = Path(encoder) / "model.safetensors"
    if weights.exists() and hashlib.sha256(weights.read_bytes()).hexdigest() != MPNET:
        raise SystemExit(f"{weights} is another file than the Hub's: expected sha256 {MPNET}")
    return encoder


def measure(slm, dev, settings):
    """Return what a model reaches on DailyDialog++ test and with people, and its scores of the rated sets."""
    test = pairs(load("dailydialog++", "test"), "par")
    held_out = pairs(dev, "pa")
    threshold = classification.choose_threshold(slm.score(held_out)["score_slm"], held_out["kind"])
    before = slm.score(test)["score_slm"]
    decisions = classification.correct(test, before, threshold)
    row = {"test": classification.accuracy(test, decisions, settings.resamples), "people": {}}
    positives = test[test["kind"] == "p"]
    swapped = audit.exchange(positives, 3)
    fall = audit.falls(before[test["kind"] == "p"].to_numpy()[swapped["row"]], slm.score(swapped)["score_slm"])
    found = stats.mean(fall, swapped["context_id"], settings.resamples)
    row["falls"] = {end: 100 * found[end] for end in ("mean", "low", "high")}
    scores = []
    for rated in settings.rated:
        table = ratings.rated(rated)
        scores.append(slm.score(table)[["pair_id", "s_d", "s_p"]])
        said = {"slm": 1 - scores[-1]["s_d"] + scores[-1]["s_p"]}
        agreement = stats.correlate(said, table["human"], table["context_id"], n=settings.resamples).loc["slm"]
        row["people"][rated] = {end: float(agreement[end]) for end in ("r", "low", "high")}
    return row, pd.concat(scores)


def main():
    """Go through the plan."""
    parser = argparse.ArgumentParser(description="recipe paper on training sets of growing size")
    parser.add_argument("--only", nargs="+", default=[""], help="trainings whose name has one of these in it")
    parser.add_argument("--list", action="store_true", help="say what there is and what is missing, and do nothing")
    parser.add_argument("--mpnet", default=VARIANTS["mpnet"][2], help="folder or Hub id of all-mpnet-base-v2")
    args, settings = parser.parse_args(), profile("public")
    OUT.mkdir(parents=True, exist_ok=True)
    for domain, size, seed, variant in plan():
        name = name_of(domain, size, seed, variant)
        result, lock = OUT / f"{name}.json", ROOT / "build" / "curve" / f"{name}.lock"
        if args.list:
            print("done   " if result.exists() else "missing", name)
            continue
        if result.exists() or not any(part in name for part in args.only):
            continue
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:  # another process may be at it
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        started = time.process_time()
        try:
            train, dev, _ = chosen(domain, size, seed, settings)
            of, epochs, encoder = VARIANTS[variant]
            recipe = recipes.get(of, epochs, disentangled=variant != "plain")
            recipe = recipe if of == "released" else recipes.replace(recipe, keep="best")
            where = checked(args.mpnet) if variant == "mpnet" else encoder
            slm = fit(train, dev, lock.with_suffix(""), recipe, seed, where, progress=False)
            row, scores = measure(slm, dev, settings)
        finally:
            lock.unlink()
        about = {"domain": domain, "size": size, "contexts": len(train), "seed": seed, "variant": variant}
        about |= {"recipe": of, "encoder": encoder}
        kept = {key: slm.provenance[key] for key in ("fingerprint", "train_hash", "dev_hash", "d_min", "d_max")}
        kept["kept"] = slm.provenance.get("kept")  # released keeps the last epoch of each stage
        gzip = {"method": "gzip", "mtime": 0}
        scores.to_csv(OUT / f"{name}.csv.gz", index=False, float_format="%.4g", compression=gzip)
        row = about | kept | row | {"seconds": round(time.process_time() - started), "curves": slm.provenance["curves"]}
        replace(result, json.dumps(row, indent=1) + "\n")
        print(f"{name}: {len(train)} contexts, {row['seconds']} s, {row['test']['overall']:.1f} %", *(
            f"{found['r']:.2f}" for found in row["people"].values()), flush=True)


if __name__ == "__main__":
    main()
