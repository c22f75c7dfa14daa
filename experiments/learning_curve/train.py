"""How good would the papers' small model be with more contexts? Train it on sets of growing size.

For each of three domains there is a largest training set. It has the contexts of profile ``public``
(nothing of dev, test, rated sets or held-out grades). DailyDialog's has further contexts, whose
adversarial responses were written on the papers' request. A smaller set is the beginning of a
random order of the largest one, with another order for each seed. The adversarial responses of
DailyDialog++ dev are human-written, all others were written for this project.

Two more sets are of the same size. In ``balanced``, responses were written so that words borrowed
from the context give nothing away. ``same`` has as many contexts of the papers' request.

Recipe ``paper`` is trained for five epochs on MiniLM, and the epoch with the best triplet accuracy
on held-out contexts is kept. These trainings differ from that:

- ``plain`` is the same without disentangling, on DailyDialog's largest set;
- ``robust`` is recipe ``paper-robust`` on DailyDialog's largest set;
- ``released`` is recipe ``released``, trained to its end on the same set;
- ``mpnet`` is recipe ``paper`` on all-mpnet-base-v2, trained for two epochs on DailyDialog++ dev.
  This encoder has 110 M parameters, as many as that of the authors' notebook. It comes from the
  Hub; ``--mpnet FOLDER`` reads it from a folder whose model.safetensors has the sha256
  `MPNET_SHA256`.

Run ``python experiments/learning_curve/train.py [--only TEXT ...] [--list]`` with the public data.
It goes through the plan and trains what has no result yet, so it can be stopped at any time. It
takes about 30 seconds of one core for each context of all trainings together. Each training leaves
in ``build/curve`` its model and two files, and no committed file:

- ``<name>.json``: curves; accuracies on DailyDialog++ test at a threshold chosen on
  held-out contexts; how often the score falls when the context is exchanged; distances from context
  to response before and after ``sep``; Spearman correlations with people on seven sets;
- ``<name>.csv.gz``: scores of the rated sets.

``tables.py`` in this folder makes the tables that notebook 02 shows from them, and copies what
other notebooks read.
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
from plan import BINS, LARGEST, MPNET, RUNS, VARIANTS, Training, plan

from dre import classification, stats
from dre.audit import measures
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.contexts import contexts
from dre.paper.profile import profile
from dre.slm import fit, losses, recipes
from dre.slm.remembered import hashes_of

MPNET_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def split(training: Training, settings) -> tuple[list, list, list]:
    """Return the train, dev and test contexts of a training.

    Those of dev and test are the profile's.
    """
    entry = next(entry for entry in settings.sets if entry.key == training.domain)
    name, splits = LARGEST[training.domain]
    if training.size == "balanced":
        splits = "balanced"
    elif training.size == "own":
        splits = "dev"
    entry = entry.model_copy(update={"train": (name, splits)})
    train, dev, test = contexts(entry, settings.rated)
    n_contexts = training.size
    if training.size == "same":
        balanced_train, _, _ = split(training._replace(size="balanced"), settings)
        n_contexts = len(balanced_train)
    if isinstance(n_contexts, int):
        order = np.random.default_rng(training.seed).permutation(len(train))
        train = [train[i] for i in sorted(order[:n_contexts])]
    return list(train), list(dev), list(test)


def measure(slm, dev, settings) -> tuple[dict, pd.DataFrame]:
    """Return how good a model is, and its scores of the rated sets.

    It is measured on DailyDialog++ test and by its agreement with people.
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
        table.insert(1, "texts", hashes_of(rated))
        scores = {"slm": 1 - table["s_d"] + table["s_p"]}
        agreement = stats.correlate(
            scores, rated["human"], rated["context_id"], n=settings.resamples
        ).loc["slm"]
        result["people"][name] = {end: float(agreement[end]) for end in ("r", "low", "high")}
        tables.append(table)
    return result, pd.concat(tables)


def share_of_falls(slm, test, test_scores, resamples) -> dict[str, float]:
    """Return how often the score of a positive falls when its context is exchanged, in percent."""
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
    """Return the folder or Hub id of all-mpnet-base-v2.

    SystemExit if a folder has other weights than the Hub.
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
        train_contexts, dev, RUNS / training.name, recipe, training.seed, encoder, progress=False
    )
    measured, scores = measure(slm, dev, settings)
    scores.to_csv(
        RUNS / f"{training.name}.csv.gz",
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
    replace(RUNS / f"{training.name}.json", json.dumps(record, indent=1) + "\n")
    correlations = " ".join(f"{agreement['r']:.2f}" for agreement in record["people"].values())
    print(
        f"{training.name}: {record['contexts']} contexts, {record['seconds']} s, "
        f"{record['test']['overall']:.1f} % {correlations}",
        flush=True,
    )


@contextlib.contextmanager
def lock(training: Training):
    """Yield whether this process may train; another process may be training the same already."""
    file = RUNS / f"{training.name}.lock"
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
        "--list",
        action="store_true",
        help="only list which trainings are done and which are missing",
    )
    parser.add_argument("--mpnet", default=MPNET, help="folder or Hub id of all-mpnet-base-v2")
    args = parser.parse_args()
    settings = profile("public")
    RUNS.mkdir(parents=True, exist_ok=True)
    for training in plan():
        is_done = (RUNS / f"{training.name}.json").exists()
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
        print("next: python experiments/learning_curve/tables.py makes the tables")


if __name__ == "__main__":
    main()
