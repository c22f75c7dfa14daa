"""How good would the papers' small model be with more contexts? Train it on sets of growing size.

For each of three domains there are the contexts of its training set (profile ``public``, version 2
of the training data: nothing of dev, test, rated sets or held-out grades) and further ones, whose
responses were written on the papers' request. Beside them stand sets written so that borrowed words
give nothing away (``balanced``), and as many contexts of the papers' request (``same``). Recipe
``paper`` is trained for five epochs, and the epoch with the best triplet accuracy on held-out
contexts is kept. A smaller set is the beginning of a random order of the largest one, another order
for each seed. ``plain`` is the control of Figures 3 and 4, without disentangling. The adversarial
responses of DailyDialog are partly human-written (its dev) and partly written for this project (the
others).

Three variants of recipe ``paper`` on MiniLM stand beside it: ``paper-robust`` and ``released`` to
its end on DailyDialog's largest set, and ``paper`` on all-mpnet-base-v2 on DailyDialog++ dev alone.
That encoder has 110 M parameters, as many as the encoder of the authors' notebook, and is trained
for two epochs. It comes from the Hub; ``--mpnet FOLDER`` reads it from a folder whose
model.safetensors has the sha256 `MPNET_SHA256`.

Run ``python experiments/learning_curve/train.py [--only TEXT ...] [--list]``. It goes through the
plan and does what has no result yet, so it can be cut off at any time. It takes about 30 seconds of
one core for each context of all trainings together. Each training leaves two files, and models stay
in ``build/curve``:

- ``results/curve/<name>.json``: curves; accuracies on DailyDialog++ test at a threshold chosen on
  held-out contexts; how often the score falls when the context is another one; distances from
  context to response before and after ``sep``; Spearman correlations with people on seven sets.
- ``results/curve/<name>.csv.gz``: scores of the rated sets.

``tables.py`` beside it makes of them what notebook 02 shows.
"""

import argparse
import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from plan import BINS, LARGEST, MPNET, RESULTS, ROOT, VARIANTS, Training, plan

from dre import classification, stats
from dre.audit import measures
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.profile import profile
from dre.slm import contexts, fit, losses, recipes

MPNET_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
MODELS = ROOT / "build" / "curve"


def split(training: Training, settings) -> tuple[list, list, list]:
    """Return the contexts train, dev and test of a training; dev and test are those of the
    profile.
    """
    entry = next(entry for entry in settings.sets if entry.key == training.domain)
    name, splits = LARGEST[training.domain]
    if training.size == "balanced":
        splits = "balanced"
    elif training.size == "own":
        splits = "dev"
    entry = entry.model_copy(update={"train": (name, splits), "further": None})
    train, dev, test = contexts(entry, settings.rated, version=2)
    n_contexts = training.size
    if training.size == "same":
        balanced_train, _, _ = split(training._replace(size="balanced"), settings)
        n_contexts = len(balanced_train)
    if isinstance(n_contexts, int):
        order = np.random.default_rng(training.seed).permutation(len(train))
        train = [train[i] for i in sorted(order[:n_contexts])]
    return list(train), list(dev), list(test)


def measure(slm, dev, settings) -> tuple[dict, pd.DataFrame]:
    """Return what a model reaches on DailyDialog++ test and with people, and its scores of the
    rated sets.
    """
    held_out = pairs(dev, "pa")
    threshold = classification.choose_threshold(slm.score(held_out)["score_slm"], held_out["kind"])
    test = pairs(load("dailydialog++", "test"), "par")
    test_scores = slm.score(test)["score_slm"]
    is_right = classification.correct(test, test_scores, threshold)
    result = {
        "test": classification.accuracy(test, is_right, settings.resamples),
        "people": {},
        "spaces": distances_by_space(slm, test[test["kind"] != "r"]),
        "falls": share_of_falls(slm, test, test_scores, settings.resamples),
    }
    tables = []
    for name in settings.rated:
        rated = ratings.rated(name)
        table = slm.score(rated)[["pair_id", "s_d", "s_p"]]
        scores = {"slm": 1 - table["s_d"] + table["s_p"]}
        agreement = stats.correlate(
            scores, rated["human"], rated["context_id"], n=settings.resamples
        ).loc["slm"]
        result["people"][name] = {end: float(agreement[end]) for end in ("r", "low", "high")}
        tables.append(table)
    return result, pd.concat(tables)


def share_of_falls(slm, test, test_scores, resamples) -> dict[str, float]:
    """Return how often the score of a positive falls when its context is another one, in
    percent.
    """
    is_positive = test["kind"] == "p"
    swapped = measures.exchange(test[is_positive], 3)
    before = test_scores[is_positive].to_numpy()[swapped["row"]]
    falls = measures.falls(before, slm.score(swapped)["score_slm"])
    share = stats.mean(falls, swapped["context_id"], resamples)
    return {end: 100 * share[end] for end in ("mean", "low", "high")}


def distances_by_space(slm, test) -> dict[str, dict]:
    """Return how far positives and adversarials are from their contexts.

    ``whole`` are distances of whole embeddings, ``scored`` those that scores are made of.
    """
    context_texts, response_texts = slm.texts(test)
    embeddings = slm.encode(context_texts + response_texts)["sentence_embedding"]
    whole = losses.distance(embeddings[: len(test)], embeddings[len(test) :]).numpy()
    scored = slm.distances(test)["distance"].to_numpy()
    summaries = {}
    for space, distances in {"whole": whole, "scored": scored}.items():
        summaries[space] = {kind: summary(distances[test["kind"] == kind]) for kind in "pa"}
    return summaries


def summary(distances) -> dict:
    """Return mean, standard deviation and a histogram (`BINS`, shares) of cosine distances."""
    counts, _ = np.histogram(distances, BINS)
    return {
        "mean": float(distances.mean()),
        "sd": float(distances.std()),
        "histogram": (counts / len(distances)).round(4).tolist(),
    }


def checked_mpnet(encoder: str) -> str:
    """Return the folder or Hub id of all-mpnet-base-v2; a folder must hold the weights that the Hub
    has.
    """
    weights = Path(encoder) / "model.safetensors"
    if weights.exists() and hashlib.sha256(weights.read_bytes()).hexdigest() != MPNET_SHA256:
        raise SystemExit(
            f"{weights} is another file than the Hub's: expected sha256 {MPNET_SHA256}"
        )
    return encoder


def train(training: Training, settings, mpnet: str) -> None:
    """Train one model, measure it, and write its two files."""
    started = time.process_time()
    train_contexts, dev, _ = split(training, settings)
    variant = VARIANTS[training.variant]
    recipe = recipes.get(variant.recipe, variant.epochs, disentangled=training.variant != "plain")
    if variant.recipe != "released":
        # Recipe released keeps the last epoch of each stage.
        recipe = recipes.replace(recipe, keep="best")
    encoder = checked_mpnet(mpnet) if training.variant == "mpnet" else variant.encoder
    slm = fit(
        train_contexts, dev, MODELS / training.name, recipe, training.seed, encoder, progress=False
    )
    measured, scores = measure(slm, dev, settings)
    scores.to_csv(
        RESULTS / f"{training.name}.csv.gz",
        index=False,
        float_format="%.4g",
        compression={"method": "gzip", "mtime": 0},
    )
    record = {
        "domain": training.domain,
        "size": training.size,
        "contexts": len(train_contexts),
        "seed": training.seed,
        "variant": training.variant,
        "recipe": variant.recipe,
        "encoder": variant.encoder,
        "fingerprint": slm.provenance["fingerprint"],
        "train_hash": slm.provenance["train_hash"],
        "dev_hash": slm.provenance["dev_hash"],
        "d_min": slm.provenance["d_min"],
        "d_max": slm.provenance["d_max"],
        "kept": slm.provenance.get("kept"),
        **measured,
        "seconds": round(time.process_time() - started),
        "curves": slm.provenance["curves"],
    }
    replace(RESULTS / f"{training.name}.json", json.dumps(record, indent=1) + "\n")
    correlations = " ".join(f"{agreement['r']:.2f}" for agreement in record["people"].values())
    print(
        f"{training.name}: {record['contexts']} contexts, {record['seconds']} s, "
        f"{record['test']['overall']:.1f} % {correlations}",
        flush=True,
    )


@contextlib.contextmanager
def lock(training: Training):
    """Yield whether this process has the training; another process may be at it."""
    file = MODELS / f"{training.name}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield False
        return
    try:
        yield True
    finally:
        file.unlink()


def main() -> None:
    """Go through the plan."""
    parser = argparse.ArgumentParser(description="recipe paper on training sets of growing size")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="trainings whose name has one of these in it"
    )
    parser.add_argument(
        "--list", action="store_true", help="say what there is and what is missing, and do nothing"
    )
    parser.add_argument("--mpnet", default=MPNET, help="folder or Hub id of all-mpnet-base-v2")
    args = parser.parse_args()
    settings = profile("public")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for training in plan():
        is_done = (RESULTS / f"{training.name}.json").exists()
        if args.list:
            print("done   " if is_done else "missing", training.name)
            continue
        is_wanted = any(text in training.name for text in args.only)
        if is_done or not is_wanted:
            continue
        with lock(training) as is_free:
            if is_free:
                train(training, settings, args.mpnet)
    if not args.list:
        print("python experiments/learning_curve/tables.py makes the tables of what there is")


if __name__ == "__main__":
    main()
