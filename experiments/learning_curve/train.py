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
  Hub, where its model.safetensors had a sha256 that begins with 78c0197b6159d926.

Run ``python experiments/learning_curve/train.py [--only TEXT ...]`` with the public data.
It goes through the plan and trains what has no result yet, so it can be stopped at any time. It
takes about 30 seconds of one core for each context of all trainings together. Each training leaves
in ``build/curve`` its model and two files, and no committed file:

- ``<name>.json``: curves; accuracies on DailyDialog++ test at a threshold chosen on
  held-out contexts; how often the score falls when the context is exchanged; distances from context
  to response before and after ``sep``;
- ``<name>.csv.gz``: scores of the rated sets.

``tables.py`` in this folder makes the tables that notebook 02 shows from them, and copies what
other notebooks read.
"""

import argparse
import json
from typing import NamedTuple

import numpy as np
import pandas as pd

from dre import classification, stats
from dre.audit import measures
from dre.datasets import ratings
from dre.datasets.dialogues import load, pairs
from dre.files import replace
from dre.paper.contexts import contexts
from dre.paper.profile import profile, root
from dre.slm import fit, losses, recipes

RUNS = root() / "build" / "curve"
EPOCHS = 5
#: By domain, the training set and its splits. All responses were written on the papers' request.
LARGEST = {
    "dailydialog": ("dailydialog++", "dev+adversarials only"),
    "personachat": ("convai2-augmented", "train+paper"),
    "topicalchat": ("topicalchat-augmented", "train+paper"),
}
#: By domain and size (as of `Training`), how many seeds of recipe ``paper`` were trained.
SEEDS: dict[str, dict[int | str, int]] = {
    "dailydialog": {110: 1, 220: 1, 435: 1, "own": 2, "all": 3},
    "personachat": {40: 2, 110: 2, 300: 1, "all": 3, "balanced": 3, "same": 3},
    "topicalchat": {40: 2, 110: 1, 300: 1, "all": 3, "balanced": 3, "same": 3},
}
#: By size and variant, the seeds of other trainings, all of them of DailyDialog.
OTHER_SEEDS = {
    ("all", "plain"): 2,
    ("all", "robust"): 1,
    ("all", "released"): 1,
    ("own", "mpnet"): 1,
}
#: By variant, recipe, epochs (None: those of the recipe) and encoder.
VARIANTS = {
    "": ("paper", EPOCHS, "minilm"),
    "plain": ("paper", EPOCHS, "minilm"),  # without disentangling
    "robust": ("paper-robust", EPOCHS, "minilm"),
    "released": ("released", None, "minilm"),
    "mpnet": ("paper", 2, "sentence-transformers/all-mpnet-base-v2"),
}
#: What a file has of what made its model.
MADE_OF = ("fingerprint", "train_hash", "dev_hash", "d_min", "d_max", "kept", "curves")


class Training(NamedTuple):
    """One training: its domain, the size of its set, its variant and its seed.

    The size is a number of contexts, or "all", "own" (DailyDialog++'s human-written contexts),
    "balanced" (responses that give nothing away) or "same" (as many contexts as "balanced").
    """

    domain: str
    size: int | str
    variant: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its files."""
        ending = f"-{self.variant}" if self.variant else ""
        return f"{self.domain}-{self.size}{ending}-seed{self.seed}"


def plan() -> list[Training]:
    """Return every training."""
    n_seeds = {(domain, size, ""): n for domain in SEEDS for size, n in SEEDS[domain].items()}
    n_seeds |= {("dailydialog", *which): n for which, n in OTHER_SEEDS.items()}
    return [Training(*which, seed) for which, n in n_seeds.items() for seed in range(n)]


def split(training: Training, settings) -> tuple[list, list]:
    """Return the train and dev contexts of a training; those of dev are the profile's."""
    entry = next(entry for entry in settings.sets if entry.key == training.domain)
    name, splits = LARGEST[training.domain]
    splits = {"balanced": "balanced", "own": "dev"}.get(str(training.size), splits)
    entry = entry.model_copy(update={"train": (name, splits)})
    train, dev, _ = contexts(entry, settings.rated)
    n_contexts = training.size
    if training.size == "same":
        balanced, _ = split(training._replace(size="balanced"), settings)
        n_contexts = len(balanced)
    if isinstance(n_contexts, int):
        order = np.random.default_rng(training.seed).permutation(len(train))
        train = [train[i] for i in sorted(order[:n_contexts])]
    return list(train), list(dev)


def measure(slm, dev, resamples: int) -> dict:
    """Return how good a model is on DailyDialog++ test."""
    held_out = pairs(dev, "pa")
    threshold = classification.choose_threshold(slm.score(held_out)["score_slm"], held_out["kind"])
    test = pairs(load("dailydialog++", "test"), "par")
    scores = slm.score(test)["score_slm"]
    is_right = classification.correct(test, scores, threshold)
    # How often the score of a positive falls when its context is exchanged.
    is_positive = test["kind"] == "p"
    swapped = measures.exchange(test[is_positive], 3)
    before = scores[is_positive].to_numpy()[swapped["row"]]
    falls = measures.falls(before, slm.score(swapped)["score_slm"])
    share = stats.mean(falls, swapped["context_id"], resamples)
    return {
        "test": classification.accuracy(test, is_right, resamples),
        "spaces": distances_by_space(slm, test[test["kind"] != "r"]),
        "falls": {end: 100 * share[end] for end in ("mean", "low", "high")},
    }


def distances_by_space(slm, test) -> dict[str, dict]:
    """Return mean and deviation of the cosine distances of responses from their contexts, by kind.

    ``whole`` are distances of whole embeddings, ``scored`` those that scores are made of.
    """
    context_texts, response_texts = slm.texts(test)
    embeddings = slm.encode(context_texts + response_texts)["sentence_embedding"]
    whole = losses.distance(embeddings[: len(test)], embeddings[len(test) :]).numpy()
    scored = slm.distances(test)["distance"].to_numpy()
    summaries: dict[str, dict] = {}
    for space, distances in {"whole": whole, "scored": scored}.items():
        for kind in "pa":
            of_kind = distances[test["kind"] == kind]
            summary = {"mean": float(of_kind.mean()), "sd": float(of_kind.std())}
            summaries.setdefault(space, {})[kind] = summary
    return summaries


def train(training: Training, settings) -> None:
    """Train one model, measure it, and write its two files."""
    train_contexts, dev = split(training, settings)
    name, epochs, encoder = VARIANTS[training.variant]
    recipe = recipes.get(name, epochs, disentangled=training.variant != "plain")
    if name != "released":
        # Recipe released keeps the last epoch of each stage.
        recipe = recipes.replace(recipe, keep="best")
    folder = RUNS / training.name
    slm = fit(train_contexts, dev, folder, recipe, training.seed, encoder, progress=False)
    tables = [slm.score(ratings.rated(name)) for name in settings.rated]
    scores = pd.concat(tables)[["pair_id", "s_d", "s_p"]]
    scores.to_csv(RUNS / f"{training.name}.csv.gz", index=False, float_format="%.4g")
    record = {
        **training._asdict(),
        "contexts": len(train_contexts),
        "recipe": name,
        "encoder": encoder,
        **{key: slm.provenance.get(key) for key in MADE_OF},
        **measure(slm, dev, settings.resamples),
    }
    replace(RUNS / f"{training.name}.json", json.dumps(record, indent=1) + "\n")


def main() -> None:
    """Go through the plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=[""], help="trainings whose name has one of these in it"
    )
    args = parser.parse_args()
    for training in plan():
        is_done = (RUNS / f"{training.name}.json").exists()
        is_wanted = any(text in training.name for text in args.only)
        if is_wanted and not is_done:
            print(training.name, flush=True)
            train(training, profile("public"))


if __name__ == "__main__":
    main()
